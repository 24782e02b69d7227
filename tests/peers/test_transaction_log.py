"""What the transaction log says of each step, on our broker as on Apache Kafka's."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from minikafka.coordinator.transaction.records import decode_entry
from minikafka.coordinator.transaction.states import TransactionEntry
from minikafka_client import TopicPartition
from minikafka_client.sync import Consumer
from tests.kit.waiting import work_until
from tests.peers.java_clients import JavaClients, JavaTransactions

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

PARTITIONS = 50
STEPS = [
    # State, producer epoch, client transaction version, whether it has a start time.
    ("Empty", 0, 0, False),
    ("Ongoing", 0, 2, True),
    ("PrepareCommit", 1, 2, True),
    ("CompleteCommit", 1, 2, True),
    ("Ongoing", 1, 2, True),
    ("PrepareAbort", 2, 2, True),
    ("CompleteAbort", 2, 2, True),
    ("Ongoing", 2, 2, True),
    # Another producer takes over.
    ("PrepareAbort", 3, 2, True),
    ("CompleteAbort", 3, 2, True),
    ("Empty", 4, 2, False),
]


@pytest.fixture
def producer(java: JavaClients, bootstrap: str, name: str) -> Generator[JavaTransactions]:
    """A Java producer whose transactional id is that of the test."""
    with java.transactions("producer", bootstrap, name) as opened:
        yield opened


def stored_of(bootstrap: str, transactional_id: str, count: int) -> list[TransactionEntry]:
    """The first entries of a transactional id."""
    found: list[TransactionEntry] = []
    where = [TopicPartition("__transaction_state", number) for number in range(PARTITIONS)]
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(where)

        def read() -> None:
            for record in consumer.poll(timeout_ms=100):
                decoded = decode_entry(record.key or b"", record.value)
                if decoded is not None and decoded[0] == transactional_id:
                    assert decoded[1] is not None
                    found.append(decoded[1])

        work_until(lambda: len(found) >= count, read, what="the transaction log")
    return found


def test_each_step_is_stored_as_kafka_stores_it(
    producer: JavaTransactions, java: JavaClients, bootstrap: str, topic: str, name: str
) -> None:
    for end in ("commit", "abort"):
        producer.ask("begin")
        producer.send(topic, b"x")
        producer.ask(end)
    producer.ask("begin")
    producer.send(topic, b"x")
    with java.transactions("successor", bootstrap, name):
        entries = stored_of(bootstrap, name, len(STEPS))
    assert [
        (entry.state.title, entry.producer_epoch, entry.transaction_version, entry.start_ms > 0)
        for entry in entries
    ] == STEPS
    producer_id = entries[0].producer_id
    for entry in entries:
        named = (entry.producer_id, entry.previous_producer_id, entry.next_producer_id)
        assert named == (producer_id, producer_id, -1)
