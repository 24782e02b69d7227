"""Creates many partitions, writes a record to each, and checks their end offsets."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

from confluent_kafka import KafkaError, Message, Producer

from ..processes import run_load
from .admin import create_topics, end_offsets
from .job import serve_one_job

_TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class PartitionsJob:
    """Work on ``topics`` topics of ``partitions`` partitions each.

    Attributes:
        creates: create the topics first.
        expected_records: how many records each partition must have before; None for no check.
    """

    bootstrap: str
    topics: int
    partitions: int
    creates: bool
    expected_records: int | None = None


@dataclass(frozen=True)
class Filled:
    """How long it took to create the topics, and to produce to every partition."""

    create_seconds: float
    produce_seconds: float


def fill_partitions(job: PartitionsJob) -> Filled:
    """Do the job in a process of its own."""
    return Filled(**run_load("partitions", asdict(job)))


def _work(job: PartitionsJob) -> Filled:
    names = [f"topic-{number}" for number in range(job.topics)]
    started = time.perf_counter()
    if job.creates:
        create_topics(job.bootstrap, names, job.partitions)
    created = time.perf_counter()
    if job.expected_records is not None:
        _check_ends(job, names, job.expected_records)
    produce_started = time.perf_counter()
    _produce_to_each(job, names)
    return Filled(created - started, time.perf_counter() - produce_started)


def _check_ends(job: PartitionsJob, names: list[str], expected: int) -> None:
    ends = end_offsets(job.bootstrap, names, job.partitions)
    wrong = [(where, end) for where, end in ends.items() if end != expected]
    if wrong or len(ends) != len(names) * job.partitions:
        raise RuntimeError(
            f"{len(wrong)} of {len(ends)} partitions do not end at {expected}: {wrong[:3]}"
        )


def _produce_to_each(job: PartitionsJob, names: list[str]) -> None:
    failures: list[str] = []

    def on_failure(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(str(error))

    producer = Producer(
        {"bootstrap.servers": job.bootstrap, "acks": 1, "delivery.report.only.error": True}
    )
    for name in names:
        for partition in range(job.partitions):
            producer.produce(name, b"x" * 100, partition=partition, on_delivery=on_failure)
        producer.poll(0)
    unsent = producer.flush(_TIMEOUT_SECONDS)
    if unsent or failures:
        raise RuntimeError(f"{unsent} records unsent, {len(failures)} failed: {failures[:3]}")


if __name__ == "__main__":
    serve_one_job(PartitionsJob, _work)
