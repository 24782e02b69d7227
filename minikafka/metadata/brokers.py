"""Decisions about brokers: registration, fencing, controlled shutdown, removal (KIP-631).

A broker is in one of these states; only an active one may become a leader or join an ISR.

====================  ============  ====================  =========================================
state                 is_fenced     is_shutting_down      left by
====================  ============  ====================  =========================================
fenced                True          False                 `unfence_broker`, when it has caught up
active                False         False                 `fence_brokers`, `controlled_shutdown`
shutting down         False         True                  `controlled_shutdown` (its last step)
stopped               True          True                  `register_broker`, as another incarnation
====================  ============  ====================  =========================================

Registration leads from every state to *fenced*, with a new broker epoch. Requests with an older
epoch are refused with STALE_BROKER_EPOCH.

**A process acts only on metadata that includes its own registration.** Older metadata may say that
it leads a partition; if the end of its log is lost, and a follower that lags as well believes it,
that follower would truncate committed records. The registration deposes it.
(`tests/metadata/replicated_partition.py` found this.)
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ..protocol.errors import ErrorCode
from .decision import Decision, Refusal
from .image import MetadataImage
from .partition_change import BrokerAvailability, PartitionChanges, RequestedChange
from .records import (
    NO_LEADER,
    BrokerChangeRecord,
    BrokerRecord,
    FeatureRange,
    Listener,
    MetadataRecord,
    UnregisterBrokerRecord,
)
from .replication_rules import ReplicationRules

__all__ = [
    "HOST_LENGTH_MAX",
    "LISTENERS_MAX",
    "Registration",
    "ShutdownProgress",
    "check_broker",
    "controlled_shutdown",
    "fence_brokers",
    "register_broker",
    "unfence_broker",
    "unregister_broker",
]

HOST_LENGTH_MAX = 1000
"""Characters of a host, a rack or a listener's name."""
LISTENERS_MAX = 64
"""Listeners, and features, of one broker."""

_PORT_MAX = 65_535
_INCARNATION_SIZE_BYTES = 16


def check_broker(image: MetadataImage, broker_id: int, broker_epoch: int) -> Refusal | None:
    """Refuse requests that do not come from the registered incarnation of a broker (KIP-631).

    Returns:
        BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH, or None when they do.
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        return Refusal(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"Broker {broker_id} is not registered; it has to register first.",
        )
    if broker.broker_epoch != broker_epoch:
        return Refusal(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Broker {broker_id} uses epoch {broker_epoch}, but its registration has "
            f"{broker.broker_epoch}; another process registered with its id, or it has to "
            "register again.",
        )
    return None


class Registration(NamedTuple):
    """The request of a starting broker; see `BrokerRecord` for the other fields.

    Attributes:
        previous_broker_epoch: the epoch it had at its last clean shutdown, or -1. (A broker stores
            it at the end of a clean shutdown and removes it when it starts.)
    """

    broker_id: int
    incarnation_id: bytes
    host: str
    port: int
    rpc_host: str
    rpc_port: int
    rack: str | None = None
    previous_broker_epoch: int = -1
    listeners: tuple[tuple[str, str, int], ...] = ()
    features: tuple[tuple[str, int, int], ...] = ()

    def record(
        self, broker_epoch: int, *, is_fenced: bool, is_shutting_down: bool = False
    ) -> BrokerRecord:
        """The broker as it will be registered."""
        return BrokerRecord(
            self.broker_id,
            self.incarnation_id,
            broker_epoch,
            self.host,
            self.port,
            self.rpc_host,
            self.rpc_port,
            self.rack,
            is_fenced,
            is_shutting_down,
            tuple(Listener(*one) for one in self.listeners),
            tuple(FeatureRange(*one) for one in self.features),
        )


def register_broker(
    image: MetadataImage,
    registration: Registration,
    defaults: ReplicationRules,
    *,
    is_old_alive: bool,
    is_caught_up: bool = False,
) -> Decision[BrokerRecord | Refusal]:
    """Let a broker join, or come back as another process.

    Its partitions get other leaders and it leaves every ISR where others remain, since it was down.
    After an unclean shutdown it also leaves the ELR (KIP-966). The same incarnation keeps its epoch
    and its state; only its addresses may change.

    Args:
        image: before the decision.
        registration: the request.
        defaults: see `rules_of_topic`.
        is_old_alive: whether the registered incarnation seems to be alive: it is connected, or its
            heartbeats are recent enough.
        is_caught_up: whether the broker already has this image, as the only node of a quorum of
            one: it is registered unfenced. Then partitions that have no other replica keep their
            leader and its epoch, so that such a start changes nothing but the registration.

    Returns:
        The broker as it will be, or DUPLICATE_BROKER_REGISTRATION (retry: the old process may
        be found dead soon) or INVALID_REGISTRATION.
    """
    problem = _registration_problem(registration)
    if problem is not None:
        return Decision([], Refusal(ErrorCode.INVALID_REGISTRATION, f"{problem}."))
    broker_id = registration.broker_id
    old = image.brokers.get(broker_id)
    if old is not None and old.incarnation_id == registration.incarnation_id:
        same = registration.record(
            old.broker_epoch, is_fenced=old.is_fenced, is_shutting_down=old.is_shutting_down
        )
        return Decision([] if same == old else [same], same)
    if old is not None and old.is_active and is_old_alive:
        return Decision([], _duplicate(old))
    new = registration.record(image.next_broker_epoch, is_fenced=not is_caught_up)
    gone = frozenset({broker_id})
    is_clean = old is not None and old.broker_epoch == registration.previous_broker_epoch
    requested = RequestedChange(leaving=gone) if is_clean else RequestedChange(unclean=gone)
    availability = (
        BrokerAvailability.of(image, joining=broker_id)
        if is_caught_up
        else BrokerAvailability.of(image, leaving=gone)
    )
    changes = PartitionChanges(image.settings, availability, defaults)
    for topic, partition in image.partitions_of_broker(broker_id):
        if is_caught_up and partition.replicas == (partition.leader,):
            continue
        is_leader = partition.leader == broker_id
        changes.change(topic, partition, requested._replace(has_new_leader_epoch=is_leader))
    return Decision([new, *changes.records], new)


def _duplicate(old: BrokerRecord) -> Refusal:
    return Refusal(
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        f"Another process is registered as broker {old.broker_id} and seems to be alive, at "
        f"{old.host}:{old.port}; stop it, or use another node.id. If it is dead, registration "
        "succeeds when its session ends.",
    )


def _registration_problem(registration: Registration) -> str | None:
    if registration.broker_id < 0:
        return f"Broker id {registration.broker_id} is negative"
    incarnation_id = registration.incarnation_id
    if len(incarnation_id) != _INCARNATION_SIZE_BYTES or not any(incarnation_id):
        return f"Incarnation id {incarnation_id[:20].hex()!r} is not 16 bytes, or is all zero"
    listeners, features = registration.listeners, registration.features
    if max(len(listeners), len(features)) > LISTENERS_MAX:
        return f"A broker may have {LISTENERS_MAX} listeners and {LISTENERS_MAX} features"
    texts = [registration.host, registration.rpc_host, registration.rack or ""]
    texts += [text for name, host, _ in listeners for text in (name, host)]
    texts += [name for name, _, _ in features]
    if any(len(text) > HOST_LENGTH_MAX for text in texts):
        return f"A host, a rack or a name has more than {HOST_LENGTH_MAX} characters"
    ports = [registration.port, registration.rpc_port, *(port for _, _, port in listeners)]
    wrong = next((port for port in ports if not 0 <= port <= _PORT_MAX), None)
    return None if wrong is None else f"Port {wrong} is not between 0 and {_PORT_MAX}"


def unregister_broker(
    image: MetadataImage, broker_id: int, defaults: ReplicationRules
) -> Decision[Refusal | None]:
    """Remove a broker (UnregisterBroker). Its replicas stay assigned, as in Kafka.

    Returns:
        BROKER_ID_NOT_REGISTERED, or None.
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        return Decision([], check_broker(image, broker_id, -1))
    changes = settle_without(image, {broker_id}, defaults)
    return Decision([UnregisterBrokerRecord(broker_id, broker.broker_epoch), *changes], None)


# --- fencing -----------------------------------------------------------------------------------


def fence_brokers(
    image: MetadataImage, broker_ids: Collection[int], defaults: ReplicationRules
) -> Decision[list[int]]:
    """Take brokers that are silent, lost or stopped out of service, all in one decision.

    Their partitions get other leaders where a member of the ISR (or of the ELR, or, with unclean
    election, any replica) is active; and they leave the ISR where others remain. Fencing together
    the brokers that were lost together keeps leaders from moving to a broker that is lost, too.

    Returns:
        The brokers that were fenced: those of ``broker_ids`` that were registered and not fenced.
    """
    fenced = [one for one in image.brokers.values() if one.broker_id in set(broker_ids)]
    fenced = [one for one in fenced if not one.is_fenced]
    if not fenced:
        return Decision([], [])
    records: list[MetadataRecord] = [_fenced(one) for one in fenced]
    numbers = [one.broker_id for one in fenced]
    return Decision([*records, *settle_without(image, numbers, defaults)], numbers)


def _fenced(broker: BrokerRecord, *, is_shutting_down: bool = False) -> BrokerChangeRecord:
    return BrokerChangeRecord(
        broker.broker_id,
        broker.broker_epoch,
        is_fenced=True,
        is_shutting_down=broker.is_shutting_down or is_shutting_down,
    )


def settle_without(
    image: MetadataImage, broker_ids: Collection[int], defaults: ReplicationRules
) -> list[MetadataRecord]:
    """The partition changes that follow when this decision fences some brokers."""
    gone = set(broker_ids)
    changes = PartitionChanges(image.settings, BrokerAvailability.of(image, leaving=gone), defaults)
    for topic in image.topics.values():
        for partition in topic.partitions:
            if not gone.isdisjoint(partition.in_sync_replicas):
                changes.change(topic, partition)
    return [*changes.records]


def unfence_broker(
    image: MetadataImage, broker_id: int, broker_epoch: int, defaults: ReplicationRules
) -> Decision[Refusal | None]:
    """Put a broker that has caught up with the metadata into service.

    It becomes the leader of partitions without one that it may lead.

    Returns:
        BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH, INVALID_REQUEST (it is shutting down), or
        None.
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
        image.settings, BrokerAvailability.of(image, joining=broker_id), defaults
    )
    for topic, partition in image.partitions_of_broker(broker_id):
        if partition.leader == NO_LEADER:
            changes.change(topic, partition)
    change = BrokerChangeRecord(broker_id, broker_epoch, is_fenced=False, is_shutting_down=False)
    return Decision([change, *changes.records], None)


# --- controlled shutdown -----------------------------------------------------------------------


class ShutdownProgress(NamedTuple):
    """The progress of a controlled shutdown.

    Attributes:
        may_stop: the broker is fenced and has nothing left to hand over.
        leaders_remaining: partitions that it leads and that another broker would lead, perhaps with
            fewer records, if it stopped now.
        keeps_leading: the broker has been in service all the time and is not about to be fenced:
            it is still the leader of its partitions.
        has_majority: most voters were in contact with the controller just now: what it has applied
            is what the cluster has decided.
    """

    may_stop: bool
    leaders_remaining: int
    keeps_leading: bool = False
    has_majority: bool = False


def controlled_shutdown(
    image: MetadataImage,
    broker_id: int,
    broker_epoch: int,
    defaults: ReplicationRules,
    *,
    is_forced: bool = False,
) -> Decision[ShutdownProgress | Refusal]:
    """Answer a broker that asks whether it may stop; the first request begins its shutdown.

    From then on it becomes no leader and joins no ISR, but serves as before. It hands over its
    partitions one by one, without losing a record (see `minikafka.metadata.elections`), and asks
    again. When no partition is left that another broker would lead, it is fenced, which removes it
    from all ISRs where others remain; then it may stop. So no leader changes by an election, which
    might lose records with acks=1: replicas that are eligible, or that unclean election would take,
    have time to join the ISR. A follower stays in sync until the end: leaving earlier would only
    keep ISRs below min.insync.replicas for longer.

    Args:
        image: before the decision.
        broker_id: the broker that wants to stop.
        broker_epoch: of its registration.
        defaults: see `rules_of_topic`.
        is_forced: it cannot wait any longer. The remaining leaders move immediately, as after a
            crash: records with acks=all are safe, others may be lost.

    Returns:
        Its progress, or BROKER_ID_NOT_REGISTERED or STALE_BROKER_EPOCH.
    """
    refusal = check_broker(image, broker_id, broker_epoch)
    if refusal is not None:
        return Decision([], refusal)
    broker = image.brokers[broker_id]
    if broker.is_fenced:
        # It was fenced meanwhile, or was never unfenced.
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
        image.settings, BrokerAvailability.of(image, leaving={broker_id}), defaults
    )
    return sum(
        changes.change(topic, partition).leader != NO_LEADER
        for topic, partition in image.partitions_of_broker(broker_id)
        if partition.leader == broker_id
    )


def _begin_shutdown(
    image: MetadataImage, broker: BrokerRecord, defaults: ReplicationRules
) -> list[MetadataRecord]:
    change = BrokerChangeRecord(
        broker.broker_id, broker.broker_epoch, is_fenced=False, is_shutting_down=True
    )
    availability = BrokerAvailability.of(image)
    availability = availability._replace(active=availability.active - {broker.broker_id})
    changes = PartitionChanges(image.settings, availability, defaults)
    for topic, partition in image.partitions_of_broker(broker.broker_id):
        # No leader should hand over to a broker that is about to stop.
        if partition.next_leader == broker.broker_id:
            changes.change(topic, partition)
    return [change, *changes.records]
