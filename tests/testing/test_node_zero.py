"""A cluster of the nodes 0, 1 and 2, as many Kafka clusters number theirs."""

from __future__ import annotations

from minikafka import testing
from minikafka_client.sync import AdminClient, Consumer, Producer
from minikafka_client.types import NewTopic


def test_a_cluster_of_0_1_and_2() -> None:
    """Node 0 votes, leads, coordinates groups and transactions, dies, and comes back."""
    settings = {"group.initial.rebalance.delay.ms": 0}
    with testing.cluster(3, settings, first_id=0) as kafka:
        assert list(kafka.nodes) == kafka.running == [0, 1, 2]
        with AdminClient(kafka.bootstrap) as admin:
            admin.create_topics([NewTopic("t", 6)])
            assert [one.node_id for one in admin.describe_cluster().brokers] == [0, 1, 2]
            described = admin.describe_topics(["t"])["t"]
        assert {one.leader for one in described.partitions} == {0, 1, 2}
        for partition in described.partitions:
            assert set(partition.in_sync_replicas) == {0, 1, 2}
        values = transact(kafka, "before")
        led_by_0 = next(one.partition for one in described.partitions if one.leader == 0)
        kafka.kill(0)
        assert kafka.leader("t", led_by_0) in (1, 2)
        values |= transact(kafka, "without")
        kafka.start(0)
        kafka.stop(1)
        values |= transact(kafka, "after")
        assert read_all(kafka, len(values)) == values
        assert "Traceback" not in "".join(kafka.log(node) for node in kafka.nodes)


def transact(kafka: testing.Cluster, word: str) -> set[bytes]:
    """Write to every partition in transactions of three producers; returns the values."""
    values: set[bytes] = set()
    for number in range(3):
        with (
            Producer(kafka.bootstrap, transactional_id=f"id-{number}") as producer,
            producer.transaction(),
        ):
            for partition in range(6):
                value = f"{word}-{number}-{partition}".encode()
                producer.send("t", value, partition=partition)
                values.add(value)
    return values


def read_all(kafka: testing.Cluster, count: int) -> set[bytes]:
    """As the members of several groups, so that several nodes coordinate them."""
    found: set[bytes] = set()
    for number in range(3):
        values: set[bytes] = set()
        with Consumer(
            kafka.bootstrap,
            group_id=f"group-{number}",
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:
            consumer.subscribe(["t"])
            for record in consumer:
                values.add(record.value or b"")
                if len(values) == count:
                    break
        assert not found or found == values
        found = values
    return found
