"""Commit by the clock, and what all patterns refuse."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import trio

from minikafka_client import TopicPartition
from minikafka_client.patterns import AtLeastOnce, AtMostOnce, AutoCommit
from tests.client.patterns.conftest import FilledTopic
from tests.client.patterns.group import committed, take
from tests.client.trio_api.topics import new_topic


async def test_the_clock_commits_what_is_processed(bootstrap: str, topic: str) -> None:
    async with AutoCommit(bootstrap, [topic], group_id=topic, auto_commit_interval_ms=10) as source:
        records = aiter(source)
        assert await take(records, 5) == list(range(5))
        with trio.fail_after(30):
            while await committed(bootstrap, topic) != {0: 4}:
                pass
    assert await committed(bootstrap, topic) == {0: 5}


async def test_a_cancellation_commits_what_is_processed(bootstrap: str, topic: str) -> None:
    with trio.CancelScope() as scope:
        async with AutoCommit(bootstrap, [topic], group_id=topic) as records:
            async for record in records:
                if record.offset == 13:
                    scope.cancel()
                    await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert await committed(bootstrap, topic) == {0: 13}


async def test_batches_are_committed_when_the_next_one_is_asked_for(
    bootstrap: str, topic: str
) -> None:
    async with AutoCommit(bootstrap, [topic], group_id=topic) as source:
        async for batch in source.batches():
            assert batch.first_offset == 0
            break
    assert await committed(bootstrap, topic) == {0: 30}


async def test_rebalances_are_reported(bootstrap: str, filled_topic: FilledTopic) -> None:
    topic = await filled_topic(1)
    reported: list[tuple[str, list[TopicPartition]]] = []

    def teller(what: str) -> Callable[..., Any]:
        async def tell(partitions: list[TopicPartition]) -> None:
            reported.append((what, list(partitions)))

        return tell

    for pattern in (AutoCommit, AtLeastOnce, AtMostOnce):
        reported.clear()
        async with pattern(
            bootstrap,
            [topic],
            group_id=f"{topic}-{pattern.__name__}",
            auto_offset_reset="earliest",
            on_partitions_assigned=teller("assigned"),
            on_partitions_revoked=teller("revoked"),
        ) as source:
            await anext(aiter(source))
        where = [TopicPartition(topic, 0)]
        assert reported == [("assigned", where), ("revoked", where)]


async def test_a_pattern_of_topics_is_subscribed(
    bootstrap: str, group: str, filled_topic: FilledTopic
) -> None:
    topic = await filled_topic(1)
    await new_topic(bootstrap, f"{topic}-not-this")
    async with AtLeastOnce(bootstrap, re.compile(re.escape(topic)), group_id=group) as records:
        assert await take(records, 1) == [0]
        assert records.consumer.assignment == {TopicPartition(topic, 0)}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "group_id"),
        ({"group_id": "g", "enable_auto_commit": True}, "enable_auto_commit"),
        ({"group_id": "g", "max_records": 0}, "max_records=0"),
        ({"group_id": "g", "on_commit": print}, "in_background"),
    ],
)
def test_options_that_contradict_the_pattern_are_refused(
    options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        AtLeastOnce("localhost:1", ["t"], **options)


def test_other_options_that_are_refused() -> None:
    with pytest.raises(ValueError, match="max_records=0"):
        AtMostOnce("localhost:1", ["t"], group_id="g", max_records=0)
    with pytest.raises(TypeError, match="not one string"):
        AutoCommit("localhost:1", "topic", group_id="g")
