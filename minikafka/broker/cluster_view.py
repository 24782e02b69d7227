"""The cluster as clients see it: who is there, who leads, which replicas are offline."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ..metadata.image import NO_LEADER, BrokerImage, PartitionImage

if TYPE_CHECKING:
    from .broker import Broker


def live_brokers(broker: Broker) -> list[BrokerImage]:
    """The brokers that serve, by number."""
    brokers = broker.image.brokers
    return [brokers[number] for number in sorted(brokers) if not brokers[number].is_fenced]


def controller_for_clients(broker: Broker) -> int:
    """The broker that Metadata calls the controller; any broker takes what controllers do.

    It is the active controller where that is a broker that serves, otherwise the first that does;
    -1 when there is none.
    """
    live = [one.broker_id for one in live_brokers(broker)]
    active = broker.controller.leader_id
    return active if active is not None and active in live else next(iter(live), -1)


async def check_leaders(broker: Broker, partitions: Iterable[PartitionImage]) -> None:
    """Find out whether leaders live, before clients are told of them.

    It takes a round trip to the other brokers, and no time where there are none.
    """
    if broker.interconnect is not None:
        leaders = {one.leader for one in partitions}
        await broker.interconnect.check(leaders.intersection(broker.image.brokers))


class PartitionView(NamedTuple):
    """A partition as clients see it.

    Attributes:
        leader: -1 when nobody serves it at the moment.
        offline_replicas: replicas on brokers that do not serve, or on a disk here that failed.
    """

    leader: int
    offline_replicas: list[int]


class ClusterView:
    """Answers about many partitions at one moment."""

    __slots__ = ("_broker", "_live", "_node_id")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._node_id = broker.node_id
        live = {one.broker_id for one in live_brokers(broker)}
        if broker.interconnect is not None:
            # Most likely they are about to be fenced, and a client that is sent there now tries for
            # long: librdkafka looks for another leader a second or two later.
            live -= broker.interconnect.suspects()
        self._live = frozenset(live)

    def partition(self, topic: str, image: PartitionImage) -> PartitionView:
        """Look at one partition."""
        live, node_id = self._live, self._node_id
        replicas = image.replicas
        is_here_offline = node_id in replicas and self._broker.replicas.is_offline(
            topic, image.partition
        )
        if live.issuperset(replicas) and not is_here_offline:
            return PartitionView(image.leader, [])
        offline = [
            one for one in replicas if one not in live or (is_here_offline and one == node_id)
        ]
        leader = NO_LEADER if image.leader in offline else image.leader
        return PartitionView(leader, offline)
