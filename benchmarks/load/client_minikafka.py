"""Our own client at work, with its defaults unless a job says otherwise."""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Literal

import trio

from minikafka_client import BufferFullError, Consumer, Delivery, Producer, TopicPartition
from minikafka_client.sync import Writer

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


async def _warm_up(producer: Producer, job: ClientJob) -> None:
    for values in chunks(job, WARM_UP_RECORDS):
        await (await producer.send_many(job.topic, values))


async def _send_nowait(job: ClientJob) -> ClientOutcome:
    """Every handle is kept, and checked after the flush; the clock runs until then."""
    async with Producer(job.bootstrap) as producer:
        await _warm_up(producer, job)
        work, topic = chunks(job, job.records), job.topic
        clock = Clock()
        handles: list[Delivery] = []
        keep, send_nowait = handles.append, producer.send_nowait
        for values in work:
            for value in values:
                try:
                    keep(send_nowait(topic, value))
                except BufferFullError:
                    keep(await producer.send(topic, value))
            await trio.lowlevel.checkpoint()
        await producer.flush()
        delivered = sum(handle.error is None for handle in handles)
        outcome = clock.stop(job.records)
        check_delivered(job, delivered)
        check_delivered(job, sum(handle.is_done for handle in handles))
        return outcome


async def _send_nowait_unobserved(job: ClientJob) -> ClientOutcome:
    """No handle is kept; leaving the block raises if a record has failed."""
    async with Producer(job.bootstrap) as producer:
        await _warm_up(producer, job)
        work, topic = chunks(job, job.records), job.topic
        clock = Clock()
        send_nowait = producer.send_nowait
        for values in work:
            for value in values:
                try:
                    send_nowait(topic, value)
                except BufferFullError:
                    await producer.send(topic, value)
            await trio.lowlevel.checkpoint()
        await producer.flush()
        return clock.stop(job.records)


async def _send_many(job: ClientJob) -> ClientOutcome:
    """A thousand values per call; every handle is checked after the flush."""
    async with Producer(job.bootstrap) as producer:
        await _warm_up(producer, job)
        work, topic = chunks(job, job.records), job.topic
        clock = Clock()
        calls = [await producer.send_many(topic, values) for values in work]
        await producer.flush()
        delivered = sum(handle.error is None for handles in calls for handle in handles)
        outcome = clock.stop(job.records)
        check_delivered(job, delivered)
        return outcome


async def _round_trips(job: ClientJob) -> ClientOutcome:
    acks: Literal["all", 1] = "all" if job.acks == "all" else 1
    async with Producer(job.bootstrap, acks=acks, linger_ms=0) as producer:
        await _warm_up(producer, job)
        clock, now, latencies = Clock(), trio.current_time, list[float]()
        for values in chunks(job, job.records):
            for value in values:
                started = now()
                await (await producer.send(job.topic, value))
                latencies.append(now() - started)
        return clock.stop(job.records, latencies)


def _blocking_round_trips(job: ClientJob) -> ClientOutcome:
    """The light writer of the blocking API: `flush` returns when the record is stored."""
    with Writer(job.bootstrap, acks=1) as writer:
        for values in chunks(job, WARM_UP_RECORDS):
            for value in values:
                writer.send(job.topic, value)
            writer.flush()
        clock, now, latencies = Clock(), time.perf_counter, list[float]()
        for values in chunks(job, job.records):
            for value in values:
                started = now()
                writer.send(job.topic, value)
                writer.flush()
                latencies.append(now() - started)
        outcome = clock.stop(job.records, latencies)
        check_delivered(job, writer.delivered_records - WARM_UP_RECORDS)
        return outcome


def _consumer(job: ClientJob) -> Consumer:
    return Consumer(job.bootstrap, auto_offset_reset="earliest")


async def _assign(consumer: Consumer, job: ClientJob) -> list[TopicPartition]:
    partitions = [TopicPartition(job.topic, index) for index in range(job.partitions)]
    await consumer.end_offsets(partitions)  # a connection and metadata, as the others have
    return partitions


async def _records(job: ClientJob) -> ClientOutcome:
    async with _consumer(job) as consumer:
        partitions = await _assign(consumer, job)
        clock = Clock()
        await consumer.assign(partitions)
        left, size_bytes = job.records, 0
        async for record in consumer:
            size_bytes += len(record.value or b"")
            left -= 1
            if not left:
                break
        outcome = clock.stop(job.records)
        await _check_position(consumer, partitions, job)
    check_consumed(job, job.records - left, size_bytes)
    return outcome


async def _batches(job: ClientJob) -> ClientOutcome:
    async with _consumer(job) as consumer:
        partitions = await _assign(consumer, job)
        clock = Clock()
        await consumer.assign(partitions)
        seen = size_bytes = 0
        async for batch in consumer.batches():
            for value in batch.values:
                size_bytes += len(value or b"")
            seen += len(batch)
            if seen >= job.records:
                break
        outcome = clock.stop(seen)
        await _check_position(consumer, partitions, job)
    check_consumed(job, seen, size_bytes)
    return outcome


async def _batches_counted(job: ClientJob) -> ClientOutcome:
    async with _consumer(job) as consumer:
        partitions = await _assign(consumer, job)
        clock = Clock()
        await consumer.assign(partitions)
        seen = 0
        async for batch in consumer.batches():
            seen += len(batch)
            if seen >= job.records:
                break
        outcome = clock.stop(seen)
        await _check_position(consumer, partitions, job)
    check_consumed(job, seen)
    return outcome


def _in_group(
    protocol: Literal["classic", "consumer"],
) -> Callable[[ClientJob], Awaitable[ClientOutcome]]:
    """As a member of a group of its own; the clock starts with the first record."""

    async def consume(job: ClientJob) -> ClientOutcome:
        group_id = f"benchmark-{uuid.uuid4()}"
        async with Consumer(
            job.bootstrap,
            group_id=group_id,
            group_protocol=protocol,
            auto_offset_reset="earliest",
        ) as consumer:
            await consumer.subscribe([job.topic])
            [first] = await consumer.poll(1)
            left, size_bytes = job.records - 1, len(first.value or b"")
            clock = Clock()
            async for record in consumer:
                size_bytes += len(record.value or b"")
                left -= 1
                if not left:
                    break
            outcome = clock.stop(job.records)
            await _check_position(consumer, sorted(consumer.assignment), job)
        check_consumed(job, job.records - left, size_bytes)
        return outcome

    return consume


async def _check_position(
    consumer: Consumer, partitions: list[TopicPartition], job: ClientJob
) -> None:
    ends = sum([await consumer.position(partition) for partition in partitions])
    if ends != job.records:
        raise RuntimeError(f"the positions add up to {ends}, not {job.records}")


def _run(work: Callable[[ClientJob], Awaitable[ClientOutcome]], job: ClientJob) -> ClientOutcome:
    return trio.run(work, job)


if __name__ == "__main__":
    serve_client(
        {
            "produce": partial(_run, _send_nowait),
            "produce unobserved": partial(_run, _send_nowait_unobserved),
            "produce many": partial(_run, _send_many),
            "round trips": partial(_run, _round_trips),
            "blocking round trips": _blocking_round_trips,
            "consume": partial(_run, _records),
            "consume batches": partial(_run, _batches),
            "consume counted": partial(_run, _batches_counted),
            "consume in a classic group": partial(_run, _in_group("classic")),
            "consume in a consumer group": partial(_run, _in_group("consumer")),
        }
    )
