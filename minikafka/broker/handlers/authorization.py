"""The "authorized operations" fields (KIP-430).

There is no authorizer, so like Kafka without one this broker answers with all operations that a
resource supports, as a bit field of Kafka's `AclOperation` numbers.
"""

from __future__ import annotations

NOT_ASKED = -(2**31)
"""The field's value when the client did not ask."""


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = 3, 4, 5, 6, 7, 8
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = 9, 10, 11, 12

TOPIC_OPERATIONS = _bits(
    _READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS
)
GROUP_OPERATIONS = _bits(_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
CLUSTER_OPERATIONS = _bits(
    _CREATE,
    _ALTER,
    _DESCRIBE,
    _CLUSTER_ACTION,
    _DESCRIBE_CONFIGS,
    _ALTER_CONFIGS,
    _IDEMPOTENT_WRITE,
)

NO_AUTHORIZER = "No authorizer is configured, so there are no ACLs."
"""Why requests about ACLs are SECURITY_DISABLED."""
