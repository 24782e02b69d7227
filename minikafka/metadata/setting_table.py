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

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from ..data_class import DataClass, described
from .settings import INT_MAX, LONG_MAX, Password, Setting, SettingType, Value

__all__ = [
    "BROKER_SETTINGS",
    "CLIENT_METRICS_SETTINGS",
    "COARSER_SETTINGS",
    "GROUP_SETTINGS",
    "LISTENER_PREFIX",
    "SYNONYMS",
    "TOPIC_SETTINGS",
    "BrokerConfig",
    "listener_prefix",
    "setting_of_listener",
]

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS


_NO_INTERVAL: Final = (
    "Accepted for compatibility (KIP-1263); groups are assigned at once, because an assignment of "
    "1,000 members and 10,000 partitions takes less than 50 ms, and a delayed one a heartbeat more."
)
_NO_REFRESH: Final = (
    "Accepted for compatibility; regular expressions are matched whenever topics change, since the "
    "coordinator sees every change."
)

_T = TypeVar("_T", bound=Value)
_TYPES: Final[dict[type, SettingType]] = {
    bool: SettingType.BOOLEAN,
    int: SettingType.INT,
    float: SettingType.DOUBLE,
    str: SettingType.STRING,
    tuple: SettingType.LIST,
    Password: SettingType.PASSWORD,
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
    return described(default, {"setting": setting, **names})


class BrokerConfig(DataClass, kw_only=True):
    """Every broker setting with its effective value.

    Attributes:
        explicitly_set: Kafka names of the settings that a file or a flag gave; DescribeConfigs
            tells them from defaults.
        listener_settings: settings of single listeners by their full names,
            ``listener.name.<name>.<setting>``; ``value_for`` finds them.
    """

    node_id: int = _setting(1, "This broker's number in its cluster.", 0, also=("broker.id",))
    broker_rack: str = _setting("", "The rack that this broker is in (KIP-392).")
    # --- authorizer
    authorizer_class_name: str = _setting(
        "",
        "What decides about access: standard (or Kafka's name for the same, "
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer) for ACLs. Empty: everybody may "
        "do everything.",
        choices=(
            "",
            "standard",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        ),
    )
    super_users: str = _setting(
        "", "Principals that may do everything, with semicolons between them: User:alice;User:bob."
    )
    allow_everyone_if_no_acl_found: bool = _setting(
        False, "Whether everybody may use a resource that no ACL is for."
    )
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

    # --- listeners and TLS
    listeners: tuple[str, ...] = _setting(
        ("PLAINTEXT://127.0.0.1:9092",),
        "Where the broker listens: NAME://HOST:PORT each. listener.security.protocol.map says what "
        "the names mean; listener.name.<name>.<setting> are the settings of one listener.",
    )
    advertised_listeners: tuple[str, ...] = _setting(
        (),
        "The addresses given to clients, NAME://HOST:PORT each: clients of a listener get the one "
        "with its name. Empty: where the broker listens.",
    )
    listener_security_protocol_map: tuple[str, ...] = _setting(
        (
            "PLAINTEXT:PLAINTEXT",
            "SSL:SSL",
            "SASL_PLAINTEXT:SASL_PLAINTEXT",
            "SASL_SSL:SASL_SSL",
        ),
        "What happens on a connection before its first request, for each listener: NAME:PROTOCOL.",
    )
    inter_broker_listener_name: str = _setting(
        "",
        "Accepted for compatibility: brokers reach each other through minikafka.internal.listener.",
        ignored=True,
    )
    security_inter_broker_protocol: str = _setting(
        "PLAINTEXT",
        "Accepted for compatibility: see minikafka.internal.secret and minikafka.internal.ssl.",
        ignored=True,
    )
    controller_listener_names: tuple[str, ...] = _setting(
        (),
        "Accepted for compatibility: clients do not talk to controllers.",
        ignored=True,
    )
    ssl_keystore_type: str = _setting(
        "",
        "The form of the keystore: PEM or PKCS12 (needs the extra minikafka[pkcs12]); empty: what "
        "the file looks like. Java's JKS cannot be read.",
    )
    ssl_keystore_location: str = _setting(
        "",
        "A file with the private key and the certificate chain. It is read again when it changes.",
    )
    ssl_keystore_password: Password = _setting(Password(), "The password of a PKCS12 keystore.")
    ssl_key_password: Password = _setting(
        Password(), "The password of the private key, if it is encrypted."
    )
    ssl_keystore_key: Password = _setting(
        Password(), "The private key itself, as PEM, in place of a keystore file."
    )
    ssl_keystore_certificate_chain: Password = _setting(
        Password(), "The certificate chain itself, as PEM, in place of a keystore file."
    )
    ssl_truststore_type: str = _setting(
        "", "The form of the truststore: PEM or PKCS12; empty: what the file looks like."
    )
    ssl_truststore_location: str = _setting(
        "",
        "A file with the certificates that clients' certificates must be signed by. It is read "
        "again when it changes.",
    )
    ssl_truststore_password: Password = _setting(Password(), "The password of a PKCS12 truststore.")
    ssl_truststore_certificates: Password = _setting(
        Password(), "The trusted certificates themselves, as PEM, in place of a truststore file."
    )
    ssl_client_auth: str = _setting(
        "none",
        "Whether clients show a certificate. On SASL_SSL listeners only a setting of the listener "
        "itself counts, as in Kafka.",
        choices=("none", "requested", "required"),
    )
    ssl_enabled_protocols: tuple[str, ...] = _setting(
        ("TLSv1.2", "TLSv1.3"),
        "The versions of TLS that are spoken; older ones are not.",
        choices=("TLSv1.2", "TLSv1.3"),
    )
    ssl_protocol: str = _setting(
        "TLSv1.3",
        "Accepted for compatibility; ssl.enabled.protocols decides.",
        ignored=True,
    )
    ssl_cipher_suites: tuple[str, ...] = _setting(
        (), "The cipher suites that are spoken, under their standard names; empty: the safe ones."
    )
    ssl_principal_mapping_rules: str = _setting(
        "DEFAULT",
        "What principal the name in a client's certificate becomes: RULE:pattern/replacement/[LU] "
        "and DEFAULT, separated by commas; the first rule that matches counts.",
    )
    ssl_endpoint_identification_algorithm: str = _setting(
        "https", "Accepted for compatibility; clients check names.", ignored=True
    )
    minikafka_internal_secret: Password = _setting(
        Password(),
        "What all nodes of a cluster know, and strangers do not; better in a file, see "
        "minikafka.internal.secret.file.",
    )
    minikafka_internal_secret_file: str = _setting(
        "",
        "A file with the secret that all nodes of a cluster share. A secret or "
        "minikafka.internal.ssl.enable is required if the internal listener can be reached from "
        "other machines.",
    )
    minikafka_internal_ssl_enable: bool = _setting(
        False, "Encrypt connections between nodes; all nodes show certificates."
    )
    minikafka_internal_ssl_keystore_type: str = _setting("", "As ssl.keystore.type, for nodes.")
    minikafka_internal_ssl_keystore_location: str = _setting(
        "", "As ssl.keystore.location: this node's private key and certificate for other nodes."
    )
    minikafka_internal_ssl_keystore_password: Password = _setting(
        Password(), "As ssl.keystore.password, for nodes."
    )
    minikafka_internal_ssl_key_password: Password = _setting(
        Password(), "As ssl.key.password, for nodes."
    )
    minikafka_internal_ssl_keystore_key: Password = _setting(
        Password(), "As ssl.keystore.key, for nodes."
    )
    minikafka_internal_ssl_keystore_certificate_chain: Password = _setting(
        Password(), "As ssl.keystore.certificate.chain, for nodes."
    )
    minikafka_internal_ssl_truststore_type: str = _setting("", "As ssl.truststore.type, for nodes.")
    minikafka_internal_ssl_truststore_location: str = _setting(
        "",
        "As ssl.truststore.location: whoever has a certificate that these signed is a node, so "
        "clients' certificates need another authority.",
    )
    minikafka_internal_ssl_truststore_password: Password = _setting(
        Password(), "As ssl.truststore.password, for nodes."
    )
    minikafka_internal_ssl_truststore_certificates: Password = _setting(
        Password(), "As ssl.truststore.certificates, for nodes."
    )
    minikafka_login_timeout_ms: int = _setting(
        10_000, "How long a client may take for its TLS handshake and for logging in.", 1
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
        10_000,
        "Open connections; one more is closed. listener.name.<name>.max.connections limits those "
        "of one listener as well.",
        1,
        dynamic=True,
    )
    max_connections_per_ip: int = _setting(
        10_000, "Open connections from one address.", 0, dynamic=True
    )
    max_connections_per_ip_overrides: tuple[str, ...] = _setting(
        (),
        "Other limits for some addresses: ADDRESS:CONNECTIONS each. Names are not looked up.",
        dynamic=True,
    )
    max_connection_creation_rate: int = _setting(
        INT_MAX,
        "New connections per second; more have to wait. "
        "listener.name.<name>.max.connection.creation.rate limits one listener as well.",
        1,
        dynamic=True,
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

    # --- client quotas
    quota_window_num: int = _setting(
        11, "How many samples the rates of client quotas are averages of.", 1
    )
    quota_window_size_seconds: int = _setting(1, "The time of each sample of client quotas.", 1)
    controller_quota_window_num: int = _setting(
        11, "How many samples of time a client may save up for controller mutations (KIP-599).", 1
    )
    controller_quota_window_size_seconds: int = _setting(
        1, "The time of each sample of controller mutations.", 1
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
        "Create the topic for the dead letters of a share group when the first one is written.",
        dynamic=True,
    )
    errors_deadletterqueue_topic_name_prefix: str = _setting(
        "dlq.",
        "How names of topics for dead letters have to begin; empty allows all (KIP-1191).",
        dynamic=True,
    )

    group_streams_session_timeout_ms: int = _setting(
        45_000,
        "A member of a streams group that is silent for this long is removed (KIP-1071).",
        1,
        group="streams.session.timeout.ms",
    )
    group_streams_heartbeat_interval_ms: int = _setting(
        5000,
        "How often a member of a streams group sends a heartbeat.",
        1,
        group="streams.heartbeat.interval.ms",
    )
    group_streams_min_session_timeout_ms: int = _setting(
        45_000,
        "The shortest session timeout that a streams group may set.",
        1,
    )
    group_streams_max_session_timeout_ms: int = _setting(
        60_000,
        "The longest session timeout that a streams group may set.",
        1,
    )
    group_streams_min_heartbeat_interval_ms: int = _setting(
        5000,
        "The shortest heartbeat interval that a streams group may set.",
        1,
    )
    group_streams_max_heartbeat_interval_ms: int = _setting(
        15_000,
        "The longest heartbeat interval that a streams group may set.",
        1,
    )
    group_streams_max_size: int = _setting(
        10_000,
        "The most members of a streams group. Kafka has no limit by default.",
        1,
    )
    group_streams_num_standby_replicas: int = _setting(
        0,
        "How many standby tasks each task with state has, on other instances.",
        0,
        group="streams.num.standby.replicas",
    )
    group_streams_max_standby_replicas: int = _setting(
        2,
        "The most standby tasks of a task that a streams group may set.",
        0,
    )
    group_streams_initial_rebalance_delay_ms: int = _setting(
        3000,
        "How long a streams group that was empty waits for more members before it assigns tasks.",
        0,
        group="streams.initial.rebalance.delay.ms",
    )
    group_streams_assignment_interval_ms: int = _setting(
        1000,
        "How long a streams group keeps an assignment of tasks before it computes the next one.",
        0,
        dynamic=True,
        group="streams.assignment.interval.ms",
    )
    group_streams_min_assignment_interval_ms: int = _setting(
        0,
        "The shortest assignment interval that a streams group may set.",
        0,
    )
    group_streams_max_assignment_interval_ms: int = _setting(
        15_000,
        "The longest assignment interval that a streams group may set.",
        0,
    )
    group_streams_assignors: tuple[str, ...] = _setting(
        ("sticky",), "The assignor of streams groups (KIP-1071).", choices=("sticky",)
    )
    group_streams_rack_aware_assignment_tags: tuple[str, ...] = _setting(
        (),
        "Members of a streams group are told to set these client tags; as in Kafka 4.4 the "
        "assignor does not use them.",
        group="streams.rack.aware.assignment.tags",
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

    # --- SASL
    sasl_enabled_mechanisms: tuple[str, ...] = _setting(
        (),
        "The mechanisms by which clients log in on SASL_PLAINTEXT and SASL_SSL listeners; there "
        "must be one. Kafka's default, GSSAPI, is not served.",
    )
    sasl_jaas_config: Password = _setting(
        Password(),
        "The users of PLAIN, as listener.name.NAME.plain.sasl.jaas.config: "
        '...PlainLoginModule required user_alice="her password"; is one user.',
    )
    sasl_server_callback_handler_class: str = _setting(
        "",
        "How OAUTHBEARER tokens are checked: by the keys at sasl.oauthbearer.jwks.endpoint.url, or "
        "not at all with a class named OAuthBearerUnsecuredValidatorCallbackHandler, for tests.",
    )
    sasl_server_max_receive_size: int = _setting(
        65_536,
        "The largest request of a client that has not logged in yet. Kafka's default is 524288.",
        64,
    )
    connections_max_reauth_ms: int = _setting(
        0,
        "A client has to log in again after this (KIP-368), or its connection is closed; 0: never, "
        "unless its token expires.",
        0,
        long=True,
    )
    connection_failed_authentication_delay_ms: int = _setting(
        100, "How long a client whose authentication failed waits for the answer.", 0
    )
    sasl_oauthbearer_jwks_endpoint_url: str = _setting(
        "", "Where the keys are that sign OAUTHBEARER tokens, as JWKS: file: or https:."
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = _setting(
        _HOUR_MS, "How old the keys may become before they are read again.", 1, long=True
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = _setting(
        100, "The shortest pause before an unknown key is looked for again.", 1, long=True
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = _setting(
        10_000, "The longest pause before an unknown key is looked for again.", 1, long=True
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = _setting(
        (), "OAUTHBEARER tokens must be for one of these (the claim aud); empty: for anybody."
    )
    sasl_oauthbearer_expected_issuer: str = _setting(
        "", "OAUTHBEARER tokens must be from this issuer (the claim iss); empty: from any."
    )
    sasl_oauthbearer_scope_claim_name: str = _setting(
        "scope", "The claim of OAUTHBEARER tokens that has the scopes."
    )
    sasl_oauthbearer_sub_claim_name: str = _setting(
        "sub", "The claim of OAUTHBEARER tokens that is the name of the principal."
    )
    sasl_oauthbearer_clock_skew_seconds: int = _setting(
        30, "How far the clocks of this broker and of the tokens' issuer may be apart.", 0
    )

    explicitly_set: frozenset[str] = frozenset()
    listener_settings: Mapping[str, Value] = MappingProxyType({})

    def value_of(self, name: str) -> Value:
        """The value of the setting with this Kafka name."""
        value: Value = getattr(self, name.replace(".", "_"))
        return value

    def value_for(self, listener: str, name: str) -> Value:
        """The value of a setting for one listener: its own, or else the one for all."""
        value = self.listener_settings.get(f"{listener_prefix(listener)}{name}")
        return self.value_of(name) if value is None else value

    def values_by_name(self) -> dict[str, Value]:
        """Every setting's effective value by its Kafka name."""
        return {name: self.value_of(name) for name in BROKER_SETTINGS}


LISTENER_PREFIX: Final = "listener.name."
_OF_LISTENERS: Final = (
    "ssl.",
    "sasl.",
    "max.connections",
    "max.connection.creation.rate",
    "connections.max.reauth.ms",
)


def listener_prefix(listener: str) -> str:
    """What the names of a listener's own settings begin with."""
    return f"{LISTENER_PREFIX}{listener.lower()}."


def setting_of_listener(name: str) -> Setting | None:
    """The setting behind ``listener.name.<name>.<setting>``, or None if there is none.

    Between the listener and the setting there may be a SASL mechanism.
    """
    parts = name.removeprefix(LISTENER_PREFIX).split(".")
    if not name.startswith(LISTENER_PREFIX):
        return None
    for position in range(1, len(parts)):
        setting = BROKER_SETTINGS.get(".".join(parts[position:]))
        if setting is not None:
            is_own = setting.name in _OF_LISTENERS or setting.name.startswith(_OF_LISTENERS[:2])
            return setting if is_own else None
    return None


_TOPIC_ONLY: Final = (
    Setting(
        "errors.deadletterqueue.group.enable",
        SettingType.BOOLEAN,
        False,
        "Whether share groups may write their dead letters to this topic (KIP-1191).",
        is_dynamic=True,
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
        "The topic for the dead letters of a share group: what it has given up (KIP-1191).",
        is_dynamic=True,
    ),
    Setting(
        "errors.deadletterqueue.copy.record.enable",
        SettingType.BOOLEAN,
        False,
        "Whether dead letters have the key and the value of the record they are about.",
        is_dynamic=True,
    ),
    Setting(
        "streams.assignor.name",
        SettingType.STRING,
        "",
        "Accepted for compatibility; there is one assignor, sticky.",
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
    for field, declared in BrokerConfig.ABOUT.items():
        name, topic = field.replace("_", "."), declared["topic"]
        setting: Setting = declared["setting"]._replace(name=name)
        if topic is not None:
            TOPIC_SETTINGS[topic] = setting._replace(name=topic, broker_name=name)
            setting = setting._replace(doc=f"{setting.doc} The topic setting {topic} overrides it.")
        group = declared["group"]
        if group is not None:
            of_group = setting._replace(name=group, broker_name=name, is_dynamic=True)
            # The bounds of the broker's other settings decide how large it may be (group_settings).
            GROUP_SETTINGS[group] = of_group._replace(at_most=None)
            setting = setting._replace(doc=f"{setting.doc} The group setting {group} overrides it.")
        BROKER_SETTINGS[name] = setting
        SYNONYMS.update(dict.fromkeys(declared["also"], name))
        COARSER_SETTINGS.update({other: (name, units) for other, units in declared["coarser"]})


_derive_tables()
