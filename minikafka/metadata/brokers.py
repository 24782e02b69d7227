"""Decisions about brokers: they register, are fenced and unfenced, shut down, and leave (KIP-631).

A broker is in one of these states; only an active one may become a leader or join an ISR.

====================  ============  ====================  =========================================
state                 is_fenced     is_shutting_down      left by
====================  ============  ====================  =========================================
fenced                True          False                 `unfence_broker`, when it has caught up
active                False         False                 `fence_brokers`, `controlled_shutdown`
shutting down         False         True                  `controlled_shutdown` (its last step)
stopped               True          True                  `register_broker`, as another incarnation
====================  ============  ====================  =========================================

Registration (here; the rest is in `minikafka.metadata.fencing`) leads from everywhere to *fenced*
with a new broker epoch. Whatever carries an older epoch is refused with STALE_BROKER_EPOCH.

**A process acts only on metadata that has its own registration in it.** What it had applied when it
died may say that it leads a partition; if the end of its log is lost, and a follower that is late
as well believes it, that follower would cut off committed records. With the registration it is no
leader any more. (`tests/metadata/replicated_partition.py` found this.)
"""

from __future__ import annotations

from typing import NamedTuple

from ..protocol.errors import ErrorCode
from .broker_epochs import check_broker
from .decision import Decision, Refusal
from .fencing import (
    ShutdownProgress,
    controlled_shutdown,
    fence_brokers,
    settle_without,
    unfence_broker,
)
from .image import BrokerImage, MetadataImage
from .partition_change import BrokerStanding, PartitionChanges, Wish
from .records import RegisterBrokerRecord, UnregisterBrokerRecord
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


class Registration(NamedTuple):
    """What a broker says when it starts; see `BrokerImage` for the fields not explained here.

    Attributes:
        previous_broker_epoch: the epoch it had when it last stopped in good order, or -1. (A
            broker writes it down at the end of a clean shutdown and removes it when it starts.)
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

    def image(self, broker_epoch: int, *, is_fenced: bool, is_shutting_down: bool) -> BrokerImage:
        """The broker as the image will have it."""
        return BrokerImage(
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
            self.listeners,
            self.features,
        )


def register_broker(
    image: MetadataImage,
    registration: Registration,
    defaults: ReplicationRules,
    *,
    is_old_alive: bool,
    is_caught_up: bool = False,
) -> Decision[BrokerImage | Refusal]:
    """Let a broker join, or come back as another process.

    What it leads gets other leaders and it leaves every ISR where others remain, since it was gone.
    Unless it stopped in good order it also leaves the ELR (KIP-966). The same incarnation again
    keeps its epoch and its state; only where it listens may change.

    Args:
        image: as it is.
        registration: what the broker says.
        defaults: see `rules_of_topic`.
        is_old_alive: True when the incarnation that is registered seems to live still: its
            connection stands, or its heartbeats are recent enough.
        is_caught_up: True when the broker has this image already and serves at once, as the one
            node of a quorum of one: it is registered unfenced. The leaders of partitions that only
            it has stay as they are then, epoch included, so that such a start changes nothing but
            the registration.

    Returns:
        The broker as it will be, or DUPLICATE_BROKER_REGISTRATION (ask again: the old process may
        be found dead soon) or INVALID_REGISTRATION.
    """
    problem = _registration_problem(registration)
    if problem is not None:
        return Decision([], Refusal(ErrorCode.INVALID_REGISTRATION, f"{problem}."))
    broker_id = registration.broker_id
    old = image.brokers.get(broker_id)
    if old is not None and old.incarnation_id == registration.incarnation_id:
        same = registration.image(
            old.broker_epoch, is_fenced=old.is_fenced, is_shutting_down=old.is_shutting_down
        )
        return Decision([] if same == old else [RegisterBrokerRecord(*same)], same)
    if old is not None and old.is_active and is_old_alive:
        return Decision([], _duplicate(old))
    new = registration.image(
        image.next_broker_epoch, is_fenced=not is_caught_up, is_shutting_down=False
    )
    gone = frozenset({broker_id})
    is_clean = old is not None and old.broker_epoch == registration.previous_broker_epoch
    wish = Wish(leaving=gone) if is_clean else Wish(unclean=gone)
    standing = (
        BrokerStanding.of(image, joining=broker_id)
        if is_caught_up
        else BrokerStanding.of(image, leaving=gone)
    )
    changes = PartitionChanges(image.settings, standing, defaults)
    for topic, partition in image.partitions_of_broker(broker_id):
        if is_caught_up and partition.replicas == (partition.leader,):
            continue
        is_leader = partition.leader == broker_id
        changes.change(topic, partition, wish._replace(has_new_leader_epoch=is_leader))
    return Decision([RegisterBrokerRecord(*new), *changes.records], new)


def _duplicate(old: BrokerImage) -> Refusal:
    return Refusal(
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        f"Another process is registered as broker {old.broker_id} and seems to live, at "
        f"{old.host}:{old.port}; stop it, or use another node.id. If it is dead, this passes "
        "when its session ends.",
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
    """Forget a broker (UnregisterBroker). Its replicas stay assigned, as in Kafka.

    Returns:
        BROKER_ID_NOT_REGISTERED, or None.
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        return Decision([], check_broker(image, broker_id, -1))
    changes = settle_without(image, {broker_id}, defaults)
    return Decision([UnregisterBrokerRecord(broker_id, broker.broker_epoch), *changes], None)
