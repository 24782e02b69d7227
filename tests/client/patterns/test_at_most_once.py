"""Commit before processing, without a crash: nothing is lost."""

from __future__ import annotations

import pytest
import trio

from minikafka_client import CommitFailedError, KafkaError
from minikafka_client.patterns import AtMostOnce
from minikafka_client.types import Offsets
from tests.client.patterns.conftest import FilledTopic
from tests.client.patterns.group import committed, take


def reader(bootstrap: str, topic: str, max_records: int = 10) -> AtMostOnce:
    return AtMostOnce(
        bootstrap, [topic], group_id=topic, auto_offset_reset="earliest", max_records=max_records
    )


async def test_records_are_committed_before_they_are_handed_out(bootstrap: str, topic: str) -> None:
    async with reader(bootstrap, topic) as records:
        assert await take(records, 1) == [0]
        assert await committed(bootstrap, topic) == {0: 10}
        assert await take(records, 10) == list(range(1, 11))
        assert await committed(bootstrap, topic) == {0: 20}


async def test_one_at_a_time_risks_only_the_record_in_process(
    bootstrap: str, filled_topic: FilledTopic
) -> None:
    topic = await filled_topic(3)
    async with reader(bootstrap, topic, max_records=1) as records:
        for offset in range(3):
            assert await take(records, 1) == [offset]
            assert await committed(bootstrap, topic) == {0: offset + 1}


@pytest.mark.parametrize("ending", ["break", "exception", "cancellation"])
async def test_leaving_gives_back_what_was_not_handed_out(
    bootstrap: str, topic: str, ending: str
) -> None:

    async def read_some() -> None:
        async with reader(bootstrap, topic) as records:
            async for record in records:
                if record.offset < 13:
                    continue
                if ending == "break":
                    break
                if ending == "exception":
                    raise ZeroDivisionError
                scope.cancel()
                await trio.lowlevel.checkpoint()

    with trio.CancelScope() as scope:
        if ending == "exception":
            with pytest.raises(ZeroDivisionError):
                await read_some()
        else:
            await read_some()
    assert await committed(bootstrap, topic) == {0: 14}
    async with reader(bootstrap, topic) as records:
        assert await take(records, 16) == list(range(14, 30))


async def test_batches_are_committed_before_they_are_handed_out(bootstrap: str, topic: str) -> None:
    async with reader(bootstrap, topic) as source:
        assert await take(source, 5) == list(range(5))
        async for batch in source.batches():
            assert batch.first_offset == 5
            assert await committed(bootstrap, topic) == {0: batch.next_offset}
            break
    assert await committed(bootstrap, topic) == {0: 30}


async def test_a_refused_commit_hands_nothing_out(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reader(bootstrap, topic) as records:
        commit = records.consumer.commit
        failures: list[KafkaError] = [CommitFailedError("refused"), KafkaError("unreachable")]

        async def fail_at_first(offsets: Offsets) -> None:
            if failures:
                raise failures.pop(0)
            await commit(offsets)

        monkeypatch.setattr(records.consumer, "commit", fail_at_first)
        with pytest.raises(KafkaError, match="unreachable"):
            await anext(records)
        assert not failures
        assert await committed(bootstrap, topic) == {}
        assert await take(records, 30) == list(range(30))


async def test_cancelled_commits_hand_nothing_out(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reader(bootstrap, topic) as records:
        with trio.CancelScope() as scope, monkeypatch.context() as slow:

            async def never(_: Offsets) -> None:
                scope.cancel()
                await trio.sleep_forever()

            slow.setattr(records.consumer, "commit", never)
            await anext(records)
        assert scope.cancelled_caught
        assert await take(records, 30) == list(range(30))


async def test_a_new_group_begins_at_the_end(bootstrap: str, topic: str) -> None:
    async with AtMostOnce(bootstrap, [topic], group_id=topic) as records:
        with trio.move_on_after(0.5) as scope:
            await anext(records)
        assert scope.cancelled_caught
