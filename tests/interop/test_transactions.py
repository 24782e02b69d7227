"""Transactions of each client, read by each client; fencing, timeouts, administrators."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.interop import transactional
from tests.interop.clients import CLIENTS

pytestmark = pytest.mark.interop

PARTITIONS = 2


def end_offsets(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> list[int]:
    """The last stable offsets."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin_module: Any = confluent_kafka.admin  # its own types leave OffsetSpec out
    latest = admin_module.OffsetSpec.latest()
    asked = {TopicPartition(topic, number): latest for number in range(partitions)}
    found = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED)
    return [found[one].result(transactional.SECONDS).offset for one in asked]


@pytest.mark.parametrize("client", CLIENTS)
def test_all_or_nothing(bootstrap: str, topic: str, client: str) -> None:
    work = [
        transactional.Transaction(
            [b"%d-%d" % (number, each) for each in range(6)], commits=number % 3 != 1
        )
        for number in range(9)
    ]
    transactional.PRODUCERS[client](bootstrap, topic, f"{topic}-group", f"{topic}-id", work)
    expected = sorted(value for one in work if one.commits for value in one.values)
    ends = end_offsets(bootstrap, topic)
    assert all(end > 27 for end in ends)  # records of aborted transactions, and markers
    for reader in CLIENTS:
        assert sorted(transactional.READERS[reader](bootstrap, topic, ends)) == expected, reader


@pytest.mark.parametrize("client", CLIENTS)
def test_offsets_count_with_their_transaction(bootstrap: str, topic: str, client: str) -> None:
    group, name = f"{topic}-group", f"{topic}-id"
    run = transactional.PRODUCERS[client]
    run(bootstrap, topic, group, name, [transactional.Transaction([b"a"], commits=True, offset=5)])
    assert transactional.committed_offset(bootstrap, topic, group) == 5
    run(bootstrap, topic, group, name, [transactional.Transaction([b"b"], commits=False, offset=9)])
    assert transactional.committed_offset(bootstrap, topic, group) == 5


@pytest.mark.parametrize("client", CLIENTS)
def test_a_new_instance_aborts_the_transaction_of_a_dead_one(
    bootstrap: str, topic: str, client: str
) -> None:
    zombie = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-id"})
    zombie.init_transactions(transactional.SECONDS)
    zombie.begin_transaction()
    for partition in range(2):
        zombie.produce(topic, b"zombie", partition=partition)
    assert zombie.flush(transactional.SECONDS) == 0
    assert end_offsets(bootstrap, topic) == [0, 0]
    work = [transactional.Transaction([b"a", b"b"], commits=True)]
    transactional.PRODUCERS[client](bootstrap, topic, f"{topic}-group", f"{topic}-id", work)
    with pytest.raises(KafkaException) as caught:
        zombie.commit_transaction(transactional.SECONDS)
    assert caught.value.args[0].code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    assert caught.value.args[0].fatal()
    ends = end_offsets(bootstrap, topic)
    for reader in CLIENTS:
        assert sorted(transactional.READERS[reader](bootstrap, topic, ends)) == [b"a", b"b"], reader


def test_a_producer_that_is_silent_for_too_long_is_aborted(bootstrap: str, topic: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": f"{topic}-id",
            "transaction.timeout.ms": 1_000,
            "message.timeout.ms": 1_000,
        }
    )
    producer.init_transactions(transactional.SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"late", partition=0)
    producer.flush(transactional.SECONDS)
    # Behind the transaction comes a record that can be read once the transaction has ended.
    plain = Producer({"bootstrap.servers": bootstrap})
    plain.produce(topic, b"plain", partition=0)
    plain.flush(transactional.SECONDS)
    while end_offsets(bootstrap, topic, 1) != [3]:  # the abort marker
        pass
    assert transactional.READERS[CLIENTS[0]](bootstrap, topic, [3]) == [b"plain"]
    with pytest.raises(KafkaException):
        producer.commit_transaction(transactional.SECONDS)
