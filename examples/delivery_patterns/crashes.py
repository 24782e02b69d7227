"""Fills a topic, kills its worker again and again, and counts what became of the records."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from selectors import EVENT_READ, DefaultSelector
from typing import IO, Final

from minikafka_client import AdminClient, NewTopic, Producer, ProducerRecord, TopicPartition
from minikafka_client.sync import Consumer as BlockingConsumer

from .worker import Job, results_topic_of

PARTITIONS: Final = 3
IDLE_S: Final = 30.0
"""A worker that is silent for this long has nothing left to do."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the records.

    Attributes:
        records: how many there were.
        crashes: how often the worker was killed.
        lost: records that were never processed.
        repeated: how often a record was processed again.
    """

    records: int
    crashes: int
    lost: int
    repeated: int


async def fill_topic(bootstrap: str, topic: str, records: int) -> None:
    """Create a topic of numbers from 0 on, spread over its partitions."""
    async with AdminClient(bootstrap) as admin:
        await admin.create_topics(
            [NewTopic(name, PARTITIONS) for name in (topic, results_topic_of(topic))]
        )
    async with Producer(bootstrap, batch_size=1_000) as producer:
        await producer.send_many(
            topic,
            [ProducerRecord(b"%d" % n, partition=n % PARTITIONS) for n in range(records)],
        )


async def end_topic(bootstrap: str, topic: str) -> None:
    """Tell the worker that there are no more records."""
    async with Producer(bootstrap) as producer:
        await producer.send_many(
            topic, [ProducerRecord(b"", partition=each) for each in range(PARTITIONS)]
        )


def crash_workers(pattern: str, job: Job, records: int, crashes: int, dice: Random) -> int:
    """Start and kill workers; return how many, which is fewer if nothing is left to do.

    The first one dies while it processes its first record; the others are killed from outside after
    they have processed some records.
    """
    with _start(pattern, job, die_at=1) as process:
        process.communicate()
    for crash in range(1, crashes):
        process = _start(pattern, job)
        assert process.stdout is not None
        quota = dice.randint(1, records // (2 * crashes))
        try:
            while quota > 0:
                if not _readable(process.stdout, IDLE_S):
                    return crash
                dots = os.read(process.stdout.fileno(), quota)
                if not dots:
                    raise RuntimeError(f"the worker exited with {process.wait()}")
                quota -= len(dots)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
    return crashes


def _readable(pipe: IO[bytes], seconds: float) -> bool:
    # Not select.select(), which refuses descriptors from 1,024 on.
    with DefaultSelector() as selector:
        selector.register(pipe, EVENT_READ)
        return bool(selector.select(seconds))


def finish(pattern: str, job: Job) -> None:
    """Let a worker process the rest."""
    with _start(pattern, job) as process:
        assert process.stdout is not None
        while process.stdout.read(65_536):
            pass
        if process.wait():
            raise RuntimeError(f"the worker exited with {process.returncode}")


def _start(pattern: str, job: Job, die_at: int = 0) -> subprocess.Popen[bytes]:
    words = [pattern, job.bootstrap, job.topic, str(job.partitions), str(job.folder)]
    words.append(f"--die-at={die_at}")
    return subprocess.Popen(
        [sys.executable, "-m", "examples.delivery_patterns.worker", *words],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )


def processed(job: Job) -> Counter[int]:
    """How often each number was processed."""
    if job.database_path.exists():
        with closing(sqlite3.connect(job.database_path)) as database:
            rows: list[tuple[int]] = database.execute("SELECT number FROM results").fetchall()
            return Counter(number for (number,) in rows)
    if job.results_path.exists():
        return Counter(map(int, job.results_path.read_text().split()))
    return Counter(_committed_numbers(job))


def _committed_numbers(job: Job) -> Iterator[int]:
    """What a read_committed consumer finds in the topic of results."""
    with BlockingConsumer(
        job.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        numbers = range(PARTITIONS)
        where = [TopicPartition(results_topic_of(job.topic), each) for each in numbers]
        ends = consumer.end_offsets(where)
        consumer.assign(where)
        while any(consumer.position(each) < ends[each] for each in where):
            for record in consumer.poll(timeout_ms=100):
                yield int(record.value or b"")


def outcome_of(job: Job, records: int, crashes: int) -> Outcome:
    times = processed(job)
    lost = sum(number not in times for number in range(records))
    return Outcome(records, crashes, lost, times.total() - len(times))
