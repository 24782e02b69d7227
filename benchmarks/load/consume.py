"""Consumes a topic from the start through confluent-kafka, and measures how fast that is.

The clock runs from assign() to the last record, without a group, over an open connection. Records
arrive in lists of up to 10,000 and are counted, but not touched; the garbage collector, which would
walk those lists again and again, is off.
"""

from __future__ import annotations

import gc
import time
from dataclasses import asdict, dataclass
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from ..processes import LoadProcess
from .job import serve_one_job

# With its defaults librdkafka stops fetching for a second whenever its queue is full.
SETTINGS: dict[str, Any] = {
    "fetch.message.max.bytes": 10_000_000,
    "fetch.queue.backoff.ms": 2,
    "queued.min.messages": 2_000_000,
    "enable.auto.commit": False,
}
_RECORDS_PER_CALL_MAX = 10_000
_SILENCE_SECONDS_MAX = 30.0


@dataclass(frozen=True, kw_only=True)
class ConsumeJob:
    """What to consume: `records` records of all partitions of a topic, `passes` times."""

    bootstrap: str
    topic: str
    partitions: int
    records: int
    passes: int = 1


@dataclass(frozen=True)
class Consumed:
    """How long all passes took; `cpu_seconds` is the load's own processor time."""

    records: int
    seconds: float
    cpu_seconds: float

    @property
    def records_per_second(self) -> float:
        """Records over the time to the last one."""
        return self.records / self.seconds


def consume(job: ConsumeJob) -> Consumed:
    """Do the job in a process of its own."""
    return Consumed(**start(job).finish())


def start(job: ConsumeJob) -> LoadProcess:
    """Start the job in a process of its own, without waiting."""
    return LoadProcess("consume", asdict(job))


def _work(job: ConsumeJob) -> Consumed:
    consumer = Consumer({"bootstrap.servers": job.bootstrap, "group.id": "unused", **SETTINGS})
    consumer.list_topics(job.topic, timeout=_SILENCE_SECONDS_MAX)
    gc.disable()
    started, cpu_started = time.perf_counter(), time.process_time()
    for _ in range(job.passes):
        _read_all(consumer, job)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    consumer.close()
    return Consumed(job.records * job.passes, seconds, cpu_seconds)


def _read_all(consumer: Consumer, job: ConsumeJob) -> None:
    starts = [
        TopicPartition(job.topic, partition, OFFSET_BEGINNING)
        for partition in range(job.partitions)
    ]
    consumer.assign(starts)
    seen = 0
    while seen < job.records:
        # The call returns when it has all it was asked for: more than there are, and it waits.
        wanted = min(_RECORDS_PER_CALL_MAX, job.records - seen)
        messages = consumer.consume(wanted, _SILENCE_SECONDS_MAX)
        if not messages:
            raise RuntimeError(
                f"{seen} of {job.records} records came, then none for {_SILENCE_SECONDS_MAX} s"
            )
        failure = messages[0].error()
        if failure is not None:
            raise RuntimeError(f"after {seen} records: {failure}")
        seen += len(messages)
    # The position of a partition without a record is -1001, librdkafka's for "unknown".
    ends = sum(max(0, one.offset) for one in consumer.position(starts))
    if seen != job.records or ends != job.records:
        raise RuntimeError(f"read {seen} records up to offsets {ends}, not {job.records}")


if __name__ == "__main__":
    serve_one_job(ConsumeJob, _work)
