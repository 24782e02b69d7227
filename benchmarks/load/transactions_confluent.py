"""confluent-kafka's transactions, with librdkafka's defaults, one ``produce()`` per record."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

from confluent_kafka import Producer

from .client_job import TIMEOUT_SECONDS
from .transactions_job import (
    WARM_UP_TRANSACTIONS,
    Stopwatch,
    TransactionsJob,
    TransactionsOutcome,
    serve_transactions,
)

_QUEUED_RECORDS_MAX = 90_000  # librdkafka's queue takes 100,000
_FULL_QUEUE_WAIT_SECONDS = 0.001
_AT_ONCE: dict[str, Any] = {"linger.ms": 0, "socket.nagle.disable": True}


class _Reports:
    """Counts delivery reports."""

    def __init__(self) -> None:
        self.delivered = 0

    def __call__(self, error: object, _: object) -> None:
        if error is not None:
            raise RuntimeError(f"a record is not delivered: {error}")
        self.delivered += 1


def _producer(job: TransactionsJob, **settings: Any) -> Any:
    return Producer({"bootstrap.servers": job.bootstrap, "enable.idempotence": True, **settings})


def _transactional(job: TransactionsJob, **settings: Any) -> Any:
    producer = _producer(job, **{"transactional.id": job.topic}, **settings)
    producer.init_transactions(TIMEOUT_SECONDS)
    return producer


def _portions(
    job: TransactionsJob, portion: Callable[[], object], finish: Callable[[], object]
) -> TransactionsOutcome:
    for _ in range(WARM_UP_TRANSACTIONS):
        portion()
    finish()
    stopwatch = Stopwatch()
    for _ in range(job.transactions):
        portion()
    finish()
    return stopwatch.stop(job.transactions)


def _transactions(job: TransactionsJob) -> TransactionsOutcome:
    producer, values, topic = _transactional(job), job.values(), job.topic
    produce = producer.produce

    def portion() -> None:
        producer.begin_transaction()
        for value in values:
            produce(topic, value)
        producer.commit_transaction(TIMEOUT_SECONDS)

    return _portions(job, portion, lambda: None)


def _plain(job: TransactionsJob, *, flushes: bool) -> TransactionsOutcome:
    producer, values, topic = _producer(job), job.values(), job.topic
    produce = producer.produce

    def portion() -> None:
        while len(producer) > _QUEUED_RECORDS_MAX:
            producer.poll(_FULL_QUEUE_WAIT_SECONDS)
        for value in values:
            produce(topic, value)
        if flushes:
            producer.flush(TIMEOUT_SECONDS)
        else:
            producer.poll(0)

    return _portions(job, portion, lambda: producer.flush(TIMEOUT_SECONDS))


def _commits(job: TransactionsJob) -> TransactionsOutcome:
    producer, value, topic = _transactional(job, **_AT_ONCE), job.values()[0], job.topic

    def transaction() -> tuple[float, float, float]:
        reports = _Reports()
        begun = perf_counter()
        producer.begin_transaction()
        for partition in range(job.partitions):
            producer.produce(topic, value, partition=partition, on_delivery=reports)
        while reports.delivered < job.partitions:
            producer.poll(TIMEOUT_SECONDS)
        delivered = perf_counter()
        producer.commit_transaction(TIMEOUT_SECONDS)
        return begun, delivered, perf_counter()

    for _ in range(WARM_UP_TRANSACTIONS):
        transaction()
    stopwatch = Stopwatch()
    for _ in range(job.transactions):
        begun, delivered, committed = transaction()
        stopwatch.step("commit", committed - delivered)
        stopwatch.step("transaction", committed - begun)
    return stopwatch.stop(job.transactions)


def _round_trips(job: TransactionsJob) -> TransactionsOutcome:
    producer, value, reports = _producer(job, **_AT_ONCE), job.values()[0], _Reports()

    def send_one() -> None:
        expected = reports.delivered + 1
        producer.produce(job.topic, value, partition=0, on_delivery=reports)
        while reports.delivered < expected:
            producer.poll(TIMEOUT_SECONDS)

    for _ in range(WARM_UP_TRANSACTIONS * job.records):
        send_one()
    stopwatch = Stopwatch()
    for _ in range(job.transactions * job.records):
        started = perf_counter()
        send_one()
        stopwatch.step("round trip", perf_counter() - started)
    return stopwatch.stop(job.transactions)


if __name__ == "__main__":
    serve_transactions(
        {
            "transactions": _transactions,
            "flushes": partial(_plain, flushes=True),
            "stream": partial(_plain, flushes=False),
            "commits": _commits,
            "round trips": _round_trips,
        }
    )
