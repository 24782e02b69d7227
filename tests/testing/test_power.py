"""Brokers that lose their power: what was not synced is gone."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from minikafka import testing
from minikafka.testing.power import SyncRecord, lose_power, prepare
from minikafka.testing.topics import create_topic
from minikafka_client.sync import Consumer, Producer
from minikafka_client.types import TopicPartition

SYNCED = {"flush.messages": 1}
VALUES = [b"%d" % number for number in range(10)]


class Disk:
    """A data directory, and the record of what was synced in it."""

    def __init__(self, folder: Path) -> None:
        self.data, self.record = folder / "data", folder / "synced"
        self.data.mkdir()
        self.writer = SyncRecord(str(self.record))

    def write(self, name: str, content: bytes) -> int:
        """Write a file without syncing it; returns its number."""
        path = self.data / name
        path.write_bytes(content)
        return path.stat().st_ino

    def lose_power(self) -> dict[str, bytes]:
        """What is left of each file."""
        lose_power(self.data, self.record)
        return {path.name: path.read_bytes() for path in self.data.iterdir()}


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def test_what_was_synced_is_left(disk: Disk) -> None:
    whole, part = disk.write("whole", b"abc"), disk.write("part", b"abc")
    disk.write("never", b"abc")
    disk.writer.synced(whole, 3)
    disk.writer.synced(part, 1)
    assert disk.lose_power() == {"whole": b"abc", "part": b"a", "never": b""}


def test_a_file_keeps_its_record_when_it_is_renamed(disk: Disk) -> None:
    disk.writer.synced(disk.write("before", b"abc"), 2)
    (disk.data / "before").rename(disk.data / "after")
    assert disk.lose_power() == {"after": b"ab"}


def test_what_comes_after_a_cut_is_not_synced(disk: Disk) -> None:
    inode = disk.write("log", b"abcdef")
    disk.writer.synced(inode, 6)
    disk.writer.cut(inode, 2)
    disk.write("log", b"abXYZ")
    assert disk.lose_power() == {"log": b"ab"}
    disk.writer.cut(inode, 5)  # longer than what was synced
    disk.write("log", b"abXYZ")
    assert disk.lose_power() == {"log": b"ab"}


def test_a_torn_entry_counts_for_nothing(disk: Disk) -> None:
    disk.writer.synced(disk.write("log", b"abc"), 3)
    with disk.record.open("ab") as record:
        record.write(b"\xff" * 5)
    assert disk.lose_power() == {"log": b"abc"}


def test_files_that_were_there_before_are_synced(disk: Disk) -> None:
    disk.write("old", b"abc")
    known = disk.write("known", b"abc")
    disk.writer.synced(known, 1)
    disk.writer.synced(known, 2)
    prepare(disk.data, disk.record)
    disk.write("new", b"abc")
    assert disk.lose_power() == {"old": b"abc", "known": b"ab", "new": b""}


# --- brokers --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kafka() -> Generator[testing.Broker]:
    with testing.broker() as broker:
        yield broker


def fill(kafka: testing.Broker | testing.Cluster, topic: str, **configs: object) -> None:
    """Make a topic and have records in it acknowledged."""
    create_topic(kafka.bootstrap, topic, configs=configs)
    with Producer(kafka.bootstrap, acks="all") as producer:
        for value in VALUES:
            producer.send(topic, value, partition=0).result(60)


def left(kafka: testing.Broker | testing.Cluster, topic: str) -> list[bytes | None]:
    """The records of a topic."""
    partition = TopicPartition(topic, 0)
    with Consumer(kafka.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        found: list[bytes | None] = []
        while len(found) < end:
            found += [record.value for record in consumer.poll()]
        return found


def test_a_broker_keeps_what_it_was_told_to_sync(kafka: testing.Broker) -> None:
    fill(kafka, "cached")
    fill(kafka, "synced", **SYNCED)
    kafka.kill()
    kafka.start()
    assert left(kafka, "cached") == VALUES
    fill(kafka, "cached-later")
    kafka.lose_power()
    kafka.start()
    assert left(kafka, "synced") == VALUES
    assert left(kafka, "cached-later") == []
    with Producer(kafka.bootstrap) as producer:
        producer.send("cached-later", b"again", partition=0).result(60)
    assert left(kafka, "cached-later") == [b"again"]


def test_a_broker_that_takes_no_orders_does_not_say_what_it_syncs() -> None:
    with testing.broker(control=False) as kafka:
        with pytest.raises(RuntimeError, match="does not say what it has synced"):
            kafka.lose_power()
        assert kafka.is_running


def test_a_cluster_outlives_the_power_of_one_node_and_not_that_of_all() -> None:
    with testing.cluster(3) as kafka:
        fill(kafka, "cached")
        fill(kafka, "synced", **SYNCED)
        node = kafka.leader("cached")
        kafka.lose_power(node)
        assert kafka.leader("cached") != node
        assert left(kafka, "cached") == VALUES
        kafka.start()
        fill(kafka, "later")
        kafka.lose_power()
        assert not kafka.running
        kafka.start()
        assert left(kafka, "synced") == VALUES
        assert left(kafka, "later") == []
