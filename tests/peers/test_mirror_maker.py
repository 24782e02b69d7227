"""MirrorMaker 2 between Apache Kafka and our broker, both ways: topics and offsets of groups."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from minikafka_client import ConsumerRecord, KafkaError, NewTopic, TopicPartition
from minikafka_client.sync import AdminClient, Consumer, Producer
from tests.kit.waiting import look_until, work_until
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.java_programs import JavaProgram, write_properties

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

RECORDS = 60
PARTITIONS = 2


@pytest.fixture
def addresses(ours: str, apache_kafka: ApacheKafka) -> dict[str, str]:
    """The two clusters, by the names that MirrorMaker puts before the topics of the other one."""
    return {"apache": apache_kafka.bootstrap, "ours": ours}


@pytest.fixture
def mirrors(addresses: dict[str, str], name: str, tmp_path: Path) -> Generator[JavaProgram]:
    """MirrorMaker 2, to be started; it mirrors the topic and the group that are named ``name``."""
    settings: dict[str, object] = {
        "clusters": ", ".join(addresses),
        **{f"{cluster}.bootstrap.servers": where for cluster, where in addresses.items()},
        "topics": name,
        "groups": name,
        "tasks.max": 1,
        "replication.factor": 1,
        "offset.lag.max": 0,
        "refresh.groups.interval.seconds": 1,
        "emit.checkpoints.interval.seconds": 1,
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": 1,
    }
    for topic in ("checkpoints", "heartbeats", "offset-syncs"):
        settings[f"{topic}.topic.replication.factor"] = 1
    for storage in ("offset", "status", "config"):
        settings[f"{storage}.storage.replication.factor"] = 1
    for source, target in (("apache", "ours"), ("ours", "apache")):
        settings[f"{source}->{target}.enabled"] = "true"
    properties = write_properties(tmp_path / "mirrors.properties", settings)
    program = JavaProgram(
        tmp_path / "mirrors.log", "org.apache.kafka.connect.mirror.MirrorMaker", properties
    )
    with program:
        yield program


def value_of(cluster: str, number: int) -> bytes:
    return f"{number} of {cluster}".encode()


def fill(bootstrap: str, cluster: str, topic: str) -> None:
    """Records, and a group that has read them.

    MirrorMaker translates no offset that is older than what it mirrored when it began.
    """
    with AdminClient(bootstrap) as admin, Producer(bootstrap) as producer:
        admin.create_topics([NewTopic(topic, PARTITIONS)])
        for number in range(RECORDS):
            producer.send(
                topic,
                value_of(cluster, number),
                b"key",
                partition=number % PARTITIONS,
                headers=[("h", b"")],
            )
        producer.flush()
        read = RECORDS // PARTITIONS
        admin.alter_group_offsets(
            topic, {TopicPartition(topic, number): read for number in range(PARTITIONS)}
        )


def mirrored_offsets(bootstrap: str, group: str, topic: str) -> dict[int, int]:
    try:
        with AdminClient(bootstrap) as admin:
            found = admin.list_group_offsets(group)
    except KafkaError:
        return {}
    return {where.partition: each.offset for where, each in found.items() if where.topic == topic}


@pytest.fixture
def filled(addresses: dict[str, str], name: str) -> None:
    """The topic is in both clusters, with records of their own."""
    for cluster, bootstrap in addresses.items():
        fill(bootstrap, cluster, name)


def check_mirrored(mirrors: JavaProgram, source: str, bootstrap: str, name: str) -> None:
    """Check a topic of a cluster, and the offsets of its group, in the other cluster."""
    topic = f"{source}.{name}"

    def has_offsets() -> bool:
        mirrors.check_runs()
        offsets = mirrored_offsets(bootstrap, name, topic)
        return len(offsets) == PARTITIONS and min(offsets.values()) > 0

    look_until(has_offsets, f"the offsets of {topic}", show=mirrors.log_end)
    # It may be careful, but it must not skip what comes next.
    assert max(mirrored_offsets(bootstrap, name, topic).values()) <= RECORDS // PARTITIONS
    found: list[ConsumerRecord] = []
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
        work_until(
            lambda: len(found) >= RECORDS,
            lambda: found.extend(consumer.poll(timeout_ms=100)),
            what=f"the records of {topic}",
            show=mirrors.log_end,
        )
    assert {(record.key, record.headers) for record in found} == {(b"key", (("h", b""),))}
    for number in range(PARTITIONS):
        values = [record.value for record in found if record.partition == number]
        assert values == [value_of(source, n) for n in range(number, RECORDS, PARTITIONS)]


def test_topics_and_offsets_go_both_ways(
    filled: None, mirrors: JavaProgram, addresses: dict[str, str], name: str
) -> None:
    check_mirrored(mirrors, "apache", addresses["ours"], name)
    check_mirrored(mirrors, "ours", addresses["apache"], name)
