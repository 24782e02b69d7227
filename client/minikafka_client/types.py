"""The values that travel through the client's public interface: records, offsets, descriptions.

All of them are immutable. Offsets count records, timestamps are milliseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple

if TYPE_CHECKING:
    # Defaults of type variables are for type checkers only, before Python 3.13.
    from typing_extensions import TypeVar

    Key = TypeVar("Key", default=bytes)
    Value = TypeVar("Value", default=bytes)
else:
    from typing import TypeVar

    Key = TypeVar("Key")
    Value = TypeVar("Value")

Headers = Sequence[tuple[str, bytes | None]]
"""Record headers: an ordered list of (key, value); a key may appear more than once."""

EARLIEST: Final = -2
"""Offset specification: the log start offset (ListOffsets timestamp -2)."""

LATEST: Final = -1
"""Offset specification: the next offset that a reader of this isolation level would see."""

MAX_TIMESTAMP: Final = -3
"""Offset specification: the record with the largest timestamp (KIP-734)."""


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """Topics by a regular expression that the broker evaluates (KIP-848).

    Attributes:
        pattern: in RE2's syntax; it has to match the whole name of a topic.
    """

    pattern: str

    def __post_init__(self) -> None:
        if not self.pattern:
            raise ValueError("a SubscriptionPattern is empty; '.*' matches every topic")


class OffsetAndMetadata(NamedTuple):
    """What a group commits for a partition: the next offset to read, and free-form metadata."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]
"""Offsets to commit: the next offset to read, by partition."""


class GroupMetadata(NamedTuple):
    """The group member that commits offsets, and its generation (KIP-447).

    Without a generation (-1) the commit is for a group without members.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class OffsetAndTimestamp(NamedTuple):
    """Offset and timestamp of the record that a look-up found; both are -1 without one."""

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1


class RecordMetadata(NamedTuple):
    """Where a produced record went; ``offset`` is -1 with ``acks=0``."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class ProducerRecord(NamedTuple, Generic[Key, Value]):
    """A record to be sent, for `Producer.send_many`."""

    value: Value | None
    key: Key | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


class ConsumerRecord(NamedTuple, Generic[Key, Value]):
    """A record as a consumer gets it; key and value are bytes unless it has deserializers."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Key | None
    value: Value | None
    headers: tuple[tuple[str, bytes | None], ...]


class ShareRecord(NamedTuple, Generic[Key, Value]):
    """A record as a share consumer gets it; ``delivery_count`` is 1 for the first delivery."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Key | None
    value: Value | None
    headers: tuple[tuple[str, bytes | None], ...]
    delivery_count: int


class Acknowledgement(Enum):
    """What a share consumer says of a record (KIP-932).

    Wherever one is expected, its value is accepted too.

    - ACCEPT: it was processed.
    - RELEASE: it should be delivered again, to whichever consumer.
    - REJECT: it cannot be processed, and should not be delivered again.
    - RENEW: it is still being worked on; its lock starts again (KIP-1222).
    """

    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"
    RENEW = "renew"


AcknowledgementName = Literal["accept", "release", "reject", "renew"]


class ShareAcquireMode(Enum):
    """How many records a fetch of a share consumer acquires (KIP-1206).

    BATCH_OPTIMIZED acquires whole batches, which may be more than asked for; RECORD_LIMIT never
    more.
    """

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


_NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})


class NewTopic(NamedTuple):
    """A topic to be created; -1 takes the broker's default.

    ``replica_assignments`` (partition index -> node ids, the leader first) replaces
    ``num_partitions`` and ``replication_factor``.
    """

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = _NOTHING
    replica_assignments: Mapping[int, Sequence[int]] = _NOTHING


class CreatedTopic(NamedTuple):
    """A created topic; an older broker reports only the name (the rest is -1, or zero bytes)."""

    name: str
    topic_id: bytes
    num_partitions: int
    replication_factor: int


class PartitionDescription(NamedTuple):
    """A partition's leader (-1: none), epoch and replicas (node ids)."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class TopicDescription(NamedTuple):
    """A topic and its partitions in order of their index."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


class ConfigResourceType(IntEnum):
    """What a configuration belongs to."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """One topic, broker (name = node id, empty = default of all brokers) or group."""

    type: ConfigResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        """The configuration of a topic."""
        return cls(ConfigResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int) -> ConfigResource:
        """The configuration of a broker."""
        return cls(ConfigResourceType.BROKER, str(node_id))


class ConfigSource(IntEnum):
    """Where a configuration value comes from."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigEntry(NamedTuple):
    """One setting of a resource; ``value`` is None for a sensitive one."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether it has not been set."""
        return self.source is ConfigSource.DEFAULT_CONFIG


class ConfigOperation(IntEnum):
    """What IncrementalAlterConfigs does with a value (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One change of one setting; DELETE needs no value."""

    name: str
    value: str | None
    operation: ConfigOperation = ConfigOperation.SET


DEFAULT_ENTITY: Final = ""
"""In a `QuotaEntity`: the quotas of those that have none under their names."""


class QuotaEntity(NamedTuple):
    """Who a quota is for (KIP-546): a user, a client id, both together, or an IP address.

    Each is a name, `DEFAULT_ENTITY`, or None if it does not matter. ``QuotaEntity("alice",
    DEFAULT_ENTITY)`` is alice with any client id that has no quota with alice of its own.
    """

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def __str__(self) -> str:
        parts = (("user", self.user), ("client-id", self.client_id), ("ip", self.ip))
        return (
            ", ".join(
                f"{kind} {name!r}" if name else f"default {kind}"
                for kind, name in parts
                if name is not None
            )
            or "nobody"
        )


class GroupListing(NamedTuple):
    """A group in a list; ``state`` and ``type`` are empty when the broker is too old to say."""

    group_id: str
    protocol_type: str
    state: str
    type: str


class MemberDescription(NamedTuple):
    """A member of a group, its subscription and its assignment.

    Attributes:
        topics: those that it subscribes to by name.
        assignment: the partitions that it has now.
        member_epoch: -1 in a classic group.
        target_assignment: what it will have when the group has settled; empty unless the group is
            of KIP-848's protocol.
        topic_pattern: the regular expression that it subscribes to, if any.
        rack_id: where it is; None if it does not say.
        active_tasks: the tasks that it processes, named as Kafka Streams names them (``"0_3"`` is
            partition 3 of subtopology 0); empty unless the group is a streams group. Its
            ``assignment`` has the partitions that these tasks read.
        standby_tasks: the tasks of whose state it keeps a copy.
        process_id: the instance of a Kafka Streams application that it is a thread of.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]
    member_epoch: int = -1
    target_assignment: tuple[TopicPartition, ...] = ()
    topic_pattern: str | None = None
    rack_id: str | None = None
    active_tasks: tuple[str, ...] = ()
    standby_tasks: tuple[str, ...] = ()
    process_id: str | None = None


class GroupDescription(NamedTuple):
    """A group: state (Stable, Empty, Dead, ...), assignor and members.

    Attributes:
        type: ``"Classic"``, ``"Consumer"`` (KIP-848), ``"Share"`` (KIP-932) or ``"Streams"``
            (KIP-1071).
        group_epoch: rises with every change of members, subscriptions or topics; -1 in a classic
            group.
        assignment_epoch: the group epoch for which partitions were divided last.
    """

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[MemberDescription, ...]
    coordinator: int
    type: str = "Classic"
    group_epoch: int = -1
    assignment_epoch: int = -1


class ShareGroupOffset(NamedTuple):
    """Where a share group's partition starts: everything before it was processed, or given up.

    ``lag`` is how many records are not processed yet; None if the broker does not say.
    """

    offset: int
    leader_epoch: int = -1
    lag: int | None = None


class BrokerDescription(NamedTuple):
    """Where a broker listens."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class ClusterDescription(NamedTuple):
    """A cluster's brokers and controller (-1: unknown)."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[BrokerDescription, ...]


class QuorumReplica(NamedTuple):
    """A node's copy of the metadata log, as the controller sees it.

    ``directory_id`` has 16 bytes; it is empty, and the numbers are -1, where the controller does
    not know. Times are in ms since 1970.
    """

    node_id: int
    directory_id: bytes
    log_end_offset: int
    last_fetch_timestamp_ms: int
    last_caught_up_timestamp_ms: int


class QuorumDescription(NamedTuple):
    """The metadata quorum: its leader (-1: none), who votes, and who only observes."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


class LogDirDescription(NamedTuple):
    """A broker's log directory: bytes of each partition's log; totals are -1 when unknown."""

    node_id: int
    path: str
    size_bytes: Mapping[TopicPartition, int]
    total_bytes: int
    usable_bytes: int


class IsolationLevel(IntEnum):
    """Which records a reader sees (KIP-98).

    Wherever one is expected, its name in lower case is accepted too.
    """

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1

    @classmethod
    def of(cls, level: IsolationLevel | IsolationLevelName) -> IsolationLevel:
        """The level with this name, or the level itself.

        Raises:
            ValueError: there is no such level.
        """
        if isinstance(level, IsolationLevel):
            return level
        if level not in ("read_uncommitted", "read_committed"):
            raise ValueError(
                f"isolation_level={level!r}; it is 'read_uncommitted' or 'read_committed'"
            )
        return cls[level.upper()]


IsolationLevelName = Literal["read_uncommitted", "read_committed"]


class AutoOffsetReset(Enum):
    """Where a consumer starts without a valid offset (Kafka's ``auto.offset.reset``).

    Wherever one is expected, its value is accepted too.
    """

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"

    @classmethod
    def _missing_(cls, value: object) -> AutoOffsetReset:
        raise ValueError(f"auto_offset_reset={value!r}; it is 'earliest', 'latest' or 'none'")


AutoOffsetResetName = Literal["earliest", "latest", "none"]


class TransactionListing(NamedTuple):
    """A transactional id, its producer, and the state of its present or last transaction."""

    transactional_id: str
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    """The present or last transaction of a transactional id.

    Attributes:
        coordinator: the node that decides about it.
        state: ``"Ongoing"``, ``"CompleteCommit"`` or another of Kafka's states.
        timeout_ms: the coordinator aborts it after this time.
        started_at_ms: since 1970; -1 when none is open.
        partitions: those that were written to.
    """

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_at_ms: int
    partitions: tuple[TopicPartition, ...]


class ProducerState(NamedTuple):
    """What a partition remembers of an idempotent or transactional producer.

    Attributes:
        last_sequence: of the last record; -1 when only a marker is there.
        last_timestamp_ms: of the last batch; -1 when unknown.
        coordinator_epoch: of the coordinator that wrote the last marker; -1 before the first.
        transaction_start_offset: where its open transaction begins; -1 when none is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int


class HangingTransaction(NamedTuple):
    """A transaction that is open in a partition, and that no coordinator will ever end.

    Readers of committed records stop in front of it.

    Attributes:
        partition: where.
        producer: the one that left it open.
        transactional_id: the producer's; None if no coordinator knows it.
    """

    partition: TopicPartition
    producer: ProducerState
    transactional_id: str | None


class PreparedTransactionState(NamedTuple):
    """Which transaction was prepared (KIP-939): an external coordinator stores it with its data.

    ``str()`` makes a text of it (``"1000:7"``; empty: none), `parse` reads it. It is true when it
    names a transaction.

    Attributes:
        producer_id: of the transaction's producer; -1 is none.
        producer_epoch: its epoch.
    """

    producer_id: int = -1
    producer_epoch: int = -1

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.producer_epoch}" if self else ""

    def __bool__(self) -> bool:
        return self.producer_id >= 0

    @classmethod
    def parse(cls, text: str) -> PreparedTransactionState:
        """Read what ``str()`` has made.

        Raises:
            ValueError: the text is not ``PRODUCER_ID:EPOCH``, both decimal, nor empty.
        """
        if not text:
            return cls()
        producer_id, colon, epoch = text.partition(":")
        numbers = producer_id + epoch
        is_decimal = numbers.isascii() and numbers.isdecimal() and bool(producer_id and epoch)
        if not (colon and is_decimal and int(producer_id) < 2**63 and int(epoch) < 2**15):
            raise ValueError(f"{text!r} is not a prepared transaction, which is PRODUCER_ID:EPOCH")
        return cls(int(producer_id), int(epoch))


class RecoveredTransaction(NamedTuple):
    """What was found by taking over a transactional id (KIP-939).

    Attributes:
        producer_id, producer_epoch: the identity that may end the open transaction, and continue.
        ongoing: the transaction that is open, as its producer would have prepared it; or None.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    ongoing: PreparedTransactionState | None


class TransactionOutcome(Enum):
    """What became of a prepared transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    NONE_OPEN = "none was open"


ScramMechanismName = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]


class ScramUpsertion(NamedTuple):
    """A user's credential to set; `minikafka_client.sasl.scram_upsertion` makes it of a password.

    Attributes:
        user: its name.
        mechanism: the one that it is for; each has its own.
        iterations: how often the password was hashed.
        salt: random bytes.
        salted_password: the password hashed with them.
    """

    user: str
    mechanism: ScramMechanismName
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"ScramUpsertion({self.user!r}, {self.mechanism!r}, {self.iterations}, ...)"


class ScramDeletion(NamedTuple):
    """A user's credential to delete."""

    user: str
    mechanism: ScramMechanismName
