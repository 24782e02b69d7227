"""Transactions of a producer that somebody else decides about: two-phase commit (KIP-939)."""

from __future__ import annotations

import trio

from minikafka_client.core.transaction import EPOCH_PER_TRANSACTION, TransactionState
from minikafka_client.errors import (
    FencedError,
    KafkaError,
    TransactionAbortedError,
    TransactionStateError,
)
from minikafka_client.plans.transactions import Identity, end_transaction
from minikafka_client.plans.two_phase_commit import ending_error, init_two_phase
from minikafka_client.trio_face.transactions import Transactions
from minikafka_client.types import PreparedTransactionState, TransactionOutcome


class PreparedTransactions(Transactions):
    """What a transactional producer has besides its sender; see `Transactions` for the arguments.

    A producer with ``transaction_two_phase_commit_enable`` never aborts what its predecessor has
    prepared: it has to be told what to do with it.
    """

    @property
    def prepared(self) -> PreparedTransactionState | None:
        """The transaction that waits for a decision."""
        if self.machine.state is TransactionState.PREPARED:
            return self.machine.prepared
        return None

    async def _init_producer(self, identity: Identity) -> None:
        if not self._config.transaction_two_phase_commit_enable:
            await super()._init_producer(identity)
            return
        # With an identity, this producer goes on after an abort: nothing is prepared.
        found = await self._network.run_plan(
            lambda cluster: init_two_phase(
                cluster,
                self._coordinator,
                identity,
                self._config.transaction_timeout_ms,
                enable_two_phase_commit=True,
                keep_prepared=identity.producer_id < 0,
            ),
            self._config.max_block_ms,
        )
        self._granted(Identity(*found[:3]), EPOCH_PER_TRANSACTION, found.ongoing)

    async def prepare(self) -> PreparedTransactionState:
        """See `Transaction.prepare`."""
        machine = self.machine
        with self._loop.lock:
            machine.prepare()
        await self._flush()
        machine.raise_if_fatal()
        if machine.is_lost:
            raise machine.abortable_error()
        with self._loop.lock:
            prepared = machine.is_prepared()
        self._is_handed_over = True
        return prepared

    async def complete(self, decided: PreparedTransactionState | None) -> TransactionOutcome:
        """See `Producer.complete_transaction`."""
        await trio.lowlevel.checkpoint()
        self._background.check_open()
        machine = self.machine
        machine.raise_if_fatal()
        if machine.state is TransactionState.READY:
            return TransactionOutcome.NONE_OPEN
        if machine.state is TransactionState.ABORTABLE:
            raise machine.abortable_error()
        if machine.state is not TransactionState.PREPARED:
            raise TransactionStateError(
                f"nothing can be decided about the transaction of {machine.transactional_id!r}, "
                f"which is {machine.state.value!r}; prepare it first (Transaction.prepare)"
            )
        prepared = machine.prepared
        if not prepared:
            with self._loop.lock:
                machine.ended()
            return TransactionOutcome.NONE_OPEN
        commits = prepared == decided
        await self._end_prepared(prepared, commits=commits)
        return TransactionOutcome.COMMITTED if commits else TransactionOutcome.ABORTED

    async def _end_prepared(self, prepared: PreparedTransactionState, *, commits: bool) -> None:
        machine = self.machine
        try:
            following = await self._network.run_plan(
                lambda cluster: end_transaction(
                    cluster,
                    self._coordinator,
                    self._identity,
                    commits=commits,
                    has_own_epochs=machine.has_own_epochs,
                ),
                self._config.delivery_timeout_ms,
            )
        except KafkaError as error:
            told = ending_error(self._coordinator, prepared, error, commits=commits)
            with self._loop.lock:
                if isinstance(told, FencedError):
                    machine.fail(error)
                elif isinstance(told, (TransactionAbortedError, TransactionStateError)):
                    machine.lose(told)  # it is ended, and the next one may begin after an abort
            if told is error:
                raise
            raise told from error
        if machine.prepared == prepared:  # and no other task has said the same before
            self._ended(following)
