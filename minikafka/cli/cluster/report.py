"""What the brokers report about a cluster: brokers, metadata quorum, partitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from minikafka.protocol.schema import Request, Response
    from minikafka_client.core.cluster import Cluster
    from minikafka_client.options import ConnectionOptions
    from minikafka_client.plans.plan import Plan
    from minikafka_client.types import TopicDescription

    _Response = TypeVar("_Response", bound=Response)

METADATA_TOPIC: Final = "__cluster_metadata"
_PATIENCE_MS: Final = 3000
QUICK_CONNECTION: Final[ConnectionOptions] = {
    "client_id": "minikafka-cli",
    "socket_connection_setup_timeout_ms": _PATIENCE_MS,
    "request_timeout_ms": _PATIENCE_MS,
    "default_api_timeout_ms": _PATIENCE_MS,
}
"""For a client of a cluster whose brokers may well be dead or hanging."""


class Voter(NamedTuple):
    """How far a node has replicated the metadata log; times in ms since 1970; -1 if unknown.

    The id of its data directory is empty where it is unknown.
    """

    node_id: int
    log_end_offset: int
    last_fetch_timestamp_ms: int
    last_caught_up_timestamp_ms: int
    directory_id: bytes = b""


class Quorum(NamedTuple):
    """The metadata quorum; the leader is -1 while there is none."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[Voter, ...]
    observers: tuple[Voter, ...]

    @property
    def waiting(self) -> frozenset[int]:
        """Voters with a new data directory, which do not vote until a leader has admitted it."""
        voters = {one.node_id for one in self.voters}
        return frozenset(one.node_id for one in self.observers if one.node_id in voters)

    def directory_of(self, node_id: int) -> bytes:
        """The id of a node's data directory; empty if it is unknown."""
        found = (one for one in (*self.voters, *self.observers) if one.node_id == node_id)
        return next((one.directory_id for one in found if one.directory_id), b"")

    def lag_of(self, node_id: int) -> int | None:
        """How many entries a node is behind the leader; None if the leader does not know it.

        A leader that does not report its own end has at least everything that is committed.
        """
        ends = {one.node_id: one.log_end_offset for one in (*self.voters, *self.observers)}
        if node_id not in ends or ends[node_id] < 0:
            return None
        return max(0, max(ends.get(self.leader_id, -1), self.high_watermark) - ends[node_id])


class BrokerReport(NamedTuple):
    """A registered broker."""

    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


class TroubledPartition(NamedTuple):
    """A partition without a leader (-1), or with replicas missing from the ISR."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]


class ClusterReport(NamedTuple):
    """The state of a cluster at one moment.

    Attributes:
        cluster_id: as the brokers report it.
        controller_id: as brokers report it to clients, -1 for none.
        brokers: registered ones, by ascending id.
        quorum: None if brokers do not have DescribeQuorum.
        partitions: how many there are.
        leads: how many partitions each broker leads.
        holds: how many replicas each broker has.
        in_sync: how many of these are in the ISR.
        under_replicated: partitions with a leader and replicas missing from the ISR.
        offline: partitions without a leader.
    """

    cluster_id: str | None
    controller_id: int
    brokers: tuple[BrokerReport, ...]
    quorum: Quorum | None
    partitions: int
    leads: dict[int, int]
    holds: dict[int, int]
    in_sync: dict[int, int]
    under_replicated: tuple[TroubledPartition, ...]
    offline: tuple[TroubledPartition, ...]

    @property
    def is_healthy(self) -> bool:
        """Whether all brokers are alive, all voters admitted, and all replicas in sync."""
        quorum = self.quorum
        is_led = quorum is None or (quorum.leader_id >= 0 and not quorum.waiting)
        is_whole = not self.under_replicated and not self.offline
        return is_led and is_whole and not any(broker.is_fenced for broker in self.brokers)


def fetch_report(cluster: Cluster) -> Plan[ClusterReport]:
    """Ask a broker about brokers, quorum and topics; KafkaError if none answers."""
    from minikafka.protocol.messages import describe_cluster, describe_quorum
    from minikafka_client.plans.topics import describe_topics

    topics = yield from describe_topics(cluster)
    described = yield from _ask(
        describe_cluster.Request(
            include_cluster_authorized_operations=False, include_fenced_brokers=True
        ),
        describe_cluster.Response,
    )
    asked = describe_quorum.TopicDataRequest(
        topic_name=METADATA_TOPIC,
        partitions=[describe_quorum.PartitionDataRequest(partition_index=0)],
    )
    answer = yield from _ask(describe_quorum.Request(topics=[asked]), describe_quorum.Response)
    brokers = [
        BrokerReport(one.node_id, one.host, one.port, one.rack, is_fenced=False)
        for one in cluster.brokers.values()
    ]
    if described is not None:
        brokers = [
            BrokerReport(one.broker_id, one.host, one.port, one.rack, one.is_fenced)
            for one in described.brokers
        ]
    return _report(
        cluster.cluster_id, cluster.controller_id, brokers, _quorum(answer), topics.values()
    )


def _ask(request: Request, kind: type[_Response]) -> Plan[_Response | None]:
    """The answer of any broker; None if brokers do not have this API."""
    from minikafka_client import UnsupportedByBrokerError
    from minikafka_client.plans.plan import ANY_BROKER, call

    try:
        answer = yield from call(ANY_BROKER, request, kind)
    except UnsupportedByBrokerError:
        return None
    return answer


def _quorum(answer: Any) -> Quorum | None:
    if answer is None or answer.error_code:
        return None
    for topic in answer.topics:
        for one in topic.partitions:
            if topic.topic_name == METADATA_TOPIC and not one.error_code:
                return Quorum(
                    one.leader_id,
                    one.leader_epoch,
                    one.high_watermark,
                    tuple(map(_voter, one.current_voters)),
                    tuple(map(_voter, one.observers)),
                )
    return None


def _voter(state: Any) -> Voter:
    directory_id: bytes = state.replica_directory_id
    return Voter(
        state.replica_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
        directory_id if any(directory_id) else b"",
    )


def _report(
    cluster_id: str | None,
    controller_id: int,
    brokers: list[BrokerReport],
    quorum: Quorum | None,
    topics: Iterable[TopicDescription],
) -> ClusterReport:
    leads: dict[int, int] = {}
    holds: dict[int, int] = {}
    in_sync: dict[int, int] = {}
    troubled: list[TroubledPartition] = []
    partitions = 0
    for topic in topics:
        for one in topic.partitions:
            partitions += 1
            leads[one.leader] = leads.get(one.leader, 0) + 1
            for node_id in one.replicas:
                holds[node_id] = holds.get(node_id, 0) + 1
            for node_id in one.in_sync_replicas:
                in_sync[node_id] = in_sync.get(node_id, 0) + 1
            if one.leader < 0 or len(one.in_sync_replicas) < len(one.replicas):
                troubled.append(
                    TroubledPartition(
                        topic.name,
                        one.partition,
                        one.leader,
                        one.leader_epoch,
                        one.replicas,
                        one.in_sync_replicas,
                    )
                )
    return ClusterReport(
        cluster_id,
        controller_id,
        tuple(sorted(brokers)),
        quorum,
        partitions,
        leads,
        holds,
        in_sync,
        under_replicated=tuple(one for one in troubled if one.leader >= 0),
        offline=tuple(one for one in troubled if one.leader < 0),
    )
