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


class Books:
    """The database: transfers, and the Kafka transaction of the last one."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.executescript(
            """
            PRAGMA journal_mode = WAL;
            CREATE TABLE IF NOT EXISTS transfer (number INTEGER PRIMARY KEY);
            CREATE TABLE IF NOT EXISTS decision (
                transactional_id TEXT PRIMARY KEY, prepared TEXT NOT NULL
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

    def decide(self, prepared: PreparedTransactionState) -> None:
        """Decide to commit the prepared transaction; the one before it is complete."""
        self._database.execute(
            "INSERT OR REPLACE INTO decision VALUES (?, ?)", (TRANSACTIONAL_ID, str(prepared))
        )

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
        producer.complete_transaction(books.decided())
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
