"""A program that consumes with one of the delivery patterns, and can be killed at any point.

It notes the number in each record: in a file (which cannot be undone), in a database, or in another
topic. It prints a dot for each record, and ends once every partition has had an empty record.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import trio

from minikafka_client import ConsumerRecord
from minikafka_client.patterns import (
    AtLeastOnce,
    AtMostOnce,
    AutoCommit,
    ConsumeTransformProduce,
    ExactlyOnceInto,
)
from minikafka_client.patterns.sqlite import RecordTable, SqliteOffsets

# A static member: when it restarts, it rejoins without waiting for its session to time out.
MEMBER: Final = "worker"
PORTION: Final = 100
"""Records between commits."""
BATCH_SIZE_BYTES: Final = 1_000
"""About a hundred records, which are committed together."""
STDOUT: Final = 1


@dataclass
class Job:
    """What to read, and where to put the results.

    The worker kills itself while it processes its ``die_at``-th record.
    """

    bootstrap: str
    topic: str
    partitions: int
    folder: Path
    die_at: int = 0
    processed: int = 0
    _ended: set[int] = field(default_factory=set[int])

    @property
    def results_path(self) -> Path:
        """A line for each processed record, for patterns without transactions."""
        return self.folder / "results.txt"

    @property
    def database_path(self) -> Path:
        """A row for each processed record, for patterns with a database."""
        return self.folder / "results.db"

    def is_last(self, record: ConsumerRecord) -> bool:
        """Whether this record is the last one of the last partition."""
        if not record.value:
            self._ended.add(record.partition)
        return len(self._ended) == self.partitions


def results_topic_of(topic: str) -> str:
    """The topic with a record for each processed one, for the pattern with Kafka transactions."""
    return f"{topic}-results"


async def work(job: Job, record: ConsumerRecord) -> None:
    """Work on a record, and report that it is processed."""
    assert record.value is not None
    hashlib.pbkdf2_hmac("sha256", record.value, b"", 100)
    os.write(STDOUT, b".")
    job.processed += 1
    if job.processed == job.die_at:
        os.kill(os.getpid(), signal.SIGKILL)
    await trio.lowlevel.checkpoint()


class Notes:
    """The file; a note is in it as soon as it is made."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def process(self, job: Job, record: ConsumerRecord) -> None:
        """Note a record's number, and work on it."""
        if record.value:
            os.write(self._file, record.value + b"\n")
            await work(job, record)


async def auto_commit(job: Job) -> None:
    notes = Notes(job.results_path)
    async with AutoCommit(
        job.bootstrap,
        [job.topic],
        group_id=job.topic,
        group_instance_id=MEMBER,
        auto_commit_interval_ms=50,
    ) as records:
        async for record in records:
            await notes.process(job, record)
            if job.is_last(record):
                break


async def at_most_once(job: Job) -> None:
    notes = Notes(job.results_path)
    async with AtMostOnce(
        job.bootstrap,
        [job.topic],
        group_id=job.topic,
        group_instance_id=MEMBER,
        auto_offset_reset="earliest",
        max_records=PORTION,
    ) as records:
        async for record in records:
            await notes.process(job, record)
            if job.is_last(record):
                break


async def at_least_once(job: Job) -> None:
    notes = Notes(job.results_path)
    async with AtLeastOnce(
        job.bootstrap,
        [job.topic],
        group_id=job.topic,
        group_instance_id=MEMBER,
        max_records=PORTION,
    ) as records:
        async for record in records:
            await notes.process(job, record)
            if job.is_last(record):
                break


async def at_least_once_in_background(job: Job) -> None:
    notes = Notes(job.results_path)
    async with AtLeastOnce(
        job.bootstrap,
        [job.topic],
        group_id=job.topic,
        group_instance_id=MEMBER,
        max_records=PORTION,
        in_background=True,
    ) as records:
        async for record in records:
            await notes.process(job, record)
            if job.is_last(record):
                break


async def at_least_once_upserting(job: Job) -> None:
    database = sqlite3.connect(job.database_path)
    table = RecordTable(database, "results", {"number": "INTEGER"})
    async with AtLeastOnce(
        job.bootstrap,
        [job.topic],
        group_id=job.topic,
        group_instance_id=MEMBER,
        max_partition_fetch_bytes=BATCH_SIZE_BYTES,
    ) as source:
        async for batch in source.batches():
            is_over = False
            with database:
                for record in batch.records:
                    is_over = job.is_last(record)
                    if record.value:
                        table.upsert(record, number=int(record.value))
                        await work(job, record)
            if is_over:
                break


async def exactly_once(job: Job) -> None:
    database = sqlite3.connect(job.database_path)
    database.execute("CREATE TABLE IF NOT EXISTS results (number INTEGER)")
    async with ExactlyOnceInto(
        SqliteOffsets(database),
        job.bootstrap,
        [job.topic],
        group_id=job.topic,
        group_instance_id=MEMBER,
        max_partition_fetch_bytes=BATCH_SIZE_BYTES,
    ) as source:
        async for batch in source:
            is_over = False
            for record in batch.records:
                is_over = job.is_last(record)
                if record.value:
                    database.execute("INSERT INTO results VALUES (?)", (int(record.value),))
                    await work(job, record)
            if is_over:
                break


async def consume_transform_produce(job: Job) -> None:
    async with ConsumeTransformProduce(
        job.bootstrap,
        [job.topic],
        group_id=job.topic,
        group_instance_id=MEMBER,
        transactional_id=job.topic,
        max_records=PORTION,
    ) as source:
        async for batch in source:
            is_over = False
            for record in batch.records:
                is_over = job.is_last(record)
                if record.value:
                    await batch.send(results_topic_of(job.topic), record.value)
                    await work(job, record)
            if is_over:
                break


PATTERNS: Final[dict[str, Callable[[Job], Awaitable[None]]]] = {
    "auto-commit": auto_commit,
    "at-most-once": at_most_once,
    "at-least-once": at_least_once,
    "at-least-once-in-background": at_least_once_in_background,
    "at-least-once-upserting": at_least_once_upserting,
    "exactly-once": exactly_once,
    "consume-transform-produce": consume_transform_produce,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", choices=PATTERNS)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("partitions", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--die-at", type=int, default=0)
    words = vars(parser.parse_args())
    trio.run(PATTERNS[words.pop("pattern")], Job(**words))


if __name__ == "__main__":
    main()
