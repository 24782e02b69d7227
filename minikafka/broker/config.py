"""The broker's settings: Kafka's names, typed, from files and flags.

`BrokerConfig` is the table: a field's name with dots instead of underscores is the setting's name,
its annotation is the type, and its metadata are the bounds and the words that ``minikafka serve
--help``, DescribeConfigs and the README show.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, cast

from ..metadata.settings import (
    LONG_MAX,
    InvalidSettingError,
    Setting,
    SettingType,
    Value,
    parse_setting,
    render_setting,
    unknown_setting,
)

__all__ = ["BROKER_SETTINGS", "BrokerConfig", "load_config"]

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS

_NAMES: dict[str, SettingType] = {
    "bool": SettingType.BOOLEAN,
    "int": SettingType.INT,
    "float": SettingType.DOUBLE,
    "str": SettingType.STRING,
    "tuple[str, ...]": SettingType.LIST,
}


def _set(
    default: Value,
    doc: str,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
    *,
    long: bool = False,
    dynamic: bool = False,
) -> Any:
    return field(
        default=default, metadata={"setting": (doc, at_least, at_most, choices, long, dynamic)}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Every broker setting with its effective value (sources: Kafka 4 broker configs).

    Attributes:
        explicitly_set: Kafka names of the settings that a file or a flag gave; DescribeConfigs
            tells them from defaults.
    """

    node_id: int = _set(1, "This broker's number in its cluster.", 0)
    broker_rack: str = _set("", "The rack this broker stands in (KIP-392).")
    process_roles: tuple[str, ...] = _set(
        ("broker", "controller"),
        "What this node does. A controller votes in the metadata quorum; nodes that are not named "
        "in controller.quorum.voters are never controllers.",
        choices=("broker", "controller"),
    )
    controller_quorum_voters: tuple[str, ...] = _set(
        (),
        "The nodes that decide about metadata, id@host:port each, with the addresses of their "
        "internal listeners; the same on every node. Empty: this node alone is the cluster.",
    )
    minikafka_internal_listener: str = _set(
        "",
        "HOST:PORT to listen on for other nodes. Empty: where controller.quorum.voters says, or "
        "for other brokers a free port at the host of the client listener.",
    )
    controller_quorum_election_timeout_ms: int = _set(
        1000,
        "A voter that has not heard the leader of the metadata quorum for one to two of these "
        "asks for an election.",
        10,
    )
    metadata_log_max_record_bytes_between_snapshots: int = _set(
        2 * 1024 * 1024,
        "The metadata log is replaced by a snapshot when it has so many bytes, and twice as many "
        "as the snapshot.",
        1,
        long=True,
    )
    broker_heartbeat_interval_ms: int = _set(
        500, "How often a broker tells the controller that it lives.", 1
    )
    broker_session_timeout_ms: int = _set(
        9000, "A broker that is silent for so long is fenced: it leads nothing any more.", 1
    )
    auto_leader_rebalance_enable: bool = _set(
        True, "Give leadership back to preferred replicas in the background."
    )
    leader_imbalance_check_interval_seconds: int = _set(
        300, "How often preferred replicas are looked for.", 1, long=True
    )

    listeners: tuple[str, ...] = _set(
        ("PLAINTEXT://127.0.0.1:9092",), "Where the broker listens; one plain listener so far."
    )
    advertised_listeners: tuple[str, ...] = _set(
        (), "What clients are told to connect to; empty for where the broker listens."
    )
    num_partitions: int = _set(1, "Partitions of a topic created without a count.", 1)
    max_request_partition_size_limit: int = _set(
        2000, "The most partitions of one DescribeTopicPartitions response.", 1
    )
    default_replication_factor: int = _set(1, "Replicas of a topic created without a count.", 1)
    auto_create_topics_enable: bool = _set(
        True, "Create a topic when a client asks for its metadata."
    )
    delete_topic_enable: bool = _set(True, "Allow topics to be deleted.")
    min_insync_replicas: int = _set(1, "How many in-sync replicas acks=all needs.", 1, dynamic=True)
    unclean_leader_election_enable: bool = _set(
        False, "Whether a replica that may miss acknowledged records can lead.", dynamic=True
    )

    message_max_bytes: int = _set(
        1_048_588, "The largest record batch, in bytes as it travels.", 0, dynamic=True
    )
    socket_request_max_bytes: int = _set(104_857_600, "The largest request frame.", 1)
    minikafka_request_control_max_bytes: int = _set(
        16 * 1024 * 1024,
        "The largest frame of any request but Produce: their objects take more memory than bytes.",
        1024,
    )
    socket_listen_backlog_size: int = _set(1024, "Connections that wait to be accepted.", 1)
    socket_send_buffer_bytes: int = _set(-1, "SO_SNDBUF of a connection; -1 leaves it alone.", -1)
    socket_receive_buffer_bytes: int = _set(
        -1, "SO_RCVBUF of a connection; -1 leaves it alone.", -1
    )
    max_connections: int = _set(10_000, "Connections at once; one more is closed.", 1, dynamic=True)
    max_connections_per_ip: int = _set(
        10_000, "Connections at once from one address.", 1, dynamic=True
    )
    connections_max_idle_ms: int = _set(
        600_000, "An idle connection is closed after this.", -1, long=True
    )
    minikafka_frame_timeout_ms: int = _set(
        60_000, "How long the rest of a frame may take once its first byte is there.", 1
    )

    fetch_max_bytes: int = _set(57_671_680, "The most bytes one fetch response carries.", 1024)
    max_incremental_fetch_session_cache_slots: int = _set(1000, "Fetch sessions kept (KIP-227).", 0)
    replica_lag_time_max_ms: int = _set(
        30_000, "A follower that has not caught up for so long leaves the ISR.", 1, long=True
    )
    replica_fetch_max_bytes: int = _set(
        1_048_576, "The most bytes of one partition that a follower fetches at once.", 0
    )
    replica_fetch_response_max_bytes: int = _set(
        10_485_760, "The most bytes that a follower fetches at once.", 0
    )
    replica_fetch_min_bytes: int = _set(
        1, "A follower's fetch waits until there are so many bytes.", 1
    )
    replica_fetch_wait_max_ms: int = _set(
        500, "A follower's fetch waits so long; less than replica.lag.time.max.ms.", 1
    )
    replica_fetch_backoff_ms: int = _set(
        1000, "How long a follower rests at most after a fetch that failed.", 0
    )
    replica_high_watermark_checkpoint_interval_ms: int = _set(
        5000, "How often high watermarks are written.", 1, long=True
    )
    replica_selector_class: str = _set(
        "",
        "Where consumers are sent to read (KIP-392): RackAwareReplicaSelector for a replica in "
        "their rack; empty for the leader.",
    )
    leader_replication_throttled_rate: int = _set(
        LONG_MAX, "Bytes per second that leave for throttled replicas.", 1, long=True, dynamic=True
    )
    follower_replication_throttled_rate: int = _set(
        LONG_MAX, "Bytes per second that throttled replicas fetch.", 1, long=True, dynamic=True
    )

    group_min_session_timeout_ms: int = _set(6000, "The shortest session timeout allowed.", 1)
    group_max_session_timeout_ms: int = _set(1_800_000, "The longest session timeout allowed.", 1)
    group_initial_rebalance_delay_ms: int = _set(
        3000, "How long a new group waits for more members.", 0
    )
    group_max_size: int = _set(2**31 - 1, "The most members of a group.", 1)
    offset_metadata_max_bytes: int = _set(4096, "The longest text committed with an offset.", 0)
    offsets_retention_minutes: int = _set(
        10_080, "How long offsets outlive the last member of their group.", 1
    )
    offsets_retention_check_interval_ms: int = _set(
        600_000, "How often expired offsets are looked for.", 1, long=True
    )
    offsets_topic_num_partitions: int = _set(50, "Partitions of __consumer_offsets.", 1)
    offsets_topic_replication_factor: int = _set(
        3, "Replicas of __consumer_offsets (fewer while fewer brokers are there).", 1
    )
    offsets_topic_segment_bytes: int = _set(
        104_857_600, "Segment size of __consumer_offsets.", 1024
    )

    transaction_max_timeout_ms: int = _set(
        900_000, "The longest timeout that a transactional producer may ask for.", 1
    )
    transactional_id_expiration_ms: int = _set(
        604_800_000, "A transactional id is forgotten when it was not used for so long.", 1
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = _set(
        3_600_000, "How often unused transactional ids are looked for.", 1
    )
    transaction_state_log_num_partitions: int = _set(50, "Partitions of __transaction_state.", 1)
    transaction_state_log_replication_factor: int = _set(
        3, "Replicas of __transaction_state (fewer while fewer brokers are there).", 1
    )
    transaction_state_log_min_isr: int = _set(
        2, "How many in-sync replicas __transaction_state needs (at most all it has).", 1
    )
    transaction_state_log_segment_bytes: int = _set(
        104_857_600, "Segment size of __transaction_state.", 1024
    )
    transaction_two_phase_commit_enable: bool = _set(
        False, "Allow transactions that wait for a decision without a timeout (KIP-939)."
    )

    producer_id_expiration_ms: int = _set(
        _DAY_MS, "A producer id is forgotten when it was idle for this long.", 1, dynamic=True
    )

    compression_type: str = _set(
        "producer",
        "How batches are stored; `producer` keeps what the producer chose.",
        choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        dynamic=True,
    )
    log_dirs: tuple[str, ...] = _set((), "The data directory (one; --data-dir sets it).")
    log_cleanup_policy: tuple[str, ...] = _set(
        ("delete",), "Default of cleanup.policy.", choices=("delete", "compact"), dynamic=True
    )
    log_segment_bytes: int = _set(1_073_741_824, "Default of segment.bytes.", 1024, dynamic=True)
    log_segment_delete_delay_ms: int = _set(
        60_000, "Default of file.delete.delay.ms.", 0, long=True, dynamic=True
    )
    log_roll_ms: int = _set(7 * _DAY_MS, "Default of segment.ms.", 1, long=True, dynamic=True)
    log_roll_jitter_ms: int = _set(
        0, "Accepted for compatibility; rolling is not jittered.", 0, long=True, dynamic=True
    )
    log_retention_ms: int = _set(
        7 * _DAY_MS, "Default of retention.ms.", -1, long=True, dynamic=True
    )
    log_retention_bytes: int = _set(-1, "Default of retention.bytes.", -1, long=True, dynamic=True)
    log_retention_check_interval_ms: int = _set(
        300_000, "How often old segments are looked for.", 1, long=True
    )
    log_index_interval_bytes: int = _set(4096, "Default of index.interval.bytes.", 0, dynamic=True)
    log_index_size_max_bytes: int = _set(
        10_485_760, "Default of segment.index.bytes.", 4, dynamic=True
    )
    log_flush_interval_messages: int = _set(
        LONG_MAX, "Default of flush.messages: 1 syncs before every ack.", 1, long=True, dynamic=True
    )
    log_flush_interval_ms: int = _set(LONG_MAX, "Default of flush.ms.", 0, long=True, dynamic=True)
    log_flush_scheduler_interval_ms: int = _set(
        1000, "How often logs are checked for a due sync.", 1, long=True
    )
    log_flush_offset_checkpoint_interval_ms: int = _set(
        60_000, "How often recovery points are written.", 1
    )
    minikafka_log_reopen_interval_ms: int = _set(
        30_000, "How often a log is opened again whose disk failed or was full.", 1, long=True
    )
    log_preallocate: bool = _set(
        False, "Accepted for compatibility; segments are never preallocated.", dynamic=True
    )
    log_message_timestamp_type: str = _set(
        "CreateTime",
        "Default of message.timestamp.type.",
        choices=("CreateTime", "LogAppendTime"),
        dynamic=True,
    )
    log_message_timestamp_after_max_ms: int = _set(
        _HOUR_MS, "Default of message.timestamp.after.max.ms.", 0, long=True, dynamic=True
    )
    log_message_timestamp_before_max_ms: int = _set(
        LONG_MAX, "Default of message.timestamp.before.max.ms.", 0, long=True, dynamic=True
    )
    log_cleaner_enable: bool = _set(True, "Compact logs in the background.")
    log_cleaner_backoff_ms: int = _set(
        15_000, "How long the cleaner rests when nothing is to do.", 0, long=True, dynamic=True
    )
    log_cleaner_delete_retention_ms: int = _set(
        _DAY_MS, "Default of delete.retention.ms.", 0, long=True, dynamic=True
    )
    log_cleaner_min_cleanable_ratio: float = _set(
        0.5, "Default of min.cleanable.dirty.ratio.", 0, 1, dynamic=True
    )
    log_cleaner_min_compaction_lag_ms: int = _set(
        0, "Default of min.compaction.lag.ms.", 0, long=True, dynamic=True
    )
    log_cleaner_max_compaction_lag_ms: int = _set(
        LONG_MAX, "Default of max.compaction.lag.ms.", 1, long=True, dynamic=True
    )

    explicitly_set: frozenset[str] = field(default=frozenset(), compare=False)

    def value_of(self, name: str) -> Value:
        """The value of the setting with this Kafka name."""
        value: Value = getattr(self, name.replace(".", "_"))
        return value

    def values_by_name(self) -> dict[str, Value]:
        """Every setting's effective value by its Kafka name."""
        return {name: self.value_of(name) for name in BROKER_SETTINGS}


def _table() -> dict[str, Setting]:
    table: dict[str, Setting] = {}
    for one in fields(BrokerConfig):
        if "setting" not in one.metadata:
            continue
        doc, at_least, at_most, choices, long, dynamic = one.metadata["setting"]
        name = one.name.replace("_", ".")
        kind = SettingType.LONG if long else _NAMES[str(one.type)]
        table[name] = Setting(
            name, kind, cast("Value", one.default), doc, at_least, at_most, choices, None, dynamic
        )
    return table


BROKER_SETTINGS: dict[str, Setting] = _table()

# Kafka lets these be given in coarser units; the finer one wins when both are there.
_COARSER = {
    "log.retention.hours": ("log.retention.ms", _HOUR_MS),
    "log.retention.minutes": ("log.retention.ms", 60_000),
    "log.roll.hours": ("log.roll.ms", _HOUR_MS),
}
_SYNONYMS = {"broker.id": "node.id", "log.dir": "log.dirs"}


def load_config(
    toml_text: str | None, assignments: Sequence[str], flags: Mapping[str, str]
) -> BrokerConfig:
    """Build the configuration: defaults, then the file, then ``--set``, then other flags.

    Args:
        toml_text: the text of a TOML file: ``"num.partitions" = 3``, or nested tables
            (``[log.retention]`` / ``ms = 1000``), which mean the same.
        assignments: ``key=value`` texts of ``--set``.
        flags: settings given by flags of their own, by Kafka name.

    Raises:
        InvalidSettingError: an unknown name, an impossible value, or text that is not TOML.
    """
    texts: dict[str, str] = {}
    if toml_text is not None:
        try:
            texts.update(_flatten(tomllib.loads(toml_text)))
        except tomllib.TOMLDecodeError as error:
            raise InvalidSettingError(
                f"The configuration file is not valid TOML: {error}"
            ) from None
    for assignment in assignments:
        name, separator, text = assignment.partition("=")
        if not separator:
            raise InvalidSettingError(f"--set takes key=value, not {assignment!r}")
        texts[name.strip()] = text
    texts.update(flags)
    values = _parse(texts)
    return BrokerConfig(
        explicitly_set=frozenset(values),
        **{name.replace(".", "_"): value for name, value in values.items()},  # type: ignore[arg-type]  # the table's types are the fields' types
    )


def _parse(texts: Mapping[str, str]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for given in sorted(
        texts, key=lambda name: list(_COARSER).index(name) if name in _COARSER else 9
    ):
        name = _SYNONYMS.get(given, given)
        if given in _COARSER:
            name, factor = _COARSER[given]
            as_int = Setting(given, SettingType.LONG, 0, "", -1, LONG_MAX // factor)
            number = parse_setting(as_int, texts[given])
            assert isinstance(number, int)
            values[name] = number * factor if number >= 0 else -1
            continue
        setting = BROKER_SETTINGS.get(name)
        if setting is None:
            raise unknown_setting(given, BROKER_SETTINGS)
        values[name] = parse_setting(setting, texts[given])
    return values


def _flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in table.items():
        name = prefix + key
        if isinstance(value, dict):
            flat.update(_flatten(cast("dict[str, Any]", value), name + "."))
        elif isinstance(value, list):
            flat[name] = render_setting(tuple(map(str, cast("Iterable[object]", value))))
        else:
            flat[name] = render_setting(value)
    return flat
