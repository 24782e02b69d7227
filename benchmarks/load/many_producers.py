"""Produces through one or many confluent-kafka producers at once, as fast as they can.

All of them are in this process; each has connections and threads of its own. The load is as cheap
as Python allows: a thousand records per call, no delivery reports, the garbage collector off. So
the runner has to compare the end offsets with the number of records.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, field
from typing import Any

from .job import serve_one_job

WARM_UP_RECORDS = 100
"""Of each producer, before the clock runs."""
_CHUNK_RECORDS = 1000
_QUEUED_RECORDS_MAX = 90_000  # librdkafka's queue takes 100,000
_QUEUED_BYTES_MAX = 200_000_000
_FULL_QUEUES_WAIT_SECONDS = 0.001
_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class ManyJob:
    """What to produce.

    Attributes:
        bootstrap: the brokers.
        topic: an existing one.
        producers: how many.
        records: of all producers together, besides `WARM_UP_RECORDS` of each.
        value_bytes: the size of each value; there are no keys.
        settings: of the producers, beside librdkafka's defaults.
    """

    bootstrap: str
    topic: str
    producers: int
    records: int
    value_bytes: int
    settings: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class ManyProduced:
    """How long it took; `cpu_seconds` is the load's own processor time."""

    records: int
    seconds: float
    cpu_seconds: float


def _work(job: ManyJob) -> ManyProduced:
    from confluent_kafka import Producer

    producers: list[Any] = [
        Producer({"bootstrap.servers": job.bootstrap, **job.settings}) for _ in range(job.producers)
    ]
    chunk = [{"value": b"x" * job.value_bytes}] * _CHUNK_RECORDS
    for producer in producers:
        producer.produce_batch(job.topic, chunk[:WARM_UP_RECORDS])
    _flush(producers)
    gc.disable()
    started, cpu_started = time.perf_counter(), time.process_time()
    _send(job, producers, chunk)
    _flush(producers)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    return ManyProduced(job.records, seconds, cpu_seconds)


def _send(job: ManyJob, producers: list[Any], chunk: list[dict[str, Any]]) -> None:
    """Give every producer its share, a chunk at a time by turns."""
    whole, rest = divmod(job.records, len(producers))
    left = [whole + (number < rest) for number in range(len(producers))]
    queued_max = min(_QUEUED_RECORDS_MAX, _QUEUED_BYTES_MAX // job.value_bytes // len(producers))
    while any(left):
        is_stuck = True
        for number, producer in enumerate(producers):
            if left[number] and len(producer) < queued_max:
                records = min(left[number], _CHUNK_RECORDS)
                messages = chunk if records == _CHUNK_RECORDS else chunk[:records]
                left[number] -= producer.produce_batch(job.topic, messages)
                producer.poll(0)
                is_stuck = False
        if is_stuck:
            producers[0].poll(_FULL_QUEUES_WAIT_SECONDS)


def _flush(producers: list[Any]) -> None:
    for producer in producers:
        left = producer.flush(_TIMEOUT_SECONDS)
        if left:
            raise RuntimeError(f"{left} records were not delivered in {_TIMEOUT_SECONDS:g} s")


if __name__ == "__main__":
    serve_one_job(ManyJob, _work)
