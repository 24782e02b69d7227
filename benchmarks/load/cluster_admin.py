"""The administration that a cluster under measurement needs, through our own client."""

from __future__ import annotations

from minikafka.cli.cluster.report import Quorum, fetch_report
from minikafka.protocol.messages import elect_leaders
from minikafka_client import KafkaError, NewTopic, UnknownTopicError
from minikafka_client.core.cluster import Cluster
from minikafka_client.plans.plan import CONTROLLER, Plan, call
from minikafka_client.sync import AdminClient

_PREFERRED = 0
_PATIENCE_MS = 3000


def create_topic(bootstrap: str, name: str, partitions: int, replication_factor: int) -> None:
    """Create a topic and wait until every partition has a leader."""
    with AdminClient(bootstrap) as admin:
        admin.create_topics([NewTopic(name, partitions, replication_factor)])
        while True:
            try:
                described = admin.describe_topics([name])[name]
            except UnknownTopicError:  # this broker does not know it yet
                continue
            if all(len(one.in_sync_replicas) == replication_factor for one in described.partitions):
                return


def is_healthy(bootstrap: str, brokers: int) -> bool:
    """Whether this many brokers are alive, and every replica is in sync."""
    try:
        with AdminClient(
            bootstrap,
            socket_connection_setup_timeout_ms=_PATIENCE_MS,
            request_timeout_ms=_PATIENCE_MS,
            default_api_timeout_ms=_PATIENCE_MS,
        ) as admin:
            report = admin.run_plan(fetch_report)
    except KafkaError:
        return False
    return len(report.brokers) == brokers and report.is_healthy


def leaders(bootstrap: str, topic: str) -> list[int]:
    """The leader of each partition."""
    with AdminClient(bootstrap) as admin:
        return [one.leader for one in admin.describe_topics([topic])[topic].partitions]


def leader_epochs(bootstrap: str, topic: str) -> list[int]:
    """The leader epoch of each partition."""
    with AdminClient(bootstrap) as admin:
        return [one.leader_epoch for one in admin.describe_topics([topic])[topic].partitions]


def metadata_leader(bootstrap: str) -> int:
    """The leader of the metadata quorum.

    Raises:
        RuntimeError: there is none.
    """
    return _quorum(bootstrap).leader_id


def metadata_epoch(bootstrap: str) -> int:
    """The leader epoch of the metadata quorum.

    Raises:
        RuntimeError: it has no leader.
    """
    return _quorum(bootstrap).leader_epoch


def _quorum(bootstrap: str) -> Quorum:
    with AdminClient(bootstrap) as admin:
        quorum = admin.run_plan(fetch_report).quorum
    if quorum is None or quorum.leader_id < 0:
        raise RuntimeError("the metadata quorum has no leader")
    return quorum


def prefer_first_replicas(bootstrap: str) -> None:
    """Have the first replica of every partition elected (ElectLeaders, preferred)."""

    def elect(cluster: Cluster) -> Plan[elect_leaders.Response]:
        del cluster
        request = elect_leaders.Request(election_type=_PREFERRED, topic_partitions=None)
        answer = yield from call(CONTROLLER, request, elect_leaders.Response)
        return answer

    with AdminClient(bootstrap) as admin:
        admin.describe_cluster()  # to find the controller
        answer = admin.run_plan(elect)
    if answer.error_code:
        raise RuntimeError(f"preferred leaders were not elected: error {answer.error_code}")
