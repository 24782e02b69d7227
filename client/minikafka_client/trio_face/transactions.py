"""Transactions of a producer on trio: begins and ends them, and asks their coordinators."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, ParamSpec, Protocol, TypeVar

import trio

from minikafka.protocol.errors import ErrorCode
from minikafka_client.core.sender_messages import PartitionsAdded, ProducerIdGranted
from minikafka_client.core.transaction import TransactionMachine, TransactionState
from minikafka_client.errors import (
    CommitFailedError,
    KafkaError,
    RequestTimeoutError,
    TransactionAbortableError,
    TransactionAbortedError,
    TransactionStateError,
)
from minikafka_client.log_events import LogEvent
from minikafka_client.plans.coordinators import GROUP_KEY_TYPE, TRANSACTION_KEY_TYPE
from minikafka_client.plans.transactions import (
    Coordinator,
    Identity,
    add_offsets,
    add_partitions,
    commit_offsets_in_transaction,
    end_transaction,
    init_producer,
)
from minikafka_client.producer_options import ProducerConfig
from minikafka_client.trio_face.background import Background
from minikafka_client.trio_face.network import Network
from minikafka_client.trio_face.send_loop import SendLoop
from minikafka_client.types import (
    GroupMetadata,
    OffsetAndMetadata,
    PreparedTransactionState,
    TopicPartition,
)

logger = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]

ABORT_PATIENCE_S: Final = 10.0
"""How long an abort may hold up an exception (or a cancellation) that leaves the block."""
COMMIT_PATIENCE_S: Final = 5.0
"""How long a commit that is under way may hold up a cancellation."""

_P = ParamSpec("_P")
_Result = TypeVar("_Result")


class HasGroup(Protocol):
    """A consumer, as far as transactions need one."""

    def group_metadata(self) -> GroupMetadata:
        """Who commits the group's offsets now."""
        ...


class Transactions:
    """What a transactional producer has besides its sender.

    Args:
        machine: the states; it is changed while the loop's lock is held.
        config: the producer's.
        network: where the coordinators are.
        loop: runs the sender.
        background: where partitions are added.
        flush: waits until all batches are done.
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
        self._coordinator = Coordinator(machine.transactional_id, TRANSACTION_KEY_TYPE)
        self._group = Coordinator("", GROUP_KEY_TYPE)  # of the last group that was committed for
        self._adding = trio.CancelScope()
        self._is_inside = False
        self._is_handed_over = False  # somebody else decides about the transaction
        self._is_in_doubt = False
        loop.add_partitions = self._add_partitions

    def guard(self, append: Callable[_P, _Result]) -> Callable[_P, _Result]:
        """The same function, which refuses to append outside a transaction."""
        check_open = self.machine.check_open

        def append_inside(*args: _P.args, **kwargs: _P.kwargs) -> _Result:
            check_open()
            return append(*args, **kwargs)

        return append_inside

    async def initialize(self) -> None:
        """Get an identity; what an older producer of the id has left open is ended by that.

        Raises:
            KafkaError: the coordinator refused, or could not be asked within ``max_block_ms``.
        """
        await self._init_producer(Identity(self.machine.transactional_id))

    async def begin_anew(self) -> None:
        """Go on after a fatal error, as a new producer of the same transactional id would.

        An abort that was not finished in time is finished.

        Raises:
            KafkaError: the coordinator refused, or could not be asked within ``max_block_ms``.
        """
        if self.machine.state is TransactionState.ABORTABLE and not self._is_inside:
            await self._abort()
        if self.machine.state is TransactionState.FATAL:
            await self._flush()
            with self._loop.lock:
                self.machine.begin_anew()
        if self.machine.state is TransactionState.UNINITIALIZED:
            await self.initialize()

    async def _init_producer(self, identity: Identity) -> None:
        granted, version = await self._network.run_plan(
            lambda cluster: init_producer(
                cluster, self._coordinator, identity, self._config.transaction_timeout_ms
            ),
            self._config.max_block_ms,
        )
        self._granted(granted, version)

    def _granted(
        self, granted: Identity, version: int, ongoing: PreparedTransactionState | None = None
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
    def _identity(self) -> Identity:
        machine = self.machine
        return Identity(machine.transactional_id, machine.producer_id, machine.producer_epoch)

    # --- begin and end ---

    async def begin(self) -> None:
        """Open a transaction.

        Raises:
            TransactionStateError: there is one.
            KafkaError: the producer cannot be used any more, or an abort that was not finished
                cannot be finished now, either.
        """
        await trio.lowlevel.checkpoint()
        self._background.check_open()
        if self._is_inside:
            raise TransactionStateError(
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
        """Commit, or abort after an exception, which the caller raises again.

        What is prepared stays as it is.

        Raises:
            TransactionAbortedError: it could not be committed, and is aborted.
            FencedError: another producer took over.
            CommitUnknownError: nobody knows whether it is committed.
            KafkaError: the producer cannot be used any more.
        """
        try:
            if self._is_handed_over:
                return
            if exc is not None:
                await self._abort_in_time()
                if isinstance(exc, TransactionAbortableError):
                    self.machine.raise_if_fatal()
                return
            try:
                await self._commit()
            except BaseException as error:
                await self._abort_in_time()
                self.machine.raise_if_fatal()
                if isinstance(error, TransactionAbortableError):
                    raise self._aborted() from error
                raise
        finally:
            self._is_inside = False

    def _aborted(self) -> TransactionAbortedError:
        return TransactionAbortedError(
            f"the transaction of {self.machine.transactional_id!r} was aborted: "
            f"{self.machine.error}; nothing of it will be seen, so do it again"
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
                    silence = RequestTimeoutError("its coordinator does not answer")
                    self.machine.commit_refused(silence, is_in_doubt=True)
            raise

    async def _try_to_commit(self, timeout_ms: float) -> None:
        try:
            following = await self._network.run_plan(
                lambda cluster: end_transaction(
                    cluster,
                    self._coordinator,
                    self._identity,
                    commits=True,
                    has_own_epochs=self.machine.has_own_epochs,
                ),
                timeout_ms,
            )
        except KafkaError as error:
            self._commit_failed(error)
        else:
            self._ended(following)

    def _commit_failed(self, error: KafkaError) -> None:
        """The coordinator has refused to commit, or has not answered in time."""
        self._is_in_doubt = self._is_in_doubt or self._coordinator.is_unanswered
        with self._loop.lock:
            self.machine.commit_refused(error, is_in_doubt=self._is_in_doubt)

    def _ended(self, following: Identity) -> None:
        with self._loop.lock:
            self.machine.ended(following.producer_id, following.producer_epoch)
        self._tell_sender()

    # --- abort ---

    async def _abort_in_time(self) -> None:
        """Abort what is to be aborted; what is not done in time is done by the next `begin`."""
        if self.machine.state in (TransactionState.READY, TransactionState.FATAL):
            return
        deadline = trio.current_time() + ABORT_PATIENCE_S
        with trio.CancelScope(deadline=deadline, shield=True):
            try:
                await self._abort()
            except KafkaError as error:
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
                    RequestTimeoutError("the transaction before could not be aborted in time")
                )

    async def _abort(self) -> None:
        """Drop what is unsent, await what is under way, and end the transaction.

        Raises:
            KafkaError: it cannot be ended now.
        """
        machine = self.machine
        with self._loop.lock:
            machine.abort()
        self._adding.cancel()
        await self._flush()
        machine.raise_if_fatal()
        following = Identity(machine.transactional_id)
        if machine.has_begun:
            try:
                following = await self._network.run_plan(
                    lambda cluster: end_transaction(
                        cluster,
                        self._coordinator,
                        self._identity,
                        commits=False,
                        has_own_epochs=machine.has_own_epochs,
                    )
                )
            except KafkaError as error:
                if error.code is not ErrorCode.INVALID_TXN_STATE:
                    with self._loop.lock:
                        raise machine.refused(error) from error
                machine.needs_new_epoch = True  # nothing is open, whatever became of it
            else:
                machine.needs_new_epoch = machine.needs_new_epoch and not machine.has_own_epochs
            machine.has_begun = False
        if machine.needs_new_epoch:
            try:
                await self._init_producer(self._identity)
            except KafkaError as error:
                with self._loop.lock:
                    raise machine.refused(error) from error
        else:
            self._ended(following)

    # --- partitions and offsets ---

    def _add_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        self._adding = trio.CancelScope()
        self._background.start_soon(self._add, partitions, self._adding)

    async def _add(self, partitions: frozenset[TopicPartition], scope: trio.CancelScope) -> None:
        error: KafkaError | None = None
        with scope:
            try:
                await self._network.run_plan(
                    lambda cluster: add_partitions(
                        cluster, self._coordinator, self._identity, partitions
                    ),
                    self._config.delivery_timeout_ms,
                )
            except KafkaError as failure:
                error = failure
        if not scope.cancelled_caught:
            self._loop.feed(PartitionsAdded(error))

    async def send_offsets(self, offsets: Offsets, group: HasGroup | GroupMetadata | str) -> None:
        """Commit a group's offsets with the transaction; see `Transaction.send_offsets`."""
        await trio.lowlevel.checkpoint()
        machine = self.machine
        machine.check_open()
        if not offsets:
            return
        if isinstance(group, str):
            group = GroupMetadata(group)
        try:
            member = group if isinstance(group, GroupMetadata) else group.group_metadata()
        except CommitFailedError as error:
            with self._loop.lock:
                machine.lose(error)
            raise
        if self._group.key != member.group_id:
            self._group = Coordinator(member.group_id, GROUP_KEY_TYPE)
        machine.has_begun = True
        identity, has_own_epochs = self._identity, machine.has_own_epochs
        try:
            if not has_own_epochs:
                await self._network.run_plan(
                    lambda cluster: add_offsets(
                        cluster, self._coordinator, identity, member.group_id
                    )
                )
            await self._network.run_plan(
                lambda cluster: commit_offsets_in_transaction(
                    cluster, self._group, identity, member, offsets, has_own_epochs=has_own_epochs
                )
            )
        except KafkaError as error:
            with self._loop.lock:
                raise machine.offsets_refused(error, member) from error
        except trio.Cancelled:
            with self._loop.lock:
                machine.lose(
                    TransactionAbortableError(
                        f"sending offsets of group {member.group_id!r} was cancelled, and nobody "
                        f"knows whether they are in the transaction; abort it"
                    )
                )
            machine.needs_new_epoch = True  # the request may still arrive
            raise
