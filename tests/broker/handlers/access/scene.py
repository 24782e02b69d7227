"""What is there before the table of rights is asked, by requests of a super user."""

from __future__ import annotations

from typing import Final

from minikafka.protocol.api import ApiKey
from minikafka.security.acl import Acl
from tests.broker.handlers.access.cases import PRINCIPALS, Case

SUPER_USER: Final = "root"
GROUPS: Final = ("mine", "gone")


def _creation(acl: Acl) -> dict[str, object]:
    return {
        "resource_type": int(acl.resource_type),
        "resource_name": acl.resource_name,
        "resource_pattern_type": int(acl.pattern_type),
        "principal": acl.principal,
        "host": acl.host,
        "operation": int(acl.operation),
        "permission_type": int(acl.permission),
    }


ACLS: Final = [
    Acl(kind, name, pattern, f"User:{who}", "*", operation, permission)
    for who, rules in PRINCIPALS.items()
    for kind, name, pattern, operation, permission in rules
]

TOPIC: Final = Case(
    ApiKey.CREATE_TOPICS,
    7,
    {
        "topics": [{"name": "mine", "num_partitions": 1, "replication_factor": 1}],
        "timeout_ms": 10_000,
    },
)
IDS: Final = Case(ApiKey.METADATA, 12, {"topics": [{"name": "mine"}]})

STEPS: Final = [
    Case(ApiKey.CREATE_ACLS, 3, {"creations": [_creation(acl) for acl in ACLS]}),
    *(
        Case(ApiKey.FIND_COORDINATOR, 4, {"coordinator_keys": [key], "key_type": kind})
        for key in GROUPS
        for kind in (0, 1)
    ),
    *(
        Case(
            ApiKey.OFFSET_COMMIT,
            8,
            {
                "group_id": group,
                "generation_id_or_member_epoch": -1,
                "topics": [
                    {
                        "name": "mine",
                        "partitions": [
                            {
                                "partition_index": 0,
                                "committed_offset": 0,
                                "committed_metadata": "",
                            }
                        ],
                    }
                ],
            },
        )
        for group in GROUPS
    ),
    Case(
        ApiKey.INIT_PRODUCER_ID,
        4,
        {
            "transactional_id": "mine",
            "transaction_timeout_ms": 60_000,
            "producer_id": -1,
            "producer_epoch": -1,
        },
    ),
]
"""Each is repeated until its answer has no error: Apache Kafka creates its topics by and by."""
