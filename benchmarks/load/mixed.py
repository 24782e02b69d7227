"""A little of everything, at a steady pace: records, transactions, groups, offsets, connections."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import count

from confluent_kafka import Consumer, Producer

from .admin import create_topics
from .job import serve_one_job

_TIMEOUT_SECONDS = 30.0
_TURN_SECONDS = 0.05
_RECORDS_PER_TURN = 25
_CONSUMER_LIFE_TURNS = 400
_PRODUCER_LIFE_TURNS = 600


@dataclass(frozen=True, kw_only=True)
class MixedJob:
    """Load on two topics that it creates, for ``seconds``."""

    bootstrap: str
    seconds: float
    partitions: int
    value_bytes: int


@dataclass(frozen=True)
class Mixed:
    """How much was done."""

    records: int
    committed: int
    aborted: int
    consumed: int


class _Load:
    def __init__(self, job: MixedJob) -> None:
        self._job = job
        self._value = bytes(job.value_bytes)
        self._plain = self._new_producer()
        self._transactional = self._new_transactional(0)
        self._consumer = self._new_consumer()
        self.records = self.committed = self.aborted = self.consumed = 0

    def _new_producer(self) -> Producer:
        return Producer({"bootstrap.servers": self._job.bootstrap, "enable.idempotence": True})

    def _new_transactional(self, number: int) -> Producer:
        producer = Producer(
            {"bootstrap.servers": self._job.bootstrap, "transactional.id": f"mixed-{number}"}
        )
        producer.init_transactions(_TIMEOUT_SECONDS)
        return producer

    def _new_consumer(self) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": self._job.bootstrap,
                "group.id": "mixed",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 500,
            }
        )
        consumer.subscribe(["plain", "transactional"])
        return consumer

    def turn(self, number: int) -> None:
        """One turn: records, a transaction (every second one is aborted), and some reading."""
        for _ in range(_RECORDS_PER_TURN):
            self._plain.produce("plain", self._value, partition=self.records % self._job.partitions)
            self.records += 1
        self._plain.poll(0)
        self._transactional.begin_transaction()
        for partition in range(self._job.partitions):
            self._transactional.produce("transactional", self._value, partition=partition)
        if number % 2:
            self._transactional.abort_transaction(_TIMEOUT_SECONDS)
            self.aborted += 1
        else:
            self._transactional.commit_transaction(_TIMEOUT_SECONDS)
            self.committed += 1
        self.consumed += len(self._consumer.consume(4 * _RECORDS_PER_TURN, 0))
        if number % _CONSUMER_LIFE_TURNS == _CONSUMER_LIFE_TURNS - 1:
            self._consumer.close()
            self._consumer = self._new_consumer()
        if number % _PRODUCER_LIFE_TURNS == _PRODUCER_LIFE_TURNS - 1:
            self._plain.flush(_TIMEOUT_SECONDS)
            self._plain = self._new_producer()
            self._transactional = self._new_transactional(number)

    def finish(self) -> Mixed:
        self._plain.flush(_TIMEOUT_SECONDS)
        self._consumer.close()
        return Mixed(self.records, self.committed, self.aborted, self.consumed)


def _work(job: MixedJob) -> Mixed:
    create_topics(job.bootstrap, ["plain", "transactional"], job.partitions)
    load = _Load(job)
    end = time.perf_counter() + job.seconds
    for number in count():
        next_turn = time.perf_counter() + _TURN_SECONDS
        if next_turn > end:
            break
        load.turn(number)
        time.sleep(max(0.0, next_turn - time.perf_counter()))
    return load.finish()


if __name__ == "__main__":
    serve_one_job(MixedJob, _work)
