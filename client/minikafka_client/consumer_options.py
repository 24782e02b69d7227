"""The options of both consumers, with Kafka's defaults unless said otherwise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Literal, TypedDict

from minikafka_client.core.assignors.assignor import Assignor
from minikafka_client.core.assignors.registry import AssignorName
from minikafka_client.options import ConnectionOptions
from minikafka_client.types import (
    AutoOffsetReset,
    AutoOffsetResetName,
    IsolationLevel,
    IsolationLevelName,
    Key,
    TopicPartition,
    Value,
)

if TYPE_CHECKING:
    from minikafka_client.serializers import Deserializer

GroupProtocolName = Literal["classic", "consumer"]

SESSION_TIMEOUT_MS: Final = 45_000
HEARTBEAT_INTERVAL_MS: Final = 3_000
ASSIGNMENT_STRATEGY: Final[Sequence[AssignorName]] = ("range", "cooperative-sticky")

_OF_THE_CLASSIC_PROTOCOL: Final[Mapping[str, str]] = {
    "partition_assignment_strategy": "the coordinator assigns, see group_remote_assignor",
    "session_timeout_ms": "it is the group's setting consumer.session.timeout.ms",
    "heartbeat_interval_ms": "it is the group's setting consumer.heartbeat.interval.ms",
}

RebalanceCallback = Callable[[Sequence[TopicPartition]], Awaitable[None]]


class ConsumerArguments(TypedDict, Generic[Key, Value], total=False):
    """Keyword arguments of a trio consumer besides its options; see `Consumer`."""

    on_partitions_revoked: RebalanceCallback | None
    on_partitions_assigned: RebalanceCallback | None
    on_partitions_lost: RebalanceCallback | None
    key_deserializer: Deserializer[Key] | None
    value_deserializer: Deserializer[Value] | None


class ConsumerOptions(ConnectionOptions, total=False):
    """Keyword arguments of a consumer; their meaning and defaults are in `ConsumerConfig`."""

    group_id: str | None
    group_instance_id: str | None
    group_protocol: GroupProtocolName
    group_remote_assignor: str | None
    auto_offset_reset: AutoOffsetReset | AutoOffsetResetName
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    isolation_level: IsolationLevel | IsolationLevelName
    partition_assignment_strategy: Sequence[AssignorName | Assignor] | None
    session_timeout_ms: int | None
    heartbeat_interval_ms: int | None
    max_poll_interval_ms: int
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    prefetch_size_bytes_max: int
    check_crcs: bool
    client_rack: str
    allow_auto_create_topics: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """How to consume.

    Attributes:
        group_id: the consumer group; None reads without one (`assign` only, no commits).
        group_instance_id: a name that makes the member static (KIP-345).
        group_protocol: ``"consumer"`` lets the coordinator divide the partitions (KIP-848; it needs
            Kafka 4.0). All members of a group should have the same one. ``"classic"`` stays the
            default until it is no longer Kafka's (5.0).
        group_remote_assignor: how the coordinator divides them: ``"uniform"`` or ``"range"``; None
            leaves it to the broker. Only for the ``"consumer"`` protocol.
        auto_offset_reset: where to start without a committed offset.
        enable_auto_commit: commit what was processed every ``auto_commit_interval_ms``, before a
            rebalance and on leaving. A record counts as processed when the next one is asked for.
        auto_commit_interval_ms: see above.
        isolation_level: ``"read_committed"`` hides what aborted transactions wrote.
        partition_assignment_strategy: strategies this member supports, the preferred one first;
            None: range and cooperative-sticky. Like the next two options it is refused with the
            ``"consumer"`` protocol, where the broker has these settings.
        session_timeout_ms: without a heartbeat for this long, the group removes this member; None:
            45 s.
        heartbeat_interval_ms: pause between heartbeats, which do not depend on polling; None: 3 s.
        max_poll_interval_ms: the longest time between two polls.
        fetch_min_bytes: the broker waits for this much ...
        fetch_max_wait_ms: ... but no longer than this.
        fetch_max_bytes: largest fetch response (one batch may exceed it).
        max_partition_fetch_bytes: largest part of one partition in it.
        prefetch_size_bytes_max: bytes fetched and not yet consumed; fetching pauses above it.
        check_crcs: verify every batch's CRC-32C.
        client_rack: this consumer's location, so that it may read from a replica that is nearer
            than the leader (KIP-392); empty reads from leaders.
        allow_auto_create_topics: whether subscribing may create a topic, if the broker allows it.

    Raises:
        ValueError: an option is out of range.
    """

    group_id: str | None = None
    group_instance_id: str | None = None
    group_protocol: GroupProtocolName = "classic"
    group_remote_assignor: str | None = None
    auto_offset_reset: AutoOffsetReset | AutoOffsetResetName = "latest"
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    isolation_level: IsolationLevel | IsolationLevelName = "read_uncommitted"
    partition_assignment_strategy: Sequence[AssignorName | Assignor] | None = None
    session_timeout_ms: int | None = None
    heartbeat_interval_ms: int | None = None
    max_poll_interval_ms: int = 300_000
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 50 * 1024 * 1024
    max_partition_fetch_bytes: int = 1024 * 1024
    prefetch_size_bytes_max: int = 16 * 1024 * 1024
    check_crcs: bool = True
    client_rack: str = ""
    allow_auto_create_topics: bool = True

    def __post_init__(self) -> None:
        AutoOffsetReset(self.auto_offset_reset)
        IsolationLevel.of(self.isolation_level)
        if self.group_id == "":
            raise ValueError("group_id is empty; use None to read without a group")
        if self.group_protocol not in ("classic", "consumer"):
            raise ValueError(
                f"group_protocol={self.group_protocol!r}; it is 'classic' or 'consumer'"
            )
        if self.group_protocol == "consumer":
            self._check_consumer_protocol()
        else:
            self._check_classic_protocol()

    def _check_consumer_protocol(self) -> None:
        for name in _OF_THE_CLASSIC_PROTOCOL:
            value = getattr(self, name)
            if value is not None:
                raise ValueError(
                    f"{name}={value!r} is an option of the classic protocol; with "
                    f"group_protocol='consumer' leave it out: {_OF_THE_CLASSIC_PROTOCOL[name]}"
                )

    def _check_classic_protocol(self) -> None:
        if self.group_remote_assignor is not None:
            raise ValueError(
                f"group_remote_assignor={self.group_remote_assignor!r} needs "
                f"group_protocol='consumer'; the classic protocol has partition_assignment_strategy"
            )
        session_ms, interval_ms = self.classic_timing()
        if interval_ms >= session_ms:
            raise ValueError(
                f"heartbeat_interval_ms={interval_ms} must be below "
                f"session_timeout_ms={session_ms} (a third of it is usual)"
            )

    def classic_timing(self) -> tuple[int, int]:
        """Session timeout and heartbeat interval of the classic protocol, in ms."""
        session_ms, interval_ms = self.session_timeout_ms, self.heartbeat_interval_ms
        return (
            SESSION_TIMEOUT_MS if session_ms is None else session_ms,
            HEARTBEAT_INTERVAL_MS if interval_ms is None else interval_ms,
        )
