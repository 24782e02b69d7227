"""The administrative clients of others against three of our brokers."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic as ConfluentTopic
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from minikafka import testing
from tests.kit.live import check_logs
from tests.kit.waiting import look_until, work_until

pytestmark = pytest.mark.interop

PREFERRED = 0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[testing.Cluster]:
    with testing.cluster(3, directory=Path(tmp_path_factory.mktemp("cluster"))) as running:
        yield running
        check_logs(running)


@pytest.fixture
def admin(cluster: testing.Cluster) -> Generator[Any]:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    yield client
    client.close()


def partitions_of(admin: Any, topic: str) -> list[Any]:
    """Ask any broker until one has the topic; the one that created it has it first."""
    partitions: list[Any] = []

    def ask() -> None:
        (described,) = admin.describe_topics([topic])
        partitions.extend(described["partitions"])

    work_until(lambda: bool(partitions), ask, what=f"a broker that knows {topic}")
    return partitions


def test_kafka_python_sees_three_brokers_and_their_quorum(admin: Any) -> None:
    described = admin.describe_cluster()
    assert [one["broker_id"] for one in described["brokers"]] == [1, 2, 3]
    quorum: dict[str, Any] = {}

    def is_controller_the_leader() -> bool:
        """Asked one after the other: on a slow machine there may be an election in between."""
        (topic,) = admin.describe_metadata_quorum()["topics"]
        quorum.update(topic["partitions"][0])
        return bool(quorum["leader_id"] == admin.describe_cluster()["controller_id"])

    look_until(is_controller_the_leader, "the same controller twice")
    assert [one["replica_id"] for one in quorum["current_voters"]] == [1, 2, 3]


def test_kafka_python_moves_a_partition_and_elects_its_preferred_leader(admin: Any) -> None:
    admin.create_topics([NewTopic("moving", replica_assignments={0: [1, 2]})])
    (before,) = partitions_of(admin, "moving")
    assert (before["leader_id"], before["replica_nodes"]) == (1, [1, 2])
    partition = TopicPartition("moving", 0)
    assert admin.alter_partition_reassignments({partition: [3, 1]}) == {partition: None}

    def is_moved() -> bool:
        (now,) = partitions_of(admin, "moving")
        whole: bool = now["replica_nodes"] == [3, 1] and sorted(now["isr_nodes"]) == [1, 3]
        return whole and not admin.list_partition_reassignments([partition])

    def is_led_by_the_first() -> bool:
        is_so: bool = partitions_of(admin, "moving")[0]["leader_id"] == 3
        return is_so

    work_until(is_moved, admin.list_topics, what="the end of the move")
    if not is_led_by_the_first():
        admin.elect_leaders(PREFERRED, {"moving": [0]})
    work_until(is_led_by_the_first, admin.list_topics, what="the preferred leader")


def test_kafka_python_cancels_a_stuck_reassignment(admin: Any) -> None:
    partition = TopicPartition("nowhere", 0)
    (error,) = admin.alter_partition_reassignments({partition: None}).values()
    assert error.__name__ == "UnknownTopicOrPartitionError"


def test_confluent_kafka_sees_the_cluster_and_its_topics(cluster: testing.Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    described = admin.describe_cluster(request_timeout=20).result()
    assert sorted(node.id for node in described.nodes) == [1, 2, 3]
    assert described.controller.id in (1, 2, 3)
    admin.create_topics([ConfluentTopic("elected", 3, 3)])["elected"].result()
    found: list[Any] = []

    def ask() -> None:
        (topic,) = admin.describe_topics(TopicCollection(["elected"]), request_timeout=20).values()
        try:
            found.extend(topic.result().partitions)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise

    work_until(lambda: bool(found), ask, what="a broker that knows the topic")
    for one in found:
        assert one.leader.id == one.replicas[0].id
        assert sorted(node.id for node in one.isr) == [1, 2, 3]
