"""confluent-kafka at work, one ``produce()`` per record, or ``consume(10000)``."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

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
from .consume import SETTINGS as CONSUMER_SETTINGS

_RECORDS_PER_CALL_MAX = 10_000
_QUEUED_RECORDS_MAX = 90_000  # librdkafka's queue takes 100,000
_FULL_QUEUE_WAIT_SECONDS = 0.001


def _producer(job: ClientJob, **settings: Any) -> Any:
    producer: Any = Producer({"bootstrap.servers": job.bootstrap, **settings})
    for values in chunks(job, WARM_UP_RECORDS):
        for value in values:
            producer.produce(job.topic, value)
    producer.flush(TIMEOUT_SECONDS)
    return producer


def _produce(job: ClientJob) -> ClientOutcome:
    """A Python function counts each record's delivery report."""
    delivered, failures = 0, list[str]()

    def on_report(error: object, _: object) -> None:
        nonlocal delivered
        if error is None:
            delivered += 1
        else:
            failures.append(str(error))

    producer = _producer(job)
    work, topic, produce = chunks(job, job.records), job.topic, producer.produce
    clock = Clock()
    for values in work:
        while len(producer) > _QUEUED_RECORDS_MAX:
            producer.poll(_FULL_QUEUE_WAIT_SECONDS)
        for value in values:
            produce(topic, value, on_delivery=on_report)
        producer.poll(0)
    producer.flush(TIMEOUT_SECONDS)
    outcome = clock.stop(job.records)
    check_delivered(job, delivered, failures)
    return outcome


def _produce_unobserved(job: ClientJob) -> ClientOutcome:
    """Outcomes of records are not checked; only the end offsets are."""
    producer = _producer(job)
    work, topic, produce = chunks(job, job.records), job.topic, producer.produce
    clock = Clock()
    for values in work:
        while len(producer) > _QUEUED_RECORDS_MAX:
            producer.poll(_FULL_QUEUE_WAIT_SECONDS)
        for value in values:
            produce(topic, value)
        producer.poll(0)
    left = producer.flush(TIMEOUT_SECONDS)
    outcome = clock.stop(job.records)
    check_delivered(job, job.records - left)
    return outcome


def _round_trips(job: ClientJob) -> ClientOutcome:
    delivered, failures = 0, list[str]()

    def on_report(error: object, _: object) -> None:
        nonlocal delivered
        if error is None:
            delivered += 1
        else:
            failures.append(str(error))

    producer = _producer(job, acks=job.acks, **{"linger.ms": 0, "socket.nagle.disable": True})
    clock, now, latencies = Clock(), time.perf_counter, list[float]()
    sent = 0
    for values in chunks(job, job.records):
        for value in values:
            started = now()
            producer.produce(job.topic, value, on_delivery=on_report)
            sent += 1
            while delivered + len(failures) < sent:
                producer.poll(TIMEOUT_SECONDS)
            latencies.append(now() - started)
    outcome = clock.stop(job.records, latencies)
    check_delivered(job, delivered, failures)
    return outcome


def _consume(job: ClientJob, *, looks_at_values: bool = True) -> ClientOutcome:
    consumer: Any = Consumer(
        {"bootstrap.servers": job.bootstrap, "group.id": "unused", **CONSUMER_SETTINGS}
    )
    consumer.list_topics(job.topic, timeout=TIMEOUT_SECONDS)
    starts = [
        TopicPartition(job.topic, partition, OFFSET_BEGINNING)
        for partition in range(job.partitions)
    ]
    clock = Clock()
    consumer.assign(starts)
    seen = size_bytes = 0
    while seen < job.records:
        # The call returns when it has all it was asked for: more than there are, and it waits.
        messages = consumer.consume(min(_RECORDS_PER_CALL_MAX, job.records - seen), TIMEOUT_SECONDS)
        if not messages or messages[0].error() is not None:
            raise RuntimeError(f"after {seen} of {job.records} records: {messages[:1]}")
        if looks_at_values:
            for message in messages:
                size_bytes += len(message.value())
        seen += len(messages)
    outcome = clock.stop(seen)
    ends = sum(one.offset for one in consumer.position(starts))
    consumer.close()
    check_consumed(job, seen, size_bytes if looks_at_values else None)
    if ends != job.records:
        raise RuntimeError(f"the positions add up to {ends}, not {job.records}")
    return outcome


def _consume_counted(job: ClientJob) -> ClientOutcome:
    return _consume(job, looks_at_values=False)


if __name__ == "__main__":
    serve_client(
        {
            "produce": _produce,
            "produce unobserved": _produce_unobserved,
            "round trips": _round_trips,
            "consume": _consume,
            "consume counted": _consume_counted,
        }
    )
