"""Groups that members join and leave: each partition has one reader, each record is read once."""

from __future__ import annotations

import pytest

from tests.interop.clients import CONFLUENT, KAFKA_PYTHON, Outgoing, produce
from tests.interop.members import (
    COOPERATIVE,
    PROGRESS,
    RANGE,
    Member,
    check_that_each_record_is_read_once,
    group_of,
    shares,
    values,
    wait_until_assigned,
)
from tests.kit.live import JudgedBroker
from tests.kit.wire import MakeTopic

pytestmark = pytest.mark.interop

PARTITIONS = 6
EVERY_GROUP = pytest.mark.parametrize(
    ("clients", "assignor"),
    [
        pytest.param((first, second, third), assignor, id=f"{first}-{second}-{third}-{assignor}")
        for first, second, third, assignor in [
            (CONFLUENT, CONFLUENT, CONFLUENT, RANGE),
            (CONFLUENT, CONFLUENT, CONFLUENT, COOPERATIVE),
            (KAFKA_PYTHON, KAFKA_PYTHON, KAFKA_PYTHON, RANGE),
            (KAFKA_PYTHON, KAFKA_PYTHON, KAFKA_PYTHON, COOPERATIVE),
            (CONFLUENT, KAFKA_PYTHON, CONFLUENT, RANGE),
            (KAFKA_PYTHON, CONFLUENT, KAFKA_PYTHON, RANGE),
        ]
    ],
)


def send_to_all(bootstrap: str, topic: str, prefix: str, count: int = 20) -> set[bytes]:
    """Produce ``count`` values to each partition; returns them."""
    producer = ConfluentProducer(bootstrap)
    sent = set()
    for partition in range(PARTITIONS):
        for number in range(count):
            value = f"{prefix}-{partition}-{number}".encode()
            producer.send(topic, partition, value)
            sent.add(value)
    producer.finish()
    return sent


class ConfluentProducer:
    """A producer that fails the test if a record is not acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        from tests.interop.clients import confluent_kafka

        self._failed: list[object] = []
        self._producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._producer.produce(
            topic,
            value,
            partition=partition,
            on_delivery=lambda error, _: self._failed.append(error) if error else None,
        )

    def finish(self) -> None:
        assert self._producer.flush(60) == 0
        assert not self._failed


@EVERY_GROUP
def test_each_record_is_read_once_across_rebalances(
    clients: tuple[str, ...], assignor: str, broker: JudgedBroker, topic: str
) -> None:
    check_that_each_record_is_read_once(
        clients,
        broker.bootstrap,
        topic,
        assignor,
        lambda prefix: send_to_all(broker.bootstrap, topic, prefix),
    )


def test_cooperative_members_keep_what_they_can(broker: JudgedBroker, topic: str) -> None:
    with group_of(Member(CONFLUENT, broker.bootstrap, topic, [topic], COOPERATIVE)) as members:
        wait_until_assigned(members, shares(6), "all partitions at the only member")
        members.append(Member(CONFLUENT, broker.bootstrap, topic, [topic], COOPERATIVE))
        before = members[0].rebalances
        wait_until_assigned(members, shares(3, 3), "shares of three")
        # Three partitions were revoked, once; the other three were read on all the time.
        assert members[0].rebalances == before + 1


def test_a_group_reads_several_topics_and_a_pattern(
    broker: JudgedBroker, make_topic: MakeTopic
) -> None:
    first, second = make_topic(2, suffix="-a"), make_topic(2, suffix="-b")
    pattern = "^" + first.removesuffix("a") + ".*"
    with group_of(Member(CONFLUENT, broker.bootstrap, first, [pattern], RANGE)) as members:
        wait_until_assigned(members, shares(4), "both topics")
        third = make_topic(1, suffix="-c")
        wait_until_assigned(members, shares(5), "the new topic that fits the pattern")
        produce(CONFLUENT, broker.bootstrap, third, [Outgoing(b"new")])
        PROGRESS.wait_until(lambda: b"new" in values(members), what="its record")
        assert {topic for topic, _ in members[0].assigned()} == {first, second, third}
