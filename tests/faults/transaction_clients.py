"""Producers with transactions that commit, abort, are fenced, and leave decisions to others."""

from __future__ import annotations

import random
from typing import Any

import confluent_kafka
import trio

import minikafka_client as mk
from tests.faults.cluster_load import by_partition
from tests.faults.transaction_load import Attempt, TransactionalLoad, TransactionalWriter

_PATIENCE_MS = 3_000
_TRANSACTION_TIMEOUT_MS = 10_000
_PATIENCE_S = 60.0
_ABORTED = 0.15
_USURPED = 0.03
_LEFT = 0.3
_POLL_MS = 10


class ChangedMind(Exception):
    """The application wants its transaction aborted."""


class _OurWriter(TransactionalWriter):
    """The common part of both clients of ours."""

    def __init__(self, load: TransactionalLoad, name: str, topic: str, seed: int) -> None:
        super().__init__(load, name, topic)
        self.dice = random.Random(f"{seed} {name}")

    def work(self) -> None:
        trio.run(self._work)

    async def _work(self) -> None:
        raise NotImplementedError

    def producer(self, *, is_two_phase: bool = False) -> mk.Producer[bytes, bytes]:
        """A producer with this writer's transactional id."""
        return mk.Producer(
            self.load.bootstrap,
            transactional_id=self.name,
            transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
            transaction_two_phase_commit_enable=is_two_phase,
            linger_ms=1,
            client_id=self.name,
            request_timeout_ms=_PATIENCE_MS,
            socket_connection_setup_timeout_ms=_PATIENCE_MS,
        )

    async def send_some(
        self, producer: mk.Producer[bytes, bytes], attempt: Attempt, sent: list[mk.Delivery]
    ) -> None:
        """One or two records to each partition."""
        for partition in self.partitions():
            for _ in range(self.dice.randint(1, 2)):
                value, number = attempt.send(partition)
                assert number == len(sent)
                sent.append(await producer.send(self.topic, value, partition=partition))

    async def note_delivered(self, attempt: Attempt, sent: list[mk.Delivery]) -> None:
        """A stored record has an offset, whether its transaction commits or not."""
        for number, delivery in enumerate(sent):
            if delivery.is_done and delivery.error is None:
                attempt.delivered(number, (await delivery).offset)


class OurTransactionalWriter(_OurWriter):
    """Transactions that read (committed records) and write; sometimes another one takes over."""

    async def _work(self) -> None:
        async with (
            self.producer() as producer,
            mk.Consumer(
                self.load.bootstrap,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                client_id=f"{self.name} reads",
                request_timeout_ms=_PATIENCE_MS,
                socket_connection_setup_timeout_ms=_PATIENCE_MS,
            ) as consumer,
        ):
            await consumer.assign([mk.TopicPartition(*key) for key in self.load.partitions])
            while not self.load.over.is_set():
                await self._transact(producer, consumer)

    async def _transact(
        self, producer: mk.Producer[bytes, bytes], consumer: mk.Consumer[bytes, bytes]
    ) -> None:
        attempt = Attempt(self)
        sent: list[mk.Delivery] = []
        is_taken = False
        try:
            async with producer.transaction():
                attempt.poll(by_partition(await consumer.poll(timeout_ms=_POLL_MS)))
                await self.send_some(producer, attempt, sent)
                attempt.poll(by_partition(await consumer.poll(timeout_ms=_POLL_MS)))
                roll = self.dice.random()
                if roll < _ABORTED:
                    raise ChangedMind
                if roll < _ABORTED + _USURPED:
                    is_taken = await self._usurp()
        except (ChangedMind, mk.TransactionAbortableError):
            await self.note_delivered(attempt, sent)
            attempt.aborted()
        except mk.KafkaError as error:
            await self.note_delivered(attempt, sent)
            if is_taken:
                attempt.aborted()
            else:
                attempt.unknown()
                self.failed.append(f"{type(error).__name__}: {error}")
            await self._reinitialize(producer)
        else:
            await self.note_delivered(attempt, sent)
            assert not is_taken, f"{self.name}: committed although another one took over"
            attempt.committed()

    async def _usurp(self) -> bool:
        """Another producer of the same id begins, which ends what this one has open."""
        try:
            async with self.producer():
                return True
        except mk.KafkaError:
            return False

    async def _reinitialize(self, producer: mk.Producer[bytes, bytes]) -> None:
        with trio.fail_after(_PATIENCE_S):
            while True:
                try:
                    await producer.reinitialize()
                except mk.KafkaError:
                    await trio.lowlevel.checkpoint()
                else:
                    return


class OurPreparingWriter(_OurWriter):
    """Two-phase commit: it decides, and its successor may have to carry it out."""

    async def _work(self) -> None:
        self._decided: mk.PreparedTransactionState | None = None
        self._attempt: Attempt | None = None
        while not self.load.over.is_set():
            try:
                async with self.producer(is_two_phase=True) as producer:
                    await self._complete(producer)
                    while not self.load.over.is_set():
                        await self._transact(producer)
                        if self.dice.random() < _LEFT:
                            break
                        await self._complete(producer)
            except mk.KafkaError as error:
                self.failed.append(f"{type(error).__name__}: {error}")
        with trio.fail_after(_PATIENCE_S):
            async with self.producer(is_two_phase=True) as producer:
                await self._complete(producer)

    async def _transact(self, producer: mk.Producer[bytes, bytes]) -> None:
        attempt = self._attempt = Attempt(self)
        sent: list[mk.Delivery] = []
        self._is_wanted = False
        try:
            async with producer.transaction() as transaction:
                await self.send_some(producer, attempt, sent)
                prepared = await transaction.prepare()
        except mk.KafkaError as error:
            # It was never decided: its successor aborts it, if it is still open.
            await self.note_delivered(attempt, sent)
            attempt.aborted()
            self._attempt = None
            if not isinstance(error, mk.TransactionAbortableError):
                raise
            return
        await self.note_delivered(attempt, sent)
        if self.dice.random() >= _ABORTED:
            self._decided = prepared
            self._is_wanted = True

    async def _complete(self, producer: mk.Producer[bytes, bytes]) -> None:
        """Do what was decided, until it is done."""
        outcome = await self._until_done(producer)
        attempt, self._attempt = self._attempt, None
        if attempt is None:
            assert outcome is not mk.TransactionOutcome.COMMITTED
        elif self._is_wanted:
            assert outcome is not mk.TransactionOutcome.ABORTED
            attempt.committed()
        else:
            assert outcome is not mk.TransactionOutcome.COMMITTED
            attempt.aborted()

    async def _until_done(self, producer: mk.Producer[bytes, bytes]) -> mk.TransactionOutcome:
        while True:
            try:
                return await producer.complete_transaction(self._decided)
            except mk.KafkaError as error:
                if not error.is_retriable:
                    raise


class ConfluentTransactionalWriter(TransactionalWriter):
    def __init__(self, load: TransactionalLoad, name: str, topic: str, seed: int) -> None:
        super().__init__(load, name, topic)
        self.dice = random.Random(f"{seed} {name}")

    def work(self) -> None:
        """One producer after the other, each until a fatal error."""
        while not self.load.over.is_set():
            producer: Any = confluent_kafka.Producer(
                {
                    "bootstrap.servers": self.load.bootstrap,
                    "transactional.id": self.name,
                    "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
                    "linger.ms": 1,
                    "client.id": self.name,
                    "socket.timeout.ms": _PATIENCE_MS,
                    "socket.connection.setup.timeout.ms": _PATIENCE_MS,
                    "topic.metadata.refresh.interval.ms": 2_000,
                    "log_level": 0,
                }
            )
            self._until_done(producer.init_transactions)
            while not self.load.over.is_set() and self._transact(producer):
                pass

    def _transact(self, producer: Any) -> bool:
        """Returns whether the producer can go on."""
        attempt = Attempt(self)
        is_committing = False
        try:
            producer.begin_transaction()
            for partition in self.partitions():
                for _ in range(self.dice.randint(1, 2)):
                    self._send(producer, attempt, partition)
            if self.dice.random() < _ABORTED:
                raise ChangedMind
            is_committing = True
            self._until_done(producer.commit_transaction)
        except ChangedMind:
            return self._abort(producer, attempt)
        except confluent_kafka.KafkaException as failure:
            error = failure.args[0]
            if error.txn_requires_abort():
                return self._abort(producer, attempt)
            if not error.fatal():
                raise
            self.failed.append(str(error))
            if is_committing:
                attempt.unknown()
            else:
                attempt.aborted()
            return False
        attempt.committed()
        return True

    def _send(self, producer: Any, attempt: Attempt, partition: int) -> None:
        value, number = attempt.send(partition)

        def on_delivery(error: object, message: Any) -> None:
            if error is None:
                attempt.delivered(number, message.offset())

        producer.produce(self.topic, value, partition=partition, on_delivery=on_delivery)

    def _abort(self, producer: Any, attempt: Attempt) -> bool:
        try:
            self._until_done(producer.abort_transaction)
        except confluent_kafka.KafkaException as failure:
            if not failure.args[0].fatal():
                raise
            self.failed.append(str(failure))
            attempt.unknown()
            return False
        attempt.aborted()
        return True

    def _until_done(self, end: Any) -> None:
        """Retry what can be retried."""
        while True:
            try:
                end(_PATIENCE_S)
            except confluent_kafka.KafkaException as failure:
                if not failure.args[0].retriable():
                    raise
            else:
                return
