"""Produces through confluent-kafka as fast as it can, and measures how fast that is.

The clock runs from the first produce to the end of flush(), and delivery reports are counted: there
must be one for every record, and no failure. A few records first warm up the connection, the
metadata and the topic. The load is as cheap as Python allows, because it takes processor time from
the broker: records are passed a thousand at a time, and the garbage collector is off. End offsets
confirm that every record was stored once, except with librdkafka's mock cluster, which only its own
process can reach.
"""

from __future__ import annotations

import gc
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from ..processes import run_load
from .admin import create_topics, end_offsets
from .job import serve_one_job

WARM_UP_RECORDS = 1000
_CHUNK_RECORDS = 1000
_QUEUED_RECORDS_MAX = 90_000  # librdkafka's queue takes 100,000
_FULL_QUEUE_WAIT_SECONDS = 0.001
_FAILURES_KEPT_MAX = 3
_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class ProduceJob:
    """What to produce.

    Attributes:
        bootstrap: the broker's ``HOST:PORT``; None starts librdkafka's mock cluster, which has to
            be in the load's own process.
        topic: created with `partitions` partitions before the clock runs, if `creates_topic`.
        records: how many are timed, besides `WARM_UP_RECORDS` before.
        value_bytes: the size of each value; there are no keys.
        settings: of the producer, beside librdkafka's defaults.
    """

    bootstrap: str | None
    topic: str
    records: int
    value_bytes: int
    partitions: int = 4  # what the mock cluster gives a topic
    creates_topic: bool = False
    settings: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Produced:
    """How long it took; `cpu_seconds` is the load's own processor time."""

    records: int
    seconds: float
    cpu_seconds: float

    @property
    def records_per_second(self) -> float:
        """Acknowledged records over the time to the last acknowledgement."""
        return self.records / self.seconds

    def megabytes_per_second(self, value_bytes: int) -> float:
        """The same in millions of bytes of values."""
        return self.records_per_second * value_bytes / 1e6


def produce(job: ProduceJob) -> Produced:
    """Do the job in a process of its own."""
    return Produced(**run_load("produce", asdict(job)))


def _work(job: ProduceJob) -> Produced:
    if job.creates_topic and job.bootstrap is not None:
        create_topics(job.bootstrap, [job.topic], job.partitions)
    delivered = 0
    failures: list[str] = []

    def on_report(error: KafkaError | None, _: Message) -> None:
        nonlocal delivered
        if error is None:
            delivered += 1
        elif len(failures) < _FAILURES_KEPT_MAX:
            failures.append(str(error))

    where: dict[str, Any] = (
        {"test.mock.num.brokers": 1, "log_level": 4}
        if job.bootstrap is None
        else {"bootstrap.servers": job.bootstrap}
    )
    producer = Producer({**where, "acks": 1, **job.settings})
    chunk: list[dict[str, Any]] = [{"value": b"x" * job.value_bytes}] * _CHUNK_RECORDS

    def send(records: int) -> None:
        left = records
        while left:
            while len(producer) > _QUEUED_RECORDS_MAX:
                producer.poll(_FULL_QUEUE_WAIT_SECONDS)
            messages = chunk if left >= _CHUNK_RECORDS else chunk[:left]
            left -= producer.produce_batch(job.topic, messages, on_delivery=on_report)
            producer.poll(0)
        producer.flush(_TIMEOUT_SECONDS)

    send(WARM_UP_RECORDS)
    gc.disable()
    started, cpu_started = time.perf_counter(), time.process_time()
    send(job.records)
    produced = Produced(
        job.records, time.perf_counter() - started, time.process_time() - cpu_started
    )
    if delivered != job.records + WARM_UP_RECORDS or failures:
        raise RuntimeError(f"{delivered} records delivered, failures: {failures}")
    if job.creates_topic and job.bootstrap is not None:
        _check_end_offsets(job, job.bootstrap)
    return produced


def _check_end_offsets(job: ProduceJob, bootstrap: str) -> None:
    ends = sum(end_offsets(bootstrap, [job.topic], job.partitions).values())
    if ends != job.records + WARM_UP_RECORDS:
        raise RuntimeError(f"sent {job.records + WARM_UP_RECORDS} records, the topic has {ends}")


if __name__ == "__main__":
    serve_one_job(ProduceJob, _work)
