"""A database of the consumer's: rows, positions and decisions, changed in atomic transactions.

A transaction here is one plain call: all of it happens, or nothing.
"""

from __future__ import annotations

from minikafka.lab.simulation.programs.journal import Journal

LANE = "database"


class Database:
    """See the module's text.

    Attributes:
        rows: results, by key where they replace each other.
        positions: where to read on, by partition.
        owners: the token of who may write, by partition.
        decided: the Kafka transaction that is to be committed, by partition.
        batches: a Spark query's checkpoint: first and next offset of each batch, by partition.
        batches_done: how many of them are done.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.rows: list[str] = []
        self.by_key: dict[tuple[int, int], str] = {}
        self.positions: dict[int, int] = {}
        self.owners: dict[int, int] = {}
        self.decided: dict[int, tuple[int, int]] = {}
        self.batches: list[dict[int, tuple[int, int]]] = []
        self.batches_done = 0

    def position(self, number: int) -> int:
        return self.positions.get(number, 0)

    def batch_end(self, number: int) -> int:
        """Where the next batch begins in a partition."""
        return self.batches[-1][number][1] if self.batches else 0

    def store(self, number: int, before: int, after: int, values: list[str]) -> bool:
        """Store results and position, if the position is still the one that they began at."""
        if self.position(number) != before:
            text = f"refuses results from {before} on: partition {number} is at another position"
            self._journal.event(LANE, "refuse", text)
            return False
        self._store(number, after, values)
        return True

    def _store(self, number: int, after: int, values: list[str]) -> None:
        self.rows += values
        self.positions[number] = after
        text = f"stores {', '.join(values)} and position {after} of partition {number}"
        self._journal.event(LANE, "commit", text, committed=after)

    def upsert(self, number: int, offset: int, value: str) -> None:
        """Insert or replace the row of a record."""
        self.by_key[number, offset] = value
        self._journal.event(LANE, "process", f"has a row for {value}", value)

    def claim(self, number: int) -> int:
        """Become the one that may decide about a partition; returns a token."""
        self.owners[number] = self.owners.get(number, 0) + 1
        return self.owners[number]

    def decide(
        self, number: int, token: int, after: int, values: list[str], prepared: tuple[int, int]
    ) -> bool:
        """Store results, position, and that a prepared transaction is to be committed."""
        if self.owners[number] != token:
            text = f"refuses a decision about partition {number}: another one owns it"
            self._journal.event(LANE, "refuse", text)
            return False
        self._store(number, after, values)
        self.decided[number] = prepared
        return True
