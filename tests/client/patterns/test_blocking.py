"""The blocking patterns keep the same promises."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Generator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from minikafka_client import ClosedError, KafkaError, NewTopic, TopicPartition, sync
from minikafka_client.patterns.blocking import AtLeastOnce, AtMostOnce, AutoCommit, ExactlyOnceInto
from minikafka_client.patterns.sqlite import SqliteOffsets
from minikafka_client.types import Offsets

Committed = Callable[[], int | None]


@pytest.fixture
def topic(bootstrap: str, new_name: Callable[[], str]) -> str:
    """A topic with 50 records in small batches."""
    name = new_name()
    with sync.AdminClient(bootstrap) as admin:
        admin.create_topics([NewTopic(name, 1)])
    with sync.Producer(bootstrap, batch_size=300) as producer:
        producer.send_many(name, [b"%d" % number for number in range(50)])
    return name


@pytest.fixture
def committed(bootstrap: str, topic: str) -> Committed:
    """The committed offset of the group that has the name of the topic."""

    def ask() -> int | None:
        with sync.AdminClient(bootstrap) as admin:
            found = admin.list_group_offsets(topic).get(TopicPartition(topic, 0))
        return None if found is None else found.offset

    return ask


def test_auto_commit(bootstrap: str, topic: str, committed: Committed) -> None:
    with AutoCommit(bootstrap, [topic], group_id=topic) as records:
        assert [record.offset for record in islice(records, 14)] == list(range(14))
    assert committed() == 14
    with AutoCommit(bootstrap, [topic], group_id=topic) as source:
        batch = next(source.batches())
        assert batch.first_offset == 14
    assert committed() == batch.next_offset


@pytest.mark.parametrize("in_background", [False, True])
def test_at_least_once(
    bootstrap: str, topic: str, committed: Committed, in_background: bool
) -> None:
    def reader() -> AtLeastOnce:
        return AtLeastOnce(
            bootstrap, [topic], group_id=topic, max_records=10, in_background=in_background
        )

    def read_until_13() -> None:
        with reader() as records:
            assert records.assignment == set()
            for record in records:
                if record.offset == 13:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        read_until_13()
    assert committed() == 13
    with reader() as records:
        assert [record.offset for record in islice(records, 4)] == [13, 14, 15, 16]
        assert records.assignment == {TopicPartition(topic, 0)}
        batch = next(records.batches())
        assert batch.first_offset == 17
    assert committed() == batch.next_offset


def test_background_commits_are_reported(bootstrap: str, topic: str) -> None:
    reported: list[KafkaError | None] = []
    is_called = threading.Event()

    def on_commit(_: Offsets, error: KafkaError | None) -> None:
        reported.append(error)
        is_called.set()

    with AtLeastOnce(
        bootstrap, [topic], group_id=topic, max_records=10, in_background=True, on_commit=on_commit
    ) as records:
        assert len(list(islice(records, 11))) == 11
        assert is_called.wait(30)
    assert reported[0] is None


def test_at_most_once(bootstrap: str, topic: str, committed: Committed) -> None:
    with AtMostOnce(
        bootstrap, [topic], group_id=topic, auto_offset_reset="earliest", max_records=10
    ) as source:
        records = iter(source)
        assert next(records).offset == 0
        assert committed() == 10
        assert [record.offset for record in islice(records, 13)] == list(range(1, 14))
        batch = next(source.batches())
        assert batch.first_offset == 14
        assert committed() == batch.next_offset
    assert committed() == batch.next_offset


@pytest.fixture
def database(tmp_path: Path) -> Generator[sqlite3.Connection]:
    # A connection refuses to be used from another thread than this one.
    with closing(sqlite3.connect(tmp_path / "results.db")) as connection:
        connection.execute("CREATE TABLE results (offset INTEGER)")
        yield connection


def test_exactly_once(
    bootstrap: str, topic: str, committed: Committed, database: sqlite3.Connection
) -> None:
    offsets = SqliteOffsets(database)

    def read_until(last: int, *, fails: bool = False) -> None:
        with ExactlyOnceInto(
            offsets, bootstrap, [topic], group_id=topic, max_partition_fetch_bytes=300
        ) as source:
            undone: list[int] = []
            for batch in source:
                database.executemany(
                    "INSERT INTO results VALUES (?)", [(offset,) for offset in batch.offsets]
                )
                if batch.first_offset not in undone:
                    undone.append(batch.first_offset)
                    source.roll_back()
                elif batch.next_offset > last:
                    break
            if fails:
                raise ZeroDivisionError

    def stored() -> list[int]:
        return [offset for (offset,) in database.execute("SELECT offset FROM results")]

    read_until(5)
    half = stored()
    assert 5 < len(half) < 50
    with pytest.raises(ZeroDivisionError):
        read_until(len(half), fails=True)
    assert stored() == half == list(range(len(half)))
    read_until(49)
    assert stored() == list(range(50))
    assert committed() is None


def test_rebalances_are_reported_in_this_thread(bootstrap: str, topic: str) -> None:
    reported: list[tuple[str, threading.Thread]] = []

    def reporter(what: str) -> Callable[..., object]:
        return lambda _: reported.append((what, threading.current_thread()))

    for pattern in (AtLeastOnce, AtMostOnce, AutoCommit):
        reported.clear()
        with pattern(
            bootstrap,
            [topic],
            group_id=f"{topic}-{pattern.__name__}",
            auto_offset_reset="earliest",
            on_partitions_assigned=reporter("assigned"),
            on_partitions_revoked=reporter("revoked"),
        ) as source:
            next(iter(source))
        here = threading.current_thread()
        assert reported == [("assigned", here), ("revoked", here)]


@pytest.mark.parametrize("pattern", [AutoCommit, AtMostOnce, AtLeastOnce])
def test_misuse_is_refused(pattern: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="group_id"):
        pattern("localhost:1", ["t"])
    with pytest.raises(ValueError, match="enable_auto_commit"):
        pattern("localhost:1", ["t"], group_id="g", enable_auto_commit=False)
    with pytest.raises(TypeError, match="one string"):
        pattern("localhost:1", "topic", group_id="g")
    closed = pattern("localhost:1", ["t"], group_id="g")
    with pytest.raises(ClosedError):
        next(iter(closed))
