"""The administration that a cluster under measurement needs, through our own client."""

from __future__ import annotations

from minikafka.cli.cluster_picture import take_picture
from minikafka.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from minikafka_client import KafkaError, NewTopic, UnknownTopicError
from minikafka_client.core.cluster import Cluster
from minikafka_client.plans.ask import CONTROLLER, Plan, call
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
            except UnknownTopicError:  # this broker has not heard of it yet
                continue
            if all(len(one.in_sync_replicas) == replication_factor for one in described.partitions):
                return


def is_healthy(bootstrap: str, brokers: int) -> bool:
    """Whether so many brokers live and every replica is in sync."""
    try:
        with AdminClient(
            bootstrap,
            connect_timeout_ms=_PATIENCE_MS,
            request_timeout_ms=_PATIENCE_MS,
            api_timeout_ms=_PATIENCE_MS,
        ) as admin:
            picture = admin.run_plan(take_picture)
    except KafkaError:
        return False
    return len(picture.brokers) == brokers and picture.is_healthy


def leaders(bootstrap: str, topic: str) -> list[int]:
    """Who leads each partition."""
    with AdminClient(bootstrap) as admin:
        return [one.leader for one in admin.describe_topics([topic])[topic].partitions]


def metadata_leader(bootstrap: str) -> int:
    """Who leads the metadata quorum.

    Raises:
        RuntimeError: nobody does.
    """
    with AdminClient(bootstrap) as admin:
        quorum = admin.run_plan(take_picture).quorum
    if quorum is None or quorum.leader_id < 0:
        raise RuntimeError("nobody leads the metadata quorum")
    return quorum.leader_id


def prefer_first_replicas(bootstrap: str) -> None:
    """Have the first replica of every partition elected (ElectLeaders, preferred)."""

    def elect(cluster: Cluster) -> Plan[ElectLeadersResponse]:
        del cluster
        request = ElectLeadersRequest(election_type=_PREFERRED, topic_partitions=None)
        answer = yield from call(CONTROLLER, request, ElectLeadersResponse)
        return answer

    with AdminClient(bootstrap) as admin:
        admin.describe_cluster()  # who the controller is
        answer = admin.run_plan(elect)
    if answer.error_code:
        raise RuntimeError(f"preferred leaders were not elected: error {answer.error_code}")
