"""Groups and transactions that a test disturbs, as other people's clients see it."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from minikafka import testing
from minikafka.testing.faults import Controlled
from minikafka.testing.topics import create_topic
from tests.testing.test_faults import produce, read


@pytest.fixture(scope="module")
def shared() -> Generator[testing.Cluster]:
    with testing.cluster(3) as kafka:
        yield kafka


@pytest.fixture
def kafka(shared: testing.Cluster) -> Generator[testing.Cluster]:
    shared.reset()
    yield shared
    shared.restore()


class Member:
    """A consumer that notes the partitions it gets and loses."""

    def __init__(self, kafka: Controlled, client_id: str) -> None:
        self.history: list[str] = []
        self.consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "group.id": "g",
                "client.id": client_id,
                "auto.offset.reset": "earliest",
                "heartbeat.interval.ms": 100,
            }
        )
        self.consumer.subscribe(
            ["t"],
            on_assign=self._note("assigned"),
            on_revoke=self._note("revoked"),
            on_lost=self._note("lost"),
        )

    def _note(self, what: str) -> Callable[[Consumer, list[TopicPartition]], None]:
        return lambda _consumer, _partitions: self.history.append(what)

    def poll_until(self, *history: str) -> None:
        while self.history != list(history):
            assert len(self.history) <= len(history), self.history
            self.consumer.poll(0.05)


@pytest.fixture
def member(kafka: testing.Cluster) -> Generator[Member]:
    create_topic(kafka.bootstrap, "t")
    one = Member(kafka, "me")
    one.poll_until("assigned")
    yield one
    one.consumer.close()


def test_a_member_whose_session_has_ended_loses_its_partitions(
    kafka: testing.Cluster, member: Member
) -> None:
    kafka.expire_member("g", "me")
    member.poll_until("assigned", "lost", "assigned")


def test_an_expired_member_cannot_commit(kafka: testing.Cluster, member: Member) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    (described,) = admin.describe_consumer_groups(["g"])["g"].result().members
    kafka.expire_member("g", described.member_id)
    with pytest.raises(KafkaException, match="UNKNOWN_MEMBER_ID"):
        member.consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)


def test_a_forced_rebalance_assigns_again(kafka: testing.Cluster, member: Member) -> None:
    kafka.force_rebalance("g")
    member.poll_until("assigned", "revoked", "assigned")


@pytest.mark.usefixtures("member")
def test_only_members_of_a_group_expire(kafka: testing.Cluster) -> None:
    with pytest.raises(testing.CommandError, match="'g' has no member 'you'; it has me-"):
        kafka.expire_member("g", "you")
    with pytest.raises(testing.CommandError, match="'other' has no members"):
        kafka.force_rebalance("other")


def test_a_transaction_that_has_timed_out_cannot_be_committed(kafka: testing.Cluster) -> None:
    create_topic(kafka.bootstrap, "t")
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "x"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("t", b"too late")
    producer.flush()
    kafka.expire_transaction("x")
    with pytest.raises(KafkaException):
        producer.commit_transaction()
    produce(kafka, "t", b"kept")
    assert read(kafka, "t", "g", 1) == [b"kept"]


def test_only_open_transactions_time_out(kafka: testing.Cluster) -> None:
    with pytest.raises(testing.CommandError, match="there is no __transaction_state yet"):
        kafka.expire_transaction("x")
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "x"})
    producer.init_transactions()
    with pytest.raises(testing.CommandError, match="'x' has no open transaction: it is EMPTY"):
        kafka.expire_transaction("x")


def committed(kafka: Controlled) -> int:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    asked = ConsumerGroupTopicPartitions("g", [TopicPartition("t", 0)])
    answer = admin.list_consumer_group_offsets([asked])["g"].result()
    (found,) = answer.topic_partitions
    offset: int = found.offset
    return offset


def test_a_coordinator_moves_and_knows_what_was_committed(
    kafka: testing.Cluster, member: Member
) -> None:
    produce(kafka, "t", b"1")
    member.consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
    for node in kafka.nodes:
        kafka.move_coordinator(group="g", node=node)
        assert kafka.coordinator(group="g") == node
        assert committed(kafka) == 1
    member.poll_until("assigned")


def test_a_transaction_outlives_its_coordinator(kafka: testing.Cluster) -> None:
    create_topic(kafka.bootstrap, "t")
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "x"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("t", b"1")
    producer.flush()
    before = kafka.coordinator(transactional_id="x")
    kafka.move_coordinator(transactional_id="x", node=before % 3 + 1)
    producer.commit_transaction()
    assert read(kafka, "t", "g", 1) == [b"1"]


def test_a_coordinator_is_of_one_thing(kafka: testing.Cluster) -> None:
    with pytest.raises(ValueError, match="and not both"):
        kafka.coordinator(group="g", transactional_id="x")
    with pytest.raises(ValueError, match="name a group"):
        kafka.move_coordinator(node=1)
