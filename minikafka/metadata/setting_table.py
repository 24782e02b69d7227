"""Every setting, declared once: its name, scope, type, default, bounds and text.

A field of `BrokerConfig` is a broker setting: the field's name with dots instead of underscores is
Kafka's name, and its default has its type. With ``topic`` it is also the default of a topic
setting, which shares everything else with it, and with ``group`` that of a group's. `_TOPIC_ONLY`
and `_GROUP_ONLY` have those that no broker setting stands behind, `CLIENT_METRICS_SETTINGS` those
of client metrics subscriptions. Everything else follows: `BrokerConfig` is the typed configuration,
`BROKER_SETTINGS`, `TOPIC_SETTINGS` and `GROUP_SETTINGS` are the tables that files, flags,
``--list-settings``, CreateTopics, AlterConfigs and DescribeConfigs (with its synonyms) read.

Names, types and defaults are Apache Kafka's (4.x broker and topic configuration); where a default
differs on purpose, the text says why.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Final, TypeVar

from .settings import INT_MAX, LONG_MAX, Setting, SettingType, Value

__all__ = [
    "BROKER_SETTINGS",
    "CLIENT_METRICS_SETTINGS",
    "COARSER_SETTINGS",
    "GROUP_SETTINGS",
    "SYNONYMS",
    "TOPIC_SETTINGS",
    "BrokerConfig",
]

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS

_NO_STREAMS: Final = "Accepted for compatibility; streams groups (KIP-1071) are not served."

_NO_INTERVAL: Final = "Accepted for compatibility (KIP-1263); groups are assigned at once."
_NO_REFRESH: Final = (
    "Accepted for compatibility; regular expressions are matched whenever topics change."
)
_NO_DEAD_LETTERS: Final = "Accepted for compatibility; there are no dead letters (KIP-1191) yet."

_T = TypeVar("_T", bound=Value)
_TYPES: Final[dict[type, SettingType]] = {
    bool: SettingType.BOOLEAN,
    int: SettingType.INT,
    float: SettingType.DOUBLE,
    str: SettingType.STRING,
    tuple: SettingType.LIST,
}


def _setting(
    default: _T,
    doc: str,
    at_least: float | None = None,
    at_most: float | None = None,
    *,
    choices: tuple[str, ...] = (),
    long: bool = False,
    dynamic: bool = False,
    ignored: bool = False,
    topic: str | None = None,
    group: str | None = None,
    also: tuple[str, ...] = (),
    coarser: tuple[tuple[str, int], ...] = (),
) -> _T:
    """Declare a broker setting; see `Setting` for the first arguments.

    Args:
        default: the value when it is not set; its type is the setting's type.
        doc: what it does, in a sentence; units are in the name.
        at_least: the smallest number allowed.
        at_most: the largest number allowed.
        choices: the only texts allowed (for a list: the only members).
        long: a LONG and not an INT.
        dynamic: it can change while the broker runs.
        ignored: it has no effect.
        topic: the topic setting of which this is the default; then it is dynamic.
        group: the group setting of which this is the default.
        also: other names for it.
        coarser: names of the same setting in coarser units, coarsest first, and how many of this
            setting's units one of theirs is. The finest one that is given wins.
    """
    kind = SettingType.LONG if long else _TYPES[type(default)]
    is_dynamic = dynamic or topic is not None
    setting = Setting("", kind, default, doc, at_least, at_most, choices, None, is_dynamic, ignored)
    names = {"topic": topic, "group": group, "also": also, "coarser": coarser}
    return field(default=default, metadata={"setting": setting, **names})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Every broker setting with its effective value.

    Attributes:
        explicitly_set: Kafka names of the settings that a file or a flag gave; DescribeConfigs
            tells them from defaults.
    """

    node_id: int = _setting(1, "This broker's number in its cluster.", 0, also=("broker.id",))
    broker_rack: str = _setting("", "The rack that this broker is in (KIP-392).")
    process_roles: tuple[str, ...] = _setting(
        ("broker", "controller"),
        "What this node does. A controller votes in the metadata quorum; a node that is not in "
        "controller.quorum.voters is never a controller.",
        choices=("broker", "controller"),
    )
    controller_quorum_voters: tuple[str, ...] = _setting(
        (),
        "The voters of the metadata quorum, id@host:port each, with the addresses of their "
        "internal listeners; the same on every node. Empty: this node alone is the cluster.",
    )
    minikafka_internal_listener: str = _setting(
        "",
        "HOST:PORT to listen on for other nodes. Empty: where controller.quorum.voters says, or "
        "for other brokers a free port at the host of the client listener.",
    )
    controller_quorum_election_timeout_ms: int = _setting(
        1000,
        "A voter that has not heard from the leader of the metadata quorum for one to two of "
        "these starts an election.",
        10,
    )
    metadata_log_max_record_bytes_between_snapshots: int = _setting(
        2 * 1024 * 1024,
        "The metadata log is replaced by a snapshot when it reaches this size, and twice that of "
        "the last snapshot.",
        1,
        long=True,
    )
    broker_heartbeat_interval_ms: int = _setting(
        500, "How often a broker sends the controller a heartbeat.", 1
    )
    broker_session_timeout_ms: int = _setting(
        9000,
        "A broker that is silent for this long is fenced and loses its leaderships. One that no "
        "controller has answered for as long serves no clients as a leader.",
        1,
    )
    auto_leader_rebalance_enable: bool = _setting(
        True, "Give leadership back to preferred replicas in the background."
    )
    leader_imbalance_check_interval_seconds: int = _setting(
        300, "How often the balance of leaders is checked.", 1, long=True
    )

    listeners: tuple[str, ...] = _setting(
        ("PLAINTEXT://127.0.0.1:9092",), "Where the broker listens; one plain listener so far."
    )
    advertised_listeners: tuple[str, ...] = _setting(
        (), "The address given to clients; empty for where the broker listens."
    )
    num_partitions: int = _setting(1, "Partitions of a topic created without a count.", 1)
    max_request_partition_size_limit: int = _setting(
        2000, "The most partitions of one DescribeTopicPartitions response.", 1
    )
    default_replication_factor: int = _setting(1, "Replicas of a topic created without a count.", 1)
    auto_create_topics_enable: bool = _setting(
        True, "Create a topic when a client asks for its metadata."
    )
    minikafka_auto_create_wait: bool = _setting(
        False,
        "Whether the answer that creates a topic already describes it, for clients that do not ask "
        "again. Off: UNKNOWN_TOPIC_OR_PARTITION, as Kafka answers, and the topic next time.",
    )
    delete_topic_enable: bool = _setting(True, "Allow topics to be deleted.")
    min_insync_replicas: int = _setting(
        1, "How many in-sync replicas acks=all needs.", 1, topic="min.insync.replicas"
    )
    unclean_leader_election_enable: bool = _setting(
        False,
        "Whether a replica that may miss acknowledged records can become leader.",
        topic="unclean.leader.election.enable",
    )

    message_max_bytes: int = _setting(
        1_048_588, "The largest record batch, in bytes as it travels.", 0, topic="max.message.bytes"
    )
    max_decompressed_message_bytes: int = _setting(
        INT_MAX - 8,
        "Accepted for compatibility; what a compressed batch may hold is limited by a constant.",
        1,
        INT_MAX - 8,
        ignored=True,
        topic="max.decompressed.message.bytes",
    )
    minikafka_validate_records: str = _setting(
        "bounds",
        "How much of a client's batch is read before it is appended. `bounds` compares its header "
        "with its payload in constant time; `all` reads every record, as Kafka does, in a worker "
        "thread if the batch is large or compressed.",
        choices=("bounds", "all"),
        dynamic=True,
    )
    socket_request_max_bytes: int = _setting(104_857_600, "The largest request frame.", 1)
    minikafka_request_control_max_bytes: int = _setting(
        16 * 1024 * 1024,
        "The largest frame of any request but Produce: their objects take more memory than bytes.",
        1024,
    )
    queued_max_request_bytes: int = _setting(
        256 * 1024 * 1024,
        "Memory for requests larger than 64 KiB of all connections together: who finds none waits. "
        "-1 for no limit, which is Kafka's default; here connections read independently.",
        -1,
        long=True,
    )
    socket_listen_backlog_size: int = _setting(1024, "Connections that wait to be accepted.", 1)
    socket_send_buffer_bytes: int = _setting(
        -1, "SO_SNDBUF of a connection; -1 leaves it alone.", -1
    )
    socket_receive_buffer_bytes: int = _setting(
        -1, "SO_RCVBUF of a connection; -1 leaves it alone.", -1
    )
    max_connections: int = _setting(
        10_000, "Open connections; one more is closed.", 1, dynamic=True
    )
    max_connections_per_ip: int = _setting(
        10_000, "Open connections from one address.", 1, dynamic=True
    )
    connections_max_idle_ms: int = _setting(
        600_000, "An idle connection is closed after this.", -1, long=True
    )
    minikafka_frame_timeout_ms: int = _setting(
        60_000, "How long the rest of a frame may take after its first byte.", 1
    )

    fetch_max_bytes: int = _setting(57_671_680, "The most bytes one fetch response carries.", 1024)
    max_incremental_fetch_session_cache_slots: int = _setting(
        1000, "Fetch sessions kept (KIP-227).", 0
    )
    replica_lag_time_max_ms: int = _setting(
        30_000, "A follower that has not caught up for this long leaves the ISR.", 1, long=True
    )
    replica_fetch_max_bytes: int = _setting(
        1_048_576, "The most bytes of one partition in a follower's fetch.", 0
    )
    replica_fetch_response_max_bytes: int = _setting(
        10_485_760, "The most bytes in a follower's fetch.", 0
    )
    replica_fetch_min_bytes: int = _setting(
        1, "A follower's fetch waits until there are this many bytes.", 1
    )
    replica_fetch_wait_max_ms: int = _setting(
        500, "The longest that a follower's fetch waits; less than replica.lag.time.max.ms.", 1
    )
    replica_fetch_backoff_ms: int = _setting(
        1000, "The longest back-off of a follower after a failed fetch.", 0
    )
    replica_high_watermark_checkpoint_interval_ms: int = _setting(
        5000, "How often high watermarks are checkpointed.", 1, long=True
    )
    replica_selector_class: str = _setting(
        "",
        "Which replica consumers read from (KIP-392): RackAwareReplicaSelector for one in their "
        "rack; empty for the leader.",
    )
    leader_replication_throttled_rate: int = _setting(
        LONG_MAX,
        "Bytes per second that are sent to throttled replicas.",
        1,
        long=True,
        dynamic=True,
    )
    follower_replication_throttled_rate: int = _setting(
        LONG_MAX, "Bytes per second that throttled replicas fetch.", 1, long=True, dynamic=True
    )

    group_min_session_timeout_ms: int = _setting(
        6000, "The shortest session timeout allowed.", -INT_MAX - 1
    )
    group_max_session_timeout_ms: int = _setting(
        1_800_000, "The longest session timeout allowed.", -INT_MAX - 1
    )
    group_initial_rebalance_delay_ms: int = _setting(
        3000, "How long a new group waits for more members.", 0
    )
    group_max_size: int = _setting(
        10_000,
        "The most members of a group. Kafka has no limit by default; here all members are in the "
        "memory of one process, and a larger group does not fit into the record that stores it.",
        1,
    )
    group_coordinator_rebalance_protocols: tuple[str, ...] = _setting(
        ("classic", "consumer"),
        "The types of groups that there may be. Kafka deprecates this setting.",
        choices=("classic", "consumer", "share", "streams"),
    )
    group_consumer_session_timeout_ms: int = _setting(
        45_000,
        "A member of a consumer group that is silent for this long is removed (KIP-848).",
        1,
        group="consumer.session.timeout.ms",
    )
    group_consumer_min_session_timeout_ms: int = _setting(
        45_000, "The shortest session timeout that a consumer group may set.", 1
    )
    group_consumer_max_session_timeout_ms: int = _setting(
        60_000, "The longest session timeout that a consumer group may set.", 1
    )
    group_consumer_heartbeat_interval_ms: int = _setting(
        5000,
        "How often a member of a consumer group is told to send a heartbeat (KIP-848).",
        1,
        group="consumer.heartbeat.interval.ms",
    )
    group_consumer_min_heartbeat_interval_ms: int = _setting(
        5000, "The shortest heartbeat interval that a consumer group may set.", 1
    )
    group_consumer_max_heartbeat_interval_ms: int = _setting(
        15_000, "The longest heartbeat interval that a consumer group may set.", 1
    )
    group_consumer_assignment_interval_ms: int = _setting(
        1000,
        _NO_INTERVAL,
        0,
        dynamic=True,
        group="consumer.assignment.interval.ms",
        ignored=True,
    )
    group_consumer_min_assignment_interval_ms: int = _setting(
        0,
        _NO_INTERVAL,
        0,
        ignored=True,
    )
    group_consumer_max_assignment_interval_ms: int = _setting(
        15_000,
        _NO_INTERVAL,
        0,
        ignored=True,
    )
    group_consumer_max_size: int = _setting(
        10_000, "The most members of a consumer group (KIP-848). Kafka has no limit by default.", 1
    )
    group_consumer_assignors: tuple[str, ...] = _setting(
        ("uniform", "range"),
        "The assignors that consumer groups can use; the first one is the default.",
        choices=("uniform", "range"),
    )
    group_consumer_migration_policy: str = _setting(
        "bidirectional",
        "Which groups with live members may change their protocol: classic ones to consumer ones "
        "(upgrade), consumer ones to classic ones (downgrade), both or neither.",
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
    )
    group_consumer_regex_refresh_interval_ms: int = _setting(
        600_000,
        _NO_REFRESH,
        10_000,
        ignored=True,
    )

    group_share_session_timeout_ms: int = _setting(
        45_000,
        "A member of a share group that is silent for this long is removed (KIP-932).",
        1,
        group="share.session.timeout.ms",
    )
    group_share_min_session_timeout_ms: int = _setting(
        45_000, "The shortest session timeout that a share group may set.", 1
    )
    group_share_max_session_timeout_ms: int = _setting(
        60_000, "The longest session timeout that a share group may set.", 1
    )
    group_share_heartbeat_interval_ms: int = _setting(
        5000,
        "How often a member of a share group is told to send a heartbeat (KIP-932).",
        1,
        group="share.heartbeat.interval.ms",
    )
    group_share_min_heartbeat_interval_ms: int = _setting(
        5000, "The shortest heartbeat interval that a share group may set.", 1
    )
    group_share_max_heartbeat_interval_ms: int = _setting(
        15_000, "The longest heartbeat interval that a share group may set.", 1
    )
    group_share_assignment_interval_ms: int = _setting(
        1000,
        _NO_INTERVAL,
        0,
        dynamic=True,
        group="share.assignment.interval.ms",
        ignored=True,
    )
    group_share_min_assignment_interval_ms: int = _setting(
        0,
        _NO_INTERVAL,
        0,
        ignored=True,
    )
    group_share_max_assignment_interval_ms: int = _setting(
        15_000,
        _NO_INTERVAL,
        0,
        ignored=True,
    )
    group_share_max_size: int = _setting(
        200, "The most members of a share group (KIP-932).", 1, 1000
    )
    group_share_max_share_sessions: int = _setting(
        2000, "The most share sessions of this broker (KIP-932).", 1
    )
    group_share_assignors: tuple[str, ...] = _setting(
        ("simple",), "The assignor of share groups (KIP-932).", choices=("simple",)
    )
    group_share_delivery_count_limit: int = _setting(
        5,
        "How often a record is delivered to a share group before it counts as undeliverable.",
        2,
        10,
        group="share.delivery.count.limit",
    )
    group_share_min_delivery_count_limit: int = _setting(
        2, "The smallest delivery count limit that a share group may set.", 2, 5
    )
    group_share_max_delivery_count_limit: int = _setting(
        10, "The largest delivery count limit that a share group may set.", 5, 25
    )
    group_share_record_lock_duration_ms: int = _setting(
        30_000,
        "How long a record that was delivered to a member of a share group waits for its "
        "acknowledgement before it may be delivered again.",
        1000,
        3_600_000,
        group="share.record.lock.duration.ms",
    )
    group_share_min_record_lock_duration_ms: int = _setting(
        15_000, "The shortest record lock duration that a share group may set.", 1000, 30_000
    )
    group_share_max_record_lock_duration_ms: int = _setting(
        60_000, "The longest record lock duration that a share group may set.", 30_000, 3_600_000
    )
    group_share_partition_max_record_locks: int = _setting(
        2000,
        "The most records of one partition that a share group may have delivered and not decided.",
        100,
        10_000,
        group="share.partition.max.record.locks",
    )
    group_share_min_partition_max_record_locks: int = _setting(
        100, "The smallest record lock limit that a share group may set.", 100, 2000
    )
    group_share_max_partition_max_record_locks: int = _setting(
        4000, "The largest record lock limit that a share group may set.", 2000, 10_000
    )
    share_coordinator_state_topic_num_partitions: int = _setting(
        50, "Partitions of __share_group_state.", 1
    )
    share_coordinator_state_topic_replication_factor: int = _setting(
        3, "Replicas of __share_group_state (fewer while there are fewer brokers).", 1
    )
    share_coordinator_state_topic_min_isr: int = _setting(
        2, "How many in-sync replicas __share_group_state needs (at most all it has).", 1
    )
    share_coordinator_state_topic_segment_bytes: int = _setting(
        104_857_600, "Segment size of __share_group_state.", 1024
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = _setting(
        500, "Updates of a share partition's state between two snapshots of it.", 0, 500
    )
    share_coordinator_write_timeout_ms: int = _setting(
        5000, "How long a change of share group state waits for all its replicas.", 1
    )
    errors_deadletterqueue_auto_create_topics_enable: bool = _setting(
        False,
        _NO_DEAD_LETTERS,
        dynamic=True,
        ignored=True,
    )
    errors_deadletterqueue_topic_name_prefix: str = _setting(
        "dlq.",
        _NO_DEAD_LETTERS,
        dynamic=True,
        ignored=True,
    )

    group_streams_session_timeout_ms: int = _setting(
        45_000,
        _NO_STREAMS,
        1,
        ignored=True,
        group="streams.session.timeout.ms",
    )
    group_streams_heartbeat_interval_ms: int = _setting(
        5000,
        _NO_STREAMS,
        1,
        ignored=True,
        group="streams.heartbeat.interval.ms",
    )
    group_streams_min_session_timeout_ms: int = _setting(
        45_000,
        _NO_STREAMS,
        1,
        ignored=True,
    )
    group_streams_max_session_timeout_ms: int = _setting(
        60_000,
        _NO_STREAMS,
        1,
        ignored=True,
    )
    group_streams_min_heartbeat_interval_ms: int = _setting(
        5000,
        _NO_STREAMS,
        1,
        ignored=True,
    )
    group_streams_max_heartbeat_interval_ms: int = _setting(
        15_000,
        _NO_STREAMS,
        1,
        ignored=True,
    )
    group_streams_max_size: int = _setting(
        INT_MAX,
        _NO_STREAMS,
        1,
        ignored=True,
    )
    group_streams_num_standby_replicas: int = _setting(
        0,
        _NO_STREAMS,
        0,
        ignored=True,
        group="streams.num.standby.replicas",
    )
    group_streams_max_standby_replicas: int = _setting(
        2,
        _NO_STREAMS,
        0,
        ignored=True,
    )
    group_streams_initial_rebalance_delay_ms: int = _setting(
        3000,
        _NO_STREAMS,
        0,
        ignored=True,
        group="streams.initial.rebalance.delay.ms",
    )
    group_streams_assignment_interval_ms: int = _setting(
        1000,
        _NO_STREAMS,
        0,
        dynamic=True,
        ignored=True,
        group="streams.assignment.interval.ms",
    )
    group_streams_min_assignment_interval_ms: int = _setting(
        0,
        _NO_STREAMS,
        0,
        ignored=True,
    )
    group_streams_max_assignment_interval_ms: int = _setting(
        15_000,
        _NO_STREAMS,
        0,
        ignored=True,
    )
    group_streams_assignors: tuple[str, ...] = _setting(("sticky",), _NO_STREAMS, ignored=True)
    group_streams_rack_aware_assignment_tags: tuple[str, ...] = _setting(
        (), _NO_STREAMS, ignored=True, group="streams.rack.aware.assignment.tags"
    )

    telemetry_max_bytes: int = _setting(
        1_048_576, "The largest set of metrics that a client may push, as it travels (KIP-714).", 1
    )

    offset_metadata_max_bytes: int = _setting(4096, "The longest text committed with an offset.", 0)
    offsets_retention_minutes: int = _setting(
        10_080, "How long offsets outlive the last member of their group.", 1
    )
    offsets_retention_check_interval_ms: int = _setting(
        600_000, "How often expired offsets are removed.", 1, long=True
    )
    offsets_topic_num_partitions: int = _setting(50, "Partitions of __consumer_offsets.", 1)
    offsets_topic_replication_factor: int = _setting(
        3, "Replicas of __consumer_offsets (fewer while there are fewer brokers).", 1
    )
    offsets_topic_segment_bytes: int = _setting(
        104_857_600, "Segment size of __consumer_offsets.", 1024
    )

    transaction_max_timeout_ms: int = _setting(
        900_000, "The longest timeout that a transactional producer may ask for.", 1
    )
    transactional_id_expiration_ms: int = _setting(
        604_800_000, "A transactional id expires when it was not used for this long.", 1
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = _setting(
        3_600_000, "How often expired transactional ids are removed.", 1
    )
    transaction_state_log_num_partitions: int = _setting(
        50, "Partitions of __transaction_state.", 1
    )
    transaction_state_log_replication_factor: int = _setting(
        3, "Replicas of __transaction_state (fewer while there are fewer brokers).", 1
    )
    transaction_state_log_min_isr: int = _setting(
        2, "How many in-sync replicas __transaction_state needs (at most all it has).", 1
    )
    transaction_state_log_segment_bytes: int = _setting(
        104_857_600, "Segment size of __transaction_state.", 1024
    )
    transaction_two_phase_commit_enable: bool = _setting(
        False, "Allow transactions that wait for a decision without a timeout (KIP-939)."
    )

    share_coordinator_state_topic_prune_interval_ms: int = _setting(
        300_000, "How often superseded records of __share_group_state are deleted.", 1
    )

    producer_id_expiration_ms: int = _setting(
        _DAY_MS, "A producer id expires when it was idle for this long.", 1, dynamic=True
    )

    compression_type: str = _setting(
        "producer",
        "`producer` keeps what the producer chose; anything else re-compresses its batches.",
        choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        topic="compression.type",
    )
    compression_gzip_level: int = _setting(
        -1,
        "The level at which batches are re-compressed with gzip; -1 is gzip's own default.",
        -1,
        9,
        choices=("-1", *map(str, range(1, 10))),
        topic="compression.gzip.level",
    )
    compression_lz4_level: int = _setting(
        9,
        "The level at which batches are re-compressed with lz4; 9 is the fast compressor.",
        1,
        17,
        topic="compression.lz4.level",
    )
    compression_zstd_level: int = _setting(
        3,
        "The level at which batches are re-compressed with zstd.",
        -131_072,
        22,
        topic="compression.zstd.level",
    )
    log_dirs: tuple[str, ...] = _setting(
        (), "The data directory (one; --data-dir sets it).", also=("log.dir",)
    )
    log_cleanup_policy: tuple[str, ...] = _setting(
        ("delete",),
        "What happens to old segments: deleted by age and size, compacted by key, or both.",
        choices=("delete", "compact"),
        topic="cleanup.policy",
    )
    log_segment_bytes: int = _setting(
        1_073_741_824, "The size at which a new segment begins.", 1024, topic="segment.bytes"
    )
    log_segment_delete_delay_ms: int = _setting(
        60_000,
        "How long a deleted segment's file stays on disk.",
        0,
        long=True,
        topic="file.delete.delay.ms",
    )
    log_roll_ms: int = _setting(
        7 * _DAY_MS,
        "The age at which a new segment begins.",
        1,
        long=True,
        topic="segment.ms",
        coarser=(("log.roll.hours", _HOUR_MS),),
    )
    log_roll_jitter_ms: int = _setting(
        0,
        "Accepted for compatibility; rolling is not jittered.",
        0,
        long=True,
        ignored=True,
        topic="segment.jitter.ms",
    )
    log_retention_ms: int = _setting(
        7 * _DAY_MS,
        "How long segments are kept; -1 forever.",
        -1,
        long=True,
        topic="retention.ms",
        coarser=(("log.retention.hours", _HOUR_MS), ("log.retention.minutes", 60_000)),
    )
    log_retention_bytes: int = _setting(
        -1,
        "The largest size of a partition before old segments are deleted; -1 for no limit.",
        -1,
        long=True,
        topic="retention.bytes",
    )
    log_local_retention_ms: int = _setting(
        -2,
        "Accepted for compatibility; nothing is tiered, so everything is local.",
        -2,
        long=True,
        ignored=True,
        topic="local.retention.ms",
    )
    log_local_retention_bytes: int = _setting(
        -2,
        "Accepted for compatibility; nothing is tiered, so everything is local.",
        -2,
        long=True,
        ignored=True,
        topic="local.retention.bytes",
    )
    log_remote_copy_lag_ms: int = _setting(
        0,
        "Accepted for compatibility; there is no tiered storage.",
        -1,
        long=True,
        ignored=True,
        topic="remote.copy.lag.ms",
    )
    log_remote_copy_lag_bytes: int = _setting(
        -1,
        "Accepted for compatibility; there is no tiered storage.",
        -1,
        long=True,
        ignored=True,
        topic="remote.copy.lag.bytes",
    )
    log_retention_check_interval_ms: int = _setting(
        300_000, "How often retention is checked.", 1, long=True
    )
    log_index_interval_bytes: int = _setting(
        4096,
        "Bytes of log between two entries of the offset index.",
        0,
        topic="index.interval.bytes",
    )
    log_index_size_max_bytes: int = _setting(
        10_485_760, "The largest size of a segment's index.", 4, topic="segment.index.bytes"
    )
    log_flush_interval_messages: int = _setting(
        LONG_MAX,
        "Sync the log after this many records; 1 syncs before every acknowledgement.",
        1,
        long=True,
        topic="flush.messages",
    )
    log_flush_interval_ms: int = _setting(
        LONG_MAX, "Sync the log at least this often.", 0, long=True, topic="flush.ms"
    )
    log_flush_scheduler_interval_ms: int = _setting(
        1000, "How often logs are checked for a due sync.", 1, long=True
    )
    log_flush_offset_checkpoint_interval_ms: int = _setting(
        60_000, "How often recovery points are checkpointed.", 1
    )
    minikafka_log_reopen_interval_ms: int = _setting(
        30_000,
        "How often the broker retries to open a log whose disk failed or was full.",
        1,
        long=True,
    )
    log_preallocate: bool = _setting(
        False,
        "Accepted for compatibility; segments are never preallocated.",
        ignored=True,
        topic="preallocate",
    )
    log_message_timestamp_type: str = _setting(
        "CreateTime",
        "Who stamps records: the producer (CreateTime) or the broker (LogAppendTime).",
        choices=("CreateTime", "LogAppendTime"),
        topic="message.timestamp.type",
    )
    log_message_timestamp_after_max_ms: int = _setting(
        _HOUR_MS,
        "How far a record's timestamp may lie in the future.",
        0,
        long=True,
        topic="message.timestamp.after.max.ms",
    )
    log_message_timestamp_before_max_ms: int = _setting(
        LONG_MAX,
        "How far a record's timestamp may lie in the past.",
        0,
        long=True,
        topic="message.timestamp.before.max.ms",
    )
    log_cleaner_enable: bool = _setting(True, "Compact logs in the background.")
    log_cleaner_backoff_ms: int = _setting(
        15_000,
        "How long the cleaner sleeps when there is nothing to clean.",
        0,
        long=True,
        dynamic=True,
    )
    log_cleaner_delete_retention_ms: int = _setting(
        _DAY_MS,
        "How long a compacted topic keeps tombstones.",
        0,
        long=True,
        topic="delete.retention.ms",
    )
    log_cleaner_min_cleanable_ratio: float = _setting(
        0.5,
        "The share of a log that must be uncompacted before compaction starts.",
        0,
        1,
        topic="min.cleanable.dirty.ratio",
    )
    log_cleaner_min_compaction_lag_ms: int = _setting(
        0,
        "The shortest time a record stays uncompacted.",
        0,
        long=True,
        topic="min.compaction.lag.ms",
    )
    log_cleaner_max_compaction_lag_ms: int = _setting(
        LONG_MAX,
        "The longest a record may wait for compaction.",
        1,
        long=True,
        topic="max.compaction.lag.ms",
    )

    explicitly_set: frozenset[str] = field(default=frozenset(), compare=False)

    def value_of(self, name: str) -> Value:
        """The value of the setting with this Kafka name."""
        value: Value = getattr(self, name.replace(".", "_"))
        return value

    def values_by_name(self) -> dict[str, Value]:
        """Every setting's effective value by its Kafka name."""
        return {name: self.value_of(name) for name in BROKER_SETTINGS}


_TOPIC_ONLY: Final = (
    Setting(
        "errors.deadletterqueue.group.enable",
        SettingType.BOOLEAN,
        False,
        _NO_DEAD_LETTERS,
        is_dynamic=True,
        is_ignored=True,
    ),
    Setting(
        "remote.storage.enable",
        SettingType.BOOLEAN,
        False,
        "Accepted for compatibility; there is no tiered storage, so it can only be false.",
        is_dynamic=True,
        is_ignored=True,
    ),
    Setting(
        "remote.log.copy.disable",
        SettingType.BOOLEAN,
        False,
        "Accepted for compatibility; there is no tiered storage.",
        is_dynamic=True,
        is_ignored=True,
    ),
    Setting(
        "remote.log.delete.on.disable",
        SettingType.BOOLEAN,
        False,
        "Accepted for compatibility; there is no tiered storage.",
        is_dynamic=True,
        is_ignored=True,
    ),
    Setting(
        "follower.replication.throttled.replicas",
        SettingType.LIST,
        (),
        "Replicas whose fetching is throttled, as partition:broker pairs or *.",
        is_dynamic=True,
    ),
    Setting(
        "leader.replication.throttled.replicas",
        SettingType.LIST,
        (),
        "Replicas whose leader is throttled, as partition:broker pairs or *.",
        is_dynamic=True,
    ),
)

_GROUP_ONLY: Final = (
    Setting(
        "share.auto.offset.reset",
        SettingType.STRING,
        "latest",
        "Where a share group begins in a partition that it has not read yet: earliest, latest, or "
        "by_duration:PnDTnHnMn.nS for the records of that last time.",
        is_dynamic=True,
    ),
    Setting(
        "share.isolation.level",
        SettingType.STRING,
        "read_uncommitted",
        "Which records of transactions a share group is given.",
        choices=("read_committed", "read_uncommitted"),
        is_dynamic=True,
    ),
    Setting(
        "share.renew.acknowledge.enable",
        SettingType.BOOLEAN,
        True,
        "Whether members of a share group may renew the lock of a record (KIP-1222).",
        is_dynamic=True,
    ),
    Setting(
        "errors.deadletterqueue.topic.name",
        SettingType.STRING,
        "",
        _NO_DEAD_LETTERS,
        is_dynamic=True,
        is_ignored=True,
    ),
    Setting(
        "errors.deadletterqueue.copy.record.enable",
        SettingType.BOOLEAN,
        False,
        _NO_DEAD_LETTERS,
        is_dynamic=True,
        is_ignored=True,
    ),
    Setting(
        "streams.assignor.name",
        SettingType.STRING,
        "",
        _NO_STREAMS,
        is_dynamic=True,
        is_ignored=True,
    ),
)

CLIENT_METRICS_SETTINGS: Final = {
    one.name: one
    for one in (
        Setting(
            "interval.ms",
            SettingType.INT,
            300_000,
            "How often a client that matches pushes its metrics.",
            100,
            3_600_000,
            is_dynamic=True,
        ),
        Setting(
            "match",
            SettingType.LIST,
            (),
            "Which clients are asked: pairs of client_id, client_instance_id, "
            "client_software_name, client_software_version, client_source_address or "
            "client_source_port and a regular expression; all pairs must match. Empty: all.",
            is_dynamic=True,
        ),
        Setting(
            "metrics",
            SettingType.LIST,
            (),
            "Prefixes of the metrics that are asked for, or * for all.",
            is_dynamic=True,
        ),
    )
}
"""Settings of a client metrics subscription (KIP-714)."""

BROKER_SETTINGS: Final[dict[str, Setting]] = {}
TOPIC_SETTINGS: Final[dict[str, Setting]] = {one.name: one for one in _TOPIC_ONLY}
GROUP_SETTINGS: Final[dict[str, Setting]] = {one.name: one for one in _GROUP_ONLY}
SYNONYMS: Final[dict[str, str]] = {}
"""Other names of broker settings."""
COARSER_SETTINGS: Final[dict[str, tuple[str, int]]] = {}
"""Names in coarser units, coarsest first: the broker setting, and how many of its units one is."""


def _derive_tables() -> None:
    for one in fields(BrokerConfig):
        if "setting" not in one.metadata:
            continue
        name, topic = one.name.replace("_", "."), one.metadata["topic"]
        setting: Setting = one.metadata["setting"]._replace(name=name)
        if topic is not None:
            TOPIC_SETTINGS[topic] = setting._replace(name=topic, broker_name=name)
            setting = setting._replace(doc=f"{setting.doc} The topic setting {topic} overrides it.")
        group = one.metadata["group"]
        if group is not None:
            of_group = setting._replace(name=group, broker_name=name, is_dynamic=True)
            # The bounds of the broker's other settings decide how large it may be (group_settings).
            GROUP_SETTINGS[group] = of_group._replace(at_most=None)
            setting = setting._replace(doc=f"{setting.doc} The group setting {group} overrides it.")
        BROKER_SETTINGS[name] = setting
        SYNONYMS.update(dict.fromkeys(one.metadata["also"], name))
        COARSER_SETTINGS.update({other: (name, units) for other, units in one.metadata["coarser"]})


_derive_tables()
