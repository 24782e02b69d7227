"""No request keeps the event loop from the other clients: see `minikafka.broker.system.turns`.

`running_broker` fails when a task of the broker takes a turn of more than 100 ms of processor time.
"""

import gc
import logging
import time
import tracemalloc
from pathlib import Path

import pytest
import trio

from minikafka.broker.system.turns import TurnWatch
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import add_partitions_to_txn, describe_configs, fetch, metadata
from minikafka.protocol.messages import produce as produce_api
from minikafka.protocol.records import Compression, encode_batch
from tests.broker.handlers.transactional_wire import TID, begun, end, init
from tests.kit.in_process import running_broker
from tests.kit.wire import fetch_of

TOPIC_RESOURCE = 2
BOMB_SIZE_BYTES = 90_000_000


def bomb(codec: Compression = Compression.ZSTD, size_bytes: int = BOMB_SIZE_BYTES) -> bytes:
    """A batch of one record that is a few thousand bytes until it is decompressed."""
    return bytes(encode_batch([(b"k", bytes(size_bytes), (), 5)], compression=codec))


def produce_of(topic: str, *batches: bytes, partitions: int = 1) -> produce_api.Request:
    """A Produce request with batches for the first partitions, round and round."""
    return produce_api.Request(
        acks=1,
        timeout_ms=10_000,
        topic_data=[
            produce_api.TopicData(
                name=topic,
                partition_data=[
                    produce_api.PartitionData(index=number % partitions, records=batch)
                    for number, batch in enumerate(batches)
                ],
            )
        ],
    )


def codes_of(response: produce_api.Response) -> list[int]:
    return [one.error_code for topic in response.responses for one in topic.partition_responses]


async def test_a_watch_names_the_task_with_the_longest_turn() -> None:
    async def busy() -> None:
        await trio.lowlevel.checkpoint()
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass
        await trio.lowlevel.checkpoint()

    with TurnWatch() as watch:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(busy)
            nursery.start_soon(trio.sleep, 0.01)
    assert watch.longest.task.endswith("busy")
    assert 0.05 <= watch.longest.seconds < 0.1


async def test_bombs_for_a_topic_that_recompresses(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=10, compression_type="gzip")
        request = produce_of("t", *[bomb()] * 10, partitions=10)
        began = time.process_time()
        response = await client.ask(request, 9, produce_api.Response)
        assert codes_of(response) == [ErrorCode.MESSAGE_TOO_LARGE] * 10
        assert time.process_time() - began < 0.5


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
async def test_bombs_for_a_compacted_topic(tmp_path: Path, codec: Compression) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=10, cleanup_policy="compact")
        response = await client.ask(
            produce_of("t", *[bomb(codec)] * 10, partitions=10), 9, produce_api.Response
        )
        assert ErrorCode.NONE not in codes_of(response)


@pytest.mark.parametrize("compression_type", ["producer", "gzip"])
@pytest.mark.parametrize("cleanup_policy", ["delete", "compact"])
async def test_large_batches_are_taken_in_short_turns(
    tmp_path: Path, compression_type: str, cleanup_policy: str
) -> None:
    """Ten times 4 MB of short records, which every one of these topics has to accept."""
    records = [(b"k%d" % number, b"some text " * 4, (), 5) for number in range(80_000)]
    batch = bytes(encode_batch(records, compression=Compression.ZSTD))
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic(
            "t", partitions=10, compression_type=compression_type, cleanup_policy=cleanup_policy
        )
        response = await client.ask(
            produce_of("t", *[batch] * 10, partitions=10), 9, produce_api.Response
        )
        assert codes_of(response) == [ErrorCode.NONE] * 10


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
async def test_timestamps_out_of_bounds(tmp_path: Path, codec: Compression) -> None:
    records = [(b"", b"", (), 5) for _ in range(100_000)]
    batch = bytes(encode_batch(records, compression=codec))
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=5, message_timestamp_before_max_ms="1000")
        request = produce_of("t", *[batch] * 5, partitions=5)
        response = await client.ask(request, 9, produce_api.Response)
        assert codes_of(response) == [ErrorCode.INVALID_TIMESTAMP] * 5
        for one in response.responses[0].partition_responses:
            assert len(one.record_errors) == 1000


async def test_a_partition_named_twice_in_a_produce(tmp_path: Path) -> None:
    batch = bytes(encode_batch([(b"k", b"v", (), 5)]))
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2)
        response = await client.ask(
            produce_of("t", *[batch] * 3, partitions=2), 9, produce_api.Response
        )
        assert codes_of(response) == [ErrorCode.INVALID_REQUEST] * 3
        assert (await client.produce("t", b"x")).base_offset == 0


async def test_a_fetch_of_many_unknown_partitions(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        request = fetch_of("nowhere", dict.fromkeys(range(100_000), 0))
        response = await client.ask(request, 11, fetch.Response)
        assert len(response.responses[0].partitions) == 100_000


async def test_a_produce_to_many_unknown_partitions(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        request = produce_of("nowhere", *[b""] * 100_000, partitions=100_000)
        response = await client.ask(request, 9, produce_api.Response)
        assert set(codes_of(response)) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_one_topic_described_many_times(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        resource = describe_configs.Resource(resource_type=TOPIC_RESOURCE, resource_name="t")
        request = describe_configs.Request(resources=[resource] * 20_000)
        response = await client.ask(request, 4, describe_configs.Response)
        assert len(response.results) == 20_000


async def test_metadata_of_many_names(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        request = metadata.Request(
            topics=[metadata.RequestTopic(name=f"nowhere-{number}") for number in range(100_000)],
            allow_auto_topic_creation=False,
        )
        response = await client.ask(request, 9, metadata.Response)
        assert len(response.topics) == 100_000


async def test_a_large_request_that_is_refused_leaves_nothing_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even until the next garbage collection: an attacker sends one after the other."""
    size_bytes = 4_000_000
    head = b"\x00\x03\x00\x01\x00\x00\x00\x07\xff\xff"  # Metadata 1
    frame = head + size_bytes.to_bytes(4, "big") + bytes(size_bytes)
    caplog.set_level(logging.ERROR)  # the captured warnings would keep the requests
    gc.disable()
    tracemalloc.start()
    try:
        async with running_broker(tmp_path) as under_test:
            for _ in range(5):
                client = under_test.connect()
                await client.send_bytes(len(frame).to_bytes(4, "big") + frame)
                assert await client.receive_frame() is None
            assert tracemalloc.get_traced_memory()[0] < 2 * size_bytes
    finally:
        tracemalloc.stop()
        gc.enable()


async def test_a_transaction_of_many_partitions_ends_in_short_turns(tmp_path: Path) -> None:
    """It takes several rounds; the next transaction begins when all markers are written."""
    count = 500
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=count)
        producer = await begun(client)
        topic = add_partitions_to_txn.Topic(name="t", partitions=list(range(count)))
        request = add_partitions_to_txn.Request(
            v3_and_below_transactional_id=TID,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[topic],
        )
        await client.ask(request, 3, add_partitions_to_txn.Response)
        assert (await end(client, producer)).error_code == ErrorCode.NONE
        assert (await init(client)).error_code == ErrorCode.NONE
        logs = [under_test.broker.partition("t", number).log for number in range(count)]
        assert {log.log_end_offset for log in logs} == {1}
