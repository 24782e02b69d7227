"""Connections: order, pipelining, frames of every size, and clients that violate the protocol."""

import logging
import struct
from pathlib import Path

import pytest
import trio
import trio.testing

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import api_versions, metadata, produce
from minikafka.protocol.messages import fetch as fetch_api
from tests.kit.in_process import running_broker
from tests.kit.wire import fetch_request, one_batch, produce_request, values_of


async def test_answers_come_in_the_order_of_requests(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        batch = one_batch(b"x")
        asked = [await client.send(produce_request("t", batch), 9) for _ in range(50)]
        answers = [await client.receive(produce.Response, 9) for _ in range(50)]
        assert [correlation_id for correlation_id, _ in answers] == asked
        offsets = [one.responses[0].partition_responses[0].base_offset for _, one in answers]
        assert offsets == list(range(50))


async def test_frames_arrive_whole_however_they_are_cut(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        batch = one_batch(b"y" * 500)
        request = produce_request("t", batch)
        header = struct.pack(">hhih", 0, 7, 99, -1)
        body = b"".join(request.encode(7))
        frame = struct.pack(">i", len(header) + len(body)) + header + body
        for size in (1, 3, 5, 7, 64):
            for start in range(0, len(frame), size):
                await client.send_bytes(frame[start : start + size])
                if size > 1 or start % 40 == 0:
                    await trio.testing.wait_all_tasks_blocked()
            correlation_id, answer = await client.receive(produce.Response, 7)
            assert correlation_id == 99
            assert answer.responses[0].partition_responses[0].error_code == 0


async def test_a_frame_of_many_megabytes_is_served(tmp_path: Path) -> None:
    async with running_broker(tmp_path, "message.max.bytes=20000000") as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        value = bytes(range(256)) * 40_000
        assert (await client.produce("t", value)).error_code == 0
        answer = await client.fetch("t", 0)
        assert values_of(answer) == [value]


async def test_a_waiting_fetch_blocks_later_requests(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client, other = under_test.connect(), under_test.connect()
        await client.create_topic("t")
        fetch = await client.send(fetch_request("t", 0, max_wait_ms=60_000), 11)
        question = await client.send(
            api_versions.Request(client_software_name="a", client_software_version="1"), 3
        )
        await trio.testing.wait_all_tasks_blocked(0.01)
        await other.produce("t", b"wake up")
        first, answer = await client.receive(fetch_api.Response, 11)
        assert (first, values_of(answer.responses[0].partitions[0])) == (fetch, [b"wake up"])
        second, _ = await client.receive(api_versions.Response, 3)
        assert second == question


async def test_an_unknown_version_of_apiversions_is_answered_in_version_zero(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        frame = struct.pack(">hhih", 18, 99, 7, -1)
        await client.send_bytes(struct.pack(">i", len(frame)) + frame)
        correlation_id, answer = await client.receive(api_versions.Response, 0)
        assert correlation_id == 7
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert {one.api_key for one in answer.api_keys} >= {0, 1, 3, 18}


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize(
    ("cluster", "node", "is_us"),
    [(None, -1, True), (None, 8, True), ("ours", 7, True), ("ours", 8, False), ("other", 7, False)],
)
async def test_a_client_that_expects_another_broker_is_told_to_bootstrap(
    tmp_path: Path, version: int, cluster: str | None, node: int, is_us: bool
) -> None:
    async with running_broker(tmp_path, "node.id=7") as under_test:
        ours = under_test.broker.store.cluster_id
        request = api_versions.Request(
            client_software_name="a",
            client_software_version="1",
            cluster_id=ours if cluster == "ours" else cluster,
            node_id=node,
        )
        answer = await under_test.connect().ask(request, version, api_versions.Response)
        serves = is_us or version < 5  # older versions do not say what they expect
        assert answer.error_code == (ErrorCode.NONE if serves else ErrorCode.REBOOTSTRAP_REQUIRED)
        assert bool(answer.api_keys) == serves


BROKEN_FRAMES = {
    "an API that does not exist": struct.pack(">ihhih", 10, 999, 0, 1, -1),
    "a version that does not exist": struct.pack(">ihhih", 10, 3, 999, 1, -1),
    "a negative size": struct.pack(">ihh", -5, 18, 0),
    "a size of gigabytes": struct.pack(">ihh", 2**31 - 1, 0, 3),
    "a size too small for a header": struct.pack(">ihhi", 4, 18, 0, 1),
    "a large frame of an API that has no large frames": struct.pack(">ihhi", 50_000_000, 3, 1, 1),
    "a client id past the end": struct.pack(">ihhih", 10, 18, 0, 1, 500),
    "a body that ends early": struct.pack(">ihhihi", 14, 3, 1, 1, -1, 5),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS hello": bytes.fromhex("16030100c8010000c40303") + bytes(200),
}


@pytest.mark.parametrize("frame", BROKEN_FRAMES.values(), ids=BROKEN_FRAMES.keys())
async def test_a_broken_frame_closes_its_connection_and_no_other(
    tmp_path: Path, frame: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with running_broker(tmp_path) as under_test:
        broken, healthy = under_test.connect(), under_test.connect()
        await broken.send_bytes(frame)
        assert await broken.receive_frame() is None
        assert any("closing connection" in record.message for record in caplog.records)
        answer = await healthy.ask(metadata.Request(topics=[]), 9, metadata.Response)
        assert answer.brokers[0].host == "broker.test"


async def test_a_client_that_disconnects_inside_a_frame_does_no_harm(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        leaver, healthy = under_test.connect(), under_test.connect()
        await leaver.send_bytes(struct.pack(">ihhi", 90_000_000, 0, 9, 1))
        await leaver.stream.aclose()
        answer = await healthy.ask(metadata.Request(topics=[]), 9, metadata.Response)
        assert answer.controller_id == 1


async def test_acks_zero_gets_no_answer_and_a_failure_ends_the_connection(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        batch = one_batch(b"fire and forget")
        await client.send(produce_request("t", batch, acks=0), 9)
        assert values_of(await client.fetch("t", 0)) == [b"fire and forget"]
        await client.send(produce_request("nowhere", batch, acks=0), 9)
        assert await client.receive_frame() is None


async def test_topics_are_created_automatically_unless_that_is_disabled(tmp_path: Path) -> None:
    wanted = metadata.Request(topics=[metadata.RequestTopic(name="fresh")])
    async with running_broker(tmp_path / "on", "num.partitions=3") as under_test:
        client = under_test.connect()
        answer = await client.ask(wanted, 9, metadata.Response)
        assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not answer.topics[0].partitions
        answer = await client.ask(wanted, 9, metadata.Response)
        assert answer.topics[0].error_code == ErrorCode.NONE
        assert len(answer.topics[0].partitions) == 3
    async with running_broker(tmp_path / "wait", "minikafka.auto.create.wait=true") as under_test:
        answer = await under_test.connect().ask(wanted, 9, metadata.Response)
        assert answer.topics[0].error_code == ErrorCode.NONE
        assert len(answer.topics[0].partitions) == 1
    async with running_broker(tmp_path / "off", "auto.create.topics.enable=false") as under_test:
        answer = await under_test.connect().ask(wanted, 9, metadata.Response)
        assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
