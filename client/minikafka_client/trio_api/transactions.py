"""Transactions of a producer on trio: begins and ends them with their coordinators."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, ParamSpec, Protocol, Self, TypeVar

import trio

from minikafka.protocol.errors import ErrorCode
from minikafka_client import errors
from minikafka_client.core.sender import PartitionsAdded, ProducerIdGranted
from minikafka_client.core.transaction import (
    EPOCH_PER_TRANSACTION,
    TransactionMachine,
    TransactionState,
)
from minikafka_client.log_events import LogEvent
from minikafka_client.plans import transactions as plans
from minikafka_client.plans.coordinators import GROUP_KEY_TYPE, TRANSACTION_KEY_TYPE
from minikafka_client.plans.two_phase_commit import ending_error, init_two_phase
from minikafka_client.producer_options import ProducerConfig
from minikafka_client.signatures import ExcDetails
from minikafka_client.trio_api.background import Background
from minikafka_client.trio_api.network import Network
from minikafka_client.trio_api.send_loop import SendLoop
from minikafka_client.types import (
    GroupMetadata,
    Offsets,
    PreparedTransactionState,
    TopicPartition,
    TransactionOutcome,
)

logger = logging.getLogger(__name__)


ABORT_PATIENCE_S: Final = 10.0
"""How long an abort may delay an exception (or a cancellation) that leaves the block."""
COMMIT_PATIENCE_S: Final = 5.0
"""How long a commit in progress may delay a cancellation."""

_P = ParamSpec("_P")
_Result = TypeVar("_Result")


class HasGroup(Protocol):
    """A consumer, as far as transactions need one."""

    def group_metadata(self) -> GroupMetadata: ...


class Transactions:
    """The transactional part of a producer.

    With ``transaction_two_phase_commit_enable`` it never aborts what its predecessor has prepared:
    the application has to decide about it. The machine is changed while the loop's lock is held.
    """

    def __init__(
        self,
        machine: TransactionMachine,
        config: ProducerConfig,
        network: Network,
        loop: SendLoop,
        background: Background,
        flush: Callable[[], Awaitable[None]],
    ) -> None:
        self.machine = machine
        self._config = config
        self._network = network
        self._loop = loop
        self._background = background
        self._flush = flush
        self._coordinator = plans.Coordinator(machine.transactional_id, TRANSACTION_KEY_TYPE)
        self._group = plans.Coordinator(
            "", GROUP_KEY_TYPE
        )  # of the last group that was committed for
        self._adding = trio.CancelScope()
        self._is_inside = False
        self._is_handed_over = False  # prepared: the block neither commits nor aborts
        self._is_in_doubt = False
        loop.add_partitions = self._add_partitions

    @property
    def prepared(self) -> PreparedTransactionState | None:
        if self.machine.state is TransactionState.PREPARED:
            return self.machine.prepared
        return None

    def guard(self, append: Callable[_P, _Result]) -> Callable[_P, _Result]:
        """The same function, which refuses to append outside a transaction."""
        check_open = self.machine.check_open

        def append_inside(*args: _P.args, **kwargs: _P.kwargs) -> _Result:
            check_open()
            return append(*args, **kwargs)

        return append_inside

    async def initialize(self) -> None:
        await self._init_producer(plans.Identity(self.machine.transactional_id))

    async def reinitialize(self) -> None:
        """Continue after a fatal error as a new producer would; an unfinished abort is finished."""
        if self.machine.state is TransactionState.ABORTABLE and not self._is_inside:
            await self._abort()
        if self.machine.state is TransactionState.FATAL:
            await self._flush()
            with self._loop.lock:
                self.machine.reinitialize()
        if self.machine.state is TransactionState.UNINITIALIZED:
            await self.initialize()

    async def _init_producer(self, identity: plans.Identity) -> None:
        if self._config.transaction_two_phase_commit_enable:
            await self._init_two_phase(identity)
            return
        granted, version = await self._network.run_plan(
            lambda cluster: plans.init_producer(
                cluster, self._coordinator, identity, self._config.transaction_timeout_ms
            ),
            self._config.max_block_ms,
        )
        self._granted(granted, version)

    async def _init_two_phase(self, identity: plans.Identity) -> None:
        """Take over without aborting what the predecessor has prepared."""
        found = await self._network.run_plan(
            lambda cluster: init_two_phase(
                cluster,
                self._coordinator,
                identity,
                self._config.transaction_timeout_ms,
                enable_two_phase_commit=True,
                # With an identity, this producer continues after an abort: nothing is prepared.
                keep_prepared=identity.producer_id < 0,
            ),
            self._config.max_block_ms,
        )
        self._granted(plans.Identity(*found[:3]), EPOCH_PER_TRANSACTION, found.ongoing)

    def _granted(
        self, granted: plans.Identity, version: int, ongoing: PreparedTransactionState | None = None
    ) -> None:
        logger.info(
            "%r is producer %d in epoch %d",
            granted.transactional_id,
            granted.producer_id,
            granted.producer_epoch,
            extra=LogEvent.PRODUCER_ID_GRANTED.about(
                producer_id=granted.producer_id, producer_epoch=granted.producer_epoch
            ),
        )
        with self._loop.lock:
            self.machine.granted(granted.producer_id, granted.producer_epoch, version, ongoing)
        self._tell_sender()

    def _tell_sender(self) -> None:
        machine = self.machine
        self._loop.feed(ProducerIdGranted(machine.producer_id, machine.producer_epoch))

    @property
    def _identity(self) -> plans.Identity:
        machine = self.machine
        return plans.Identity(machine.transactional_id, machine.producer_id, machine.producer_epoch)

    # --- begin and end ---

    async def begin(self) -> None:
        """Open a transaction, after finishing an abort that is not finished."""
        await trio.lowlevel.checkpoint()
        self._background.check_open()
        if self._is_inside:
            raise errors.TransactionStateError(
                f"the producer with transactional_id {self.machine.transactional_id!r} has a "
                f"transaction already; transactions do not nest: leave its block first"
            )
        self._is_inside = True
        self._is_handed_over = False
        try:
            if self.machine.state is TransactionState.ABORTABLE:
                await self._abort()
            with self._loop.lock:
                self.machine.begin()
        except BaseException:
            self._note_unfinished_abort()
            self._is_inside = False
            raise

    async def leave(self, exc: BaseException | None) -> None:
        """Commit, or abort after an exception, which the caller re-raises; see `Transaction`."""
        try:
            if self._is_handed_over:
                return
            if exc is not None:
                await self._abort_in_time()
                if isinstance(exc, errors.TransactionAbortableError):
                    self.machine.raise_if_fatal()
                return
            try:
                await self._commit()
            except BaseException as error:
                await self._abort_in_time()
                self.machine.raise_if_fatal()
                if isinstance(error, errors.TransactionAbortableError):
                    raise self._aborted() from error
                raise
        finally:
            self._is_inside = False

    def _aborted(self) -> errors.TransactionAbortedError:
        return errors.TransactionAbortedError(
            f"the transaction of {self.machine.transactional_id!r} was aborted: "
            f"{self.machine.error}; none of it will be visible, so start over"
        )

    async def _commit(self) -> None:
        machine = self.machine
        with self._loop.lock:
            machine.commit()
        await self._flush()
        if machine.state is TransactionState.COMMITTING:
            await self._end_with_commit()
        machine.raise_if_fatal()
        if machine.is_lost:
            raise machine.abortable_error()

    async def _end_with_commit(self) -> None:
        if not self.machine.has_begun:
            with self._loop.lock:
                self.machine.ended()
            return
        self._is_in_doubt = False
        try:
            await self._try_to_commit(self._config.delivery_timeout_ms)
        except trio.Cancelled:
            self._is_in_doubt = True
            with trio.CancelScope(
                deadline=trio.current_time() + COMMIT_PATIENCE_S, shield=True
            ) as scope:
                await self._try_to_commit(COMMIT_PATIENCE_S * 1000)
            if scope.cancelled_caught:
                with self._loop.lock:
                    silence = errors.RequestTimeoutError("its coordinator does not answer")
                    self.machine.commit_refused(silence, is_in_doubt=True)
            raise

    async def _try_to_commit(self, timeout_ms: float) -> None:
        try:
            following = await self._ask_to_end(timeout_ms, commits=True)
        except errors.KafkaError as error:
            self._commit_failed(error)
        else:
            self._ended(following)

    async def _ask_to_end(
        self, timeout_ms: float | None = None, *, commits: bool
    ) -> plans.Identity:
        return await self._network.run_plan(
            lambda cluster: plans.end_transaction(
                cluster,
                self._coordinator,
                self._identity,
                commits=commits,
                has_own_epochs=self.machine.has_own_epochs,
            ),
            timeout_ms,
        )

    def _commit_failed(self, error: errors.KafkaError) -> None:
        self._is_in_doubt = self._is_in_doubt or self._coordinator.is_unanswered
        with self._loop.lock:
            self.machine.commit_refused(error, is_in_doubt=self._is_in_doubt)

    def _ended(self, following: plans.Identity) -> None:
        with self._loop.lock:
            self.machine.ended(following.producer_id, following.producer_epoch)
        self._tell_sender()

    # --- abort ---

    async def _abort_in_time(self) -> None:
        """Abort an open transaction; if there is no time, the next `begin` finishes it."""
        if self.machine.state in (TransactionState.READY, TransactionState.FATAL):
            return
        deadline = trio.current_time() + ABORT_PATIENCE_S
        with trio.CancelScope(deadline=deadline, shield=True):
            try:
                await self._abort()
            except errors.KafkaError as error:
                transactional_id = self.machine.transactional_id
                logger.warning(
                    "the transaction of %r was not aborted by its producer: %s",
                    transactional_id,
                    error,
                    extra=LogEvent.ABORT_FAILED.about(
                        transactional_id=transactional_id, error=str(error)
                    ),
                )
        self._note_unfinished_abort()

    def _note_unfinished_abort(self) -> None:
        if self.machine.state is TransactionState.ABORTING:
            with self._loop.lock:
                self.machine.lose(
                    errors.RequestTimeoutError(
                        "the transaction before could not be aborted in time"
                    )
                )

    async def _abort(self) -> None:
        """Drop unsent batches, wait for those in flight, and end the transaction (or raise)."""
        machine = self.machine
        with self._loop.lock:
            machine.abort()
        self._adding.cancel()
        await self._flush()
        machine.raise_if_fatal()
        following = plans.Identity(machine.transactional_id)
        if machine.has_begun:
            try:
                following = await self._ask_to_end(commits=False)
            except errors.KafkaError as error:
                if error.code is not ErrorCode.INVALID_TXN_STATE:
                    with self._loop.lock:
                        raise machine.refused(error) from error
                machine.needs_new_epoch = True  # it is closed, one way or the other
            else:
                machine.needs_new_epoch = machine.needs_new_epoch and not machine.has_own_epochs
            machine.has_begun = False
        if machine.needs_new_epoch:
            try:
                await self._init_producer(self._identity)
            except errors.KafkaError as error:
                with self._loop.lock:
                    raise machine.refused(error) from error
        else:
            self._ended(following)

    # --- two-phase commit (KIP-939) ---

    async def prepare(self) -> PreparedTransactionState:
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
        await trio.lowlevel.checkpoint()
        self._background.check_open()
        machine = self.machine
        machine.raise_if_fatal()
        if machine.state is TransactionState.READY:
            return TransactionOutcome.NONE_OPEN
        if machine.state is TransactionState.ABORTABLE:
            raise machine.abortable_error()
        if machine.state is not TransactionState.PREPARED:
            raise errors.TransactionStateError(
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
            following = await self._ask_to_end(self._config.delivery_timeout_ms, commits=commits)
        except errors.KafkaError as error:
            failure = ending_error(self._coordinator, prepared, error, commits=commits)
            with self._loop.lock:
                if isinstance(failure, errors.FencedError):
                    machine.fail(error)
                elif isinstance(
                    failure, (errors.TransactionAbortedError, errors.TransactionStateError)
                ):
                    machine.lose(failure)  # it has ended; the next one may begin after an abort
            if failure is error:
                raise
            raise failure from error
        if machine.prepared == prepared:  # no other task has ended it meanwhile
            self._ended(following)

    # --- partitions and offsets ---

    def _add_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        self._adding = trio.CancelScope()
        self._background.start_soon(self._add, partitions, self._adding)

    async def _add(self, partitions: frozenset[TopicPartition], scope: trio.CancelScope) -> None:
        error: errors.KafkaError | None = None
        with scope:
            try:
                await self._network.run_plan(
                    lambda cluster: plans.add_partitions(
                        cluster, self._coordinator, self._identity, partitions
                    ),
                    self._config.delivery_timeout_ms,
                )
            except errors.KafkaError as failure:
                error = failure
        if not scope.cancelled_caught:
            self._loop.feed(PartitionsAdded(error))

    async def send_offsets(self, offsets: Offsets, group: HasGroup | GroupMetadata | str) -> None:
        await trio.lowlevel.checkpoint()
        machine = self.machine
        machine.check_open()
        if not offsets:
            return
        if isinstance(group, str):
            group = GroupMetadata(group)
        try:
            member = group if isinstance(group, GroupMetadata) else group.group_metadata()
        except errors.CommitFailedError as error:
            with self._loop.lock:
                machine.lose(error)
            raise
        if self._group.key != member.group_id:
            self._group = plans.Coordinator(member.group_id, GROUP_KEY_TYPE)
        machine.has_begun = True
        identity, has_own_epochs = self._identity, machine.has_own_epochs
        try:
            if not has_own_epochs:
                await self._network.run_plan(
                    lambda cluster: plans.add_offsets(
                        cluster, self._coordinator, identity, member.group_id
                    )
                )
            await self._network.run_plan(
                lambda cluster: plans.commit_offsets_in_transaction(
                    cluster, self._group, identity, member, offsets, has_own_epochs=has_own_epochs
                )
            )
        except errors.KafkaError as error:
            with self._loop.lock:
                raise machine.offsets_refused(error, member) from error
        except trio.Cancelled:
            with self._loop.lock:
                machine.lose(
                    errors.TransactionAbortableError(
                        f"sending offsets of group {member.group_id!r} was cancelled, so they may "
                        f"or may not be in the transaction; abort it"
                    )
                )
            machine.needs_new_epoch = True  # the request may still arrive
            raise


class Transaction:
    """One transaction of a producer: ``async with producer.transaction() as transaction``.

    Raises (when the block is left without an exception):
        TransactionAbortedError: something could not be delivered, or it took too long; it was
            aborted, and may be repeated.
        FencedError: another producer with the same ``transactional_id`` took over.
        CommitUnknownError: the coordinator did not answer within ``delivery_timeout_ms``.
        KafkaError: the producer cannot be used again.
    """

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def __aenter__(self) -> Self:
        await self._transactions.begin()
        return self

    async def __aexit__(self, *details: *ExcDetails) -> None:
        await self._transactions.leave(details[1])

    async def send_offsets(
        self, offsets: Offsets, consumer: HasGroup | GroupMetadata | str
    ) -> None:
        """Commit offsets of a consumer's group if and only if the transaction is committed.

        The group checks that the consumer is still a member (KIP-447); a group id alone, or a
        consumer that is not subscribed, commits for a group without members.

        Raises:
            CommitFailedError: the group moved on without this consumer; leave the block.
            TransactionAbortableError: the offsets are refused; leave the block.
            TransactionStateError: the transaction is not open.
            FencedError: the producer or the member has been replaced.
        """
        await self._transactions.send_offsets(offsets, consumer)

    async def prepare(self) -> PreparedTransactionState:
        """Wait until everything is stored, and leave the decision to an external system (KIP-939).

        Nothing more can be sent. Leaving the block then neither commits nor aborts, with or without
        an exception: `Producer.complete_transaction` does, with what your own committed data says,
        or `AdminClient.end_prepared_transaction` from any process.

        With ``transaction_two_phase_commit_enable`` the transaction waits as long as necessary,
        even for a new producer of the same ``transactional_id``; without it, the coordinator aborts
        it after ``transaction_timeout_ms``, and a new producer aborts it immediately.

        Returns:
            The transaction's identity; store it, as text, together with the decision. It is empty
            if nothing was sent: then there is nothing to decide.

        Raises:
            TransactionAbortableError: part of it is lost; leave the block, which aborts it.
            TransactionStateError: it is not open.
            FencedError: another producer with the same ``transactional_id`` took over.
        """
        return await self._transactions.prepare()
