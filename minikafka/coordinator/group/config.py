"""Settings of the group coordinator."""

from __future__ import annotations

from dataclasses import dataclass, field

from .member_memory import MemberMemory

MEMBERS_SIZE_BYTES_MAX = 256 * 1024 * 1024
"""The members of all groups that a broker coordinates: 250,000 of them with small metadata."""


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Settings of the group coordinator, with the names of Kafka, and its defaults but for one.

    Attributes:
        group_initial_rebalance_delay_ms: ``group.initial.rebalance.delay.ms``: how long an empty
            group waits for more members before its first generation.
        group_max_size: ``group.max.size``: members in one group. Kafka has no limit by default;
            but a larger group does not fit into the one record that stores it.
        member_memory: what the members of all groups take together; shared by all shards.
        pending_members_max: member ids handed out (KIP-394) and not yet used, per group. Kafka has
            no such limit, though each costs memory until its session times out.
        new_member_join_timeout_ms: how long a member that has never completed a rebalance may
            wait in JoinGroup before it is dropped (fixed at five minutes in Kafka).
        offset_metadata_size_bytes_max: ``offset.metadata.max.bytes``; counted as Kafka counts it,
            in UTF-16 code units.
        offset_commit_timeout_ms: ``offsets.commit.timeout.ms``: how long a write may wait for the
            high watermark before it is answered with COORDINATOR_NOT_AVAILABLE.
        offsets_retention_ms: ``offsets.retention.minutes``, in milliseconds.
        share_group_max_size: ``group.share.max.size``: members in one share group.
        consumer_max_size: ``group.consumer.max.size``; without a limit in Kafka by default.
        consumer_assignors: ``group.consumer.assignors``: names, the default first.
        streams_max_size: ``group.streams.max.size``; without a limit in Kafka by default.
        allows_upgrade: ``group.consumer.migration.policy`` lets classic groups become consumer
            groups while they have members.
        allows_downgrade: and the other way round.
        matches_topics: whether a shard itself finds the new topics of a regular expression; not
            with an authorizer, because a member may not be allowed to know all topics.
        tombstones_per_append_max: a clean-up of many offsets is written in batches of so many.
    """

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 10_000
    pending_members_max: int = 10_000
    new_member_join_timeout_ms: int = 300_000
    offset_metadata_size_bytes_max: int = 4_096
    offset_commit_timeout_ms: int = 5_000
    offsets_retention_ms: int = 604_800_000
    offsets_retention_check_interval_ms: int = 600_000
    tombstones_per_append_max: int = 1_000
    share_group_max_size: int = 200
    consumer_max_size: int = 10_000
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    streams_max_size: int = 10_000
    allows_upgrade: bool = True
    allows_downgrade: bool = True
    matches_topics: bool = True
    member_memory: MemberMemory = field(
        default_factory=lambda: MemberMemory(MEMBERS_SIZE_BYTES_MAX), compare=False
    )
