"""The shell around the transaction coordinator.

There is one `TransactionShard` for each partition of ``__transaction_state`` that this broker
leads, run as `shard_runtime` says. What is special: shards take producer ids from a small stock
that is filled in the background, their decisions become markers (see `marker_sending`), and
brokers ask each other's coordinators whether a partition is in a transaction before they append the
first batch (KIP-890).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import trio

from ..coordinator.transaction import (
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
from ..metadata.image import NO_LEADER
from ..protocol.errors import ErrorCode
from ..protocol.records import BatchHeader, Record
from ..storage.transactions import Verification
from .change_error import ChangeError
from .internal_topics import InternalTopic
from .marker_sending import MarkerSender
from .partition import Partition, PartitionError
from .shard_runtime import PendingReply, ShardKind, ShardRuntime

if TYPE_CHECKING:
    from ..coordinator.transaction import TransactionShard
    from .broker import Broker
    from .config import BrokerConfig

logger = logging.getLogger(__name__)

TRANSACTIONS_TOPIC = "__transaction_state"
CONFIRM = "confirm-transaction"
"""Operation: [transactional id, producer id, epoch, [[topic, partition], ...], adds] -> error."""

_PRODUCER_IDS_KEPT = 16
_CONFIRM_SECONDS = 5.0
_PARTITIONS_PER_CONFIRMATION_MAX = 20_000
_CONFIRMATIONS_AT_ONCE_MAX = 4_096
"""Of other nodes; each of them has no more than a thousand requests open, but may give some up."""


_NOT_SURE = TransactionReply(ErrorCode.NOT_COORDINATOR)
"""Who hears it looks for the coordinator again."""


class ReplyPlace(Protocol):
    """Where a shard's reply is put."""

    def put(self, reply: Any) -> None:
        """The reply is there; called once, on the event loop."""
        ...


def transactions_topic(config: BrokerConfig) -> InternalTopic:
    """``__transaction_state`` as it is created."""
    return InternalTopic(
        TRANSACTIONS_TOPIC,
        config.transaction_state_log_num_partitions,
        config.transaction_state_log_replication_factor,
        {
            "cleanup.policy": "compact",
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "compression.type": "uncompressed",
            "unclean.leader.election.enable": "false",
        },
    )


class Confirmation(NamedTuple):
    """What a coordinator is asked before the first append of a transaction to some partitions.

    Attributes:
        transactional_id: whose transaction.
        producer_id: likewise.
        producer_epoch: likewise.
        adds: add the partitions if they are not in it (clients of transaction version 2 do not).
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds: bool


class TransactionService:
    """All transaction shards of this broker."""

    def __init__(self, broker: Broker) -> None:
        config = broker.config
        self._broker = broker
        self._config = TransactionConfig(
            transaction_max_timeout_ms=config.transaction_max_timeout_ms,
            transactional_id_expiration_ms=config.transactional_id_expiration_ms,
            expiration_check_interval_ms=(
                config.transaction_remove_expired_transaction_cleanup_interval_ms
            ),
            is_two_phase_commit_enabled=config.transaction_two_phase_commit_enable,
        )
        self.runtime: ShardRuntime[TransactionShard] = ShardRuntime(
            broker,
            transactions_topic(config),
            ShardKind(
                new=self._new_shard,
                loaded=_loaded,
                replay=_replay,
                replay_marker=_no_markers_here,
                carry_out=self._carry_out,
            ),
        )
        self.markers = MarkerSender(broker, self.runtime)
        self._producer_ids: deque[int] = deque()
        self._confirming = 0
        self._wants_producer_ids = trio.Event()

    async def start(self, nursery: trio.Nursery) -> None:
        """Begin to load the shards that this broker leads."""
        nursery.start_soon(self._keep_producer_ids)
        nursery.start_soon(self.markers.run)
        await self.runtime.start(nursery)

    def _new_shard(self) -> TransactionShard:
        from ..coordinator.transaction import TransactionShard

        return TransactionShard(self._config, take_producer_id=self._take_producer_id)

    def _carry_out(self, number: int, effect: Any) -> None:
        match effect:
            case Reply(token, reply, is_from_memory):
                place: Any = token  # a `ReplyPlace`
                is_true = not is_from_memory or self.runtime.is_surely_current(number)
                place.put(reply if is_true else _NOT_SURE)
            case SendMarkers():
                self.markers.send(number, effect)
            case _:
                raise TypeError(f"a transaction shard wants {effect!r}")

    # --- producer ids --------------------------------------------------------------------------

    def _take_producer_id(self) -> int | None:
        self._wants_producer_ids.set()
        return self._producer_ids.popleft() if self._producer_ids else None

    async def _stock_producer_ids(self) -> None:
        """Have some at hand before a shard may want one.

        Raises:
            ChangeError: the controller gives none.
        """
        while len(self._producer_ids) < _PRODUCER_IDS_KEPT:
            self._producer_ids.append(await self._broker.next_producer_id())

    async def _keep_producer_ids(self) -> None:
        while True:
            await self._wants_producer_ids.wait()
            self._wants_producer_ids = trio.Event()
            try:
                await self._stock_producer_ids()
            except ChangeError as error:
                logger.info("no producer ids at the moment: %s", error)

    # --- asking the coordinator ------------------------------------------------------------------

    async def ask(self, command: Command) -> TransactionReply:
        """Ask the shard of a transactional id on this broker, and wait for its reply.

        Raises:
            PartitionError: NOT_COORDINATOR, another broker keeps the id.
        """
        if isinstance(command, InitProducer) and not self._producer_ids:
            self.runtime.shard_of(command.transactional_id)
            with suppress(ChangeError):  # then those commands are refused that need one
                await self._stock_producer_ids()
        pending = PendingReply()
        self.begin(command, pending)
        reply: TransactionReply = await pending.wait()
        return reply

    def begin(self, command: Command, place: ReplyPlace) -> None:
        """Ask likewise, without waiting: the reply is put into its place now or later.

        Raises:
            PartitionError: NOT_COORDINATOR, another broker keeps the id.
        """
        number, shard = self.runtime.shard_of(command.transactional_id)
        self.runtime.carry_out(number, shard.handle(Ask(command, place), self.runtime.now()))

    def coordinator_of(self, transactional_id: str) -> int:
        """The broker that coordinates an id's transactions.

        Raises:
            PartitionError: COORDINATOR_NOT_AVAILABLE, there is none at the moment.
        """
        topic = self._broker.image.topics.get(TRANSACTIONS_TOPIC)
        if topic is not None:
            number = self.runtime.partition_of(transactional_id)
            leader = topic.partitions[number].leader
            if leader != NO_LEADER:
                return leader
        raise PartitionError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    # --- before the first append -----------------------------------------------------------------

    async def confirm(
        self, confirmation: Confirmation, partitions: Iterable[Partition]
    ) -> ErrorCode:
        """Have the coordinator confirm that partitions are in a transaction, where that is needed.

        Returns:
            NONE when all may be appended to; else why not, as the coordinator said.
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
            _note(wanted.values())
        return code

    async def _confirm(
        self,
        confirmation: Confirmation,
        partitions: tuple[TopicPartition, ...],
        topic_ids: Mapping[str, bytes],
    ) -> ErrorCode:
        try:
            coordinator = self.coordinator_of(confirmation.transactional_id)
            if coordinator == self._broker.node_id:
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
            # The node that asks leads them, so they are there: this one has yet to hear of them
            # (perhaps of an earlier topic's end, too), and would take them for deleted when it has
            # markers written.
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
        topic = self._broker.image.topics.get(place[0])
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
        from .rpc import RpcError

        interconnect = self._broker.interconnect
        if interconnect is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        fields = [
            *confirmation[:3],
            [list(one) for one in partitions],
            confirmation.adds,
            [list(one) for one in topic_ids.items()],
        ]
        try:
            reply = await interconnect.peers.client(node_id).call(
                CONFIRM, fields, timeout_s=_CONFIRM_SECONDS
            )
        except RpcError as error:
            logger.info("node %d does not confirm a transaction: %s", node_id, error)
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode(reply.fields)

    def serve_confirm(
        self,
        node_id: int,
        fields: Any,
        attachments: Sequence[memoryview],
        respond: Callable[[Any, Sequence[Any]], None],
    ) -> None:
        """Answer a node that is about to append the first batch of a transaction, now or later.

        Raises:
            RpcFailure: the request is none, or too many wait already.
        """
        from .rpc import RpcFailure

        match fields:
            case (
                str(name),
                int(producer_id),
                int(epoch),
                [*partitions],
                bool(adds),
                *more,
            ) if not attachments and len(partitions) <= _PARTITIONS_PER_CONFIRMATION_MAX:
                wanted = tuple(_topic_partition(one) for one in partitions)
                topic_ids = dict(_topic_id(one) for one in (more[0] if more else ()))
            case _:
                raise RpcFailure("Malformed", f"node {node_id} sent no confirmation request")
        if self._confirming >= _CONFIRMATIONS_AT_ONCE_MAX:
            raise RpcFailure(
                "Busy", f"{self._confirming} confirmations wait for their coordinators"
            )
        self._confirming += 1

        def answer(reply: TransactionReply) -> None:
            self._confirming -= 1
            respond(int(reply.error_code), ())

        try:
            self._begin_answer(
                Confirmation(name, producer_id, epoch, adds),
                wanted,
                topic_ids,
                _Answering(answer),
            )
        except PartitionError as error:
            answer(TransactionReply(ErrorCode(error.error_code)))


class _Answering:
    """Calls a function with the reply."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[TransactionReply], None]) -> None:
        self._function = function

    def put(self, reply: TransactionReply) -> None:
        """The reply is there."""
        self._function(reply)


def _loaded(shard: TransactionShard, leader_epoch: int, now: Now) -> list[Any]:
    return [*shard.loaded(leader_epoch, now)]


def _replay(shard: TransactionShard, header: BatchHeader, record: Record) -> None:
    del header
    assert record.key is not None
    shard.replay(record.key, record.value)


def _no_markers_here(shard: TransactionShard, producer_id: int, commits: bool) -> None:
    """Nobody writes to this topic in a transaction."""


def _note(verifications: Iterable[Verification]) -> None:
    for verification in verifications:
        verification.is_confirmed = True


def _topic_partition(fields: Any) -> TopicPartition:
    from .rpc import RpcFailure

    match fields:
        case (str(topic), int(partition)):
            return topic, partition
        case _:
            raise RpcFailure("Malformed", f"no topic and partition: {fields!r:.100}")


def _topic_id(fields: Any) -> tuple[str, bytes]:
    from .rpc import RpcFailure

    match fields:
        case (str(topic), bytes(topic_id)):
            return topic, topic_id
        case _:
            raise RpcFailure("Malformed", f"no topic and its id: {fields!r:.100}")
