"""Where a consumer should read: the leader, or a replica in its rack (KIP-392)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .partition import Partition

if TYPE_CHECKING:
    from .broker import Broker

_RACK_AWARE = (
    "RackAwareReplicaSelector",
    "org.apache.kafka.common.replica.RackAwareReplicaSelector",
)


def is_rack_aware(replica_selector: str) -> bool:
    """Whether the setting replica.selector.class sends consumers to replicas in their rack."""
    return replica_selector.strip() in _RACK_AWARE


def preferred_read_replica(
    broker: Broker, partition: Partition, rack: str, fetch_offset: int
) -> int | None:
    """The replica that a consumer should fetch from, None for this leader.

    Only in-sync replicas whose log has the offset are chosen; of several in the rack, the one that
    has most.

    Args:
        broker: the leader.
        partition: which it leads.
        rack: of the consumer.
        fetch_offset: what it wants next.
    """
    leader = partition.leader
    if leader is None or not rack or rack == broker.config.broker_rack:
        return None
    brokers = broker.image.brokers
    best: int | None = None
    best_offset = fetch_offset - 1
    for broker_id in leader.isr.isr:
        progress = leader.progress_of(broker_id)
        image = brokers.get(broker_id)
        if (
            progress is not None
            and image is not None
            and image.rack == rack
            and not image.is_fenced
            and progress.log_start_offset <= fetch_offset
            and progress.fetch_offset > best_offset
        ):
            best, best_offset = broker_id, progress.fetch_offset
    return best
