"""Runs every delivery pattern with a worker that is killed again and again; see README.md."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Final

import trio
from rich.console import Console
from rich.table import Table

from minikafka import testing

from .crashes import PARTITIONS, Outcome, crash_workers, end_topic, fill_topic, finish, outcome_of
from .worker import PATTERNS, Job

MAY_LOSE: Final = {"at-most-once"}
MAY_REPEAT: Final = {"auto-commit", "at-least-once", "at-least-once-in-background"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=5_000, help="for each pattern")
    parser.add_argument("--crashes", type=int, default=5, help="for each pattern")
    parser.add_argument("--seed", type=int, default=7, help="for the times of the kills")
    arguments = parser.parse_args()
    logging.getLogger("minikafka_client").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="minikafka-patterns-") as directory:
        outcomes = trio.run(
            tell, Path(directory), arguments.records, arguments.crashes, Random(arguments.seed)
        )
    show(outcomes)
    return 0 if all(is_as_promised(pattern, each) for pattern, each in outcomes.items()) else 1


async def tell(directory: Path, records: int, crashes: int, dice: Random) -> dict[str, Outcome]:
    outcomes: dict[str, Outcome] = {}
    async with testing.broker(directory=directory) as broker:
        for pattern in PATTERNS:
            folder = directory / pattern
            folder.mkdir()
            job = Job(broker.bootstrap, pattern, PARTITIONS, folder)
            await fill_topic(job.bootstrap, job.topic, records)
            killed = await trio.to_thread.run_sync(
                crash_workers, pattern, job, records, crashes, dice
            )
            await end_topic(job.bootstrap, job.topic)
            await trio.to_thread.run_sync(finish, pattern, job)
            outcomes[pattern] = outcome_of(job, records, killed)
    return outcomes


def is_as_promised(pattern: str, outcome: Outcome) -> bool:
    """Whether the pattern lost or repeated only what it may."""
    return (pattern in MAY_LOSE or not outcome.lost) and (
        pattern in MAY_REPEAT or not outcome.repeated
    )


def show(outcomes: dict[str, Outcome]) -> None:
    table = Table("pattern", title="what crashes did")
    for column in ("records", "crashes", "lost", "repeated"):
        table.add_column(column, justify="right")
    for pattern, outcome in outcomes.items():
        counts = (outcome.records, outcome.crashes, outcome.lost, outcome.repeated)
        table.add_row(pattern, *(f"{count:,}" for count in counts))
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
