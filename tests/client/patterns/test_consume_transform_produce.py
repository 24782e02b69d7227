"""Consume, transform, produce: exactly once over rebalances, aborts and fencing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

import minikafka_client as mk
from minikafka_client.patterns import ConsumeTransformProduce, TransformBatch, blocking
from minikafka_client.patterns.consume_transform_produce import (
    ABORTS_IN_A_ROW_MAX,
    FENCED_IN_A_ROW_MAX,
)
from tests.client.patterns.conftest import FilledTopic
from tests.client.patterns.group import committed
from tests.client.trio_api import topics
from tests.client.trio_api.topics import new_topic

NewName = Callable[[], str]
PATIENCE_S = 60.0


async def results(bootstrap: str, topic: str) -> list[int]:
    """What a reader of committed records sees, sorted."""
    return sorted(map(int, await topics.committed(bootstrap, topic, is_open=True)))


def place(record: mk.ConsumerRecord) -> bytes:
    """A number of its own for each record of a topic."""
    return b"%d" % (record.partition * 1_000_000 + record.offset)


def places(count: int, partitions: int) -> list[int]:
    return [p * 1_000_000 + offset for p in range(partitions) for offset in range(count)]


async def copy(batch: TransformBatch[Any, Any], topic: str) -> None:
    for record in batch:
        await batch.send(topic, place(record), partition=record.partition)


@asynccontextmanager
async def loop_over(
    bootstrap: str, topic: str, **options: Any
) -> AsyncGenerator[ConsumeTransformProduce[bytes, bytes]]:
    options.setdefault("transactional_id", topic)
    async with ConsumeTransformProduce(bootstrap, [topic], group_id=topic, **options) as source:
        yield source


async def test_results_and_offsets_are_there_together(
    bootstrap: str, filled_topic: FilledTopic, name: str
) -> None:
    topic, target = await filled_topic(100, 2), await new_topic(bootstrap, name, 2)
    async with loop_over(bootstrap, topic, max_records=30) as source:
        seen = 0
        async for batch in source:
            assert 0 < len(batch) <= 30
            await copy(batch, target)
            seen += len(batch)
            if seen == 200:
                break
    assert await results(bootstrap, target) == places(100, 2)
    assert await committed(bootstrap, topic) == {0: 100, 1: 100}


async def test_an_exception_leaves_neither_results_nor_offsets(
    bootstrap: str, filled_topic: FilledTopic, name: str
) -> None:
    topic, target = await filled_topic(100), await new_topic(bootstrap, name)

    async def fail() -> None:
        async with loop_over(bootstrap, topic, max_records=30) as source:
            await copy(await anext(source), target)
            await copy(await anext(source), target)
            raise KeyError

    with pytest.raises(KeyError):
        await fail()
    assert await results(bootstrap, target) == places(30, 1)
    assert await committed(bootstrap, topic) == {0: 30}


async def test_members_come_and_go(
    bootstrap: str, filled_topic: FilledTopic, new_name: NewName
) -> None:
    topic, target = await filled_topic(400, 4), await new_topic(bootstrap, new_name(), 4)
    total = 1600
    has_begun, is_over = trio.Event(), trio.Event()

    async def work(name: str, quota: int) -> None:
        async with loop_over(bootstrap, topic, max_records=20, transactional_id=name) as source:
            worked = 0
            while worked < quota:
                batch = await anext(source)
                await copy(batch, target)
                worked += len(batch)
                has_begun.set()
                await trio.lowlevel.checkpoint()

    async def watch() -> None:
        while sum((await committed(bootstrap, topic)).values()) < total:
            await trio.lowlevel.checkpoint()
        is_over.set()

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work, new_name(), total + 1)
            await has_begun.wait()
            nursery.start_soon(work, new_name(), 200)  # comes, works a little and goes
            nursery.start_soon(work, new_name(), total + 1)
            nursery.start_soon(watch)
            await is_over.wait()
            nursery.cancel_scope.cancel()
    assert await results(bootstrap, target) == places(400, 4)


async def test_a_transaction_that_took_too_long_is_done_again(
    bootstrap: str, filled_topic: FilledTopic, name: str
) -> None:
    topic, target = await filled_topic(50), await new_topic(bootstrap, name)
    producer_options: Any = {"transaction_timeout_ms": 300}
    async with loop_over(
        bootstrap, topic, max_records=20, producer_options=producer_options
    ) as source:
        first = await anext(source)
        await copy(first, target)
        await source.producer.flush()
        partition = mk.TopicPartition(target, 0)
        async with mk.Consumer(bootstrap, isolation_level="read_committed") as consumer:
            while (await consumer.end_offsets([partition]))[partition] <= 20:
                pass  # until the coordinator has aborted it
        again = await anext(source)
        assert [record.offset for record in again] == [record.offset for record in first]
        await copy(again, target)
        seen = len(again)
        while seen < 50:
            batch = await anext(source)
            await copy(batch, target)
            seen += len(batch)
    assert await results(bootstrap, target) == places(50, 1)


async def test_what_can_never_be_delivered_is_not_tried_for_ever(
    bootstrap: str, filled_topic: FilledTopic, name: str
) -> None:
    topic = await filled_topic(5)
    target = await new_topic(bootstrap, name, max_message_bytes="1000")
    tried = 0

    async def try_it() -> None:
        nonlocal tried
        async with loop_over(bootstrap, topic) as source:
            async for batch in source:
                tried += 1
                await batch.send(target, bytes(2_000))
                await source.producer.flush()
                await batch.send(target, b"does nothing: the transaction is lost")

    with pytest.raises(mk.TransactionAbortableError, match="MESSAGE_TOO_LARGE"):
        await try_it()
    assert tried == ABORTS_IN_A_ROW_MAX + 1
    assert await results(bootstrap, target) == []
    assert await committed(bootstrap, topic) == {}


async def test_two_processes_with_one_transactional_id_get_an_error(
    bootstrap: str, filled_topic: FilledTopic, name: str
) -> None:
    topic, target = await filled_topic(100, 2), await new_topic(bootstrap, name, 2)
    fenced = 0

    async def go_on() -> None:
        nonlocal fenced
        async with loop_over(bootstrap, topic, max_records=1) as one:
            async for batch in one:
                await copy(batch, target)
                async with loop_over(bootstrap, topic):
                    fenced += 1

    with pytest.raises(mk.FencedError):
        await go_on()
    assert fenced == FENCED_IN_A_ROW_MAX + 1
    assert await results(bootstrap, target) == []


def test_options_that_contradict_the_pattern_are_refused() -> None:
    def make(**options: Any) -> None:
        ConsumeTransformProduce("h", ["t"], group_id="g", transactional_id="x", **options)

    with pytest.raises(ValueError, match="isolation_level"):
        make(isolation_level="read_uncommitted")
    with pytest.raises(ValueError, match="max_records"):
        make(max_records=0)
    with pytest.raises(ValueError, match="enable_auto_commit"):
        make(enable_auto_commit=True)
    with pytest.raises(ValueError, match="transactional_id"):
        ConsumeTransformProduce("h", ["t"], group_id="g", transactional_id="")


async def test_the_blocking_pattern_does_the_same(
    bootstrap: str, filled_topic: FilledTopic, name: str
) -> None:
    topic, target = await filled_topic(50, 2), await new_topic(bootstrap, name, 2)

    def work() -> None:
        with blocking.ConsumeTransformProduce(
            bootstrap, [topic], group_id=topic, transactional_id=topic, max_records=30
        ) as source:
            seen = 0
            for batch in source:
                for record in batch:
                    batch.send(target, place(record), partition=record.partition)
                seen += len(batch)
                if seen == 100:
                    break

    await trio.to_thread.run_sync(work)
    assert await results(bootstrap, target) == places(50, 2)
    assert await committed(bootstrap, topic) == {0: 50, 1: 50}
