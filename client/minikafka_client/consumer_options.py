"""The options of both consumers, with Kafka's defaults unless said otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from minikafka_client.core.assignors.base import Assignor
from minikafka_client.core.assignors.choice import AssignorName
from minikafka_client.options import ConnectionOptions

AutoOffsetResetName = Literal["earliest", "latest", "none"]
IsolationLevelName = Literal["read_uncommitted", "read_committed"]


class ConsumerOptions(ConnectionOptions, total=False):
    """Keyword arguments of a consumer; their meaning and defaults are in `ConsumerConfig`."""

    group_id: str | None
    group_instance_id: str | None
    auto_offset_reset: AutoOffsetResetName
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    isolation_level: IsolationLevelName
    assignors: Sequence[AssignorName | Assignor]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_size_bytes_max: int
    partition_fetch_size_bytes_max: int
    prefetch_size_bytes_max: int
    check_crcs: bool
    client_rack: str
    allow_auto_topic_creation: bool


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
        assignors: strategies this member has, the preferred one first.
        session_timeout_ms: without a heartbeat for this long, the group goes on without us.
        heartbeat_interval_ms: pause between heartbeats (sent whatever the application does).
        max_poll_interval_ms: the longest time between two requests for records.
        fetch_min_bytes: the broker waits for this much ...
        fetch_max_wait_ms: ... but not longer than this.
        fetch_size_bytes_max: largest fetch response (one batch may exceed it).
        partition_fetch_size_bytes_max: largest part of one partition in it.
        prefetch_size_bytes_max: fetched and not yet consumed; no more is fetched above it.
        check_crcs: verify every batch's CRC-32C.
        client_rack: where this consumer stands, so that brokers may send it to a replica that is
            nearer than the leader (KIP-392); empty reads from leaders.
        allow_auto_topic_creation: whether asking for a topic may create it, if the broker agrees.

    Raises:
        ValueError: an option is out of range.
    """

    group_id: str | None = None
    group_instance_id: str | None = None
    auto_offset_reset: AutoOffsetResetName = "latest"
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    isolation_level: IsolationLevelName = "read_uncommitted"
    assignors: Sequence[AssignorName | Assignor] = ("range", "cooperative-sticky")
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    fetch_size_bytes_max: int = 50 * 1024 * 1024
    partition_fetch_size_bytes_max: int = 1024 * 1024
    prefetch_size_bytes_max: int = 16 * 1024 * 1024
    check_crcs: bool = True
    client_rack: str = ""
    allow_auto_topic_creation: bool = True

    def __post_init__(self) -> None:
        if self.auto_offset_reset not in ("earliest", "latest", "none"):
            raise ValueError(
                f"auto_offset_reset={self.auto_offset_reset!r}; it is 'earliest', 'latest' or "
                f"'none'"
            )
        if self.isolation_level not in ("read_uncommitted", "read_committed"):
            raise ValueError(
                f"isolation_level={self.isolation_level!r}; it is 'read_uncommitted' or "
                f"'read_committed'"
            )
        if self.group_id == "":
            raise ValueError("group_id is empty; use None to read without a group")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ValueError(
                f"heartbeat_interval_ms={self.heartbeat_interval_ms} must be below "
                f"session_timeout_ms={self.session_timeout_ms} (a third of it is usual)"
            )
