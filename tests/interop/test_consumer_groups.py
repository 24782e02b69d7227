"""Consumer groups of KIP-848 with librdkafka: the broker assigns, members reconcile."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from minikafka import testing
from minikafka.testing.topics import create_topic
from tests.interop.clients import CONFLUENT
from tests.interop.members import (
    CONSUMER,
    PROGRESS,
    RANGE,
    Member,
    check_that_each_record_is_read_once,
    group_of,
    read_all,
    shares,
    values,
    wait_until_assigned,
)
from tests.interop.test_groups import PARTITIONS, send_to_all
from tests.kit.live import JudgedBroker
from tests.kit.wire import MakeTopic

pytestmark = pytest.mark.interop

HEARTBEATS = {
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.min.session.timeout.ms": "1000",
}


@pytest.fixture(scope="module")
def session_broker(tmp_path_factory: pytest.TempPathFactory) -> Generator[JudgedBroker]:
    """In place of the session's broker: its heartbeats are as rare as in production."""
    with JudgedBroker(tmp_path_factory.mktemp("consumer-groups"), HEARTBEATS) as broker:
        yield broker


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic(PARTITIONS)


def consumer(broker: JudgedBroker, group: str, *topics: str, **settings: object) -> Member:
    return Member(CONFLUENT, broker.bootstrap, group, [*topics], CONSUMER, **settings)


def state_and_type(broker: JudgedBroker, group: str) -> tuple[str, str]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    listed = admin.list_consumer_groups().result()
    found = next(one for one in listed.valid if one.group_id == group)
    return found.state.name, found.type.name


def test_each_record_is_read_once_across_rebalances(broker: JudgedBroker, topic: str) -> None:
    check_that_each_record_is_read_once(
        [CONFLUENT] * 3,
        broker.bootstrap,
        topic,
        CONSUMER,
        lambda prefix: send_to_all(broker.bootstrap, topic, prefix),
    )
    assert state_and_type(broker, topic) == ("EMPTY", "CONSUMER")


def test_members_keep_what_they_can(broker: JudgedBroker, topic: str) -> None:
    with group_of(consumer(broker, topic, topic)) as members:
        wait_until_assigned(members, shares(6), "all partitions at the only member")
        before = members[0].assigned()
        members.append(consumer(broker, topic, topic))
        after = wait_until_assigned(members, shares(3, 3), "shares of three")
        assert after[0] < before
        assert state_and_type(broker, topic) == ("STABLE", "CONSUMER")


def test_a_group_reads_what_a_pattern_matches(broker: JudgedBroker, make_topic: MakeTopic) -> None:
    first, second = make_topic(2, suffix="-a"), make_topic(2, suffix="-b")
    prefix = first.removesuffix("a")
    with group_of(consumer(broker, first, f"^{prefix}[ac]", second)) as members:
        wait_until_assigned(members, shares(4), "both topics")
        third = make_topic(1, suffix="-c")
        found = wait_until_assigned(members, shares(5), "the new topic that fits the pattern")
        assert {name for name, _ in found[0]} == {first, second, third}


def test_a_static_member_that_restarts_gets_its_partitions_back(
    broker: JudgedBroker, topic: str
) -> None:
    def member(name: str) -> Member:
        return consumer(broker, topic, topic, group_instance_id=name)

    with group_of(member("first"), member("second")) as members:
        before = wait_until_assigned(members, shares(3, 3), "three partitions each")
        members[0].close()
        members[0] = member("first")
        assert wait_until_assigned(members, shares(3, 3), "them again") == before


def test_a_member_resumes_where_the_group_has_committed(broker: JudgedBroker, topic: str) -> None:
    first_values = send_to_all(broker.bootstrap, topic, "first")
    with group_of(consumer(broker, topic, topic)) as members:
        read_all(members, members, first_values)
    second_values = send_to_all(broker.bootstrap, topic, "second")
    with group_of(consumer(broker, topic, topic)) as members:
        PROGRESS.wait_until(lambda: second_values <= set(values(members)), what="the new records")
        assert set(values(members)) == second_values


def test_a_group_goes_on_when_its_coordinator_is_killed(tmp_path: Path) -> None:
    settings = {**HEARTBEATS, "offsets.topic.num.partitions": "1"}
    with testing.cluster(3, settings, directory=tmp_path) as nodes:
        create_topic(nodes.bootstrap, "flights", PARTITIONS, replicas=3)
        wanted = send_to_all(nodes.bootstrap, "flights", "before")

        def member() -> Member:
            return Member(CONFLUENT, nodes.bootstrap, "readers", ["flights"], CONSUMER)

        with group_of(member(), member()) as members:
            before = wait_until_assigned(members, shares(3, 3), "three partitions each")
            read_all(members, members, wanted)
            nodes.kill(nodes.leader("__consumer_offsets", 0))
            wanted |= send_to_all(nodes.bootstrap, "flights", "after")
            read_all(members, members, wanted)
            assert [one.assigned() for one in members] == before
            members.append(member())
            wait_until_assigned(members, shares(2, 2, 2), "a member that the next one lets in")
        assert sorted(filter(None, values(members))) == sorted(wanted)


def test_a_group_changes_its_protocol_and_back_while_it_reads(
    broker: JudgedBroker, topic: str
) -> None:
    everyone: list[Member] = []
    wanted: set[bytes] = set()

    def classic() -> Member:
        return Member(CONFLUENT, broker.bootstrap, topic, [topic], RANGE)

    with group_of() as members:

        def add(member: Member) -> None:
            members.append(member)
            everyone.append(member)

        def read(what: str) -> None:
            wanted.update(send_to_all(broker.bootstrap, topic, what))
            read_all(everyone, members, wanted)

        add(classic())
        wait_until_assigned(members, shares(6), "all partitions at a classic member")
        read("classic")
        add(consumer(broker, topic, topic))
        wait_until_assigned(members, shares(3, 3), "partitions of a consumer")
        assert state_and_type(broker, topic)[1] == "CONSUMER"
        read("mixed")
        add(classic())
        wait_until_assigned(members, shares(2, 2, 2), "partitions of another classic member")
        read("mostly classic")
        members.pop(1).close()
        wait_until_assigned(members, shares(3, 3), "partitions of two classic members")
        assert state_and_type(broker, topic)[1] == "CLASSIC"
        read("classic again")
    assert sorted(filter(None, values(everyone))) == sorted(wanted)
