"""The shell around the transaction coordinator.

There is one `TransactionShard` for each partition of ``__transaction_state`` that this broker
leads, run by `runtime`. In addition, shards take producer ids from a small stock that is filled in
the background, their decisions become markers (see `marker_sender`), and a broker has the
coordinator confirm that a partition is in a transaction before it appends the first batch
(KIP-890).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import trio

from ...coordinator.transaction import (
    AddPartitions,
    Ask,
    Command,
    InitProducer,
    Now,
    Reply,
    SendMarkers,
    TopicPartition,
    TransactionConfig,
    TransactionReply,
)
from ...metadata.records import NO_LEADER
from ...metadata.setting_table import BrokerConfig
from ...protocol.errors import ErrorCode
from ...protocol.records import BatchHeader, Record
from ..control.lifecycle import Lifecycle
from ..control.metadata_store import MetadataStore
from ..control.producer_ids import ProducerIds
from ..quorum.change_error import ChangeError
from ..replicas.manager import ReplicaManager
from ..replicas.partition import Partition, PartitionError
from ..rpc import operations
from ..rpc.codec import Respond
from ..rpc.errors import RpcError, RpcFailure
from ..rpc.lanes import Lane
from ..settings.node import Node
from ..system.clock import Clock
from .internal_topics import TRANSACTIONS_TOPIC, transactions_topic
from .marker_sender import MarkerSender
from .markers import MarkerWriter
from .runtime import PendingReply, ShardKind, ShardRuntime

if TYPE_CHECKING:
    from ...coordinator.transaction import TransactionShard
    from ..rpc.peers import Peers

logger = logging.getLogger(__name__)

_PRODUCER_IDS_KEPT = 16
_CONFIRM_SECONDS = 5.0
_CONFIRMATIONS_AT_ONCE_MAX = 4_096
"""For other nodes. Each has at most a thousand requests open, but may give some up."""


_NOT_SURE = TransactionReply(ErrorCode.NOT_COORDINATOR)
"""A client that gets this looks for the coordinator again."""


class ReplyPlace(Protocol):
    """Receives a shard's reply."""

    def put(self, reply: Any) -> None:
        """Called once, on the event loop."""
        ...


class Confirmation(NamedTuple):
    """The transaction that a coordinator must confirm before its first append to a partition.

    With ``adds`` the coordinator adds partitions that are not in it yet, because clients with
    transaction version 2 do not send AddPartitionsToTxn.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds: bool


class TransactionService:
    def __init__(
        self,
        config: BrokerConfig,
        node: Node,
        markers: MarkerWriter,
        producer_ids: ProducerIds,
        *,
        metadata: MetadataStore,
        replicas: ReplicaManager,
        lifecycle: Lifecycle,
        clock: Clock,
        make_durable: Callable[[Partition, int], Awaitable[None]],
        peers: Peers | None,
    ) -> None:
        self._node = node
        self._metadata = metadata
        self._replicas = replicas
        self._peers = peers
        self._producer_id_source = producer_ids
        self._config = TransactionConfig(
            transaction_max_timeout_ms=config.transaction_max_timeout_ms,
            transactional_id_expiration_ms=config.transactional_id_expiration_ms,
            expiration_check_interval_ms=(
                config.transaction_remove_expired_transaction_cleanup_interval_ms
            ),
            is_two_phase_commit_enabled=config.transaction_two_phase_commit_enable,
        )
        self.runtime: ShardRuntime[TransactionShard] = ShardRuntime(
            transactions_topic(config),
            ShardKind(
                new=self._new_shard,
                loaded=_loaded,
                replay=_replay,
                replay_marker=_ignore_marker,
                carry_out=self._carry_out,
            ),
            metadata=metadata,
            replicas=replicas,
            lifecycle=lifecycle,
            clock=clock,
            make_durable=make_durable,
        )
        self.markers = MarkerSender(node.node_id, metadata, self.runtime, markers, peers)
        self._producer_ids: deque[int] = deque()
        self._confirming = 0
        self._wants_producer_ids = trio.Event()

    def start(self, nursery: trio.Nursery) -> None:
        """Start to load the shards that this broker leads, and the background tasks."""
        nursery.start_soon(self._keep_producer_ids)
        nursery.start_soon(self.markers.run)
        self.runtime.start(nursery)

    def _new_shard(self) -> TransactionShard:
        from ...coordinator.transaction import TransactionShard

        return TransactionShard(self._config, take_producer_id=self._take_producer_id)

    def _carry_out(self, number: int, effect: Any) -> None:
        match effect:
            case Reply(token, reply, is_from_memory):
                place: Any = token  # a `ReplyPlace`
                is_current = not is_from_memory or self.runtime.is_surely_current(number)
                place.put(reply if is_current else _NOT_SURE)
            case SendMarkers():
                self.markers.send(number, effect)
            case _:
                raise TypeError(f"unexpected effect of a transaction shard: {effect!r}")

    # --- producer ids --------------------------------------------------------------------------

    def _take_producer_id(self) -> int | None:
        self._wants_producer_ids.set()
        return self._producer_ids.popleft() if self._producer_ids else None

    async def _stock_producer_ids(self) -> None:
        """Fill the stock of producer ids.

        Raises:
            ChangeError: the controller did not assign a block of ids.
        """
        while len(self._producer_ids) < _PRODUCER_IDS_KEPT:
            self._producer_ids.append(await self._producer_id_source.next())

    async def _keep_producer_ids(self) -> None:
        while True:
            await self._wants_producer_ids.wait()
            self._wants_producer_ids = trio.Event()
            try:
                await self._stock_producer_ids()
            except ChangeError as error:
                logger.info("cannot get producer ids at the moment: %s", error)

    # --- commands ------------------------------------------------------------------------------

    async def ask(self, command: Command) -> TransactionReply:
        """Pass a command to the shard of its transactional id, and wait for the reply.

        Raises:
            PartitionError: NOT_COORDINATOR, another broker coordinates the id.
        """
        if isinstance(command, InitProducer) and not self._producer_ids:
            self.runtime.shard_of(command.transactional_id)
            with suppress(ChangeError):  # if none is available, the shard refuses what needs one
                await self._stock_producer_ids()
        pending = PendingReply()
        self.begin(command, pending)
        reply: TransactionReply = await pending.wait()
        return reply

    def begin(self, command: Command, place: ReplyPlace) -> None:
        """As `ask`, without waiting: ``place`` gets the reply now or later.

        Raises:
            PartitionError: NOT_COORDINATOR, another broker coordinates the id.
        """
        number, shard = self.runtime.shard_of(command.transactional_id)
        self.runtime.carry_out(number, shard.handle(Ask(command, place), self.runtime.now()))

    def coordinator_of(self, transactional_id: str) -> int:
        """The broker that coordinates a transactional id.

        Raises:
            PartitionError: COORDINATOR_NOT_AVAILABLE, there is none at the moment.
        """
        topic = self._metadata.image.topics.get(TRANSACTIONS_TOPIC)
        if topic is not None:
            number = self.runtime.partition_of(transactional_id)
            leader = topic.partitions[number].leader
            if leader != NO_LEADER:
                return leader
        raise PartitionError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    # --- confirmation before the first append ----------------------------------------------------

    def added(self, command: AddPartitions) -> None:
        """The coordinator, which is here, has just added partitions to a transaction.

        So the first append to those that are led here needs no question. As with an answer to one,
        the transaction's marker, which comes to all partitions that were added, voids it.
        """
        for place in command.partitions:
            partition = self._replicas.index.partitions.get(place)
            if partition is not None and partition.is_leader:
                found = partition.log.verify_transaction(
                    command.producer_id, command.producer_epoch
                )
                if found is not None:
                    found.added_to = command.transactional_id

    async def confirm(
        self, confirmation: Confirmation, partitions: Iterable[Partition]
    ) -> ErrorCode:
        """Have the coordinator confirm that partitions are in a transaction, where required.

        Returns:
            NONE when all may be appended to, else the coordinator's error.
        """
        producer_id, epoch = confirmation.producer_id, confirmation.producer_epoch
        open_ = [(one, one.log.verify_transaction(producer_id, epoch)) for one in partitions]
        topic_ids = {one.topic.name: one.topic.topic_id for one, _ in open_}
        wanted = {
            (one.topic.name, one.index): verification
            for one, verification in open_
            if verification is not None and not verification.is_confirmed
        }
        if not wanted:
            return ErrorCode.NONE
        code = await self._confirm(confirmation, tuple(wanted), topic_ids)
        if code is ErrorCode.NONE:
            for verification in wanted.values():
                verification.is_confirmed = True
        return code

    async def _confirm(
        self,
        confirmation: Confirmation,
        partitions: tuple[TopicPartition, ...],
        topic_ids: Mapping[str, bytes],
    ) -> ErrorCode:
        try:
            coordinator = self.coordinator_of(confirmation.transactional_id)
            if coordinator == self._node.node_id:
                return await self._answer(confirmation, partitions, topic_ids)
        except PartitionError as error:
            return ErrorCode(error.error_code)
        return await self._ask_node(coordinator, confirmation, partitions, topic_ids)

    async def _answer(
        self,
        confirmation: Confirmation,
        partitions: tuple[TopicPartition, ...],
        topic_ids: Mapping[str, bytes],
    ) -> ErrorCode:
        pending = PendingReply()
        self._begin_answer(confirmation, partitions, topic_ids, pending)
        reply: TransactionReply = await pending.wait()
        return reply.error_code

    def _begin_answer(
        self,
        confirmation: Confirmation,
        partitions: tuple[TopicPartition, ...],
        topic_ids: Mapping[str, bytes],
        place: ReplyPlace,
    ) -> None:
        if not all(self._exists(one, topic_ids) for one in partitions):
            # The node that asks leads them, so they exist, and this node's metadata is behind
            # (perhaps it still has a deleted topic of the same name). It would take the partitions
            # for deleted when it writes markers.
            place.put(TransactionReply(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        command = AddPartitions(
            confirmation.transactional_id,
            confirmation.producer_id,
            confirmation.producer_epoch,
            partitions,
            verifies_only=not confirmation.adds,
            transaction_version=2 if confirmation.adds else 0,
        )
        self.begin(command, place)

    def _exists(self, place: TopicPartition, topic_ids: Mapping[str, bytes]) -> bool:
        topic = self._metadata.image.topics.get(place[0])
        return (
            topic is not None
            and topic_ids.get(place[0], topic.topic_id) == topic.topic_id
            and 0 <= place[1] < len(topic.partitions)
        )

    async def _ask_node(
        self,
        node_id: int,
        confirmation: Confirmation,
        partitions: tuple[TopicPartition, ...],
        topic_ids: Mapping[str, bytes],
    ) -> ErrorCode:
        if self._peers is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        request = operations.ConfirmTransaction(
            confirmation.transactional_id,
            confirmation.producer_id,
            confirmation.producer_epoch,
            tuple(operations.Place(*one) for one in partitions),
            confirmation.adds,
            tuple(operations.TopicId(*one) for one in topic_ids.items()),
        )
        try:
            reply = await self._peers.client(node_id, Lane.CONFIRMATIONS).call(
                operations.CONFIRM_TRANSACTION, request, timeout_s=_CONFIRM_SECONDS
            )
        except RpcError as error:
            logger.info("node %d did not confirm a transaction: %s", node_id, error)
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return reply.message.error_code

    def serve_confirm(
        self,
        node_id: int,
        request: operations.ConfirmTransaction,
        attachments: Sequence[memoryview],
        respond: Respond[operations.TransactionConfirmed],
    ) -> None:
        """Serve a node that is about to append the first batch of a transaction.

        Raises:
            RpcFailure: too many confirmations are waiting.
        """
        del node_id, attachments
        if self._confirming >= _CONFIRMATIONS_AT_ONCE_MAX:
            raise RpcFailure(
                "Busy", f"{self._confirming} confirmations are waiting for their coordinators"
            )
        self._confirming += 1

        def answer(reply: TransactionReply) -> None:
            self._confirming -= 1
            respond(operations.TransactionConfirmed(reply.error_code), ())

        try:
            self._begin_answer(
                Confirmation(
                    request.transactional_id,
                    request.producer_id,
                    request.producer_epoch,
                    request.adds,
                ),
                request.partitions,
                dict(request.topic_ids),
                _ReplyFunction(answer),
            )
        except PartitionError as error:
            answer(TransactionReply(ErrorCode(error.error_code)))


class _ReplyFunction:
    __slots__ = ("_function",)

    def __init__(self, function: Callable[[TransactionReply], None]) -> None:
        self._function = function

    def put(self, reply: TransactionReply) -> None:
        self._function(reply)


def _loaded(shard: TransactionShard, leader_epoch: int, now: Now) -> list[Any]:
    return [*shard.loaded(leader_epoch, now)]


def _replay(shard: TransactionShard, header: BatchHeader, record: Record) -> None:
    del header
    assert record.key is not None
    shard.replay(record.key, record.value)


def _ignore_marker(shard: TransactionShard, producer_id: int, commits: bool) -> None:
    """No transaction writes to this topic."""
