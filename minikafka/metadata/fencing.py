"""Decisions that take brokers out of service and into it: fence, unfence, controlled shutdown.

The states of a broker are described in `minikafka.metadata.brokers`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ..protocol.errors import ErrorCode
from .broker_epochs import check_broker
from .decision import Decision, Refusal
from .image import NO_LEADER, BrokerImage, MetadataImage
from .partition_change import BrokerStanding, PartitionChanges
from .records import BrokerChangeRecord, MetadataRecord
from .replication_rules import ReplicationRules

__all__ = [
    "ShutdownProgress",
    "controlled_shutdown",
    "fence_brokers",
    "settle_without",
    "unfence_broker",
]


def fence_brokers(
    image: MetadataImage, broker_ids: Collection[int], defaults: ReplicationRules
) -> Decision[list[int]]:
    """Take brokers that are silent, lost or stopped out of service, all in one decision.

    What they lead gets another leader where one of the ISR (or of the ELR, or, where unclean
    election is allowed, anybody) is active; and they leave the ISR where others remain. Fencing
    together what was lost together keeps leaders from moving to a broker that is lost, too.

    Returns:
        The brokers that were fenced: those named that were registered and not fenced.
    """
    fenced = [one for one in image.brokers.values() if one.broker_id in set(broker_ids)]
    fenced = [one for one in fenced if not one.is_fenced]
    if not fenced:
        return Decision([], [])
    records: list[MetadataRecord] = [_fenced(one) for one in fenced]
    numbers = [one.broker_id for one in fenced]
    return Decision([*records, *settle_without(image, numbers, defaults)], numbers)


def _fenced(broker: BrokerImage, *, is_shutting_down: bool = False) -> BrokerChangeRecord:
    return BrokerChangeRecord(
        broker.broker_id,
        broker.broker_epoch,
        is_fenced=True,
        is_shutting_down=broker.is_shutting_down or is_shutting_down,
    )


def settle_without(
    image: MetadataImage, broker_ids: Collection[int], defaults: ReplicationRules
) -> list[MetadataRecord]:
    """Settle every partition whose ISR has brokers that are fenced by this decision."""
    gone = set(broker_ids)
    changes = PartitionChanges(image.settings, BrokerStanding.of(image, leaving=gone), defaults)
    for topic in image.topics.values():
        for partition in topic.partitions:
            if not gone.isdisjoint(partition.in_sync_replicas):
                changes.change(topic, partition)
    return [*changes.records]


def unfence_broker(
    image: MetadataImage, broker_id: int, broker_epoch: int, defaults: ReplicationRules
) -> Decision[Refusal | None]:
    """Take a broker that has caught up with the metadata into service.

    Partitions without a leader that it may lead get it as their leader.

    Returns:
        Why not (BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH, or INVALID_REQUEST when it is
        shutting down), or None.
    """
    refusal = check_broker(image, broker_id, broker_epoch)
    if refusal is not None:
        return Decision([], refusal)
    broker = image.brokers[broker_id]
    if broker.is_shutting_down:
        message = f"Broker {broker_id} is shutting down; it comes back with another registration."
        return Decision([], Refusal(ErrorCode.INVALID_REQUEST, message))
    if not broker.is_fenced:
        return Decision([], None)
    changes = PartitionChanges(
        image.settings, BrokerStanding.of(image, joining=broker_id), defaults
    )
    for topic, partition in image.partitions_of_broker(broker_id):
        if partition.leader == NO_LEADER:
            changes.change(topic, partition)
    change = BrokerChangeRecord(broker_id, broker_epoch, is_fenced=False, is_shutting_down=False)
    return Decision([change, *changes.records], None)


# --- controlled shutdown -----------------------------------------------------------------------


class ShutdownProgress(NamedTuple):
    """How far a controlled shutdown is.

    Attributes:
        may_stop: True when the broker is fenced and has nothing left to hand over.
        leaders_remaining: partitions that it leads and that somebody else would lead, perhaps with
            fewer records, if it stopped now.
        keeps_leading: the broker was in service all the time, and nobody is about to fence it:
            what it leads, it leads.
    """

    may_stop: bool
    leaders_remaining: int
    keeps_leading: bool = False


def controlled_shutdown(
    image: MetadataImage,
    broker_id: int,
    broker_epoch: int,
    defaults: ReplicationRules,
    *,
    is_forced: bool = False,
) -> Decision[ShutdownProgress | Refusal]:
    """Let a broker that wants to stop ask whether it may; the first time this begins its shutdown.

    From then on it gets no new leaders and joins no ISR, but serves as before. It hands over what
    it leads, partition by partition and without losing a record (see
    `minikafka.metadata.elections`), and asks again. When nothing is left that somebody else would
    lead, it is fenced, which takes it out of all ISRs where others remain; then it may stop. So no
    leader changes by an election, which might lose what only acks=1 acknowledged: replicas that
    are eligible, or that unclean election would take, get the time to come into the ISR. A follower
    stays in sync to the last moment: to leave earlier would only take ISRs below
    min.insync.replicas for longer.

    Args:
        image: as it is.
        broker_id: who wants to stop.
        broker_epoch: of its registration.
        defaults: see `rules_of_topic`.
        is_forced: True when it cannot wait any longer. The leaders that remain move at once, as
            after a crash: nothing that acks=all acknowledged is lost, the rest may be.

    Returns:
        How far it is, or BROKER_ID_NOT_REGISTERED or STALE_BROKER_EPOCH.
    """
    refusal = check_broker(image, broker_id, broker_epoch)
    if refusal is not None:
        return Decision([], refusal)
    broker = image.brokers[broker_id]
    if broker.is_fenced:
        # It was fenced meanwhile, or never served.
        change = _fenced(broker, is_shutting_down=True)
        return Decision([] if broker.is_shutting_down else [change], ShutdownProgress(True, 0))
    remaining = _leaders_remaining(image, broker_id, defaults)
    if remaining and not is_forced:
        progress = ShutdownProgress(False, remaining)
        if broker.is_shutting_down:
            return Decision([], progress)
        return Decision(_begin_shutdown(image, broker, defaults), progress)
    change = _fenced(broker, is_shutting_down=True)
    return Decision(
        [change, *settle_without(image, {broker_id}, defaults)], ShutdownProgress(True, remaining)
    )


def _leaders_remaining(image: MetadataImage, broker_id: int, defaults: ReplicationRules) -> int:
    changes = PartitionChanges(
        image.settings, BrokerStanding.of(image, leaving={broker_id}), defaults
    )
    return sum(
        changes.change(topic, partition).leader != NO_LEADER
        for topic, partition in image.partitions_of_broker(broker_id)
        if partition.leader == broker_id
    )


def _begin_shutdown(
    image: MetadataImage, broker: BrokerImage, defaults: ReplicationRules
) -> list[MetadataRecord]:
    change = BrokerChangeRecord(
        broker.broker_id, broker.broker_epoch, is_fenced=False, is_shutting_down=True
    )
    standing = BrokerStanding.of(image)
    standing = standing._replace(active=standing.active - {broker.broker_id})
    changes = PartitionChanges(image.settings, standing, defaults)
    for topic, partition in image.partitions_of_broker(broker.broker_id):
        # Nobody hands over to a broker that is about to stop.
        if partition.next_leader == broker.broker_id:
            changes.change(topic, partition)
    return [change, *changes.records]
