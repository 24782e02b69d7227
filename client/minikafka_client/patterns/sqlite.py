"""SQLite for the delivery patterns: offsets beside results, and records that are written once.

    database = sqlite3.connect("results.db")
    offsets = SqliteOffsets(database)
    async with ExactlyOnceInto(offsets, "localhost:9092", ["orders"], group_id="g") as source:
        async for batch in source:
            for record in batch.records:
                database.execute("UPDATE ...", ...)

With SQLite's defaults, both survive the end of the process and a power failure.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from minikafka_client.types import ConsumerRecord, TopicPartition


class SqliteOffsets:
    """An `OffsetStore`: a table of offsets, in the database that gets the results.

    Inside a batch, do not commit or roll back the connection yourself, and do not run
    ``executescript`` (it commits).

    While a transaction is open, other processes that write to the database wait, up to their
    connection's ``timeout``, and their event loops with them: keep batches short
    (``max_partition_fetch_bytes``).

    Args:
        database: the connection that the results are written with.
        table: created if it does not exist.
    """

    def __init__(self, database: sqlite3.Connection, table: str = "kafka_offsets") -> None:
        self._database = database
        self._table = quoted(table)
        database.execute(
            f"CREATE TABLE IF NOT EXISTS {self._table} (group_id TEXT, topic TEXT, "
            f"partition INTEGER, next_offset INTEGER NOT NULL, "
            f"PRIMARY KEY (group_id, topic, partition)) WITHOUT ROWID"
        )

    def stored_offsets(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return the next offset of each of these partitions; those without one are left out."""
        found = {partition: self._stored(group_id, partition) for partition in partitions}
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def _stored(self, group_id: str, partition: TopicPartition) -> int | None:
        row: tuple[int] | None = self._database.execute(
            f"SELECT next_offset FROM {self._table} "
            f"WHERE group_id = ? AND topic = ? AND partition = ?",
            (group_id, *partition),
        ).fetchone()
        return None if row is None else row[0]

    def begin(
        self, group_id: str, partition: TopicPartition, expected: int | None, next_offset: int
    ) -> bool:
        """Open a transaction that moves an offset, if the stored one is as expected.

        Raises:
            sqlite3.OperationalError: another process keeps the database locked.
        """
        self._database.execute("BEGIN IMMEDIATE")
        try:
            if self._stored(group_id, partition) != expected:
                self._database.rollback()
                return False
            self._database.execute(
                f"REPLACE INTO {self._table} VALUES (?, ?, ?, ?)",
                (group_id, *partition, next_offset),
            )
        except BaseException:
            self._database.rollback()
            raise
        return True

    def commit(self) -> None:
        """End the transaction.

        Raises:
            RuntimeError: something else ended it.
        """
        if not self._database.in_transaction:
            raise RuntimeError(
                "something else ended the batch's transaction: leave commit, rollback and "
                "executescript to ExactlyOnceInto"
            )
        self._database.commit()

    def roll_back(self) -> None:
        """Undo the transaction, if one is open."""
        self._database.rollback()


class RecordTable:
    """A table with a row for each record: writing a record again replaces its own row.

    With `AtLeastOnce`, a record that arrives twice then has one result:

        async with AtLeastOnce("localhost:9092", ["orders"], group_id="g") as records:
            async for record in records:
                with database:
                    table.upsert(record, amount=amount_of(record))

    The transaction must be over before the next record is asked for. A row must depend on its
    record alone; for sums and the like use `ExactlyOnceInto`.

    Args:
        database: a connection.
        table: created if it does not exist, with the columns topic, partition, offset, and ...
        columns: ... these names and types, e.g. ``{"amount": "INTEGER"}``.
    """

    def __init__(
        self, database: sqlite3.Connection, table: str, columns: Mapping[str, str]
    ) -> None:
        self._database = database
        self._columns = list(columns)
        names = ["topic", "partition", "offset", *columns]
        kinds = ["TEXT", "INTEGER", "INTEGER", *columns.values()]
        described = ", ".join(
            f"{quoted(name)} {kind}" for name, kind in zip(names, kinds, strict=True)
        )
        database.execute(
            f"CREATE TABLE IF NOT EXISTS {quoted(table)} ({described}, "
            f"PRIMARY KEY (topic, partition, offset))"
        )
        self._upsert = (
            f"REPLACE INTO {quoted(table)} ({', '.join(map(quoted, names))}) "
            f"VALUES ({', '.join('?' for _ in names)})"
        )

    def upsert(self, record: ConsumerRecord[Any, Any], **values: object) -> None:
        """Write a record's row, for the first time or again.

        Raises:
            ValueError: a column is missing, or there is no such column.
        """
        self._check(values)
        self._database.execute(
            self._upsert,
            (
                record.topic,
                record.partition,
                record.offset,
                *(values[name] for name in self._columns),
            ),
        )

    def _check(self, names: Iterable[str]) -> None:
        different = set(names) ^ set(self._columns)
        if different:
            raise ValueError(
                f"a row has the columns {self._columns}; too many or missing: {sorted(different)}"
            )


def quoted(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'
