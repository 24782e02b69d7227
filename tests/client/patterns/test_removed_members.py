"""A member that its group removed because it was too slow, and that continues."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing

import pytest
import trio

from minikafka_client import AdminClient, KafkaError, TopicPartition
from minikafka_client.patterns import AtLeastOnce, AtMostOnce, ExactlyOnceInto
from minikafka_client.patterns.sqlite import SqliteOffsets
from minikafka_client.types import Offsets
from tests.client.patterns.group import committed, take


async def wait_until_removed(bootstrap: str, group_id: str) -> None:
    async with AdminClient(bootstrap) as admin:
        with trio.fail_after(30):
            while (await admin.describe_groups([group_id]))[group_id].state != "Empty":
                pass


async def test_at_least_once_repeats_what_it_could_not_commit(bootstrap: str, topic: str) -> None:
    lost: list[TopicPartition] = []

    async def on_lost(partitions: Sequence[TopicPartition]) -> None:
        lost.extend(partitions)

    async with AtLeastOnce(
        bootstrap,
        [topic],
        group_id=topic,
        max_records=10,
        max_poll_interval_ms=300,
        on_partitions_lost=on_lost,
    ) as records:
        assert await take(records, 11) == list(range(11))
        await wait_until_removed(bootstrap, topic)
        assert await take(records, 9) == list(range(11, 20))
        assert await take(records, 20) == list(range(10, 30))
    assert lost == [TopicPartition(topic, 0)]
    assert await committed(bootstrap, topic) == {0: 30}


async def test_at_most_once_repeats_nothing(bootstrap: str, topic: str) -> None:
    async with AtMostOnce(
        bootstrap,
        [topic],
        group_id=topic,
        auto_offset_reset="earliest",
        max_records=10,
        max_poll_interval_ms=300,
    ) as records:
        assert await take(records, 11) == list(range(11))
        await wait_until_removed(bootstrap, topic)
        assert await take(records, 19) == list(range(11, 30))


async def test_exactly_once_goes_on_where_the_store_is(bootstrap: str, topic: str) -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE results (offset INTEGER)")
        async with ExactlyOnceInto(
            SqliteOffsets(database),
            bootstrap,
            [topic],
            group_id=topic,
            max_poll_interval_ms=300,
            max_partition_fetch_bytes=500,
        ) as source:
            count = 0
            async for batch in source:
                rows = [(offset,) for offset in batch.offsets]
                database.executemany("INSERT INTO results VALUES (?)", rows)
                if not count:
                    await wait_until_removed(bootstrap, topic)
                count += len(rows)
                if count == 30:
                    break
        assert database.execute("SELECT offset FROM results").fetchall() == [
            (offset,) for offset in range(30)
        ]


@pytest.mark.parametrize("has_failed", [False, True])
async def test_a_last_commit_that_fails_is_raised_unless_another_error_is(
    bootstrap: str,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    has_failed: bool,
) -> None:

    async def fail(_: Offsets) -> None:
        raise KafkaError("unreachable")

    async def read_one() -> None:
        async with AtLeastOnce(bootstrap, [topic], group_id=topic) as records:
            monkeypatch.setattr(records.consumer, "commit", fail)
            assert await take(records, 1) == [0]
            if has_failed:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError if has_failed else KafkaError):
        await read_one()
    assert ("the last commit failed: unreachable" in caplog.text) == has_failed
