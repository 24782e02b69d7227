"""Offsets and records in SQLite, without a broker."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka_client import ConsumerRecord, TopicPartition
from minikafka_client.patterns.sqlite import RecordTable, SqliteOffsets, quoted

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def database(tmp_path: Path) -> Generator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "results.db")) as connection:
        connection.execute("CREATE TABLE results (value INTEGER)")
        yield connection


@pytest.fixture
def offsets(database: sqlite3.Connection) -> SqliteOffsets:
    return SqliteOffsets(database)


def results(database: sqlite3.Connection) -> list[int]:
    return [value for (value,) in database.execute("SELECT value FROM results ORDER BY value")]


def test_offset_and_results_are_committed_together(
    database: sqlite3.Connection, offsets: SqliteOffsets, tmp_path: Path
) -> None:
    assert offsets.begin("g", ONE, None, 5)
    database.execute("INSERT INTO results VALUES (1)")
    with closing(sqlite3.connect(tmp_path / "results.db")) as other:
        assert SqliteOffsets(other).stored_offsets("g", [ONE]) == {}
        assert results(other) == []
        offsets.commit()
        assert SqliteOffsets(other).stored_offsets("g", [ONE, OTHER]) == {ONE: 5}
        assert results(other) == [1]


def test_neither_is_there_after_a_roll_back(
    database: sqlite3.Connection, offsets: SqliteOffsets
) -> None:
    assert offsets.begin("g", ONE, None, 5)
    database.execute("INSERT INTO results VALUES (1)")
    offsets.roll_back()
    assert offsets.stored_offsets("g", [ONE]) == {}
    assert results(database) == []
    offsets.roll_back()  # nothing is open
    assert not database.in_transaction


def test_groups_topics_and_partitions_are_apart(offsets: SqliteOffsets) -> None:
    places = [("g", ONE), ("g", OTHER), ("h", ONE), ("g", TopicPartition("u", 0))]
    for number, (group, partition) in enumerate(places):
        assert offsets.begin(group, partition, None, number)
        offsets.commit()
    for number, (group, partition) in enumerate(places):
        assert offsets.stored_offsets(group, [partition]) == {partition: number}


@pytest.mark.parametrize("expected", [None, 4, 6])
def test_an_offset_that_another_has_moved_is_not_moved(
    database: sqlite3.Connection, offsets: SqliteOffsets, expected: int | None
) -> None:
    assert offsets.begin("g", ONE, None, 5)
    offsets.commit()
    assert not offsets.begin("g", ONE, expected, 7)
    assert not database.in_transaction
    assert offsets.stored_offsets("g", [ONE]) == {ONE: 5}
    assert offsets.begin("g", ONE, 5, 7)
    offsets.commit()
    assert offsets.stored_offsets("g", [ONE]) == {ONE: 7}


def test_two_processes_do_not_move_an_offset_at_the_same_time(
    offsets: SqliteOffsets, tmp_path: Path
) -> None:
    assert offsets.begin("g", ONE, None, 5)
    with closing(sqlite3.connect(tmp_path / "results.db", timeout=0)) as other:
        rival = SqliteOffsets(other)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            rival.begin("g", ONE, None, 5)
        offsets.commit()
        assert not rival.begin("g", ONE, None, 5)


def test_a_transaction_that_was_ended_by_others_is_noticed(
    database: sqlite3.Connection, offsets: SqliteOffsets
) -> None:
    assert offsets.begin("g", ONE, None, 5)
    database.commit()
    with pytest.raises(RuntimeError, match="leave commit"):
        offsets.commit()


def test_a_database_that_cannot_be_written_is_left_without_a_transaction(
    database: sqlite3.Connection, offsets: SqliteOffsets
) -> None:
    database.execute(
        "CREATE TRIGGER full BEFORE INSERT ON kafka_offsets BEGIN SELECT RAISE(ABORT, 'full'); END"
    )
    with pytest.raises(sqlite3.IntegrityError, match="full"):
        offsets.begin("g", ONE, None, 5)
    assert not database.in_transaction


def record(offset: int, partition: int = 0) -> ConsumerRecord:
    return ConsumerRecord("t", partition, offset, 0, None, b"v", ())


def test_a_record_that_is_written_twice_is_there_once(database: sqlite3.Connection) -> None:
    table = RecordTable(database, "payments", {"amount": "INTEGER", "of": "TEXT"})
    for amount in (1, 2):
        table.upsert(record(7), amount=amount, of="a")
    table.upsert(record(7, partition=1), amount=3, of="b")
    table.upsert(record(8), of="c", amount=4)
    rows = database.execute("SELECT * FROM payments ORDER BY amount").fetchall()
    assert rows == [("t", 0, 7, 2, "a"), ("t", 1, 7, 3, "b"), ("t", 0, 8, 4, "c")]


@pytest.mark.parametrize("values", [{}, {"amount": 1, "more": 2}, {"more": 2}])
def test_a_row_must_have_its_columns(
    database: sqlite3.Connection, values: dict[str, object]
) -> None:
    table = RecordTable(database, "payments", {"amount": "INTEGER"})
    with pytest.raises(ValueError, match="amount"):
        table.upsert(record(7), **values)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_any_name_can_be_quoted(name: str) -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        table = RecordTable(database, name, {"value": "TEXT"})
        table.upsert(record(1), value="v")
        assert database.execute(f"SELECT value FROM {quoted(name)}").fetchall() == [("v",)]
