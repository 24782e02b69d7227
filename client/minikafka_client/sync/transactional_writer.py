"""Writes records in a transaction on blocking sockets, for another process to commit or abort.

It is made for worker processes that write their part of something larger: each prepares its
transaction and exits, and a coordinator that has heard from all of them decides (KIP-939, as far as
possible also with brokers that do not support it).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Unpack

from minikafka_client.core.sender import (
    Event,
    PartitionsAdded,
    ProducerIdGranted,
    Sender,
    SenderConfig,
)
from minikafka_client.core.transaction import (
    EPOCH_PER_TRANSACTION,
    TransactionMachine,
    TransactionState,
)
from minikafka_client.core.transactional_sender import TransactionalSender
from minikafka_client.errors import KafkaError
from minikafka_client.options import ConnectionConfig
from minikafka_client.plans import transactions as plans
from minikafka_client.plans.coordinators import TRANSACTION_KEY_TYPE
from minikafka_client.plans.two_phase_commit import ending_error, init_two_phase
from minikafka_client.producer_options import ProducerConfig, ProducerOptions
from minikafka_client.signatures import ExcDetails, with_options
from minikafka_client.sync.writer import Writer
from minikafka_client.types import Headers, PreparedTransactionState, TopicPartition

_S = TransactionState


class TransactionalWriter(Writer):
    """A `Writer` whose records become visible together or not at all.

        with TransactionalWriter(bootstrap, transactional_id="part-1") as writer:
            writer.begin()
            writer.send(...)
            prepared = writer.prepare()   # later, anywhere: admin.end_prepared_transaction(...)

    Leaving the block without `prepare` or `commit` aborts.

    Args:
        bootstrap_servers: ``"host:port"``, several with commas between, or a sequence of them.
        options: as for a `Writer`; ``transactional_id`` is required. With
            ``transaction_two_phase_commit_enable`` there is no timeout, and `begin` does not end
            a transaction that it finds prepared.

    Raises:
        ValueError: an option is refused.
    """

    @with_options(ProducerConfig, ConnectionConfig)
    def __init__(
        self, bootstrap_servers: str | Sequence[str], **options: Unpack[ProducerOptions]
    ) -> None:
        super().__init__(bootstrap_servers, **options)
        transactional_id = self._config.transactional_id
        assert transactional_id is not None
        self._coordinator = plans.Coordinator(transactional_id, TRANSACTION_KEY_TYPE)

    def _check(self, config: ProducerConfig) -> None:
        if config.transactional_id is None:
            raise ValueError("a TransactionalWriter needs a transactional_id")

    def _new_sender(self, config: SenderConfig) -> Sender:
        assert config.transactional_id is not None
        self._machine = TransactionMachine(config.transactional_id)
        return TransactionalSender(
            config, self._cluster, self._accumulator, self._retry, self._machine
        )

    def __exit__(self, *details: *ExcDetails) -> None:
        exc = details[1]
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
        """Take over the transactional id: its previous owner can no longer send or commit.

        Returns:
            With two-phase commit, the transaction that is still open; then none can be begun.
            Otherwise None: an open transaction is aborted.

        Raises:
            TwoPhaseCommitError: the broker does not support two-phase commit, or forbids it.
            KafkaError: the coordinator refused, or could not be reached in time.
        """
        identity = plans.Identity(self._machine.transactional_id)
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
                lambda cluster: plans.init_producer(
                    cluster, self._coordinator, identity, timeout_ms
                )
            )
            self._machine.granted(granted.producer_id, granted.producer_epoch, version)
        self._pass_producer_id()
        return None

    def begin(self) -> None:
        """Open a transaction; takes over the transactional id first, if need be.

        Raises:
            TransactionStateError: one is open, or was found prepared.
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
        """Put a record into the buffer, as part of the transaction; see `Writer.send`.

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
        """Wait until everything is stored, and leave the transaction open for another process.

        Returns:
            What that process needs besides the transactional id; false if nothing was sent.

        Raises:
            TransactionAbortableError: it can no longer be committed.
            KafkaError: some records were not delivered.
        """
        self._machine.prepare()
        self.flush()
        return self._machine.is_prepared()

    def commit(self) -> None:
        """Wait until everything is stored, and commit.

        Raises:
            CommitUnknownError: the coordinator did not answer in time.
            TransactionAbortedError: it took too long, and was aborted.
            KafkaError: some records were not delivered, or this writer has been replaced.
        """
        self._machine.commit()
        self.flush()
        self._end(commits=True)

    def abort(self) -> None:
        """Abort; what is not yet sent is dropped.

        Raises:
            KafkaError: the coordinator refused, or did not answer in time.
        """
        self._machine.abort()
        self._run(self._sender.expire(time.monotonic()))
        while self._accumulator.active:
            self._wait(None)
        self._first_error = None  # records of an aborted transaction need not be delivered
        self._end(commits=False)

    def _end(self, *, commits: bool) -> None:
        machine = self._machine
        identity = self._identity
        if not machine.has_begun:
            machine.ended()
            return
        try:
            following = self._network.run_plan(
                lambda cluster: plans.end_transaction(
                    cluster,
                    self._coordinator,
                    identity,
                    commits=commits,
                    has_own_epochs=machine.has_own_epochs,
                )
            )
        except KafkaError as error:
            which = PreparedTransactionState(identity.producer_id, identity.producer_epoch)
            reason = ending_error(self._coordinator, which, error, commits=commits)
            machine.fail(reason)
            if reason is error:
                raise
            raise reason from error
        machine.ended(following.producer_id, following.producer_epoch)
        if machine.needs_new_epoch and not machine.has_own_epochs:
            machine.fail(KafkaError("records of the aborted transaction may still arrive"))
        else:
            self._pass_producer_id()

    @property
    def _identity(self) -> plans.Identity:
        machine = self._machine
        return plans.Identity(machine.transactional_id, machine.producer_id, machine.producer_epoch)

    def _pass_producer_id(self) -> None:
        machine = self._machine
        self._feed(ProducerIdGranted(machine.producer_id, machine.producer_epoch))

    def _add_partitions(self, partitions: frozenset[TopicPartition]) -> Event:
        try:
            self._network.run_plan(
                lambda cluster: plans.add_partitions(
                    cluster, self._coordinator, self._identity, partitions
                )
            )
        except KafkaError as error:
            return PartitionsAdded(error)
        return PartitionsAdded()
