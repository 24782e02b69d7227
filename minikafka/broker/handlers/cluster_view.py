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


def controller_for_clients(broker: Broker) -> int:
    """The broker that Metadata calls the controller; -1 if there is none.

    It is the active controller if that is a live broker, otherwise the first live broker, because
    any broker forwards requests to the controller.
    """
    live = [one.broker_id for one in live_brokers(broker)]
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
    """

    leader: int
    offline_replicas: list[int]


class ClusterView:
    """The leaders and offline replicas of many partitions at one moment."""

    __slots__ = ("_broker", "_live", "_node_id")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._node_id = broker.node_id
        live = {one.broker_id for one in live_brokers(broker)}
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
        leader = NO_LEADER if image.leader in offline else image.leader
        return PartitionView(leader, offline)
