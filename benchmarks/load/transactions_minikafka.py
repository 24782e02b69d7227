"""Our own client's transactions, with its defaults, one ``send_nowait()`` per record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter

import trio

from minikafka_client import BufferFullError, Delivery, Producer

from .transactions_job import (
    WARM_UP_TRANSACTIONS,
    Stopwatch,
    TransactionsJob,
    TransactionsOutcome,
    serve_transactions,
)

_Portion = Callable[[], Awaitable[None]]


async def _send(producer: Producer, topic: str, values: list[bytes]) -> None:
    send_nowait = producer.send_nowait
    for value in values:
        try:
            send_nowait(topic, value)
        except BufferFullError:
            await producer.send(topic, value)


async def _portions(job: TransactionsJob, portion: _Portion, finish: _Portion) -> Stopwatch:
    for _ in range(WARM_UP_TRANSACTIONS):
        await portion()
    await finish()
    stopwatch = Stopwatch()
    for _ in range(job.transactions):
        await portion()
    await finish()
    return stopwatch


async def _transactions(job: TransactionsJob) -> TransactionsOutcome:
    values = job.values()
    async with Producer(job.bootstrap, transactional_id=job.topic) as producer:

        async def portion() -> None:
            async with producer.transaction():
                await _send(producer, job.topic, values)

        stopwatch = await _portions(job, portion, trio.lowlevel.checkpoint)
        return stopwatch.stop(job.transactions)


async def _plain(job: TransactionsJob, *, flushes: bool) -> TransactionsOutcome:
    values = job.values()
    async with Producer(job.bootstrap) as producer:

        async def portion() -> None:
            await _send(producer, job.topic, values)
            if flushes:
                await producer.flush()
            else:
                await trio.lowlevel.checkpoint()

        stopwatch = await _portions(job, portion, producer.flush)
        return stopwatch.stop(job.transactions)


async def _commits(job: TransactionsJob) -> TransactionsOutcome:
    value = job.values()[0]
    async with Producer(job.bootstrap, transactional_id=job.topic, linger_ms=0) as producer:
        await producer.partitions_for(job.topic)

        async def transaction() -> tuple[float, float, float]:
            begun = perf_counter()
            async with producer.transaction():
                deliveries: list[Delivery] = [
                    await producer.send(job.topic, value, partition=partition)
                    for partition in range(job.partitions)
                ]
                for delivery in deliveries:
                    await delivery
                delivered = perf_counter()
            return begun, delivered, perf_counter()

        for _ in range(WARM_UP_TRANSACTIONS):
            await transaction()
        stopwatch = Stopwatch()
        for _ in range(job.transactions):
            begun, delivered, committed = await transaction()
            stopwatch.step("commit", committed - delivered)
            stopwatch.step("transaction", committed - begun)
        return stopwatch.stop(job.transactions)


async def _round_trips(job: TransactionsJob) -> TransactionsOutcome:
    value = job.values()[0]
    async with Producer(job.bootstrap, linger_ms=0) as producer:
        for _ in range(WARM_UP_TRANSACTIONS * job.records):
            await (await producer.send(job.topic, value, partition=0))
        stopwatch = Stopwatch()
        for _ in range(job.transactions * job.records):
            started = perf_counter()
            await (await producer.send(job.topic, value, partition=0))
            stopwatch.step("round trip", perf_counter() - started)
        return stopwatch.stop(job.transactions)


def _run(
    work: Callable[[TransactionsJob], Awaitable[TransactionsOutcome]], job: TransactionsJob
) -> TransactionsOutcome:
    return trio.run(work, job)


if __name__ == "__main__":
    serve_transactions(
        {
            "transactions": partial(_run, _transactions),
            "flushes": partial(_run, partial(_plain, flushes=True)),
            "stream": partial(_run, partial(_plain, flushes=False)),
            "commits": partial(_run, _commits),
            "round trips": partial(_run, _round_trips),
        }
    )
