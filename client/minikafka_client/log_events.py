"""What the client logs, for programs that read logs.

The message of a line is for people. Its `logging.LogRecord` also has the attribute ``event``, one
of `LogEvent`, and the fields that are named there, so that the output of a formatter that writes
extra attributes (as JSON, say) can be searched and counted:

    WARNING minikafka_client.trio_api.network: cannot connect to broker 2: ...
    {"event": "connect_failed", "node_id": 2, "error": "cannot connect to ..."}

The loggers' names begin with ``minikafka_client``. DEBUG and INFO are for what is normal
(connections, leaders, rebalances), WARNING for what the client retries or works around, ERROR for
what it cannot.
"""

from __future__ import annotations

from enum import Enum


class LogEvent(Enum):
    """What a line is about; the comments say which fields it has besides ``error``."""

    PROPERTIES_IGNORED = "properties_ignored"  # properties
    CONNECTED = "connected"  # node_id (None: a bootstrap server), address, lane
    DISCONNECTED = "disconnected"  # node_id, address, lane
    CONNECT_FAILED = "connect_failed"  # node_id, address, lane
    METADATA_FAILED = "metadata_failed"
    LEADER_CHANGED = "leader_changed"  # topic, partition, leader, leader_epoch
    RETRIED = "retried"  # topic, partition, node_id, attempt; one batch or fetch
    DELIVERY_FAILED = "delivery_failed"  # topic, partition, record_count
    BATCH_SPLIT = "batch_split"  # topic, partition, record_count
    PRODUCER_ID_GRANTED = "producer_id_granted"  # producer_id, producer_epoch
    PRODUCER_ID_FAILED = "producer_id_failed"
    PRODUCER_EPOCH_RAISED = "producer_epoch_raised"  # topic, partition, producer_id, producer_epoch
    COORDINATOR_FOUND = "coordinator_found"  # group_id, node_id
    COORDINATOR_FAILED = "coordinator_failed"  # group_id
    GROUP_JOINED = "group_joined"  # group_id, member_id, generation_id, partition_count
    PARTITIONS_ASSIGNED = "partitions_assigned"  # group_id, partitions
    PARTITIONS_REVOKED = "partitions_revoked"  # group_id, partitions
    PARTITIONS_LOST = "partitions_lost"  # group_id, partitions
    GROUP_FAILED = "group_failed"  # group_id
    COMMIT_FAILED = "commit_failed"  # group_id
    ABORT_FAILED = "abort_failed"  # transactional_id
    POSITIONS_FAILED = "positions_failed"
    OFFSET_RESET = "offset_reset"  # topic, partition, position
    LOG_TRUNCATED = "log_truncated"  # topic, partition, position, divergent_offset
    TOPIC_RECREATED = "topic_recreated"  # topic, partition

    def about(self, **fields: object) -> dict[str, object]:
        """The ``extra`` of a logging call."""
        return {"event": self.value, **fields}
