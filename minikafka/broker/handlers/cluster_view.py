"""The cluster as clients see it: live brokers, leaders, and offline replicas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ...metadata.records import NO_LEADER, BrokerRecord, PartitionRecord

if TYPE_CHECKING:
    from ..broker import Broker


def live_brokers(broker: Broker) -> list[BrokerRecord]:
    """The brokers that are not fenced, by id."""
    brokers = broker.image.brokers
    return [brokers[number] for number in sorted(brokers) if not brokers[number].is_fenced]


class BrokerAddress(NamedTuple):
    """Where clients of one listener find a broker."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


def addresses_on(listener: str, brokers: Iterable[BrokerRecord]) -> list[BrokerAddress]:
    """The brokers as clients of a listener see them: those without such a listener are left out."""
    found: list[BrokerAddress] = []
    for one in brokers:
        address = one.address_on(listener)
        if address is not None:
            found.append(BrokerAddress(one.broker_id, *address, one.rack, one.is_fenced))
    return found


def controller_for_clients(broker: Broker, listener: str) -> int:
    """The broker that Metadata calls the controller; -1 if there is none.

    It is the active controller if that is a live broker, otherwise the first live broker, because
    any broker forwards requests to the controller.
    """
    live = [one.broker_id for one in addresses_on(listener, live_brokers(broker))]
    active = broker.controller.leader_id
    return active if active is not None and active in live else next(iter(live), -1)


async def check_leaders(broker: Broker, partitions: Iterable[PartitionRecord]) -> None:
    """Check that leaders are alive before clients are sent to them.

    It takes a round trip to the other brokers, or no time if there are none.
    """
    if broker.interconnect is not None:
        leaders = {one.leader for one in partitions}
        await broker.interconnect.check(leaders.intersection(broker.image.brokers))


class PartitionView(NamedTuple):
    """A partition as clients see it.

    Attributes:
        leader: -1 if none is available.
        offline_replicas: replicas on fenced or suspected brokers, or on a failed disk here.
        lacks_listener: there is a leader, but not on this listener.
    """

    leader: int
    offline_replicas: list[int]
    lacks_listener: bool = False


class ClusterView:
    """The leaders and offline replicas of many partitions at one moment, for one listener.

    As in Kafka a replica is offline for clients of a listener that its broker does not have.
    """

    __slots__ = ("_broker", "_listener", "_live", "_node_id")

    def __init__(self, broker: Broker, listener: str) -> None:
        self._broker = broker
        self._node_id = broker.node_id
        self._listener = listener
        live = {one.broker_id for one in addresses_on(listener, live_brokers(broker))}
        if broker.interconnect is not None:
            # They are probably about to be fenced, and a client that is sent there loses time:
            # librdkafka looks for another leader only a second or two later.
            live -= broker.interconnect.suspects()
        self._live = frozenset(live)

    def partition(self, topic: str, image: PartitionRecord) -> PartitionView:
        live, node_id = self._live, self._node_id
        replicas = image.replicas
        is_here_offline = node_id in replicas and self._broker.index.is_offline(
            topic, image.partition
        )
        if live.issuperset(replicas) and not is_here_offline:
            return PartitionView(image.leader, [])
        offline = [
            one for one in replicas if one not in live or (is_here_offline and one == node_id)
        ]
        if image.leader not in offline:
            return PartitionView(image.leader, offline)
        registered = self._broker.image.brokers.get(image.leader)
        lacks_listener = registered is not None and registered.address_on(self._listener) is None
        return PartitionView(NO_LEADER, offline, lacks_listener)
