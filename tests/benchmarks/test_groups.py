"""The loads of the benchmarks of groups do what they are timed for."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.load.client_job import ClientJob, ClientOutcome
from benchmarks.load.group_members import MembersJob, MembersOutcome
from benchmarks.load.share import GO, ShareJob, ShareOutcome
from benchmarks.processes import run_load
from minikafka import testing
from minikafka_client import ConfigChange, ConfigResource, ConfigResourceType, NewTopic
from minikafka_client.sync import AdminClient, Producer

SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": 20,
    "group.consumer.heartbeat.interval.ms": 20,
}


@pytest.fixture
def broker() -> Generator[testing.Broker]:
    """A broker whose members do not wait long."""
    with testing.broker(SETTINGS) as running:
        yield running


def fill(bootstrap: str, topic: str, partitions: int, records: int) -> None:
    with AdminClient(bootstrap) as admin, Producer(bootstrap) as producer:
        admin.create_topics([NewTopic(topic, partitions)])
        for _ in range(records):
            producer.send(topic, b"value")


def test_members_join_until_each_has_its_part(broker: testing.Broker) -> None:
    fill(broker.bootstrap, "parts", 7, 0)
    job = MembersJob(
        bootstrap=broker.bootstrap, topic="parts", partitions=7, members=2, warm_up=1, joins=2
    )
    outcome = MembersOutcome(**run_load("group_members", asdict(job)))
    assert len(outcome.seconds) == 2
    assert all(seconds > 0 for seconds in outcome.seconds)
    # Each of the five members joined, took its part over and left.
    assert outcome.heartbeats >= 15


def test_a_share_consumer_empties_the_queue_and_counts(
    broker: testing.Broker, tmp_path: Path
) -> None:
    fill(broker.bootstrap, "queue", 2, 50)
    with AdminClient(broker.bootstrap) as admin:
        group = ConfigResource(ConfigResourceType.GROUP, "queue")
        admin.alter_configs({group: [ConfigChange("share.auto.offset.reset", "earliest")]})
    (tmp_path / GO).touch()
    job = ShareJob(
        name="one",
        folder=str(tmp_path),
        bootstrap=broker.bootstrap,
        topic="queue",
        group_id="queue",
    )
    outcome = ShareOutcome(**run_load("share", asdict(job)))
    assert outcome.records == 50
    assert (tmp_path / "one").exists()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_of_a_group_reads_everything(broker: testing.Broker, protocol: str) -> None:
    fill(broker.bootstrap, "read", 2, 50)
    job = ClientJob(
        work=f"consume in a {protocol} group",
        bootstrap=broker.bootstrap,
        topic="read",
        partitions=2,
        records=50,
        value_bytes=5,
    )
    outcome = ClientOutcome(**run_load("client_minikafka", asdict(job)))
    assert outcome.records == 50
