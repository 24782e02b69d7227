"""A bank that books transfers in SQLite, announces them in Kafka, and can be killed anywhere."""

from __future__ import annotations

import argparse
import os
import signal
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from minikafka_client import PreparedTransactionState
from minikafka_client.sync import Producer

TRANSACTIONAL_ID: Final = "bank"
SIDES: Final = (b"from", b"to")
"""Each transfer is announced twice: in the payer's partition and in the payee's."""

STEPS: Final = (
    "recovering",
    "recovered",
    "sent",
    "prepared",
    "booked",
    "decided",
    "completed",
)
"""Where it can be killed, in order; up to "booked", a transfer has not happened."""


class FencedError(RuntimeError):
    """Another process has taken over the books."""


class Books:
    """The database: transfers, and the Kafka transaction of the last one.

    Each process that takes over the books gets a generation. The database refuses the decisions of
    earlier ones, which Kafka cannot do: it does not see them.
    """

    def __init__(self, path: Path) -> None:
        self._generation = 0
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.executescript(
            """
            PRAGMA journal_mode = WAL;
            CREATE TABLE IF NOT EXISTS transfer (number INTEGER PRIMARY KEY);
            CREATE TABLE IF NOT EXISTS decision (
                transactional_id TEXT PRIMARY KEY,
                prepared TEXT NOT NULL,
                generation INTEGER NOT NULL
            );
            """
        )

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Changes in the block are committed together when it ends, or not at all."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def transfers(self) -> list[int]:
        """The booked transfers, in order."""
        rows = self._database.execute("SELECT number FROM transfer ORDER BY number")
        return [number for (number,) in rows]

    def book(self, number: int) -> None:
        """Book a transfer."""
        self._database.execute("INSERT INTO transfer VALUES (?)", (number,))

    def take_over(self) -> PreparedTransactionState:
        """Fence all processes that took over before; return the decision that stands.

        Both happen in one statement, so no decision can come between them.
        """
        row: tuple[str, int]
        [row] = self._database.execute(
            """
            INSERT INTO decision VALUES (?, '', 1)
            ON CONFLICT DO UPDATE SET generation = generation + 1
            RETURNING prepared, generation
            """,
            (TRANSACTIONAL_ID,),
        ).fetchall()
        prepared, self._generation = row
        return PreparedTransactionState.parse(prepared)

    def decide(self, prepared: PreparedTransactionState) -> None:
        """Decide to commit the prepared transaction; the one before it is complete.

        Raises:
            FencedError: another process has taken over since.
        """
        changed = self._database.execute(
            "UPDATE decision SET prepared = ? WHERE transactional_id = ? AND generation = ?",
            (str(prepared), TRANSACTIONAL_ID, self._generation),
        )
        if not changed.rowcount:
            raise FencedError(f"generation {self._generation} of {TRANSACTIONAL_ID!r} is fenced")

    def decided(self) -> PreparedTransactionState:
        """The prepared transaction that is to be committed; empty at first."""
        query = "SELECT prepared FROM decision WHERE transactional_id = ?"
        row: tuple[str] | None = self._database.execute(query, (TRANSACTIONAL_ID,)).fetchone()
        return PreparedTransactionState.parse(row[0] if row else "")


def work(
    bootstrap: str, topic: str, books: Books, transfers: int, step: Callable[[str], None]
) -> None:
    """Make transfers until there are this many, calling ``step`` at each step."""
    with Producer(
        bootstrap, transactional_id=TRANSACTIONAL_ID, transaction_two_phase_commit_enable=True
    ) as producer:
        step("recovering")
        # The producer has fenced its predecessor in Kafka: no transaction of it can be prepared
        # after the decision is read here.
        producer.complete_transaction(books.take_over())
        step("recovered")
        for number in range(len(books.transfers()), transfers):
            with producer.transaction() as transaction:
                for partition, side in enumerate(SIDES):
                    producer.send(topic, b"%d" % number, side, partition=partition)
                step("sent")
                prepared = transaction.prepare()
            step("prepared")
            with books.transaction():
                books.book(number)
                books.decide(prepared)
                step("booked")
            step("decided")
            producer.complete_transaction(books.decided())
            step("completed")


def death(where: str) -> Callable[[str], None]:
    """A ``step`` that kills the process when it reaches STEP for the COUNT-th time."""
    name, _, count = where.partition(":")
    left = int(count or 1)

    def step(reached: str) -> None:
        nonlocal left
        left -= reached == name
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap", help="HOST:PORT of a broker")
    parser.add_argument("topic", help="with two partitions")
    parser.add_argument("database", type=Path)
    parser.add_argument("transfers", type=int)
    parser.add_argument("--die-at", default="never", help="STEP:COUNT")
    arguments = parser.parse_args()
    work(
        arguments.bootstrap,
        arguments.topic,
        Books(arguments.database),
        arguments.transfers,
        death(arguments.die_at),
    )


if __name__ == "__main__":
    main()
