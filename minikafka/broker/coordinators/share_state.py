"""The shell around the share coordinator, which stores the state of share groups.

There is one `ShareStateShard` for each partition of ``__share_group_state`` that this broker leads,
run by `runtime`. Leaders of share-partitions and group coordinators, here and on other brokers, ask
with `ShareStateService.ask`; between brokers that is an operation of ours, where Kafka has the
broker-internal APIs 83 to 87.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import trio

from ...coordinator.share.commands import (
    Command,
    Delete,
    Initialize,
    Read,
    Reply,
    ShareStateReply,
    Summarize,
    Write,
)
from ...coordinator.share.records import SharePartitionKey
from ...coordinator.share.shard import ShareStateConfig, ShareStateShard
from ...coordinator.share.share_partition import RecordState, StateBatch
from ...coordinator.writes import Now
from ...metadata.records import NO_LEADER
from ...metadata.setting_table import BrokerConfig
from ...protocol.errors import ErrorCode
from ...protocol.records import BatchHeader, Record
from ...storage.errors import LogError
from ..control.lifecycle import Lifecycle
from ..control.metadata_store import MetadataStore
from ..quorum.change_error import ChangeError
from ..replicas.manager import ReplicaManager
from ..replicas.partition import Partition, PartitionError
from ..rpc import operations
from ..rpc.codec import Respond
from ..rpc.errors import RpcError, RpcFailure
from ..settings.node import Node
from ..system.clock import Clock
from .internal_topics import SHARE_STATE_TOPIC, InternalTopics, share_state_topic
from .runtime import PendingReply, ShardKind, ShardRuntime

if TYPE_CHECKING:
    from ..rpc.peers import Peers

logger = logging.getLogger(__name__)

_ASK_SECONDS = 5.0
_RETRY_SECONDS = 10.0
"""How long a command is repeated while its coordinator moves or loads."""
_FIRST_BACKOFF_SECONDS = 0.02
_BACKOFF_SECONDS_MAX = 1.0
_OTHERS_AT_ONCE_MAX = 10_000
_NAMES: Final[dict[str, type[Command]]] = {
    "initialize": Initialize,
    "read": Read,
    "write": Write,
    "summarize": Summarize,
    "delete": Delete,
}
_NUMBERS: Final = ("state_epoch", "leader_epoch", "start_offset", "delivery_complete_count")
_NOTHING: Final = -1
_RETRIABLE: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


class ShareStateService:
    """All shards of the share coordinator of this broker, and the way to those of others."""

    def __init__(
        self,
        config: BrokerConfig,
        node: Node,
        internal_topics: InternalTopics,
        *,
        metadata: MetadataStore,
        replicas: ReplicaManager,
        lifecycle: Lifecycle,
        clock: Clock,
        make_durable: Callable[[Partition, int], Awaitable[None]],
        peers: Peers | None,
    ) -> None:
        self._node = node
        self._internal_topics = internal_topics
        self._metadata = metadata
        self._replicas = replicas
        self._clock = clock
        self._peers = peers
        self._prune_interval_s = config.share_coordinator_state_topic_prune_interval_ms / 1000
        self._config = ShareStateConfig(
            config.share_coordinator_snapshot_update_records_per_snapshot,
            config.share_coordinator_write_timeout_ms,
        )
        self._asked_by_others = 0
        self.runtime: ShardRuntime[ShareStateShard] = ShardRuntime(
            share_state_topic(config),
            ShardKind(
                new=lambda: ShareStateShard(self._config),
                loaded=_loaded,
                replay=_replay,
                replay_marker=_ignore_marker,
                carry_out=_carry_out,
                written_at=ShareStateShard.written_at,
            ),
            metadata=metadata,
            replicas=replicas,
            lifecycle=lifecycle,
            clock=clock,
            make_durable=make_durable,
        )

    def start(self, nursery: trio.Nursery) -> None:
        """Start to load the shards that this broker leads, and the background tasks."""
        nursery.start_soon(self._prune_from_time_to_time)
        self.runtime.start(nursery)

    # --- asking --------------------------------------------------------------------------------

    async def ask(self, command: Command) -> ShareStateReply:
        """Have the coordinator of a share-partition carry out a command, wherever it is.

        While the coordinator moves or loads, the command is repeated for some seconds.
        """
        until = self._clock.monotonic() + _RETRY_SECONDS
        backoff = _FIRST_BACKOFF_SECONDS
        while True:
            reply = await self._ask_once(command)
            if reply.error_code not in _RETRIABLE or self._clock.monotonic() + backoff > until:
                return reply
            await trio.sleep(backoff)
            backoff = min(2 * backoff, _BACKOFF_SECONDS_MAX)

    async def _ask_once(self, command: Command) -> ShareStateReply:
        try:
            await self._internal_topics.ensure(self.runtime.topic)
            coordinator = self._coordinator_of(command.key)
            if coordinator == self._node.node_id:
                pending = PendingReply()
                self._begin(command, pending)
                reply: ShareStateReply = await pending.wait()
                return reply
        except PartitionError as error:
            return ShareStateReply(ErrorCode(error.error_code))
        except ChangeError:
            return ShareStateReply(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return await self._ask_node(coordinator, command)

    def _coordinator_of(self, key: SharePartitionKey) -> int:
        topic = self._metadata.image.topics.get(SHARE_STATE_TOPIC)
        if topic is not None:
            leader = topic.partitions[self.runtime.partition_of(coordinator_key(key))].leader
            if leader != NO_LEADER:
                return leader
        raise PartitionError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _begin(self, command: Command, place: Any) -> None:
        number, shard = self.runtime.shard_of(coordinator_key(command.key))
        effects = shard.handle(command, place, self.runtime.now())
        self.runtime.carry_out(number, [*effects])

    async def _ask_node(self, node_id: int, command: Command) -> ShareStateReply:
        if self._peers is None:
            return ShareStateReply(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        try:
            reply = await self._peers.client(node_id).call(
                operations.SHARE_STATE, _as_message(command), timeout_s=_ASK_SECONDS
            )
        except RpcError as error:
            logger.info("node %d did not answer about share state: %s", node_id, error)
            return ShareStateReply(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        answer = reply.message
        return ShareStateReply(
            answer.error_code,
            answer.state_epoch,
            answer.leader_epoch,
            answer.start_offset,
            answer.delivery_complete_count,
            _batches(answer.batches),
        )

    def serve(
        self,
        node_id: int,
        request: operations.AskShareState,
        attachments: Sequence[memoryview],
        respond: Respond[operations.ShareStateAnswer],
    ) -> None:
        """Serve a node that leads a share-partition or coordinates its group.

        Raises:
            RpcFailure: the command is unknown, or too many are waiting.
        """
        del attachments
        if self._asked_by_others >= _OTHERS_AT_ONCE_MAX:
            raise RpcFailure("Busy", f"{self._asked_by_others} commands about share state wait")
        command = _as_command(request)
        if command is None:
            raise RpcFailure("Unknown", f"node {node_id} sent the command {request.command!r}")
        self._asked_by_others += 1

        def answer(reply: ShareStateReply) -> None:
            self._asked_by_others -= 1
            message = operations.ShareStateAnswer(
                reply.error_code,
                reply.state_epoch,
                reply.leader_epoch,
                reply.start_offset,
                reply.delivery_complete_count,
                _batch_messages(reply.batches),
            )
            respond(message, ())

        try:
            self._begin(command, _AnswerPlace(answer))
        except PartitionError as error:
            answer(ShareStateReply(ErrorCode(error.error_code)))

    # --- the log -------------------------------------------------------------------------------

    async def _prune_from_time_to_time(self) -> None:
        while True:
            await trio.sleep(self._prune_interval_s)
            self.prune()

    def prune(self) -> None:
        """Delete the records of ``__share_group_state`` that later snapshots have superseded."""
        for number, shard in list(self.runtime.shards.items()):
            if shard.error is not ErrorCode.NONE:
                continue
            try:
                partition = self._replicas.index.find(SHARE_STATE_TOPIC, number)
                log = partition.log
                offset = min(shard.needed_from(log.log_end_offset), log.high_watermark)
                if offset > log.log_start_offset:
                    partition.delete_records(offset)
            except (PartitionError, LogError) as error:
                logger.info("cannot prune %s-%d: %s", SHARE_STATE_TOPIC, number, error)


def coordinator_key(key: SharePartitionKey) -> str:
    """By which a share-partition's coordinator is found; Kafka's text, so tools find it, too."""
    topic_id = base64.urlsafe_b64encode(key.topic_id).decode().rstrip("=")
    return f"{key.group_id}:{topic_id}:{key.partition}"


class _AnswerPlace:
    __slots__ = ("_function",)

    def __init__(self, function: Callable[[ShareStateReply], None]) -> None:
        self._function = function

    def put(self, reply: ShareStateReply) -> None:
        self._function(reply)


def _as_message(command: Command) -> operations.AskShareState:
    (name,) = (name for name, kind in _NAMES.items() if type(command) is kind)
    key = command.key
    batches = command.batches if isinstance(command, Write) else ()
    fields: dict[str, Any] = {field: getattr(command, field, _NOTHING) for field in _NUMBERS}
    return operations.AskShareState(
        name,
        key.group_id,
        key.topic_id,
        key.partition,
        **fields,
        batches=_batch_messages(batches),
    )


def _as_command(request: operations.AskShareState) -> Command | None:
    kind = _NAMES.get(request.command)
    if kind is None:
        return None
    fields: dict[str, Any] = {
        **request._asdict(),
        "key": SharePartitionKey(request.group_id, request.topic_id, request.partition),
        "batches": _batches(request.batches),
    }
    command: Command = kind(**{name: fields[name] for name in kind._fields})
    return command


def _batch_messages(batches: Sequence[StateBatch]) -> tuple[operations.ShareStateBatch, ...]:
    return tuple(
        operations.ShareStateBatch(
            one.first_offset, one.last_offset, int(one.state), one.delivery_count
        )
        for one in batches
    )


def _batches(batches: Sequence[operations.ShareStateBatch]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(one.first_offset, one.last_offset, RecordState(one.state), one.delivery_count)
        for one in batches
    )


def _loaded(shard: ShareStateShard, leader_epoch: int, now: Now) -> list[Any]:
    del leader_epoch, now
    return [*shard.loaded()]


def _replay(shard: ShareStateShard, header: BatchHeader, record: Record) -> None:
    del header
    assert record.key is not None
    shard.replay(record.key, record.value)
    shard.written_at(record.offset, record.key, record.value)


def _ignore_marker(shard: ShareStateShard, producer_id: int, commits: bool) -> None:
    """No transaction writes to this topic."""


def _carry_out(number: int, effect: Any) -> None:
    match effect:
        case Reply(token, reply):
            place: Any = token
            place.put(reply)
        case _:
            raise TypeError(f"unexpected effect of share state shard {number}: {effect!r}")
