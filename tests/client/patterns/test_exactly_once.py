"""Offsets in the store, without a crash: what the store says is where it goes on."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest
import trio

from minikafka_client import AdminClient, NoOffsetError, TopicPartition
from minikafka_client.patterns import ExactlyOnceInto
from minikafka_client.patterns.sqlite import SqliteOffsets
from tests.client.patterns.conftest import FilledTopic
from tests.client.patterns.group import committed
from tests.client.trio_api.topics import fill_topic


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.db"


@pytest.fixture
def database(path: Path) -> Generator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE results (partition INTEGER, offset INTEGER)")
        yield connection


def into(database: sqlite3.Connection, bootstrap: str, topic: str) -> ExactlyOnceInto:
    return ExactlyOnceInto(
        SqliteOffsets(database),
        bootstrap,
        [topic],
        group_id=topic,
        heartbeat_interval_ms=100,
        max_partition_fetch_bytes=1_000,
    )


def store(database: sqlite3.Connection, batch: object) -> None:
    for record in batch.records:  # type: ignore[attr-defined]  # a batch
        database.execute("INSERT INTO results VALUES (?, ?)", (record.partition, record.offset))


def stored(database: sqlite3.Connection) -> list[tuple[int, int]]:
    rows = database.execute("SELECT partition, offset FROM results")
    return sorted((partition, offset) for partition, offset in rows)


def every(partitions: int, offsets: int) -> list[tuple[int, int]]:
    return [(partition, offset) for partition in range(partitions) for offset in range(offsets)]


async def store_all(database: sqlite3.Connection, source: ExactlyOnceInto, count: int) -> None:
    async for batch in source:
        store(database, batch)
        if len(stored(database)) >= count:
            break


async def test_a_new_process_goes_on_where_the_store_is(
    bootstrap: str, filled_topic: FilledTopic, database: sqlite3.Connection
) -> None:
    topic = await filled_topic(50, partitions=2)
    async with into(database, bootstrap, topic) as source:
        await store_all(database, source, 100)
    assert not database.in_transaction
    assert stored(database) == every(2, 50)
    for partition in range(2):
        await fill_topic(bootstrap, topic, partition, 10)
    async with into(database, bootstrap, topic) as source:
        await store_all(database, source, 120)
    assert stored(database) == every(2, 60)
    assert await committed(bootstrap, topic) == {}


@pytest.mark.parametrize("ending", ["exception", "cancellation"])
async def test_leaving_with_an_exception_rolls_back(
    bootstrap: str, filled_topic: FilledTopic, database: sqlite3.Connection, ending: str
) -> None:
    topic = await filled_topic(500)
    kept: list[tuple[int, int]] = []

    async def fail_in_the_second_batch() -> None:
        async with into(database, bootstrap, topic) as source:
            async for batch in source:
                store(database, batch)
                if batch.first_offset:
                    if ending == "cancellation":
                        scope.cancel()
                        await trio.lowlevel.checkpoint()
                    raise ZeroDivisionError
                kept.extend((record.partition, record.offset) for record in batch.records)

    with trio.CancelScope() as scope:
        if ending == "exception":
            with pytest.raises(ZeroDivisionError):
                await fail_in_the_second_batch()
        else:
            await fail_in_the_second_batch()
    assert 0 < len(kept) < 500
    assert stored(database) == kept
    async with into(database, bootstrap, topic) as source:
        await store_all(database, source, 500)
    assert stored(database) == every(1, 500)


async def test_a_batch_that_is_rolled_back_comes_again(
    bootstrap: str, filled_topic: FilledTopic, database: sqlite3.Connection
) -> None:
    topic = await filled_topic(500)
    undone: list[int] = []
    async with into(database, bootstrap, topic) as source:
        async for batch in source:
            store(database, batch)
            if batch.first_offset not in undone:
                undone.append(batch.first_offset)
                source.roll_back()
                source.roll_back()  # there is nothing to undo now
            elif len(stored(database)) == 500:
                break
    assert len(undone) > 1
    assert stored(database) == every(1, 500)


async def test_a_member_takes_over_and_the_old_one_does_no_harm(
    bootstrap: str, filled_topic: FilledTopic, database: sqlite3.Connection, path: Path
) -> None:
    """The first member is slow: it has fetched records that another has stored meanwhile."""
    topic = await filled_topic(500)
    async with into(database, bootstrap, topic) as slow:
        first = await anext(slow)
        slow.roll_back()
        with closing(sqlite3.connect(path)) as other:
            rival = SqliteOffsets(other)
            assert rival.begin(topic, first.topic_partition, None, 100)
            other.executemany("INSERT INTO results VALUES (0, ?)", [(n,) for n in range(100)])
            rival.commit()
        second = await anext(slow)
        assert second.first_offset == 100
        store(database, second)
        await store_all(database, slow, 500)
    assert stored(database) == every(1, 500)


async def test_members_share_the_work(
    bootstrap: str, filled_topic: FilledTopic, database: sqlite3.Connection, path: Path
) -> None:
    topic = await filled_topic(300, partitions=4)

    async def work() -> None:
        with closing(sqlite3.connect(path)) as own:
            async with into(own, bootstrap, topic) as source:
                async for batch in source:
                    store(own, batch)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(work)
            while len(stored(database)) < 1_200:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert stored(database) == every(4, 300)


async def test_a_stored_offset_that_no_longer_exists_is_an_error(
    bootstrap: str, filled_topic: FilledTopic, database: sqlite3.Connection
) -> None:
    topic = await filled_topic(50)
    where = TopicPartition(topic, 0)
    offsets = SqliteOffsets(database)
    assert offsets.begin(topic, where, None, 10)
    offsets.commit()
    async with AdminClient(bootstrap) as admin:
        await admin.delete_records({where: 20})
    async with into(database, bootstrap, topic) as source:
        with pytest.raises(NoOffsetError):
            await anext(source)


@pytest.mark.parametrize("reset", ["latest", "none"])
async def test_where_a_new_partition_begins(
    bootstrap: str, filled_topic: FilledTopic, database: sqlite3.Connection, reset: str
) -> None:
    topic = await filled_topic(50)
    async with ExactlyOnceInto(
        SqliteOffsets(database),
        bootstrap,
        [topic],
        group_id=topic,
        auto_offset_reset=reset,  # type: ignore[arg-type]  # one of the names
    ) as source:
        if reset == "none":
            with pytest.raises(NoOffsetError, match="store some"):
                await anext(source)
            return
        with trio.move_on_after(0.3):
            await anext(source)
        await fill_topic(bootstrap, topic, 0, 5)
        batch = await anext(source)
        assert batch.first_offset == 50


class BrokenStore(SqliteOffsets):
    """Cannot commit, once."""

    is_broken = True

    def commit(self) -> None:
        if self.is_broken:
            self.is_broken = False
            raise sqlite3.OperationalError("disk full")
        super().commit()


async def test_a_store_that_cannot_commit_gets_the_batch_again(
    bootstrap: str, filled_topic: FilledTopic, database: sqlite3.Connection
) -> None:
    topic = await filled_topic(50)
    async with ExactlyOnceInto(BrokenStore(database), bootstrap, [topic], group_id=topic) as source:
        store(database, await anext(source))
        with pytest.raises(sqlite3.OperationalError, match="disk full"):
            await anext(source)
        assert stored(database) == []
        store(database, await anext(source))
    assert stored(database) == every(1, 50)


def test_the_patterns_need_a_group(name: str) -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        offsets = SqliteOffsets(database, table=name)
        with pytest.raises(ValueError, match="group_id"):
            ExactlyOnceInto(offsets, "localhost:1", ["t"])
