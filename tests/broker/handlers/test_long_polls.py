"""A Fetch that waits: what wakes it, what does not, and that it reads nothing twice."""

from pathlib import Path

import pytest
import trio
import trio.testing

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import delete_topics, fetch
from minikafka.protocol.records import encode_batch
from minikafka.storage.log import Log
from tests.kit.in_process import running_broker
from tests.kit.wire import WireClient, fetch_of, values_of

FOREVER_MS = 600_000


def long_poll(*partitions: int, min_bytes: int = 1, topic: str = "t") -> fetch.Request:
    offsets = dict.fromkeys(partitions, 0)
    return fetch_of(topic, offsets, max_wait_ms=FOREVER_MS, min_bytes=min_bytes)


async def answer_of(client: WireClient) -> dict[int, list[bytes | None]]:
    _, answer = await client.receive(fetch.Response, 11)
    return {one.partition_index: values_of(one) for one in answer.responses[0].partitions}


async def is_waiting(client: WireClient) -> bool:
    await trio.testing.wait_all_tasks_blocked()
    with trio.move_on_after(0) as scope:
        await client.receive_frame()
    return scope.cancelled_caught


async def test_min_bytes_counts_over_all_partitions(tmp_path: Path) -> None:
    size = len(encode_batch([(None, b"12345", (), 1000)]))
    async with running_broker(tmp_path) as under_test:
        producer, consumer = under_test.connect(), under_test.connect()
        await producer.create_topic("t", partitions=3)
        await producer.produce("t", b"12345", partition=0)
        await consumer.send(long_poll(0, 1, 2, min_bytes=3 * size), 11)
        assert await is_waiting(consumer)
        await producer.produce("t", b"12345", partition=1)
        assert await is_waiting(consumer)
        await producer.produce("t", b"12345", partition=1)
        assert await answer_of(consumer) == {0: [b"12345"], 1: [b"12345"] * 2, 2: []}


async def test_an_append_makes_only_its_own_partition_be_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as under_test:
        producer, consumer = under_test.connect(), under_test.connect()
        await producer.create_topic("t", partitions=100)
        await consumer.send(long_poll(*range(100), min_bytes=1_000_000), 11)
        await trio.testing.wait_all_tasks_blocked()
        reads: list[str] = []
        read = Log.read

        def counted(self: Log, offset: int, **limits: int) -> object:
            reads.append(self.directory.rpartition("-")[2])
            return read(self, offset, **limits)  # type: ignore[arg-type]  # the same arguments

        monkeypatch.setattr(Log, "read", counted)
        for number in (7, 7, 42):
            await producer.produce("t", b"x", partition=number)
            assert await is_waiting(consumer)
        assert reads == ["7", "7", "42"]


async def test_a_deleted_topic_ends_the_wait(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        producer, consumer = under_test.connect(), under_test.connect()
        await producer.create_topic("t")
        await consumer.send(long_poll(0), 11)
        await trio.testing.wait_all_tasks_blocked()
        request = delete_topics.Request(topic_names=["t"], timeout_ms=1000)
        await producer.ask(request, 5, delete_topics.Response)
        _, answer = await consumer.receive(fetch.Response, 11)
        partition = answer.responses[0].partitions[0]
        assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_fetch_that_stops_waiting_is_no_longer_notified(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        producer, consumer = under_test.connect(), under_test.connect()
        await producer.create_topic("t", partitions=2)
        partitions = under_test.broker.partitions
        await consumer.send(long_poll(0, 1), 11)
        await trio.testing.wait_all_tasks_blocked()
        assert [len(one.waiters) for one in partitions.values()] == [1, 1]
        await producer.produce("t", b"x")
        await answer_of(consumer)
        assert [len(one.waiters) for one in partitions.values()] == [0, 0]


async def test_other_requests_are_served_while_many_partitions_are_read(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        reader, other = under_test.connect(), under_test.connect()
        await other.create_topic("t", partitions=500)
        await reader.send(long_poll(*range(500), min_bytes=0), 11)
        order: list[str] = []

        async def wait_for(client: WireClient, name: str) -> None:
            await client.receive_frame()
            order.append(name)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for, reader, "500 partitions")
            await other.send(long_poll(0, min_bytes=0), 11)
            nursery.start_soon(wait_for, other, "one partition")
        assert order == ["one partition", "500 partitions"]
