"""The options of both consumers, with Kafka's defaults unless said otherwise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypedDict

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
    auto_offset_reset: AutoOffsetReset | AutoOffsetResetName
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    isolation_level: IsolationLevel | IsolationLevelName
    partition_assignment_strategy: Sequence[AssignorName | Assignor]
    session_timeout_ms: int
    heartbeat_interval_ms: int
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
        auto_offset_reset: where to start without a committed offset.
        enable_auto_commit: commit what was processed every ``auto_commit_interval_ms``, before a
            rebalance and on leaving. A record counts as processed when the next one is asked for.
        auto_commit_interval_ms: see above.
        isolation_level: ``"read_committed"`` hides what aborted transactions wrote.
        partition_assignment_strategy: strategies this member supports, the preferred one first.
        session_timeout_ms: without a heartbeat for this long, the group removes this member.
        heartbeat_interval_ms: pause between heartbeats, which do not depend on polling.
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
    auto_offset_reset: AutoOffsetReset | AutoOffsetResetName = "latest"
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    isolation_level: IsolationLevel | IsolationLevelName = "read_uncommitted"
    partition_assignment_strategy: Sequence[AssignorName | Assignor] = (
        "range",
        "cooperative-sticky",
    )
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
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
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ValueError(
                f"heartbeat_interval_ms={self.heartbeat_interval_ms} must be below "
                f"session_timeout_ms={self.session_timeout_ms} (a third of it is usual)"
            )
