"""kafka-python at work, record by record."""

from __future__ import annotations

import time
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition

from .client_job import (
    TIMEOUT_SECONDS,
    WARM_UP_RECORDS,
    ClientJob,
    ClientOutcome,
    Clock,
    check_consumed,
    check_delivered,
    chunks,
    serve_client,
)


def _warm_up(producer: Any, job: ClientJob) -> None:
    for values in chunks(job, WARM_UP_RECORDS):
        for value in values:
            producer.send(job.topic, value)
    producer.flush(TIMEOUT_SECONDS)


def _produce(job: ClientJob) -> ClientOutcome:
    """The future of every record is kept, and checked after the flush."""
    producer: Any = KafkaProducer(bootstrap_servers=job.bootstrap, acks="all")
    _warm_up(producer, job)
    work, topic, send = chunks(job, job.records), job.topic, producer.send
    clock = Clock()
    futures: list[Any] = []
    for values in work:
        for value in values:
            futures.append(send(topic, value))  # noqa: PERF401 - the same loop for everyone
    producer.flush(TIMEOUT_SECONDS)
    delivered = sum(future.succeeded() for future in futures)
    outcome = clock.stop(job.records)
    check_delivered(job, delivered)
    producer.close()
    return outcome


def _round_trips(job: ClientJob) -> ClientOutcome:
    producer: Any = KafkaProducer(bootstrap_servers=job.bootstrap, acks=1, enable_idempotence=False)
    _warm_up(producer, job)
    clock, now, latencies = Clock(), time.perf_counter, list[float]()
    for values in chunks(job, job.records):
        for value in values:
            started = now()
            producer.send(job.topic, value).get(TIMEOUT_SECONDS)
            latencies.append(now() - started)
    outcome = clock.stop(job.records, latencies)
    producer.close()
    return outcome


def _consume(job: ClientJob) -> ClientOutcome:
    consumer: Any = KafkaConsumer(
        bootstrap_servers=job.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    )
    partitions: list[Any] = [TopicPartition(job.topic, index) for index in range(job.partitions)]
    consumer.end_offsets(partitions)
    clock = Clock()
    consumer.assign(partitions)
    left, size_bytes = job.records, 0
    for record in consumer:
        size_bytes += len(record.value)
        left -= 1
        if not left:
            break
    outcome = clock.stop(job.records)
    consumer.close()
    check_consumed(job, job.records - left, size_bytes)
    return outcome


if __name__ == "__main__":
    serve_client({"produce": _produce, "round trips": _round_trips, "consume": _consume})
