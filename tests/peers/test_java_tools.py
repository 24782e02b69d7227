"""The command line tools that come with Apache Kafka, on our broker."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from minikafka_client import TopicPartition
from minikafka_client.sync import AdminClient
from tests.interop.clients import CONFLUENT, Outgoing, consume, produce
from tests.kit.streams_member import MEMBER, join_streams_group, leave_streams_group
from tests.kit.waiting import work_until
from tests.kit.wire import MakeTopic, Wire
from tests.peers.java_clients import JavaClients
from tests.peers.java_runtime import java_command

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
STREAMS_GROUPS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
ALL_GROUPS = "org.apache.kafka.tools.GroupsCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"


@pytest.fixture(autouse=True)
def _has_java(jars: object) -> None:
    """All of these need it."""


def run_tool(main_class: str, *arguments: str, typed: str = "") -> str:
    """Run a tool to its end; returns what it wrote to stdout."""
    finished = subprocess.run(
        java_command(main_class, *arguments, log_level="warn"),
        input=typed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    return finished.stdout


def test_console_producer_and_consumer(ours: str, topic: str) -> None:
    here = ("--bootstrap-server", ours, "--topic", topic)
    run_tool(
        CONSOLE_PRODUCER,
        *here,
        "--reader-property",
        "parse.key=true",
        "--reader-property",
        "key.separator=:",
        typed="a:one\nb:two\na:three\n",
    )
    received = consume(CONFLUENT, ours, topic, 3)
    assert [(one.key, one.value) for one in received] == [
        (b"a", b"one"),
        (b"b", b"two"),
        (b"a", b"three"),
    ]
    shown = run_tool(
        CONSOLE_CONSUMER,
        *here,
        "--from-beginning",
        "--max-messages",
        "3",
        "--group",
        topic,
        "--formatter-property",
        "print.key=true",
    )
    assert shown.splitlines() == ["a\tone", "b\ttwo", "a\tthree"]
    described = run_tool(GROUPS, *here[:2], "--describe", "--group", topic)
    assert re.search(rf"{re.escape(topic)}\s+0\s+3\s+3\s+0\s", described)


def test_groups_are_reset_and_deleted(ours: str, topic: str) -> None:
    produce(CONFLUENT, ours, topic, [Outgoing(b"%d" % n) for n in range(5)])
    here = ("--bootstrap-server", ours)
    move = ("--reset-offsets", "--group", topic, "--topic", topic, "--execute")
    run_tool(GROUPS, *here, *move, "--to-offset", "3")
    shown = run_tool(
        CONSOLE_CONSUMER, *here, "--topic", topic, "--group", topic, "--max-messages", "2"
    )
    assert shown.splitlines() == ["3", "4"]
    assert topic in run_tool(GROUPS, *here, "--list").splitlines()
    states = run_tool(GROUPS, *here, "--describe", "--group", topic, "--state")
    assert "Empty" in states
    run_tool(GROUPS, *here, "--delete", "--group", topic)
    assert topic not in run_tool(GROUPS, *here, "--list").splitlines()


def test_streams_groups_are_described_reset_and_deleted(ours: str, topic: str) -> None:
    produce(CONFLUENT, ours, topic, [Outgoing(b"%d" % n) for n in range(5)])
    here = ("--bootstrap-server", ours)
    with Wire(ours) as wire:
        join_streams_group(wire, topic, topic)
        assert topic in run_tool(STREAMS_GROUPS, *here, "--list").splitlines()
        members = run_tool(STREAMS_GROUPS, *here, "--describe", "--group", topic, "--members")
        assert re.search(rf"{re.escape(topic)}\s+{MEMBER}\s+p\s+.*0:\s*\[0\]", members)
        states = run_tool(STREAMS_GROUPS, *here, "--describe", "--group", topic, "--state")
        assert re.search(r"\sStable\s", states)
        leave_streams_group(wire, topic)
    with AdminClient(ours) as admin:
        admin.alter_group_offsets(topic, {TopicPartition(topic, 0): 4})
        move = ("--reset-offsets", "--group", topic, "--input-topic", topic, "--execute")
        run_tool(STREAMS_GROUPS, *here, *move, "--to-offset", "3")
        assert admin.list_group_offsets(topic)[TopicPartition(topic, 0)].offset == 3
    run_tool(STREAMS_GROUPS, *here, "--delete", "--group", topic)
    assert topic not in run_tool(STREAMS_GROUPS, *here, "--list").splitlines()


def test_topics_are_managed(ours: str, name: str) -> None:
    here = ("--bootstrap-server", ours)
    named = (*here, "--topic", name)
    run_tool(TOPICS, *named, "--create", "--partitions", "3", "--config", "retention.ms=5555")
    assert name in run_tool(TOPICS, *here, "--list").splitlines()
    run_tool(TOPICS, *named, "--alter", "--partitions", "4")
    described = run_tool(TOPICS, *named, "--describe")
    assert "PartitionCount: 4" in described
    assert "retention.ms=5555" in described
    run_tool(
        "kafka.admin.ConfigCommand",
        *(*here, "--entity-type", "topics", "--entity-name", name),
        *("--alter", "--add-config", "retention.ms=6666"),
    )
    assert "retention.ms=6666" in run_tool(TOPICS, *named, "--describe")
    offsets = run_tool("org.apache.kafka.tools.GetOffsetShell", *named)
    assert offsets.splitlines() == [f"{name}:{partition}:0" for partition in range(4)]
    run_tool(TOPICS, *named, "--delete")
    assert name not in run_tool(TOPICS, *here, "--list").splitlines()


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_the_performance_tools(ours: str, make_topic: MakeTopic, codec: str) -> None:
    topic = make_topic(3)
    count = 50_000
    sent = run_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", ours, "--topic", topic, "--num-records", str(count)),
        *("--record-size", "100", "--throughput", "-1"),
        *("--command-property", f"compression.type={codec}"),
    )
    assert f"{count} records sent" in sent
    read = run_tool(
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", ours, "--topic", topic, "--num-records", str(count)),
        *("--group", topic, "--hide-header"),
    )
    assert int(read.split(",")[4]) == count


def test_the_brokers_versions_are_understood(ours: str) -> None:
    shown = run_tool("org.apache.kafka.tools.BrokerApiVersionsCommand", "--bootstrap-server", ours)
    lines = {line.split("(")[0].strip(): line for line in shown.splitlines() if "(" in line}
    for api in ("Produce", "Fetch", "Metadata", "OffsetCommit", "JoinGroup", "ApiVersions"):
        assert "UNSUPPORTED" not in lines[api]
        assert "usable: " in lines[api]


def test_the_verifiable_clients(ours: str, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    here = ("--bootstrap-server", ours, "--topic", topic)
    sent = run_tool("org.apache.kafka.tools.VerifiableProducer", *here, "--max-messages", "500")
    assert '"sent":500,"acked":500' in sent
    read = run_tool(
        "org.apache.kafka.tools.VerifiableConsumer",
        *(*here, "--group-id", topic, "--max-messages", "500"),
        *("--reset-policy", "earliest"),
    )
    events = [json.loads(line) for line in read.splitlines() if line.startswith("{")]
    assert sum(each["count"] for each in events if each["name"] == "records_consumed") == 500
    assert all(each["success"] for each in events if each["name"] == "offsets_committed")


def test_groups_of_all_kinds_are_listed_and_described(
    java: JavaClients, ours: str, name: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    here = ("--bootstrap-server", ours)
    ids = {kind: f"{name}-{kind}" for kind in ("Classic", "Consumer", "Share")}
    common: dict[str, object] = {"topics": [topic]}
    with (
        java.consumer("classic", ours, group_id=ids["Classic"], **common) as classic,
        java.consumer(
            "consumer", ours, group_id=ids["Consumer"], group_protocol="consumer", **common
        ) as consumer,
        java.share_consumer("share", ours, group_id=ids["Share"], **common) as share,
    ):
        for each in (classic, consumer):
            work_until(lambda each=each: len(each.assignment) == 2, each.poll, what="partitions")  # type: ignore[misc]  # a default binds it
        share.poll()
        listed = {
            (words[0], words[1])
            for words in map(str.split, run_tool(ALL_GROUPS, *here, "--list").splitlines())
            if words and words[0] in ids.values()
        }
        assert listed == {(group, kind) for kind, group in ids.items()}
        only = run_tool(ALL_GROUPS, *here, "--list", "--group-type", "share")
        assert ids["Share"] in only
        assert ids["Consumer"] not in only
        members = run_tool(
            GROUPS, *here, "--describe", "--group", ids["Consumer"], "--members", "--verbose"
        )
        assert re.search(rf"{re.escape(topic)}[:(]0,\s?1", members), members
        state = run_tool(GROUPS, *here, "--describe", "--group", ids["Consumer"], "--state")
        assert re.search(r"uniform\s+Stable", state), state


def test_settings_of_groups_are_changed(ours: str, name: str) -> None:
    configs = "kafka.admin.ConfigCommand"
    here = ("--bootstrap-server", ours, "--entity-type", "groups", "--entity-name", name)
    changed = ("consumer.session.timeout.ms=50000", "share.record.lock.duration.ms=20000")
    run_tool(configs, *here, "--alter", "--add-config", ",".join(changed))
    described = run_tool(configs, *here, "--describe")
    for each in changed:
        assert each in described
    every = run_tool(configs, *here[:4], "--describe")
    assert f"for group '{name}'" in every or f"for group {name}" in every, every
    run_tool(configs, *here, "--alter", "--delete-config", "consumer.session.timeout.ms")
    described = run_tool(configs, *here, "--describe")
    assert changed[0] not in described
    assert changed[1] in described
