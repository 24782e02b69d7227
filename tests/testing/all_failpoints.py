"""Failpoints under each kind of fault: what was acknowledged is read (``make failpoints``).

One node leads the topic and coordinates the transaction and the group. The fault happens there, or
in a follower for what followers do; then the node comes back, while clients go on.
"""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from minikafka import testing
from minikafka.testing.topics import create_topic
from tests.testing.test_faults import read

_LEADER, _FOLLOWER = 1, 2
_ATTEMPTS_MAX = 20
_BIG = {"message.max.bytes": 1_000_000}
_VALUE = bytes(700_000)
_POINTS = [
    one
    for one in testing.FAILPOINTS
    if one.partition(".")[0] in {"produce", "replication", "group", "transaction"}
]
# Where a client waits for what the error has prevented, the test takes as long as its timeouts.
_CASES = [(one, kind) for one in _POINTS for kind in ("kill", "pause")] + [
    ("produce.received", "error")
]


@pytest.fixture(scope="module")
def shared() -> Generator[testing.Cluster]:
    with testing.cluster(3) as kafka:
        yield kafka


@pytest.fixture
def kafka(shared: testing.Cluster) -> Generator[testing.Cluster]:
    shared.reset()
    create_topic(shared.bootstrap, "t")
    shared.move_leader("t", 0, _LEADER)
    shared.move_coordinator(group="g", node=_LEADER)
    shared.move_coordinator(transactional_id="x", node=_LEADER)
    yield shared
    shared.restore()


def write(kafka: testing.Cluster) -> None:
    """Commit a transaction, from the beginning if it is aborted."""
    settings = {"bootstrap.servers": kafka.bootstrap, "transactional.id": "x", **_BIG}
    for _ in range(_ATTEMPTS_MAX):
        producer = Producer(settings)
        try:
            producer.init_transactions(60)
            producer.begin_transaction()
            producer.produce("t", _VALUE)
            producer.commit_transaction(60)
        except KafkaException:
            continue
        return
    raise AssertionError(f"no transaction was committed in {_ATTEMPTS_MAX} attempts")


def work(kafka: testing.Cluster) -> None:
    """Write in a transaction, read in a group, and commit the position."""
    write(kafka)
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["t"])
    for _ in range(_ATTEMPTS_MAX * 100):
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            try:
                consumer.commit(message=message, asynchronous=False)
            except KafkaException:
                continue
            break
    consumer.close()


@pytest.mark.parametrize(("name", "kind"), _CASES)
def test_what_was_acknowledged_is_read(
    kafka: testing.Cluster, name: testing.FailpointName, kind: str
) -> None:
    node = kafka.nodes[_FOLLOWER if name == "replication.appended" else _LEADER]
    failpoint = node.failpoint(
        name, kill=kind == "kill", pause=kind == "pause", error=kind == "error"
    )
    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(work, kafka)
        failpoint.wait()
        if kind == "kill":
            node.start()
        elif kind == "pause":
            node.resume()
        working.result()
    assert failpoint.hits == 1
    assert read(kafka, "t", "reader", 1) == [_VALUE]
