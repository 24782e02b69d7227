"""The requests of the table of rights: every API, with names of things that a client may have.

Topics, groups and transactional ids are called `mine`; the topic `unmade` does not exist. Values
are given by the names of fields, and what a request does not say is nothing: 0, empty, no.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from minikafka.protocol.api import ApiKey, request_class
from minikafka.protocol.fields import ZERO_UUID, Struct
from minikafka.protocol.schema import Request
from minikafka.security.acl import Operation, PatternType, Permission, ResourceType
from tests.kit.wire import one_batch

ALL, DESCRIBE, READ, WRITE = Operation.ALL, Operation.DESCRIBE, Operation.READ, Operation.WRITE
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
CLUSTER, TRANSACTIONAL_ID = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
THE_CLUSTER: Final = "kafka-cluster"

Rule = tuple[ResourceType, str, PatternType, Operation, Permission]
PRINCIPALS: Final[dict[str, list[Rule]]] = {
    "ANONYMOUS": [],
    "nobody": [],
    "elsewhere": [
        (TOPIC, "else", PREFIXED, ALL, ALLOW),
        (GROUP, "else", LITERAL, ALL, ALLOW),
        (TRANSACTIONAL_ID, "else", LITERAL, ALL, ALLOW),
    ],
    "denied": [
        (TOPIC, "*", LITERAL, ALL, ALLOW),
        (GROUP, "*", LITERAL, ALL, ALLOW),
        (TRANSACTIONAL_ID, "*", LITERAL, ALL, ALLOW),
        (CLUSTER, THE_CLUSTER, LITERAL, ALL, ALLOW),
        (TOPIC, "m", PREFIXED, ALL, DENY),
        (TOPIC, "unmade", LITERAL, ALL, DENY),
        (GROUP, "mine", LITERAL, ALL, DENY),
        (TRANSACTIONAL_ID, "m", PREFIXED, ALL, DENY),
        (CLUSTER, THE_CLUSTER, LITERAL, ALL, DENY),
    ],
    "describer": [
        (TOPIC, "mine", LITERAL, DESCRIBE, ALLOW),
        (TOPIC, "unmade", LITERAL, DESCRIBE, ALLOW),
        (GROUP, "mine", LITERAL, DESCRIBE, ALLOW),
        (TRANSACTIONAL_ID, "mine", LITERAL, DESCRIBE, ALLOW),
        (CLUSTER, THE_CLUSTER, LITERAL, DESCRIBE, ALLOW),
    ],
    "worker": [
        (TOPIC, "mine", LITERAL, READ, ALLOW),
        (TOPIC, "mine", LITERAL, WRITE, ALLOW),
        (GROUP, "mine", LITERAL, READ, ALLOW),
        (TRANSACTIONAL_ID, "mine", LITERAL, WRITE, ALLOW),
    ],
    "half": [
        (TOPIC, "mine", LITERAL, DESCRIBE, ALLOW),
        (GROUP, "mine", LITERAL, ALL, ALLOW),
        (TRANSACTIONAL_ID, "mine", LITERAL, ALL, ALLOW),
    ],
    "sender": [
        (TOPIC, "made-by-asking", LITERAL, WRITE, ALLOW),
        (TOPIC, "mine", LITERAL, Operation.DELETE, ALLOW),
        (CLUSTER, THE_CLUSTER, LITERAL, Operation.IDEMPOTENT_WRITE, ALLOW),
        (CLUSTER, THE_CLUSTER, LITERAL, Operation.CLUSTER_ACTION, ALLOW),
    ],
    "owner": [
        (TOPIC, "m", PREFIXED, ALL, ALLOW),
        (TOPIC, "unmade", LITERAL, ALL, ALLOW),
        (GROUP, "mine", LITERAL, ALL, ALLOW),
        (TRANSACTIONAL_ID, "mine", LITERAL, ALL, ALLOW),
        (CLUSTER, THE_CLUSTER, LITERAL, ALL, ALLOW),
    ],
}
"""Who asks, and the rules for it: nobody known, without rules, with rules for other things, with
DENY, with a part of the rights, with all of them."""

PLAIN: Final = bytes(one_batch(b"value"))


def _transactional(batch: bytes) -> bytes:
    """The batch of a transaction; its CRC is wrong, which nobody gets to see without the right."""
    return batch[:22] + bytes([batch[22] | 0x10]) + batch[23:]


class Case(NamedTuple):
    """A request by what is in it; ``note`` tells it from others of its API."""

    api: ApiKey
    version: int
    values: Mapping[str, Any]
    note: str = ""

    @property
    def name(self) -> str:
        """Of the row."""
        return f"{self.api.name} {self.version} {self.note}".strip()

    def request(self, topic_ids: Mapping[str, bytes]) -> Request:
        """The message."""
        message = _made(request_class(self.api), self.values, topic_ids)
        assert isinstance(message, Request)
        return message


def _made(struct: type[Struct], values: Mapping[str, Any], ids: Mapping[str, bytes]) -> Struct:
    assert {one.name for one in struct.FIELDS}.issuperset(values), (struct, values)
    made: dict[str, Any] = {}
    for field in struct.FIELDS:
        if field.name in values:
            value = values[field.name]
            if field.kind == "array" and value is not None and field.item is not None:
                item = field.item.struct
                value = [one if item is None else _made(item, one, ids) for one in value]
            elif field.struct is not None and value is not None:
                value = _made(field.struct, value, ids)
            elif field.kind == "uuid":
                value = ids[value]
            made[field.name] = value
        elif field.is_required:
            made[field.name] = _nothing(field.kind)
    return struct(**made)


def _nothing(kind: str) -> Any:
    return {"string": "", "array": [], "bool": False, "uuid": ZERO_UUID, "bytes": b""}.get(kind, 0)


def _named(field: str, **more: Any) -> list[dict[str, Any]]:
    return [{field: "mine", **more}, {field: "unmade", **more}]


_P0: Final = [{"partition_index": 0}]
_COMMITTED: Final = [{"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}]
_FETCHED: Final = [{"partition": 0, "partition_max_bytes": 100}]
_ANY_ACL: Final = {"operation": 1, "permission_type": 1}
_NEW_ACL: Final = {
    "resource_type": 2,
    "resource_name": "else-acl",
    "resource_pattern_type": 3,
    "principal": "User:x",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
_RESOURCES: Final = [
    {"resource_type": kind, "resource_name": name}
    for kind, name in ((2, "mine"), (2, "unmade"), (4, "1"), (8, "1"), (16, "mine"), (32, "mine"))
]
_TXN: Final = {"transactional_id": "mine", "producer_id": 999, "producer_epoch": 0}

CASES: Final = [
    Case(ApiKey.API_VERSIONS, 3, {"client_software_name": "a", "client_software_version": "1"}),
    Case(
        ApiKey.PRODUCE,
        9,
        {
            "acks": 1,
            "topic_data": _named("name", partition_data=[{"index": 0, "records": PLAIN}]),
        },
    ),
    Case(
        ApiKey.PRODUCE,
        13,
        {
            "acks": -1,
            "timeout_ms": 1000,
            "topic_data": [
                {"topic_id": "mine", "partition_data": [{"index": 0, "records": PLAIN}]}
            ],
        },
        "by id",
    ),
    Case(
        ApiKey.PRODUCE,
        9,
        {
            "acks": 1,
            "transactional_id": "mine",
            "topic_data": [
                {
                    "name": "mine",
                    "partition_data": [{"index": 0, "records": _transactional(PLAIN)}],
                }
            ],
        },
        "in a transaction",
    ),
    Case(
        ApiKey.FETCH,
        11,
        {"max_bytes": 100, "topics": _named("topic", partitions=_FETCHED)},
    ),
    Case(
        ApiKey.FETCH,
        13,
        {"max_bytes": 100, "topics": [{"topic_id": "mine", "partitions": _FETCHED}]},
        "by id",
    ),
    Case(
        ApiKey.FETCH,
        11,
        {"replica_id": 1, "max_bytes": 100, "topics": [{"topic": "mine", "partitions": _FETCHED}]},
        "of a replica",
    ),
    Case(
        ApiKey.LIST_OFFSETS,
        7,
        {
            "replica_id": -1,
            "topics": _named("name", partitions=[{"partition_index": 0, "timestamp": -2}]),
        },
    ),
    Case(
        ApiKey.METADATA,
        12,
        {
            "topics": _named("name"),
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": True,
        },
        "by name",
    ),
    Case(
        ApiKey.METADATA,
        9,
        {"topics": [{"name": "mine"}], "include_cluster_authorized_operations": True},
        "with the cluster",
    ),
    Case(
        ApiKey.METADATA,
        12,
        {"topics": [{"topic_id": "mine", "name": None}], "allow_auto_topic_creation": False},
        "by id",
    ),
    Case(ApiKey.METADATA, 12, {"topics": None}, "of all"),
    Case(ApiKey.METADATA, 0, {"topics": []}, "of all"),
    Case(ApiKey.METADATA, 0, {"topics": [{"name": "mine"}]}, "by name"),
    Case(
        ApiKey.METADATA,
        8,
        {"topics": [{"name": "made-by-asking"}], "allow_auto_topic_creation": True},
        "that creates",
    ),
    Case(
        ApiKey.OFFSET_COMMIT,
        8,
        {
            "group_id": "mine",
            "generation_id_or_member_epoch": -1,
            "topics": _named("name", partitions=_COMMITTED),
        },
    ),
    Case(
        ApiKey.OFFSET_FETCH,
        5,
        {"group_id": "mine", "topics": _named("name", partition_indexes=[0])},
    ),
    Case(ApiKey.OFFSET_FETCH, 5, {"group_id": "mine", "topics": None}, "of all"),
    Case(
        ApiKey.OFFSET_FETCH,
        8,
        {
            "groups": [
                {"group_id": "mine", "topics": _named("name", partition_indexes=[0])},
                {"group_id": "else", "topics": _named("name", partition_indexes=[0])},
            ]
        },
    ),
    Case(ApiKey.OFFSET_FETCH, 8, {"groups": [{"group_id": "mine", "topics": None}]}, "of all"),
    *(
        Case(ApiKey.FIND_COORDINATOR, 3, {"key": "mine", "key_type": kind}, f"of type {kind}")
        for kind in (0, 1)
    ),
    *(
        Case(
            ApiKey.FIND_COORDINATOR,
            4,
            {"coordinator_keys": ["mine", "else"], "key_type": kind},
            f"of type {kind}",
        )
        for kind in (0, 1)
    ),
    Case(
        ApiKey.JOIN_GROUP,
        7,
        {
            "group_id": "mine",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
    ),
    Case(ApiKey.HEARTBEAT, 4, {"group_id": "mine", "generation_id": 1, "member_id": "m"}),
    Case(ApiKey.LEAVE_GROUP, 4, {"group_id": "mine", "members": [{"member_id": "m"}]}),
    Case(
        ApiKey.SYNC_GROUP,
        5,
        {
            "group_id": "mine",
            "generation_id": 1,
            "member_id": "m",
            "protocol_type": "consumer",
            "protocol_name": "range",
        },
    ),
    Case(
        ApiKey.DESCRIBE_GROUPS,
        5,
        {"groups": ["mine", "else"], "include_authorized_operations": True},
    ),
    Case(ApiKey.LIST_GROUPS, 4, {}),
    Case(
        ApiKey.CREATE_TOPICS,
        7,
        {
            "topics": [
                {"name": name, "num_partitions": 1, "replication_factor": 1}
                for name in ("mine", "unmade")
            ],
            "validate_only": True,
            "timeout_ms": 1000,
        },
    ),
    Case(
        ApiKey.CREATE_PARTITIONS,
        3,
        {"topics": _named("name", count=2), "validate_only": True, "timeout_ms": 1000},
    ),
    Case(ApiKey.DELETE_TOPICS, 5, {"topic_names": ["unmade"], "timeout_ms": 1000}, "by name"),
    Case(
        ApiKey.DELETE_RECORDS,
        2,
        {"topics": _named("name", partitions=_P0), "timeout_ms": 1000},
    ),
    Case(ApiKey.INIT_PRODUCER_ID, 2, {"transactional_id": None}, "idempotent"),
    Case(
        ApiKey.INIT_PRODUCER_ID,
        4,
        {
            "transactional_id": "mine",
            "transaction_timeout_ms": 1000,
            "producer_id": -1,
            "producer_epoch": -1,
        },
        "transactional",
    ),
    Case(
        ApiKey.INIT_PRODUCER_ID,
        6,
        {
            "transactional_id": "mine",
            "transaction_timeout_ms": 1000,
            "producer_id": -1,
            "producer_epoch": -1,
            "enable2_pc": True,
        },
        "with two-phase commit",
    ),
    Case(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        {"replica_id": -1, "topics": _named("topic", partitions=[{"partition": 0}])},
    ),
    Case(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        {
            "v3_and_below_transactional_id": "mine",
            "v3_and_below_producer_id": 999,
            "v3_and_below_topics": _named("name", partitions=[0]),
        },
    ),
    Case(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        4,
        {"transactions": [{**_TXN, "topics": [{"name": "mine", "partitions": [0]}]}]},
        "of a broker",
    ),
    Case(ApiKey.ADD_OFFSETS_TO_TXN, 3, {**_TXN, "group_id": "mine"}),
    Case(ApiKey.END_TXN, 3, _TXN),
    Case(
        ApiKey.WRITE_TXN_MARKERS,
        1,
        {
            "markers": [
                {
                    "producer_id": 999,
                    "topics": [{"name": "unmade", "partition_indexes": [0]}],
                }
            ]
        },
    ),
    Case(
        ApiKey.TXN_OFFSET_COMMIT,
        3,
        {
            **_TXN,
            "group_id": "mine",
            "generation_id": -1,
            "topics": _named("name", partitions=_COMMITTED),
        },
    ),
    Case(
        ApiKey.DESCRIBE_ACLS,
        3,
        {"resource_type_filter": 1, "resource_name_filter": "none", **_ANY_ACL},
    ),
    Case(ApiKey.CREATE_ACLS, 3, {"creations": [_NEW_ACL]}),
    Case(
        ApiKey.DELETE_ACLS,
        3,
        {"filters": [{"resource_type_filter": 2, "resource_name_filter": "none", **_ANY_ACL}]},
    ),
    Case(ApiKey.DESCRIBE_CONFIGS, 4, {"resources": _RESOURCES}),
    Case(
        ApiKey.ALTER_CONFIGS,
        2,
        {
            "resources": [
                {**one, "configs": []} for one in _RESOURCES if one["resource_type"] != 8
            ],
            "validate_only": True,
        },
    ),
    Case(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        {"resources": [{**one, "configs": []} for one in _RESOURCES], "validate_only": True},
    ),
    Case(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        2,
        {"dirs": [{"path": "/none", "topics": [{"name": "mine", "partitions": [0]}]}]},
    ),
    Case(ApiKey.DESCRIBE_LOG_DIRS, 4, {"topics": [{"topic": "mine", "partitions": [0]}]}),
    Case(ApiKey.DELETE_GROUPS, 2, {"groups_names": ["gone", "else"]}),
    Case(
        ApiKey.ELECT_LEADERS,
        2,
        {"topic_partitions": [{"topic": "mine", "partitions": [0]}], "timeout_ms": 1000},
    ),
    Case(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        0,
        {
            "timeout_ms": 1000,
            "topics": [{"name": "unmade", "partitions": [{"partition_index": 0, "replicas": [1]}]}],
        },
    ),
    Case(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, {"timeout_ms": 1000, "topics": None}),
    Case(
        ApiKey.OFFSET_DELETE,
        0,
        {"group_id": "mine", "topics": [{"name": "unmade", "partitions": _P0}]},
    ),
    Case(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {}),
    Case(
        ApiKey.ALTER_CLIENT_QUOTAS,
        1,
        {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "x"}],
                    "ops": [{"key": "request_percentage", "value": 5.0}],
                }
            ],
            "validate_only": True,
        },
    ),
    Case(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": [{"name": "x"}]}),
    Case(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        {"deletions": [{"name": "x", "mechanism": 1}], "upsertions": []},
    ),
    Case(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}),
    Case(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": b""}),
    Case(
        ApiKey.DESCRIBE_QUORUM,
        1,
        {"topics": [{"topic_name": "__cluster_metadata", "partitions": _P0}]},
    ),
    Case(ApiKey.UPDATE_FEATURES, 1, {"timeout_ms": 1000, "validate_only": True}),
    Case(ApiKey.DESCRIBE_CLUSTER, 1, {"include_cluster_authorized_operations": True}),
    Case(ApiKey.DESCRIBE_PRODUCERS, 0, {"topics": _named("name", partition_indexes=[0])}),
    Case(ApiKey.UNREGISTER_BROKER, 0, {"broker_id": 99}),
    Case(ApiKey.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": ["mine", "else"]}),
    Case(ApiKey.LIST_TRANSACTIONS, 1, {"duration_filter": -1}),
    Case(ApiKey.LIST_CONFIG_RESOURCES, 1, {"resource_types": [2]}),
    Case(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
        {
            "group_id": "mine",
            "member_id": "m",
            "member_epoch": -1,
            "subscribed_topic_names": ["mine", "unmade"],
        },
    ),
    Case(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        1,
        {"group_ids": ["mine", "else"], "include_authorized_operations": True},
    ),
    Case(
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        0,
        {
            "group_id": "mine",
            "member_id": "m",
            "member_epoch": -1,
            "topology": {
                "epoch": 1,
                "subtopologies": [{"subtopology_id": "0", "source_topics": ["mine", "unmade"]}],
            },
        },
    ),
    Case(
        ApiKey.STREAMS_GROUP_DESCRIBE,
        0,
        {"group_ids": ["mine", "else"], "include_authorized_operations": True},
    ),
    Case(
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
        0,
        {
            "group_id": "mine",
            "member_id": "m",
            "topology_epoch": 1,
            "topology_description": {"subtopologies": [], "global_stores": []},
        },
    ),
    Case(ApiKey.ADD_RAFT_VOTER, 0, {"timeout_ms": 1000, "voter_id": 99}),
    Case(ApiKey.REMOVE_RAFT_VOTER, 0, {"voter_id": 99}),
    Case(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": []}, "of all"),
    Case(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": _named("name")}, "by name"),
    Case(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, {}),
    Case(ApiKey.PUSH_TELEMETRY, 0, {}),
    Case(
        ApiKey.SHARE_GROUP_HEARTBEAT,
        1,
        {
            "group_id": "mine",
            "member_id": "AAAAAAAAAAAAAAAAAAAAAQ",
            "member_epoch": -1,
            "subscribed_topic_names": ["mine", "unmade"],
        },
    ),
    Case(
        ApiKey.SHARE_GROUP_DESCRIBE,
        1,
        {"group_ids": ["mine", "else"], "include_authorized_operations": True},
    ),
    Case(
        ApiKey.SHARE_FETCH,
        1,
        {
            "group_id": "mine",
            "member_id": "AAAAAAAAAAAAAAAAAAAAAQ",
            "max_records": 1,
            "batch_size": 1,
            "max_bytes": 100,
            "topics": [{"topic_id": "mine", "partitions": _P0}],
        },
    ),
    Case(
        ApiKey.SHARE_ACKNOWLEDGE,
        1,
        {
            "group_id": "mine",
            "member_id": "AAAAAAAAAAAAAAAAAAAAAQ",
            "share_session_epoch": 5,
            "topics": [{"topic_id": "mine", "partitions": _P0}],
        },
    ),
    Case(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        0,
        {"groups": [{"group_id": "mine", "topics": _named("topic_name", partitions=[0])}]},
    ),
    Case(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        0,
        {"group_id": "mine", "topics": [{"topic_name": "unmade", "partitions": _P0}]},
    ),
    Case(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        0,
        {"group_id": "mine", "topics": [{"topic_name": "unmade"}]},
    ),
    # These change what the others look at.
    Case(
        ApiKey.CREATE_TOPICS,
        7,
        {
            "topics": [{"name": "made", "num_partitions": 1, "replication_factor": 1}],
            "timeout_ms": 5000,
        },
        "for good",
    ),
    Case(
        ApiKey.DELETE_TOPICS,
        6,
        {"topics": [{"topic_id": "mine", "name": None}], "timeout_ms": 1000},
        "by id",
    ),
]
