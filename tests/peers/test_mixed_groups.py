"""Groups of our consumer and others: each partition has one reader, each record is read once."""

from __future__ import annotations

import pytest

from tests.interop.clients import CONFLUENT, KAFKA_PYTHON, Outgoing, produce
from tests.interop.members import (
    COOPERATIVE,
    PROGRESS,
    RANGE,
    WAKE,
    Member,
    check_that_each_record_is_read_once,
    group_of,
    shares,
    values,
    wait_until_assigned,
)
from tests.kit.waiting import work_until
from tests.peers.java_clients import JavaClients, JavaConsumer
from tests.peers.our_member import OURS

pytestmark = [pytest.mark.java, pytest.mark.interop, pytest.mark.timeout(600)]

PARTITIONS = 6
MIXTURES = [
    pytest.param(clients, assignor, id=f"{'-'.join(clients)}-{assignor}")
    for clients, assignor in [
        ((OURS, OURS, OURS), COOPERATIVE),
        ((OURS, CONFLUENT, KAFKA_PYTHON), RANGE),
        ((CONFLUENT, OURS, OURS), RANGE),
        ((KAFKA_PYTHON, OURS, CONFLUENT), RANGE),
        ((OURS, CONFLUENT, OURS), COOPERATIVE),
        ((CONFLUENT, OURS, CONFLUENT), COOPERATIVE),
        ((OURS, CONFLUENT, OURS), "roundrobin"),
        ((CONFLUENT, OURS, CONFLUENT), "roundrobin"),
        ((OURS, KAFKA_PYTHON, OURS), COOPERATIVE),
        ((KAFKA_PYTHON, OURS, KAFKA_PYTHON), COOPERATIVE),
    ]
]
"""The first member leads the group: it computes the assignment from what the others send it."""


def send_to_all(java: JavaClients, bootstrap: str, topic: str, prefix: str) -> set[bytes]:
    """Produce 20 values to each partition; returns them."""
    values = [f"{prefix}-{number}" for number in range(20 * PARTITIONS)]
    records = [{"partition": n % PARTITIONS, "value": value} for n, value in enumerate(values)]
    java.produce_any(bootstrap, topic, records)
    return {value.encode() for value in values}


@pytest.mark.parametrize(("clients", "assignor"), MIXTURES)
def test_each_record_is_read_once_across_rebalances(
    java: JavaClients, bootstrap: str, topic: str, clients: tuple[str, ...], assignor: str
) -> None:
    check_that_each_record_is_read_once(
        clients,
        bootstrap,
        topic,
        assignor,
        lambda prefix: send_to_all(java, bootstrap, topic, prefix),
    )


JAVA_ASSIGNORS = {
    "range": "Range",
    "roundrobin": "RoundRobin",
    "sticky": "Sticky",
    "cooperative-sticky": "CooperativeSticky",
}


@pytest.mark.parametrize("first", [OURS, "java"])
@pytest.mark.parametrize("assignor", JAVA_ASSIGNORS)
def test_our_member_and_a_java_member_share(
    java: JavaClients, bootstrap: str, topic: str, assignor: str, first: str
) -> None:

    def java_member() -> JavaConsumer:
        strategy = f"org.apache.kafka.clients.consumer.{JAVA_ASSIGNORS[assignor]}Assignor"
        return java.consumer(
            "java",
            bootstrap,
            group_id=topic,
            topics=[topic],
            heartbeat_interval_ms=200,
            partition_assignment_strategy=strategy,
        )

    def is_shared(ours: Member, javas: JavaConsumer) -> bool:
        both = [*(f"{name}:{index}" for name, index in ours.assigned()), *javas.assignment]
        return len(ours.assigned()) == 3 and len(both) == len(set(both)) == PARTITIONS

    with group_of() as members:
        if first == OURS:
            members.append(Member(OURS, bootstrap, topic, [topic], assignor))
            wait_until_assigned(members, shares(6), "all partitions at our member")
        with java_member() as javas:
            if first == "java":
                work_until(
                    lambda: len(javas.assignment) == 6, javas.poll, what="all partitions at Java's"
                )
                members.append(Member(OURS, bootstrap, topic, [topic], assignor))
            (ours,) = members
            work_until(lambda: is_shared(ours, javas), javas.poll, what="three partitions each")
            wanted = send_to_all(java, bootstrap, topic, "shared")
            work_until(
                lambda: len(ours.received) + len(javas.received) >= len(wanted),
                javas.poll,
                what="all records",
            )
            assert {*values([ours]), *(str(each).encode() for each in javas.values)} == wanted
            assert len(ours.received) == len(javas.received) == 60
            javas.ask("commit")
        wait_until_assigned(members, shares(6), "all partitions at our member again")
        produce(CONFLUENT, bootstrap, topic, [Outgoing(b"last")])
        PROGRESS.wait_until(lambda: b"last" in values([ours]), what="the last record")
        assert len([value for value in values([ours]) if value != WAKE]) == 61
