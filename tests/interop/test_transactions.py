"""Transactions of each client, read by each client; fencing, timeouts, administrators."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.interop.clients import CLIENTS
from tests.interop.transactional import (
    PRODUCERS,
    READERS,
    SECONDS,
    Transaction,
    committed_offset,
)
from tests.interop.wire import MakeTopic

pytestmark = pytest.mark.interop


def end_offsets(bootstrap: str, topic: str, partitions: int = 2) -> list[int]:
    """The last stable offsets."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin_module: Any = confluent_kafka.admin  # its own types leave OffsetSpec out
    latest = admin_module.OffsetSpec.latest()
    asked = {TopicPartition(topic, number): latest for number in range(partitions)}
    found = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED)
    return [found[one].result(SECONDS).offset for one in asked]


@pytest.mark.parametrize("client", CLIENTS)
def test_all_or_nothing(bootstrap: str, make_topic: MakeTopic, client: str) -> None:
    topic = make_topic(2)
    work = [
        Transaction([b"%d-%d" % (number, each) for each in range(6)], commits=number % 3 != 1)
        for number in range(9)
    ]
    PRODUCERS[client](bootstrap, topic, f"{topic}-group", f"{topic}-id", work)
    expected = sorted(value for one in work if one.commits for value in one.values)
    ends = end_offsets(bootstrap, topic)
    assert all(end > 27 for end in ends)  # records of aborted transactions, and markers
    for reader in CLIENTS:
        assert sorted(READERS[reader](bootstrap, topic, ends)) == expected, reader


@pytest.mark.parametrize("client", CLIENTS)
def test_offsets_count_with_their_transaction(
    bootstrap: str, make_topic: MakeTopic, client: str
) -> None:
    topic = make_topic(2)
    group, name = f"{topic}-group", f"{topic}-id"
    run = PRODUCERS[client]
    run(bootstrap, topic, group, name, [Transaction([b"a"], commits=True, offset=5)])
    assert committed_offset(bootstrap, topic, group) == 5
    run(bootstrap, topic, group, name, [Transaction([b"b"], commits=False, offset=9)])
    assert committed_offset(bootstrap, topic, group) == 5


@pytest.mark.parametrize("client", CLIENTS)
def test_a_new_instance_ends_what_a_dead_one_left_open(
    bootstrap: str, make_topic: MakeTopic, client: str
) -> None:
    topic = make_topic(2)
    zombie = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-id"})
    zombie.init_transactions(SECONDS)
    zombie.begin_transaction()
    for partition in range(2):
        zombie.produce(topic, b"zombie", partition=partition)
    assert zombie.flush(SECONDS) == 0
    assert end_offsets(bootstrap, topic) == [0, 0]
    work = [Transaction([b"a", b"b"], commits=True)]
    PRODUCERS[client](bootstrap, topic, f"{topic}-group", f"{topic}-id", work)
    with pytest.raises(KafkaException) as caught:
        zombie.commit_transaction(SECONDS)
    assert caught.value.args[0].code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    assert caught.value.args[0].fatal()
    ends = end_offsets(bootstrap, topic)
    for reader in CLIENTS:
        assert sorted(READERS[reader](bootstrap, topic, ends)) == [b"a", b"b"], reader


def test_a_producer_that_is_silent_for_too_long_is_aborted(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": f"{topic}-id",
            "transaction.timeout.ms": 1_000,
            "message.timeout.ms": 1_000,
        }
    )
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"late", partition=0)
    producer.flush(SECONDS)
    # Behind the transaction comes a record that can be read once the transaction has ended.
    plain = Producer({"bootstrap.servers": bootstrap})
    plain.produce(topic, b"plain", partition=0)
    plain.flush(SECONDS)
    while end_offsets(bootstrap, topic, 1) != [3]:  # the abort marker
        pass
    assert READERS[CLIENTS[0]](bootstrap, topic, [3]) == [b"plain"]
    with pytest.raises(KafkaException):
        producer.commit_transaction(SECONDS)
