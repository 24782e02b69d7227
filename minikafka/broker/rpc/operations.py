"""Everything that nodes say to each other, declared once: operations and the messages in them.

See `codec` for how messages travel and how they may grow. The messages of the metadata quorum are
declared in `minikafka.consensus.messages`; what a node says when it connects, in `identity`.

Golden files (``tests/golden/rpc``) keep the bytes of every version of every message.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, NamedTuple, TypeVar

from ...metadata.records import NO_LEADER
from ...protocol.errors import ErrorCode
from .codec import (
    AsItIs,
    AtMost,
    Bare,
    Codec,
    MalformedFieldsError,
    Nothing,
    OneWay,
    Operation,
    Row,
    error_code_of,
)

PARTITIONS_PER_REQUEST_MAX = 20_000
PROPOSALS_PER_REQUEST_MAX = 10_000

_A = TypeVar("_A")


class Place(NamedTuple):
    """A partition by the name of its topic."""

    topic: str
    partition: int


Places = Annotated[tuple[Place, ...], AtMost(PARTITIONS_PER_REQUEST_MAX)]


# --- any node ----------------------------------------------------------------------------------

PING: Operation[None, None] = Operation("ping", Nothing(), Nothing())
"""Asks for a sign of life."""

QUORUM: OneWay[Any] = OneWay("quorum", AsItIs())
"""A message of the metadata quorum, as `split_message` makes it; its payloads are attached."""


# --- the active controller ---------------------------------------------------------------------


class Forward(NamedTuple):
    """A client's Kafka request, which is attached as the frame that the client sent.

    Attributes:
        client_host: empty for a request of the forwarding broker itself.
        principal: who the client is, ``TYPE:NAME``. Nodes that do not know principals leave it
            empty: their clients do not say who they are.
    """

    client_host: str
    principal: str = ""


class Forwarded(NamedTuple):
    """The answer's frame is attached.

    Attributes:
        applied_index: what the asking node has to apply to see what the answer speaks of.
    """

    applied_index: int


FORWARD = Operation("forward", Row(Forward), Row(Forwarded), version=2)

NOT_CONTROLLER = "NotController"
"""The kind of failure after which a request goes to another node."""


class ControllerAnswer(NamedTuple, Generic[_A]):
    """What the active controller answers to brokers.

    Attributes:
        error_code: NONE, or why nothing was done.
        result: the operation's own answer; None when nothing was done.
        message: why nothing was done, for people.
        applied_index: what the asking node has to apply to see what the answer speaks of.
    """

    error_code: ErrorCode
    result: _A | None
    message: str | None
    applied_index: int


class Answered(Generic[_A]):
    """The codec of `ControllerAnswer`: (error code, result, applied index).

    The result is a text for people unless the code is NONE.
    """

    def __init__(self, result: Codec[_A]) -> None:
        self._result = result

    def encode(self, message: ControllerAnswer[_A]) -> Any:
        result = message.message if message.result is None else self._result.encode(message.result)
        return message.error_code, result, message.applied_index

    def decode(self, fields: Any) -> ControllerAnswer[_A]:
        match fields:
            case (int(code), result, int(applied_index), *_):
                pass
            case _:
                raise MalformedFieldsError(f"{fields!r:.100} is not the answer of a controller")
        if code == ErrorCode.NONE:
            granted = self._result.decode(result)
            return ControllerAnswer(ErrorCode.NONE, granted, None, applied_index)
        message = None if result is None else f"{result}"
        return ControllerAnswer(error_code_of(code), None, message, applied_index)


class Listener(NamedTuple):
    name: str
    host: str
    port: int


class Feature(NamedTuple):
    name: str
    first_version: int
    last_version: int


class Register(NamedTuple):
    """A broker joins the cluster or comes back; see `metadata.brokers.Registration`."""

    broker_id: int
    incarnation_id: bytes
    host: str
    port: int
    rpc_host: str
    rpc_port: int
    rack: str | None
    previous_broker_epoch: int
    listeners: tuple[Listener, ...]
    features: tuple[Feature, ...]


class Registered(NamedTuple):
    broker_epoch: int


REGISTER = Operation("register", Row(Register), Answered(Bare(Registered)))


class Heartbeat(NamedTuple):
    """A broker lives.

    Attributes:
        applied_index: how far it has applied the metadata log.
        wants_to_stop: it is shutting down; the answer says when it may stop.
        is_forced: it cannot wait any longer.
    """

    broker_id: int
    broker_epoch: int
    applied_index: int
    wants_to_stop: bool
    is_forced: bool


class HeartbeatAnswer(NamedTuple):
    """See `metadata.brokers.ShutdownProgress`."""

    may_stop: bool
    leaders_remaining: int
    keeps_leading: bool
    has_majority: bool = False


HEARTBEAT = Operation("heartbeat", Row(Heartbeat), Answered(Row(HeartbeatAnswer)), version=2)


class InSyncReplica(NamedTuple):
    """A broker, and the epoch of its registration that its leader knows."""

    broker_id: int
    broker_epoch: int


class AlterPartition(NamedTuple):
    """What a leader proposes for one partition; see `metadata.alter_partition.IsrProposal`."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    in_sync_replicas: tuple[InSyncReplica, ...]
    leader: int = NO_LEADER


class AlterPartitions(NamedTuple):
    """Proposals of one broker (KIP-497)."""

    broker_id: int
    broker_epoch: int
    partitions: Annotated[tuple[AlterPartition, ...], AtMost(PROPOSALS_PER_REQUEST_MAX)]


class AlteredPartition(NamedTuple):
    """The outcome of one proposal."""

    topic_id: bytes
    partition: int
    error_code: ErrorCode
    message: str | None


class AlterPartitionsResult(NamedTuple):
    partitions: tuple[AlteredPartition, ...]


ALTER_PARTITIONS = Operation(
    "alter-partitions", Row(AlterPartitions), Answered(Bare(AlterPartitionsResult))
)


class AllocateProducerIds(NamedTuple):
    broker_id: int
    broker_epoch: int


class ProducerIds(NamedTuple):
    """Producer ids from ``first`` up to, but not including, ``end``."""

    first: int
    end: int


ALLOCATE_PRODUCER_IDS = Operation(
    "allocate-producer-ids", Row(AllocateProducerIds), Answered(Row(ProducerIds))
)


# --- transactions ------------------------------------------------------------------------------


class TopicId(NamedTuple):
    topic: str
    topic_id: bytes


class ConfirmTransaction(NamedTuple):
    """Asks whether partitions are in a transaction, before the first append (KIP-890).

    Attributes:
        adds: add the partitions if they are not in it (clients of transaction version 2 do not).
        topic_ids: of the topics as the asking node knows them.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Places
    adds: bool
    topic_ids: tuple[TopicId, ...] = ()


class TransactionConfirmed(NamedTuple):
    error_code: ErrorCode


CONFIRM_TRANSACTION = Operation(
    "confirm-transaction", Row(ConfirmTransaction), Bare(TransactionConfirmed)
)


class WriteMarkers(NamedTuple):
    """Has the leader of partitions write the marker that ends a transaction in them."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_version: int
    commits: bool
    partitions: Places


class WriteMarkersResult(NamedTuple):
    """The outcome for each partition, in the order of the request."""

    error_codes: tuple[ErrorCode, ...]


WRITE_MARKERS = Operation("write-markers", Row(WriteMarkers), Bare(WriteMarkersResult))


# --- the state of share groups -------------------------------------------------------------------

SHARE_STATE_BATCHES_MAX = 100_000


class ShareStateBatch(NamedTuple):
    """Neighbouring offsets of a share-partition with the same state; see `coordinator.share`."""

    first_offset: int
    last_offset: int
    state: int
    delivery_count: int


ShareStateBatches = Annotated[tuple[ShareStateBatch, ...], AtMost(SHARE_STATE_BATCHES_MAX)]


class AskShareState(NamedTuple):
    """A command for the share coordinator; see `coordinator.share.commands`.

    Attributes:
        command: its name; what it does not use is -1 or empty.
    """

    command: str
    group_id: str
    topic_id: bytes
    partition: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: ShareStateBatches


class ShareStateAnswer(NamedTuple):
    """See `coordinator.share.commands.ShareStateReply`."""

    error_code: ErrorCode
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: ShareStateBatches


SHARE_STATE = Operation("share-state", Row(AskShareState), Row(ShareStateAnswer))

PARTITION_ENDS_MAX = 10_000


class PartitionPlace(NamedTuple):
    """A partition of a topic, which may be an earlier one of that name."""

    topic_id: bytes
    partition: int


class AskPartitionEnds(NamedTuple):
    """Asks the leader of partitions where they begin and end."""

    partitions: Annotated[tuple[PartitionPlace, ...], AtMost(PARTITION_ENDS_MAX)]


class PartitionEnds(NamedTuple):
    """Where a partition's log starts, and its high watermark; -1 where another node leads it."""

    log_start_offset: int
    high_watermark: int


class PartitionEndsAnswer(NamedTuple):
    """In the order of the request."""

    ends: Annotated[tuple[PartitionEnds, ...], AtMost(PARTITION_ENDS_MAX)]


PARTITION_ENDS = Operation("partition-ends", Bare(AskPartitionEnds), Bare(PartitionEndsAnswer))


class AppendDeadLetters(NamedTuple):
    """Has the leader of a partition append a batch of dead letters, which is attached."""

    topic_id: bytes
    partition: int


class DeadLettersAppended(NamedTuple):
    """All in-sync replicas have them, or an error."""

    error_code: ErrorCode


APPEND_DEAD_LETTERS = Operation(
    "append-dead-letters", Row(AppendDeadLetters), Row(DeadLettersAppended)
)


# --- replica fetch: `replicas.fetch_server` says how it works ----------------------------------


class ReplicaPosition(NamedTuple):
    """Where a follower is in one partition.

    Attributes:
        slot: the follower's number for the partition in this session.
        last_fetched_epoch: leader epoch of the record before ``fetch_offset``, -1 without one.
        log_start_offset: where the follower's log starts.
    """

    slot: int
    topic_id: bytes
    partition: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class ReplicaFetch(NamedTuple):
    """A follower's request.

    Attributes:
        number: 0 begins a session; each further request has the next number.
        partition_max_bytes: how much of one partition the answer may hold.
        positions: those that have changed since the last request.
        forgotten: slots that are no longer fetched.
        failed: slots whose log failed at the follower.
    """

    session_id: int
    number: int
    broker_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    positions: tuple[ReplicaPosition, ...]
    forgotten: tuple[int, ...]
    failed: tuple[int, ...]


class ReplicaUpdate(NamedTuple):
    """News about one partition.

    Attributes:
        error_code: 0, or an `ErrorCode` (a plain number: this is decoded for every batch).
        diverging_epoch: the latest epoch in which the logs agree; see ``diverging_end_offset``.
        diverging_end_offset: where that epoch ends in the leader's log; -1 when nothing diverges.
        has_records: the next one of the attachments belongs to this partition.
    """

    slot: int
    error_code: int
    high_watermark: int
    log_start_offset: int
    log_end_offset: int
    diverging_epoch: int
    diverging_end_offset: int
    has_records: bool


REPLICA_FETCH_OK = 0
REPLICA_SESSION_LOST = 1


class ReplicaFetchAnswer(NamedTuple):
    """A leader's answer.

    Attributes:
        status: `REPLICA_FETCH_OK`, or `REPLICA_SESSION_LOST`: the follower begins another session.
    """

    status: int
    updates: tuple[ReplicaUpdate, ...] = ()


REPLICA_FETCH = Operation("fetch", Row(ReplicaFetch), Row(ReplicaFetchAnswer))


class ReplicaFetchWake(NamedTuple):
    """Ends the wait of a fetch: the follower has new positions to send."""

    session_id: int


REPLICA_FETCH_WAKE = OneWay("fetch-wake", Bare(ReplicaFetchWake))


OPERATIONS: tuple[Operation[Any, Any], ...] = (
    PING,
    FORWARD,
    REGISTER,
    HEARTBEAT,
    ALTER_PARTITIONS,
    ALLOCATE_PRODUCER_IDS,
    CONFIRM_TRANSACTION,
    WRITE_MARKERS,
    SHARE_STATE,
    PARTITION_ENDS,
    APPEND_DEAD_LETTERS,
    REPLICA_FETCH,
)
ONE_WAY: tuple[OneWay[Any], ...] = (QUORUM, REPLICA_FETCH_WAKE)
