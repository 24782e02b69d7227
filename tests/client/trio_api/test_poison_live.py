"""A log with batches that no consumer can read: they are named, and reading goes on behind them."""

from __future__ import annotations

import pytest
import trio

import minikafka_client as mk
from minikafka.protocol.records import assemble_batch, encode_batch
from tests.kit.wire import Wire

RECORD = b"\x0e\x00\x00\x00\x01\x02v\x00"
POISON_COUNT = 2


def poison() -> bytes:
    """Two records, the second of which is garbage."""
    return bytes(
        assemble_batch(
            RECORD + b"\xff" * 8,
            record_count=POISON_COUNT,
            last_offset_delta=POISON_COUNT - 1,
            base_timestamp=5,
            max_timestamp=5,
        )
    )


def write(broker: str, topic: str) -> None:
    """Four good records around two that are not: at offsets 0, 1, (2, 3), 4 and 5."""
    with Wire(broker) as wire:
        for batch in (good(b"0"), good(b"1"), poison(), good(b"4"), good(b"5")):
            assert wire.produce(topic, 0, batch).error_code == 0


def good(value: bytes) -> bytes:
    return bytes(encode_batch([(None, value, (), 5)]))


async def read_into(received: list[bytes | None], consumer: mk.Consumer) -> None:
    async for record in consumer:
        received.append(record.value)  # noqa: PERF401 - what came before an error must stay


async def test_records_before_poison_come_first_and_then_an_error_that_says_where_to_go_on(
    bootstrap: str, topic: str
) -> None:
    await trio.to_thread.run_sync(write, bootstrap, topic)
    where = mk.TopicPartition(topic, 0)
    async with mk.Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign([where])
        received: list[bytes | None] = []
        with pytest.raises(mk.CorruptRecordsError, match=rf"{topic}.*seek to 4 to skip") as caught:
            await read_into(received, consumer)
        error = caught.value
        assert (error.topic, error.partition, error.offset, error.next_offset) == (topic, 0, 2, 4)
        assert (received, await consumer.position(where)) == ([b"0", b"1"], 2)
        assert error.next_offset is not None
        consumer.seek(where, error.next_offset)
        assert [record.value for record in await consumer.poll()] == [b"4", b"5"]


async def test_the_same_by_batches(bootstrap: str, topic: str) -> None:
    await trio.to_thread.run_sync(write, bootstrap, topic)
    where = mk.TopicPartition(topic, 0)
    async with mk.Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign([where])
        batches = consumer.batches()
        assert (await anext(batches)).values == [b"0", b"1"]
        with pytest.raises(mk.CorruptRecordsError) as caught:
            await anext(batches)
        assert caught.value.next_offset == 4
        consumer.seek(where, caught.value.next_offset)
        async for batch in consumer.batches():
            assert batch.values == [b"4", b"5"]
            break
