"""Static membership (KIP-345) and members that die."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tests.interop.clients import CONFLUENT, KAFKA_PYTHON, confluent_kafka
from tests.interop.members import PROGRESS, RANGE, Member, group_of, shares, wait_until_assigned
from tests.kit.live import JudgedBroker

pytestmark = pytest.mark.interop

PARTITIONS = 4
NAMES = ("first", "second")

# A consumer to be killed; it says when it has partitions.
MORTAL = """
import sys
from confluent_kafka import Consumer

bootstrap, group, topic, session_ms, *instance = sys.argv[1:]
settings = {
    "bootstrap.servers": bootstrap,
    "group.id": group,
    "session.timeout.ms": int(session_ms),
    "heartbeat.interval.ms": 100,
}
if instance:
    settings["group.instance.id"] = instance[0]
consumer = Consumer(settings)
consumer.subscribe([topic], on_assign=lambda _, found: print(len(found), flush=True))
while True:
    consumer.poll(1.0)
"""


@contextmanager
def mortal(*arguments: str) -> Generator[subprocess.Popen[str]]:
    """A consumer in a process of its own: (bootstrap, group, topic, session_ms[, instance])."""
    process = subprocess.Popen(
        [sys.executable, "-c", MORTAL, *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for_partitions(process: subprocess.Popen[str], count: int) -> None:
    """Wait until a mortal has this many partitions."""
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) == count:
            return
    raise AssertionError(f"the member ended before it had {count} partitions")


@pytest.mark.parametrize("client", [CONFLUENT, KAFKA_PYTHON])
def test_a_static_member_that_restarts_gets_its_partitions_back_without_a_rebalance(
    client: str, broker: JudgedBroker, topic: str
) -> None:

    def member(name: str) -> Member:
        instance = {"group_instance_id": name}
        return Member(client, broker.bootstrap, topic, [topic], RANGE, **instance)

    with group_of(*map(member, NAMES)) as members:
        before = wait_until_assigned(members, shares(2, 2), "two partitions each")
        rebalances = members[1].rebalances
        members[0].close()
        members[0] = member(NAMES[0])
        after = wait_until_assigned(members, shares(2, 2), "two partitions each again")
        assert after == before
        assert members[1].rebalances == rebalances


def test_the_older_of_two_with_one_instance_id_is_fenced(broker: JudgedBroker, topic: str) -> None:

    def member() -> Member:
        instance = {"group_instance_id": "the only one"}
        return Member(CONFLUENT, broker.bootstrap, topic, [topic], RANGE, **instance)

    with group_of(member()) as members:
        wait_until_assigned(members, shares(4), "all partitions")
        older = members[0]
        newer = member()
        members.append(newer)
        wait_until_assigned([newer], shares(4), "all partitions at the newer one")
        PROGRESS.wait_until(lambda: older.failure is not None, what="the older one's end")
        assert isinstance(older.failure, confluent_kafka.KafkaException)
        error = older.failure.args[0]
        assert error.code() == confluent_kafka.KafkaError._FATAL
        assert "Static consumer fenced" in error.str()


@pytest.mark.parametrize("client", [CONFLUENT, KAFKA_PYTHON])
def test_a_killed_members_partitions_go_to_the_others(
    client: str, broker: JudgedBroker, topic: str
) -> None:
    with mortal(broker.bootstrap, topic, topic, "3000") as victim:
        wait_for_partitions(victim, PARTITIONS)
        with group_of(Member(client, broker.bootstrap, topic, [topic], RANGE)) as members:
            wait_until_assigned(members, shares(2), "half of the partitions")
            victim.send_signal(signal.SIGKILL)
            found = wait_until_assigned(members, shares(4), "the victim's partitions")
    assert len(found[0]) == PARTITIONS


def test_a_killed_static_member_is_missed_only_when_its_session_ends(
    broker: JudgedBroker, topic: str
) -> None:
    arguments = (broker.bootstrap, topic, topic, "8000", "static")
    with mortal(*arguments) as victim:
        wait_for_partitions(victim, PARTITIONS)
        with group_of(Member(CONFLUENT, broker.bootstrap, topic, [topic])) as members:
            wait_until_assigned(members, shares(2), "half of the partitions")
            rebalances = members[0].rebalances
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            with mortal(*arguments) as successor:
                wait_for_partitions(successor, PARTITIONS // 2)
                assert members[0].rebalances == rebalances
                successor.send_signal(signal.SIGKILL)
                wait_until_assigned(members, shares(4), "the dead one's partitions")
                assert members[0].rebalances > rebalances
