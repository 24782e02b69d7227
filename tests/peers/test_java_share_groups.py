"""Java's share consumer and its tool on our broker (KIP-932): acknowledgements for each record."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

import pytest

from minikafka.protocol.messages import describe_share_group_offsets
from minikafka_client import ConfigChange, ConfigResource, ConfigResourceType
from minikafka_client.sync import AdminClient
from tests.interop.clients import Outgoing
from tests.kit.live import JudgedBroker
from tests.kit.waiting import work_until
from tests.kit.wire import Wire
from tests.peers.java_clients import JavaClients, JavaError, JavaShareConsumer
from tests.peers.test_java_tools import run_tool

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
EXPLICIT = {"share_acknowledgement_mode": "explicit"}
SETTINGS = {
    "group.share.delivery.count.limit": "3",
    "group.share.min.record.lock.duration.ms": "1000",
    # A member learns with a heartbeat what is assigned to it.
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "200",
}
LOCK = "share.record.lock.duration.ms"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Generator[JudgedBroker]:
    """A broker whose members are told soon, and which gives up after three deliveries."""
    with JudgedBroker(tmp_path_factory.mktemp("sharing"), SETTINGS) as running:
        yield running


@pytest.fixture
def topic(broker: JudgedBroker, name: str) -> str:
    with Wire(broker.bootstrap) as wire:
        wire.create_topic(name, 1, {})
    return name


class Sharing:
    """A share group on a topic, and somebody who writes to it."""

    def __init__(self, java: JavaClients, broker: JudgedBroker, topic: str) -> None:
        self.java, self.bootstrap, self.topic = java, broker.bootstrap, topic

    def open(self, name: str, **settings: object) -> JavaShareConsumer:
        return self.java.share_consumer(
            name, self.bootstrap, group_id=self.topic, topics=[self.topic], **settings
        )

    def begin(self, consumer: JavaShareConsumer) -> None:
        """Poll until the group has a start, which is the end of the topic at that moment."""
        work_until(self._has_begun, lambda: consumer.poll({}), what="the start of a share group")

    def _has_begun(self) -> bool:
        request = describe_share_group_offsets.Request(
            groups=[describe_share_group_offsets.RequestGroup(group_id=self.topic)]
        )
        with Wire(self.bootstrap) as wire:
            answer = wire.ask(request, 1, describe_share_group_offsets.Response)
        return any(
            one.start_offset >= 0 for topic in answer.groups[0].topics for one in topic.partitions
        )

    def set_lock_ms(self, lock_ms: int) -> None:
        """How long a record is locked that a member of the group gets from now on."""
        group = ConfigResource(ConfigResourceType.GROUP, self.topic)
        with AdminClient(self.bootstrap) as admin:
            admin.alter_configs({group: [ConfigChange(LOCK, str(lock_ms))]})

    def send(self, *values: str) -> None:
        records = [Outgoing(value.encode()) for value in values]
        self.java.produce(self.bootstrap, self.topic, records)


@pytest.fixture
def sharing(java: JavaClients, broker: JudgedBroker, topic: str) -> Sharing:
    return Sharing(java, broker, topic)


def test_polling_again_acknowledges(sharing: Sharing) -> None:
    numbers = [str(number) for number in range(100)]
    with sharing.open("first") as first:
        sharing.begin(first)
        sharing.send(*numbers)
        assert [one["value"] for one in first.poll_until(100)] == numbers
        first.poll()
    with sharing.open("second") as second:
        sharing.send("next")
        assert second.poll_until(1)[0]["value"] == "next"


def test_what_is_released_comes_again_and_what_is_rejected_does_not(sharing: Sharing) -> None:
    with sharing.open("one", **EXPLICIT) as one:
        sharing.begin(one)
        sharing.send("accepted", "released", "rejected")
        one.poll_until(3, {"released": "RELEASE", "rejected": "REJECT"})
        assert one.ask("commit") == {f"{sharing.topic}:0": None}
        again = one.poll_until(4, {})[3]
        assert (again["value"], again["delivery_count"]) == ("released", 2)
        one.ask("commit")
        sharing.send("last")
        assert one.poll_until(5, {})[4]["value"] == "last"


def test_a_record_is_given_up_after_its_last_delivery(sharing: Sharing) -> None:
    with sharing.open("one", **EXPLICIT) as one:
        sharing.begin(one)
        sharing.send("poison")
        found = one.poll_until(3, {"poison": "RELEASE"})
        assert [record["delivery_count"] for record in found] == [1, 2, 3]
        one.ask("commit")
        sharing.send("next")
        assert one.poll_until(4, {})[3]["value"] == "next"


def test_another_member_gets_records_whose_lock_has_run_out(sharing: Sharing) -> None:
    with sharing.open("slow", **EXPLICIT) as slow, sharing.open("quick", **EXPLICIT) as quick:
        sharing.begin(slow)
        sharing.set_lock_ms(1_000)
        sharing.send("work")
        slow.poll_until(1, {"work": "NOTHING"})
        sharing.set_lock_ms(15_000)  # the next locks hold even when the commit comes late
        (taken,) = quick.poll_until(1, {})
        # The slow one's client has often asked for more already, and then may get it once again.
        assert taken["value"] == "work"
        assert taken["delivery_count"] in (2, 3)
        assert quick.ask("commit") == {f"{sharing.topic}:0": None}


def test_a_lock_can_be_renewed(sharing: Sharing) -> None:
    with sharing.open("slow", **EXPLICIT) as slow:
        sharing.begin(slow)
        sharing.send("work")
        slow.poll_until(1, {"work": "RENEW"})
        assert slow.ask("commit") == {f"{sharing.topic}:0": None}


def test_members_share_a_partition(sharing: Sharing) -> None:
    numbers = [str(number) for number in range(200)]
    settings = {"max_poll_records": 10, "share_acquire_mode": "record_limit"}
    with sharing.open("left", **settings) as left, sharing.open("right", **settings) as right:
        sharing.begin(left)
        right.poll()
        sharing.send(*numbers)
        while len(left.received) + len(right.received) < len(numbers):
            left.poll()
            right.poll()
        assert sorted(left.values + right.values) == sorted(numbers)
        assert left.values
        assert right.values


def test_a_closed_member_leaves_its_records_to_others(sharing: Sharing) -> None:
    with sharing.open("second", **EXPLICIT) as second:
        sharing.begin(second)
        sharing.set_lock_ms(1_000)  # the second one may have them before it polls again
        with sharing.open("first", **EXPLICIT) as first:
            sharing.send("one", "two")
            while not first.received and not second.received:
                first.poll({"two": "NOTHING", "one": "NOTHING"})
        found = second.poll_until(2, {})
        assert {record["value"] for record in found} == {"one", "two"}


def test_what_is_acknowledged_survives_a_killed_broker(
    java: JavaClients, tmp_path: Path, name: str
) -> None:
    with JudgedBroker(tmp_path, SETTINGS) as broker:
        with Wire(broker.bootstrap) as wire:
            wire.create_topic(name, 1, {})
        sharing = Sharing(java, broker, name)
        with sharing.open("before", **EXPLICIT) as before:
            sharing.begin(before)
            sharing.send("done", "open", "released", "done too")
            before.poll_until(4, {"open": "NOTHING", "released": "RELEASE"})
            assert before.ask("commit") == {f"{name}:0": None}
            broker.kill()
            broker.start()
        with sharing.open("after", **EXPLICIT) as after:
            found = after.poll_until(2, {})
            shown = {record["value"]: record["delivery_count"] for record in found}
            assert shown == {"open": 1, "released": 2}


def test_the_tool_of_share_groups(sharing: Sharing) -> None:
    here = ("--bootstrap-server", sharing.bootstrap)
    group = ("--group", sharing.topic)
    with sharing.open("one", **EXPLICIT) as one:
        sharing.begin(one)
        sharing.send("a", "b", "c", "d")
        one.poll_until(4, {"b": "NOTHING"})
        one.ask("commit")
        listed = run_tool(SHARE_GROUPS, *here, "--list", "--state")
        assert re.search(rf"{re.escape(sharing.topic)}\s+Stable", listed)
        described = run_tool(SHARE_GROUPS, *here, "--describe", *group)
        assert re.search(rf"{re.escape(sharing.topic)}\s+0\s+1\s+1\b", described)
        members = run_tool(SHARE_GROUPS, *here, "--describe", *group, "--members")
        assert f"{sharing.topic}:0" in members
    run_tool(
        SHARE_GROUPS,
        *here,
        "--reset-offsets",
        *group,
        "--topic",
        sharing.topic,
        "--to-earliest",
        "--execute",
    )
    with sharing.open("again", **EXPLICIT) as again:
        found = again.poll_until(4, {})
        assert [record["value"] for record in found] == ["a", "b", "c", "d"]
        again.ask("commit")
    run_tool(SHARE_GROUPS, *here, "--delete-offsets", *group, "--topic", sharing.topic)
    run_tool(SHARE_GROUPS, *here, "--delete", *group)
    assert sharing.topic not in run_tool(SHARE_GROUPS, *here, "--list").split()


def test_a_classic_consumer_cannot_join_a_share_group(sharing: Sharing) -> None:
    with sharing.open("one") as one:
        one.poll()
        settings = {"group_id": sharing.topic, "topics": [sharing.topic]}
        with sharing.java.consumer("classic", sharing.bootstrap, **settings) as classic:
            with pytest.raises(JavaError) as refused:
                classic.poll(10_000)
            assert refused.value.name == "InconsistentGroupProtocolException"
