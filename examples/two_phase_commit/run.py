"""Kills a bank at each of its steps, and checks its books afterwards; see README.md."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import trio
from rich.console import Console
from rich.table import Table

from minikafka import testing
from minikafka_client import NewTopic, TopicPartition
from minikafka_client.sync import AdminClient, Consumer

from .bank import SIDES, STEPS, Books

DEATHS: Final = (
    *((f"{step}:2",) for step in STEPS[2:]),
    *((f"{step}:2", after) for step in ("prepared", "decided") for after in STEPS[:2]),
)
"""Where the processes of each bank are killed, one after another; the last one finishes."""


def run_bank(bootstrap: str, topic: str, database: Path, transfers: int, die_at: str) -> int:
    """Run the bank in a process of its own; return its exit code, -9 if it was killed."""
    command = [sys.executable, "-m", "examples.two_phase_commit.bank", bootstrap, topic]
    command += [str(database), str(transfers), "--die-at", die_at]
    return subprocess.run(command, check=False).returncode


def make_topic(bootstrap: str, topic: str) -> None:
    """Create a topic with a partition for each side of a transfer."""
    with AdminClient(bootstrap) as admin:
        admin.create_topics([NewTopic(topic, len(SIDES))])


def announced(bootstrap: str, topic: str, *, is_settled: bool = True) -> list[list[int]]:
    """The transfers that a read_committed consumer sees, by side.

    A commit is acknowledged before its markers are in all partitions, so this waits for them, up to
    the end of the log. While a transaction may be prepared (not `is_settled`), that could take
    forever; then it only reads up to the last stable offset.
    """
    where = [TopicPartition(topic, partition) for partition in range(len(SIDES))]
    numbers: list[list[int]] = [[] for _ in SIDES]
    with (
        Consumer(bootstrap) as uncommitted,
        Consumer(
            bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer,
    ):
        ends = (uncommitted if is_settled else consumer).end_offsets(where)
        consumer.assign(where)
        while any(consumer.position(each) < ends[each] for each in where):
            for record in consumer.poll(timeout_ms=100):
                numbers[record.partition].append(int(record.value or b""))
    return numbers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transfers", type=int, default=5, help="of each bank")
    transfers = parser.parse_args().transfers
    table = Table("killed at", "booked", "announced", "", title="a bank that is killed")
    with tempfile.TemporaryDirectory(prefix="minikafka-bank-") as directory:
        is_good = trio.run(tell, Path(directory), transfers, table)
    Console().print(table)
    return 0 if is_good else 1


async def tell(directory: Path, transfers: int, table: Table) -> bool:
    is_good = True
    kafka = testing.broker(directory=directory, transaction_two_phase_commit_enable=True)
    async with kafka as broker:
        for number, deaths in enumerate(DEATHS):
            topic, database = f"transfers-{number}", directory / f"bank-{number}.db"
            make_topic(broker.bootstrap, topic)
            for die_at in (*deaths, "never"):
                await trio.to_thread.run_sync(
                    run_bank, broker.bootstrap, topic, database, transfers, die_at
                )
            booked, seen = Books(database).transfers(), announced(broker.bootstrap, topic)
            is_same = seen == [booked, booked] == [list(range(transfers))] * 2
            is_good = is_good and is_same
            counts = " and ".join(str(len(side)) for side in seen)
            table.add_row(
                ", then ".join(deaths), str(len(booked)), counts, "good" if is_same else "WRONG"
            )
    return is_good


if __name__ == "__main__":
    sys.exit(main())
