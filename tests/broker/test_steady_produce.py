"""Repeated Produce requests are answered without being decoded, and exactly as if they were."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.broker.broker import Broker
from minikafka.broker.control.request_context import RequestContext
from minikafka.broker.handlers import API_TABLE
from minikafka.broker.net.steady_produce import SteadyProduce
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.exceptions import MalformedMessageError
from minikafka.protocol.frames import decode_request_header, encode_request, encode_response
from minikafka.protocol.messages import produce
from minikafka.protocol.records import encode_batch
from tests.broker.replicated import replicated, until
from tests.kit.in_process import running_broker
from tests.kit.wire import one_batch, produce_request, values_of

VERSIONS = range(5, 14)
SIZES = (1, 50, 120, 200, 16_300, 17_000)
"""Values whose batches need one, two and three bytes for their size."""


class Reader(SteadyProduce):
    """Remembers what it would append."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        super().__init__(None, 100_000)  # type: ignore[arg-type]  # nothing is appended
        self.found: tuple[int, bytes] | None = None

    def _append(self, index: int, records: memoryview, correlation_id: int) -> bytearray | None:
        del correlation_id
        self.found = index, bytes(records)
        return bytearray()


def framed(request: produce.Request, version: int, correlation_id: int = 7) -> bytes:
    return b"".join(encode_request(request, version, correlation_id, "a client"))


def decoded(frame: bytes, version: int) -> tuple[str | None, produce.Request]:
    header, position = decode_request_header(memoryview(frame)[4:], flexible=version >= 9)
    return header.client_id, produce.Request.decode(version, memoryview(frame)[4:], position)


def context_of(version: int, client_id: str | None = "a client") -> RequestContext:
    return RequestContext(0, version, client_id, "/test")


def request_of(version: int, value: bytes, *, partition: int = 0, acks: int = 1) -> produce.Request:
    request = produce_request("a topic", one_batch(value), partition=partition, acks=acks)
    if version >= 13:
        request.topic_data[0].name = ""
        request.topic_data[0].topic_id = b"0123456789abcdef"
    return request


def teach(steady: SteadyProduce, frame: bytes, version: int) -> None:
    client_id, request = decoded(frame, version)
    for _ in range(2):
        steady.learn(memoryview(frame)[4:], context_of(version, client_id), request)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_read_is_what_was_written(version: int) -> None:
    steady = Reader()
    teach(steady, framed(request_of(version, b"first"), version), version)
    assert steady.is_known
    for partition, size in enumerate(SIZES):
        value = b"v" * size
        request = request_of(version, value, partition=partition)
        assert steady.serve(framed(request, version)) is not None
        assert steady.found == (partition, one_batch(value))


@given(
    version=st.sampled_from(VERSIONS),
    known=st.sampled_from(SIZES),
    size=st.sampled_from(SIZES),
    at=st.integers(0, 400),
    from_end=st.booleans(),
    new=st.binary(max_size=4),
    cut=st.integers(0, 4),
)
def test_a_changed_request_is_read_as_the_decoder_reads_it(
    version: int, known: int, size: int, at: int, from_end: bool, new: bytes, cut: int
) -> None:
    """Where the two would differ, the decoder is asked."""
    steady = Reader()
    teach(steady, framed(request_of(version, b"k" * known), version), version)
    frame = framed(request_of(version, b"v" * size), version)
    at = max(0, len(frame) - at) if from_end else min(at, len(frame))
    changed = bytearray(frame[:at] + new + frame[at + cut :])
    changed[:4] = (len(changed) - 4).to_bytes(4, "big")
    steady.serve(bytes(changed))
    if steady.found is None:
        return
    _, request = decoded(bytes(changed), version)
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    expected = request_of(version, b"")
    assert (topic.name, topic.topic_id) == (
        expected.topic_data[0].name,
        expected.topic_data[0].topic_id,
    )
    assert (request.acks, request.transactional_id) == (1, None)
    assert isinstance(partition.records, memoryview)
    assert steady.found == (partition.index, bytes(partition.records))


@given(st.binary(max_size=200), st.sampled_from(VERSIONS))
def test_any_bytes_after_a_known_beginning(garbage: bytes, version: int) -> None:
    steady = Reader()
    frame = framed(request_of(version, b"x"), version)
    teach(steady, frame, version)
    changed = bytearray(frame[:40] + garbage)
    changed[:4] = (len(changed) - 4).to_bytes(4, "big")
    steady.serve(bytes(changed))
    if steady.found is not None:
        try:
            _, request = decoded(bytes(changed), version)
        except MalformedMessageError as error:
            raise AssertionError("the decoder refuses it") from error
        assert request.topic_data[0].partition_data[0].index == steady.found[0]


@pytest.mark.parametrize("change", ["acks", "transaction", "topics", "partitions", "tags", "other"])
def test_what_is_not_learned(change: str) -> None:
    steady, request = Reader(), request_of(9, b"x")
    if change == "acks":
        request.acks = 0
    elif change == "transaction":
        request.transactional_id = "t"
    elif change == "topics":
        request.topic_data *= 2
    elif change == "partitions":
        request.topic_data[0].partition_data *= 2
    frame = framed(request, 9)
    if change == "tags":  # an unknown tagged field of the request: the decoder skips it
        frame = frame[:-1] + b"\x01\x05\x01x"
    client_id, request = decoded(frame, 9)
    steady.learn(memoryview(frame)[4:], context_of(9, client_id), request)
    if change == "other":
        _, request = decoded(framed(produce_request("b", one_batch(b"x")), 9), 9)
    steady.learn(memoryview(frame)[4:], context_of(9, client_id), request)
    assert not steady.is_known


def test_a_client_whose_requests_change_all_the_time_is_left_alone() -> None:
    steady = Reader()
    for number in range(300):
        request = produce_request(f"topic {number}", one_batch(b"x"))
        teach(steady, framed(request, 9), 9)
    assert steady.serve(framed(produce_request("topic 20", one_batch(b"x")), 9)) is None
    assert steady.serve(framed(produce_request("topic 299", one_batch(b"x")), 9)) is None
    assert steady.serve(framed(produce_request("topic 99", one_batch(b"x")), 9)) is not None


async def general_answer(broker: Broker, frame: bytes, version: int) -> bytes:
    _, request = decoded(frame, version)
    context = context_of(version)
    response = await API_TABLE[0].handle(broker, context, request)
    assert isinstance(response, produce.Response)
    return b"".join(encode_response(response, version, 7))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("timestamps", ["CreateTime", "LogAppendTime"])
async def test_answers_are_the_general_ones(tmp_path: Path, version: int, timestamps: str) -> None:
    async with running_broker(tmp_path) as under_test:
        broker, client = under_test.broker, under_test.connect()
        await client.create_topic("t", partitions=2, message_timestamp_type=timestamps)
        steady = SteadyProduce(broker, 100_000)
        for partition in (0, 1, 1, 0):
            request = produce_request("t", one_batch(b"x"), partition=partition, acks=-1)
            if version >= 13:
                request.topic_data[0].name = ""
                request.topic_data[0].topic_id = broker.topics["t"].topic_id
            frame = framed(request, version)
            if not steady.is_known:
                teach(steady, frame, version)
            same = steady.serve(frame)
            assert isinstance(same, bytearray)
            general = await general_answer(broker, frame, version)
            is_flexible = version >= 9
            ours = produce.Response.decode(version, memoryview(same), 8 + is_flexible)
            theirs = produce.Response.decode(version, memoryview(general), 8 + is_flexible)
            one = ours.responses[0].partition_responses[0]
            other = theirs.responses[0].partition_responses[0]
            assert one.base_offset + 1 == other.base_offset
            one.base_offset += 1
            assert (one.log_append_time_ms >= 0) == (timestamps == "LogAppendTime")
            one.log_append_time_ms = other.log_append_time_ms
            assert ours == theirs
            assert b"".join(encode_response(ours, version, 7)) == general


async def test_errors_come_from_the_general_way(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2)
        for number in range(4):
            assert (await client.produce("t", b"%d" % number)).base_offset == number
        unknown = await client.produce("t", b"lost", partition=7)
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        broken = bytearray(one_batch(b"broken"))
        broken[-1] ^= 1
        refused = await client.produce("t", batch=bytes(broken))
        assert (refused.error_code, bool(refused.error_message)) == (2, True)
        assert (await client.produce("t", b"4")).base_offset == 4
        assert (await client.produce("t", b"other", partition=1)).base_offset == 0
        assert values_of(await client.fetch("t", 0)) == [b"0", b"1", b"2", b"3", b"4"]
        assert values_of(await client.fetch("t", 0, partition=1)) == [b"other"]


async def test_a_retry_is_recognized(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        for sequence in range(5):
            batch = one_batch(b"x", producer_id=7, producer_epoch=0, base_sequence=sequence)
            for _ in range(2):
                answer = await client.produce("t", batch=batch)
                assert (answer.error_code, answer.base_offset) == (0, sequence)
        late = one_batch(b"x", producer_id=7, producer_epoch=0, base_sequence=9)
        answer = await client.produce("t", batch=late)
        assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_large_and_several_records(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        sizes = [10, 10, 100_000, 10, 300_000, 10, 10]
        for size in sizes:
            batch = encode_batch([(None, b"v" * size, (), 1000), (None, b"w", (), 1000)])
            assert (await client.produce("t", batch=bytes(batch))).error_code == 0
        assert under_test.broker.partitions["t", 0].log.log_end_offset == 2 * len(sizes)


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        ("committed", ErrorCode.NONE),
        ("too few in sync", ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        ("too late", ErrorCode.REQUEST_TIMED_OUT),
        ("led elsewhere", ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
async def test_an_answer_that_waits_for_followers_is_the_general_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: str, code: ErrorCode
) -> None:
    async with replicated(tmp_path, 2) as cluster:
        min_in_sync = "2" if outcome == "too few in sync" else "1"
        await cluster.create_topic("t", (1, 2), settings={"min.insync.replicas": min_in_sync})
        node = cluster.nodes[1]
        general, steady = node.connect(), node.connect()
        request = produce_request("t", one_batch(b"x"), acks=-1)
        request.timeout_ms = 40 if outcome == "too late" else 600_000
        for _ in range(2):
            await steady.send(request, 9)
            await steady.receive(produce.Response, 9)
        partition = node.partition()
        first = partition.log.log_end_offset
        await cluster.nodes[2].stop()
        await general.send(request, 9)
        await until(lambda: partition.log.log_end_offset == first + 1)
        with monkeypatch.context() as patch:
            patch.delattr("minikafka.broker.net.connection.decode_request_header")
            await steady.send(request, 9)
            await until(lambda: partition.log.log_end_offset == first + 2)
        if outcome == "led elsewhere":
            await cluster.decide(cluster.changed(leader=2))
        elif outcome != "too late":
            await cluster.fence(2, cluster.changed(in_sync_replicas=(1,)))
        answers: list[produce.PartitionResponse] = []
        for client in (general, steady):
            _, response = await client.receive(produce.Response, 9)
            answers.append(response.responses[0].partition_responses[0])
        assert [one.error_code for one in answers] == [code, code]
        assert bool(answers[1].error_message) == (code is not ErrorCode.NONE)
        if code is ErrorCode.NONE:
            assert answers[0].base_offset == first
            answers[0].base_offset += 1
        assert answers[0] == answers[1]
        assert not partition.commits


async def test_what_waits_for_followers_holds_back_no_later_request(tmp_path: Path) -> None:
    """Requests that are not decoded are appended while others wait, and answered in order."""
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2), (1,))
        client, partition = cluster.nodes[1].connect(), cluster.nodes[1].partition()
        for _ in range(2):
            assert (await client.produce("t", b"x", acks=-1)).error_code == 0
        await cluster.nodes[2].stop()
        asked: list[int] = []
        for number in range(6):
            request = produce_request("t", one_batch(b"x"), partition=number % 2, acks=-1)
            asked.append(await client.send(request, 9))
            log = cluster.nodes[1].partition("t", number % 2).log
            wanted = number // 2 + (1 if number % 2 else 3)
            await until(lambda log=log, wanted=wanted: log.log_end_offset == wanted)
        assert len(partition.commits) == 3
        await cluster.fence(2, cluster.changed(in_sync_replicas=(1,)))
        heard = [await client.receive(produce.Response, 9) for _ in asked]
        assert [correlation_id for correlation_id, _ in heard] == asked
        ones = [one.responses[0].partition_responses[0] for _, one in heard]
        assert [(one.index, one.base_offset) for one in ones] == [
            *((0, 2), (1, 0), (0, 3), (1, 1), (0, 4), (1, 2)),
        ]


async def test_too_few_in_sync_replicas_are_refused_before_the_append(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2), settings={"min.insync.replicas": "2"})
        client = cluster.nodes[1].connect()
        for _ in range(3):
            assert (await client.produce("t", b"x", acks=-1)).error_code == 0
        await cluster.nodes[2].stop()
        await cluster.fence(2, cluster.changed(in_sync_replicas=(1,)))
        answer = await client.produce("t", b"x", acks=-1)
        assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert cluster.nodes[1].partition().log.log_end_offset == 3
