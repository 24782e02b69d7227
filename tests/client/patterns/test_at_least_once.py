"""Commit after processing, without a crash: nothing is repeated but what an exception stopped."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from minikafka_client import CommitFailedError, KafkaError, TopicPartition
from minikafka_client.patterns import AtLeastOnce
from minikafka_client.trio_api.commits import CommitCallback
from minikafka_client.types import Offsets
from tests.client.patterns.conftest import FilledTopic
from tests.client.patterns.group import committed, take

BOTH = pytest.mark.parametrize("in_background", [False, True], ids=["waiting", "in background"])


def reader(bootstrap: str, topic: str, **options: Any) -> AtLeastOnce:
    return AtLeastOnce(bootstrap, [topic], group_id=topic, **{"max_records": 10} | options)


@BOTH
async def test_asking_for_more_commits_what_came_before(
    bootstrap: str, topic: str, in_background: bool
) -> None:
    async with reader(bootstrap, topic, in_background=in_background) as records:
        assert await take(records, 10) == list(range(10))
        assert await committed(bootstrap, topic) == {}
        assert await take(records, 1) == [10]
        with trio.fail_after(30):
            while await committed(bootstrap, topic) != {0: 10}:
                pass
        assert await take(records, 9) == list(range(11, 20))


@BOTH
async def test_leaving_commits_what_was_processed_and_nothing_else(
    bootstrap: str, topic: str, in_background: bool
) -> None:
    async with reader(bootstrap, topic, in_background=in_background) as records:
        async for record in records:
            if record.offset == 13:
                break
    assert await committed(bootstrap, topic) == {0: 14}
    async with reader(bootstrap, topic) as records:
        assert await take(records, 16) == list(range(14, 30))


@BOTH
async def test_an_exception_leaves_the_record_in_process_to_be_read_again(
    bootstrap: str, topic: str, in_background: bool
) -> None:

    async def fail_at_13() -> None:
        async with reader(bootstrap, topic, in_background=in_background) as records:
            async for record in records:
                if record.offset == 13:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_at_13()
    assert await committed(bootstrap, topic) == {0: 13}


async def test_cancellation_leaves_the_record_in_process_to_be_read_again(
    bootstrap: str, topic: str
) -> None:
    with trio.CancelScope() as scope:
        async with reader(bootstrap, topic) as records:
            async for record in records:
                if record.offset == 13:
                    scope.cancel()
                    await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert await committed(bootstrap, topic) == {0: 13}


async def test_cancellation_while_waiting_for_records_commits_all(
    bootstrap: str, filled_topic: FilledTopic
) -> None:
    topic = await filled_topic(15)
    with trio.CancelScope() as scope:
        async with reader(bootstrap, topic) as records:
            assert await take(records, 15) == list(range(15))
            scope.deadline = trio.current_time() + 0.5
            await anext(records)
    assert scope.cancelled_caught
    assert await committed(bootstrap, topic) == {0: 15}


@BOTH
async def test_batches_are_committed_one_by_one(
    bootstrap: str, filled_topic: FilledTopic, in_background: bool
) -> None:
    topic = await filled_topic(100)
    seen: list[int] = []
    async with reader(bootstrap, topic, in_background=in_background) as source:
        seen += await take(source, 5)
        async for batch in source.batches():
            # The rest of the ten that had been taken was given back.
            with trio.fail_after(30):
                while await committed(bootstrap, topic) != {0: len(seen)}:
                    pass
            assert batch.first_offset == len(seen)
            seen += batch.offsets
            if len(seen) == 100:
                break
    assert seen == list(range(100))
    assert await committed(bootstrap, topic) == {0: 100}


async def test_an_exception_in_a_batch_leaves_the_whole_batch_to_be_read_again(
    bootstrap: str, topic: str
) -> None:

    async def fail_at_once() -> None:
        async with reader(bootstrap, topic) as source:
            async for batch in source.batches():
                assert batch.first_offset == 0
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_at_once()
    assert await committed(bootstrap, topic) == {0: 0}


async def test_a_second_member_goes_on_where_the_first_is(
    bootstrap: str, filled_topic: FilledTopic
) -> None:
    topic = await filled_topic(200, partitions=4)
    seen: list[tuple[int, int]] = []
    is_read = trio.Event()

    async def work() -> None:
        async with reader(bootstrap, topic, max_records=7, heartbeat_interval_ms=100) as records:
            async for record in records:
                seen.append((record.partition, record.offset))
                if len(set(seen)) == 800:
                    is_read.set()
                await trio.lowlevel.checkpoint()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            while len(seen) < 100:
                await trio.lowlevel.checkpoint()
            nursery.start_soon(work)
            await is_read.wait()
            nursery.cancel_scope.cancel()
    assert len(seen) == 800


async def test_background_commits_are_reported_in_order_and_one_is_in_flight_at_a_time(
    bootstrap: str, filled_topic: FilledTopic
) -> None:
    topic = await filled_topic(300)
    where = TopicPartition(topic, 0)
    reported: list[int] = []

    def on_commit(offsets: Offsets, error: KafkaError | None) -> None:
        assert error is None
        offset = offsets[where]
        assert not isinstance(offset, int)
        reported.append(offset.offset)

    async with reader(bootstrap, topic, in_background=True, on_commit=on_commit) as records:
        await take(records, 300)
    assert reported == sorted(set(reported))
    assert 1 <= len(reported) <= 30
    assert await committed(bootstrap, topic) == {0: 300}


async def test_what_becomes_ready_while_a_commit_is_on_its_way_goes_into_one_more(
    bootstrap: str,
    filled_topic: FilledTopic,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = await filled_topic(100)
    on_their_way: list[tuple[int, CommitCallback, Offsets]] = []
    async with reader(bootstrap, topic, in_background=True) as records:

        def keep(offsets: Offsets, *, callback: CommitCallback) -> None:
            ((_, offset),) = offsets.items()
            assert not isinstance(offset, int)
            on_their_way.append((offset.offset, callback, offsets))

        with monkeypatch.context() as slow:
            slow.setattr(records.consumer, "commit_nowait", keep)
            await take(records, 41)
            assert [offset for offset, _, _ in on_their_way] == [10]
            _, callback, offsets = on_their_way.pop()
            callback(offsets, None)
            assert [offset for offset, _, _ in on_their_way] == [40]
            _, callback, offsets = on_their_way.pop()
            callback(offsets, KafkaError("unreachable"))
            assert not on_their_way
    assert "not committed: unreachable" in caplog.text
    assert await committed(bootstrap, topic) == {0: 41}


async def test_a_commit_that_fails_is_made_good_by_the_next(
    bootstrap: str, filled_topic: FilledTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await filled_topic(100)
    outcomes: list[str] = []

    def on_commit(_: Offsets, error: KafkaError | None) -> None:
        outcomes.append("failed" if error else "done")

    async with reader(bootstrap, topic, in_background=True, on_commit=on_commit) as records:
        with monkeypatch.context() as broken:

            def fail(offsets: Offsets, *, callback: CommitCallback) -> None:
                callback(offsets, CommitFailedError("the test does not want it"))

            broken.setattr(records.consumer, "commit_nowait", fail)
            await take(records, 11)
        assert outcomes == ["failed"]
        await take(records, 10)
        with trio.fail_after(30):
            while await committed(bootstrap, topic) != {0: 20}:
                pass
    assert outcomes[:2] == ["failed", "done"]


async def test_a_refused_commit_is_no_reason_to_stop(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with reader(bootstrap, topic) as records:
        with monkeypatch.context() as broken:

            async def fail(_: Offsets) -> None:
                raise CommitFailedError("the test does not want it")

            broken.setattr(records.consumer, "commit", fail)
            assert await take(records, 12) == list(range(12))
        assert await take(records, 18) == list(range(12, 30))
    assert "not committed: the test does not want it" in caplog.text
    assert await committed(bootstrap, topic) == {0: 30}


async def test_a_coordinator_that_cannot_be_reached_is(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reader(bootstrap, topic) as records:
        with monkeypatch.context() as broken:

            async def fail(_: Offsets) -> None:
                raise KafkaError("unreachable")

            broken.setattr(records.consumer, "commit", fail)
            await take(records, 10)
            with pytest.raises(KafkaError, match="unreachable"):
                await anext(records)
        assert await take(records, 1) == [10]
        assert await committed(bootstrap, topic) == {0: 10}


async def test_what_waits_to_be_committed_leaves_out_what_is_lost_meanwhile(
    bootstrap: str, filled_topic: FilledTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another member may have come further there."""
    topic = await filled_topic(1)
    async with reader(bootstrap, topic, in_background=True) as records:
        sent: list[Offsets] = []
        monkeypatch.setattr(
            records.consumer, "commit_nowait", lambda offsets, callback: sent.append(offsets)
        )
        lost, kept = TopicPartition(topic, 0), TopicPartition(topic, 1)
        records._commit_in_background({lost: 1})
        records._commit_in_background({lost: 2, kept: 3})
        await records._lost([lost])
        records._background_commit_ended({lost: 1}, None)
        assert sent == [{lost: 1}, {kept: 3}]
        records._background_commit_ended({kept: 3}, None)
        records._commit_in_background({kept: 4})
        records._commit_in_background({kept: 5})
        await records._lost([kept])
        records._background_commit_ended({kept: 4}, None)
        assert len(sent) == 3
