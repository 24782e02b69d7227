"""Which replica a consumer should read: the leader, or one in its rack (KIP-392)."""

from __future__ import annotations

from ...metadata.image import MetadataImage
from .partition import Partition

_RACK_AWARE = (
    "RackAwareReplicaSelector",
    "org.apache.kafka.common.replica.RackAwareReplicaSelector",
)


def is_rack_aware(replica_selector: str) -> bool:
    """Whether the setting replica.selector.class sends consumers to replicas in their rack."""
    return replica_selector.strip() in _RACK_AWARE


def preferred_read_replica(
    partition: Partition, image: MetadataImage, own_rack: str, rack: str, fetch_offset: int
) -> int | None:
    """The replica that a consumer should fetch from, None for this leader.

    Only in-sync replicas that have the offset are eligible; if several are in the consumer's rack,
    the one with the highest log end offset is chosen.

    Args:
        partition: led by this broker.
        image: knows the racks of all brokers.
        own_rack: of this broker.
        rack: of the consumer.
        fetch_offset: what it wants next.
    """
    leader = partition.leader
    if leader is None or not rack or rack == own_rack:
        return None
    brokers = image.brokers
    best: int | None = None
    best_offset = fetch_offset - 1
    for broker_id in leader.isr.isr:
        progress = leader.progress_of(broker_id)
        follower = brokers.get(broker_id)
        if (
            progress is not None
            and follower is not None
            and follower.rack == rack
            and not follower.is_fenced
            and progress.log_start_offset <= fetch_offset
            and progress.fetch_offset > best_offset
        ):
            best, best_offset = broker_id, progress.fetch_offset
    return best
