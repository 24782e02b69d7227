"""Writes records in a transaction on blocking sockets, and leaves it to others to end it.

It is made for worker processes that write their part of something larger: each of them prepares
its transaction and ends, and whoever hears from all of them decides (KIP-939, and what can be done
of it with brokers that do not know it).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Unpack

from minikafka_client.core.sender import Sender
from minikafka_client.core.sender_messages import (
    Event,
    PartitionsAdded,
    ProducerIdGranted,
    SenderConfig,
)
from minikafka_client.core.transaction import (
    EPOCH_PER_TRANSACTION,
    TransactionMachine,
    TransactionState,
)
from minikafka_client.core.transactional_sender import TransactionalSender
from minikafka_client.errors import KafkaError
from minikafka_client.plans.coordinators import TRANSACTION_KEY_TYPE
from minikafka_client.plans.transactions import (
    Coordinator,
    Identity,
    add_partitions,
    end_transaction,
    init_producer,
)
from minikafka_client.plans.two_phase_commit import ending_error, init_two_phase
from minikafka_client.producer_options import ProducerConfig, ProducerOptions
from minikafka_client.sync.writer import Writer
from minikafka_client.types import Headers, PreparedTransactionState, TopicPartition

_S = TransactionState


class TransactionalWriter(Writer):
    """A `Writer` whose records are seen together or not at all.

        with TransactionalWriter(bootstrap, transactional_id="part-1") as writer:
            writer.begin()
            writer.send(...)
            prepared = writer.prepare()   # and anybody: admin.end_prepared_transaction(...)

    Leaving the block without `prepare` or `commit` aborts.

    Args:
        bootstrap: ``"host:port"``, several with commas between, or a sequence of them.
        options: as for a `Writer`; ``transactional_id`` is needed. With
            ``transaction_two_phase_commit_enable`` there is no timeout, and `begin` does not end
            what it finds prepared.

    Raises:
        ValueError: an option is refused.
    """

    def __init__(self, bootstrap: str | Sequence[str], **options: Unpack[ProducerOptions]) -> None:
        super().__init__(bootstrap, **options)
        transactional_id = self._config.transactional_id
        assert transactional_id is not None
        self._coordinator = Coordinator(transactional_id, TRANSACTION_KEY_TYPE)

    def _check(self, config: ProducerConfig) -> None:
        if config.transactional_id is None:
            raise ValueError("a TransactionalWriter needs a transactional_id")

    def _new_sender(self, config: SenderConfig) -> Sender:
        assert config.transactional_id is not None
        self._machine = TransactionMachine(config.transactional_id)
        return TransactionalSender(
            config, self._cluster, self._accumulator, self._retry, self._machine
        )

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._machine.state in (_S.OPEN, _S.COMMITTING, _S.PREPARING, _S.ABORTABLE):
                self.abort()
        except KafkaError:
            if exc is None:
                raise
        finally:
            self.close()

    # --- the transaction ---

    def initialize(self) -> PreparedTransactionState | None:
        """Take over the transactional id: whoever had it before can neither send nor end anything.

        Returns:
            With two-phase commit, the transaction that is open there; then none can be begun.
            Without, what was open is aborted.

        Raises:
            TwoPhaseCommitError: the broker does not know two-phase commit, or does not allow it.
            KafkaError: the coordinator refused, or could not be asked in time.
        """
        identity = Identity(self._machine.transactional_id)
        timeout_ms = self._config.transaction_timeout_ms
        if self._config.transaction_two_phase_commit_enable:
            found = self._network.run_plan(
                lambda cluster: init_two_phase(
                    cluster,
                    self._coordinator,
                    identity,
                    timeout_ms,
                    enable_two_phase_commit=True,
                    keep_prepared=True,
                )
            )
            self._machine.granted(
                found.producer_id, found.producer_epoch, EPOCH_PER_TRANSACTION, found.ongoing
            )
            if found.ongoing is not None:
                return found.ongoing
        else:
            granted, version = self._network.run_plan(
                lambda cluster: init_producer(cluster, self._coordinator, identity, timeout_ms)
            )
            self._machine.granted(granted.producer_id, granted.producer_epoch, version)
        self._tell_sender()
        return None

    def begin(self) -> None:
        """Open a transaction; takes over the transactional id, if that is not done yet.

        Raises:
            TransactionStateError: there is one already, or one was found prepared.
            KafkaError: see `initialize`.
        """
        if self._machine.state is _S.UNINITIALIZED:
            self.initialize()
        self._machine.begin()

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> None:
        """Put a record into the buffer, and into the transaction; see `Writer.send`.

        Raises:
            TransactionStateError: no transaction is open.
            KafkaError: an earlier record failed, or there was no room within ``max_block_ms``.
        """
        self._machine.check_open()
        super().send(
            topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
        )

    def send_batch(self, topic: str, partition: int, payload: bytearray, record_count: int) -> None:
        """Send an encoded batch in the transaction; see `Writer.send_batch`.

        Raises:
            TransactionStateError: no transaction is open.
            KafkaError: as `send`.
        """
        self._machine.check_open()
        super().send_batch(topic, partition, payload, record_count)

    def prepare(self) -> PreparedTransactionState:
        """Wait until everything is stored, and leave the transaction open for others to end.

        Returns:
            What they need to know besides the transactional id; it is false when nothing was sent.

        Raises:
            TransactionAbortableError: it cannot be committed any more.
            KafkaError: some records were not delivered.
        """
        self._machine.prepare()
        self.flush()
        return self._machine.is_prepared()

    def commit(self) -> None:
        """Wait until everything is stored, and commit.

        Raises:
            CommitUnknownError: the coordinator did not answer in time.
            TransactionAbortedError: it was aborted, because it took too long.
            KafkaError: some records were not delivered, or another writer has taken over.
        """
        self._machine.commit()
        self.flush()
        self._end(commits=True)

    def abort(self) -> None:
        """Drop what is not sent, and abort.

        Raises:
            KafkaError: the coordinator refused, or did not answer in time.
        """
        self._machine.abort()
        self._run(self._sender.expire(time.monotonic()))
        while self._accumulator.active:
            self._wait(None)
        self._first_error = None  # nobody expects that it was delivered
        self._end(commits=False)

    def _end(self, *, commits: bool) -> None:
        machine = self._machine
        identity = self._identity
        if not machine.has_begun:
            machine.ended()
            return
        try:
            following = self._network.run_plan(
                lambda cluster: end_transaction(
                    cluster,
                    self._coordinator,
                    identity,
                    commits=commits,
                    has_own_epochs=machine.has_own_epochs,
                )
            )
        except KafkaError as error:
            which = PreparedTransactionState(identity.producer_id, identity.producer_epoch)
            told = ending_error(self._coordinator, which, error, commits=commits)
            machine.fail(told)
            if told is error:
                raise
            raise told from error
        machine.ended(following.producer_id, following.producer_epoch)
        if machine.needs_new_epoch and not machine.has_own_epochs:
            machine.fail(KafkaError("something of the aborted transaction may still arrive"))
        else:
            self._tell_sender()

    @property
    def _identity(self) -> Identity:
        machine = self._machine
        return Identity(machine.transactional_id, machine.producer_id, machine.producer_epoch)

    def _tell_sender(self) -> None:
        machine = self._machine
        self._feed(ProducerIdGranted(machine.producer_id, machine.producer_epoch))

    def _add_partitions(self, partitions: frozenset[TopicPartition]) -> Event:
        try:
            self._network.run_plan(
                lambda cluster: add_partitions(
                    cluster, self._coordinator, self._identity, partitions
                )
            )
        except KafkaError as error:
            return PartitionsAdded(error)
        return PartitionsAdded()
