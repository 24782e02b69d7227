"""What an acknowledgement is worth when the leader that gave it dies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from minikafka import testing
from minikafka_client import LATEST, NewTopic, TopicPartition
from minikafka_client.sync import AdminClient
from tests.faults.cluster_nemesis import Nemesis
from tests.kit.live import check_logs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

_TOPIC = "orders"
_KEY = (_TOPIC, 0)


def send(bootstrap: str, value: bytes, acks: str, timeout_s: float) -> tuple[str | None, int]:
    """One record, once: the error's name or None, and the offset."""
    outcome: list[tuple[str | None, int]] = []

    def on_delivery(error: Any, message: Any) -> None:
        outcome.append((None if error is None else error.name(), message.offset()))

    producer: Any = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": acks,
            "retries": 0,
            "message.timeout.ms": int(timeout_s * 1000),
            "log_level": 0,
        }
    )
    producer.produce(_TOPIC, value, partition=0, on_delivery=on_delivery)
    producer.flush(timeout_s * 2)
    return outcome[0]


def values_in(bootstrap: str) -> list[bytes | None]:
    """Everything in the partition."""
    with AdminClient(bootstrap) as admin:
        end = admin.list_offsets({TopicPartition(*_KEY): LATEST})[TopicPartition(*_KEY)].offset
    consumer: Any = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "auto.offset.reset": "error"}
    )
    consumer.assign([confluent_kafka.TopicPartition(*_KEY, confluent_kafka.OFFSET_BEGINNING)])
    try:
        messages = consumer.consume(end, 60.0) if end else []
        return [message.value() for message in messages]
    finally:
        consumer.close()


def test_acks_1_loses_what_only_the_dead_leader_had_and_acks_all_does_not(tmp_path: Path) -> None:
    with testing.cluster(3, directory=tmp_path / "cluster") as cluster:
        with AdminClient(cluster.bootstrap) as admin:
            admin.create_topics([NewTopic(_TOPIC, 1, 3)])
        nemesis = Nemesis(cluster, 1)
        assert send(cluster.bootstrap, b"replicated", "all", 30) == (None, 0)
        leader = nemesis.leader_of(_KEY)
        address = cluster.nodes[leader].bootstrap
        followers = [number for number in (1, 2, 3) if number != leader]
        cluster.pause(*followers)
        # The followers were waiting for records when they stopped: the next one is on its way to
        # them already. Only the leader has those after it.
        assert send(address, b"on its way", "1", 30) == (None, 1)
        assert send(address, b"acks=1", "1", 30) == (None, 2)
        error, _ = send(address, b"acks=all", "all", 2)
        assert error in ("_MSG_TIMED_OUT", "REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS_AFTER_APPEND")
        cluster.kill(leader)
        cluster.resume(*followers)
        assert nemesis.leader_of(_KEY, other_than=leader) in followers
        error, offset = send(cluster.bootstrap, b"after", "all", 60)
        assert error is None
        kept = [b"replicated", b"on its way", b"after"] if offset > 1 else [b"replicated", b"after"]
        assert values_in(cluster.bootstrap) == kept
        cluster.start(leader)
        nemesis.wait_until_healthy()
        # The old leader has truncated what only it had.
        assert values_in(cluster.bootstrap) == kept
        check_logs(cluster)
