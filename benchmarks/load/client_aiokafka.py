"""aiokafka at work, record by record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from .client_job import (
    WARM_UP_RECORDS,
    ClientJob,
    ClientOutcome,
    Clock,
    check_consumed,
    check_delivered,
    chunks,
    serve_client,
)

# The defaults of our client; aiokafka's are 16 KiB and none.
_AS_OURS: dict[str, Any] = {"max_batch_size": 256 * 1024, "linger_ms": 5}


async def _warm_up(producer: Any, job: ClientJob) -> None:
    for values in chunks(job, WARM_UP_RECORDS):
        for future in [await producer.send(job.topic, value) for value in values]:
            await future


async def _produce(job: ClientJob, **settings: Any) -> ClientOutcome:
    """The future of every record is kept, and checked after the flush."""
    producer: Any = AIOKafkaProducer(bootstrap_servers=job.bootstrap, acks="all", **settings)
    await producer.start()
    await _warm_up(producer, job)
    work, topic, send = chunks(job, job.records), job.topic, producer.send
    clock = Clock()
    futures: list[Any] = []
    for values in work:
        for value in values:
            futures.append(await send(topic, value))  # noqa: PERF401 - the same loop for everyone
    await producer.flush()
    failures = [future.exception() for future in futures if future.exception() is not None]
    outcome = clock.stop(job.records)
    check_delivered(job, len(futures), failures)
    await producer.stop()
    return outcome


async def _round_trips(job: ClientJob) -> ClientOutcome:
    producer: Any = AIOKafkaProducer(bootstrap_servers=job.bootstrap, acks=1)
    await producer.start()
    await _warm_up(producer, job)
    clock, now, latencies = Clock(), time.perf_counter, list[float]()
    for values in chunks(job, job.records):
        for value in values:
            started = now()
            await producer.send_and_wait(job.topic, value)
            latencies.append(now() - started)
    outcome = clock.stop(job.records, latencies)
    await producer.stop()
    return outcome


async def _consume(job: ClientJob) -> ClientOutcome:
    consumer: Any = AIOKafkaConsumer(
        bootstrap_servers=job.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    )
    await consumer.start()
    partitions = [TopicPartition(job.topic, index) for index in range(job.partitions)]
    await consumer.end_offsets(partitions)
    clock = Clock()
    consumer.assign(partitions)
    left, size_bytes = job.records, 0
    async for record in consumer:
        size_bytes += len(record.value)
        left -= 1
        if not left:
            break
    outcome = clock.stop(job.records)
    await consumer.stop()
    check_consumed(job, job.records - left, size_bytes)
    return outcome


async def _outcome(
    work: Callable[[ClientJob], Awaitable[ClientOutcome]], job: ClientJob
) -> ClientOutcome:
    return await work(job)


def _run(work: Callable[[ClientJob], Awaitable[ClientOutcome]], job: ClientJob) -> ClientOutcome:
    return asyncio.run(_outcome(work, job))


if __name__ == "__main__":
    serve_client(
        {
            "produce": partial(_run, _produce),
            "produce as ours": partial(_run, partial(_produce, **_AS_OURS)),
            "round trips": partial(_run, _round_trips),
            "consume": partial(_run, _consume),
        }
    )
