"""An idempotent producer that never pauses, and records when it sent what, and got which ack.

It keeps a few records of each partition in flight, so that the next acknowledgement comes soon
unless the cluster stalls. It works until its stdin is closed; then it reads everything back and
compares.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import confluent_kafka
import trio

from minikafka_client import Consumer, Delivery, KafkaError, Producer, TopicPartition

IN_FLIGHT_MAX = 5
_PAUSE_SECONDS = 0.002
_FLUSH_SECONDS_MAX = 120.0


@dataclass(frozen=True, kw_only=True)
class SteadyJob:
    """What to do.

    Attributes:
        client: ``minikafka`` or ``confluent``.
        bootstrap: the brokers.
        topic: an existing one.
        partitions: how many it has.
        value_bytes: size of each value.
    """

    client: str
    bootstrap: str
    topic: str
    partitions: int
    value_bytes: int


@dataclass(frozen=True, kw_only=True)
class SteadyOutcome:
    """What became of the records.

    Attributes:
        acks: for each partition a pair for each acknowledged record: when it was sent and when it
            was acknowledged, both by ``time.monotonic()``, in the order of the latter.
        errors: of records that the producer could not deliver.
        lost: acknowledged records that are missing.
        duplicates: records that are in the topic more than once.
    """

    acks: list[list[tuple[float, float]]]
    errors: list[str] = field(default_factory=list[str])
    lost: int = 0
    duplicates: int = 0


class _Books:
    """The records that were sent, by partition."""

    def __init__(self, job: SteadyJob) -> None:
        self.job = job
        self.acks: list[list[tuple[float, float]]] = [[] for _ in range(job.partitions)]
        self.acked: list[set[int]] = [set() for _ in range(job.partitions)]
        self.errors: list[str] = []
        self._numbers = 0

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def value(self, number: int) -> bytes:
        return str(number).encode().ljust(self.job.value_bytes, b" ")

    def acknowledge(self, partition: int, number: int, sent_at: float) -> None:
        self.acks[partition].append((sent_at, time.monotonic()))
        self.acked[partition].add(number)


async def _produce_ours(books: _Books, is_over: Callable[[], bool]) -> None:
    job = books.job

    async def fill(producer: Producer, partition: int) -> None:
        flying: deque[tuple[int, float, Delivery]] = deque()
        while not is_over() or flying:
            if not is_over():
                number, now = books.next_number(), time.monotonic()
                delivery = await producer.send(job.topic, books.value(number), partition=partition)
                flying.append((number, now, delivery))
                await trio.sleep(_PAUSE_SECONDS)
            while flying and (len(flying) >= IN_FLIGHT_MAX or flying[0][2].is_done or is_over()):
                number, sent_at, delivery = flying.popleft()
                try:
                    await delivery
                except KafkaError as error:
                    books.errors.append(str(error))
                else:
                    books.acknowledge(partition, number, sent_at)

    async with Producer(job.bootstrap, linger_ms=0) as producer, trio.open_nursery() as nursery:
        await producer.partitions_for(job.topic)
        print("ready", flush=True)
        for partition in range(job.partitions):
            nursery.start_soon(fill, producer, partition)


def _produce_confluent(books: _Books, is_over: Callable[[], bool]) -> None:
    job = books.job
    producer: Any = confluent_kafka.Producer(
        {
            "bootstrap.servers": job.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    flying = [0] * job.partitions

    def send(partition: int) -> None:
        number, now = books.next_number(), time.monotonic()

        def on_report(error: object, _: object) -> None:
            flying[partition] -= 1
            if error is None:
                books.acknowledge(partition, number, now)
            else:
                books.errors.append(str(error))

        flying[partition] += 1
        producer.produce(job.topic, books.value(number), partition=partition, on_delivery=on_report)

    producer.list_topics(job.topic, timeout=_FLUSH_SECONDS_MAX)
    print("ready", flush=True)
    while not is_over():
        for partition in range(job.partitions):
            if flying[partition] < IN_FLIGHT_MAX:
                send(partition)
        producer.poll(_PAUSE_SECONDS)
    producer.flush(_FLUSH_SECONDS_MAX)


async def _numbers_there(job: SteadyJob) -> list[list[int]]:
    """The numbers of all records in each partition, read back."""
    keys = [TopicPartition(job.topic, partition) for partition in range(job.partitions)]
    numbers: list[list[int]] = [[] for _ in keys]
    async with Consumer(job.bootstrap, auto_offset_reset="none") as consumer:
        await consumer.assign(keys)
        await consumer.seek_to_beginning()
        ends = await consumer.end_offsets(keys)
        left = sum(ends.values())
        while left:
            for record in await consumer.poll():
                assert record.value is not None
                numbers[record.partition].append(int(record.value))
                left -= 1
    return numbers


def _judge(books: _Books, there: Sequence[Sequence[int]]) -> SteadyOutcome:
    return SteadyOutcome(
        acks=books.acks,
        errors=books.errors,
        lost=sum(len(acked - set(found)) for acked, found in zip(books.acked, there, strict=True)),
        duplicates=sum(len(found) - len(set(found)) for found in there),
    )


def main() -> None:
    """Read the job from the first line of stdin, work until stdin ends, print the outcome."""
    logging.disable(logging.WARNING)  # a dead broker is the point
    books = _Books(SteadyJob(**json.loads(sys.stdin.readline())))
    over = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    if books.job.client == "minikafka":
        trio.run(_produce_ours, books, over.is_set)
    else:
        _produce_confluent(books, over.is_set)
    print(json.dumps(asdict(_judge(books, trio.run(_numbers_there, books.job)))))


if __name__ == "__main__":
    main()
