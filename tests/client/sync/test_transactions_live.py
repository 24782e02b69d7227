"""Transactions of blocking producers: threads, errors, consumers."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import minikafka_client as mk
from minikafka_client.sync import Consumer, Producer, Writer
from tests.client.sync.committed import committed


def test_threads_share_the_open_transaction(bootstrap: str, topic: str, name: str) -> None:
    with Producer(bootstrap, transactional_id=name) as producer:

        def send(number: int) -> None:
            producer.send(topic, b"%d" % number)

        threads = [threading.Thread(target=send, args=(number,)) for number in range(5)]
        with producer.transaction():
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        with pytest.raises(mk.TransactionStateError):
            producer.send(topic, b"outside")
    assert sorted(committed(bootstrap, topic)) == [b"%d" % number for number in range(5)]


def test_an_exception_aborts(bootstrap: str, topic: str, name: str) -> None:
    with Producer(bootstrap, transactional_id=name) as producer:

        def fail() -> None:
            with producer.transaction():
                producer.send(topic, b"never").result()
                raise KeyError

        with pytest.raises(KeyError):
            fail()
        with producer.transaction():
            producer.send(topic, b"again")
    assert committed(bootstrap, topic) == [b"again"]


def test_offsets_of_a_consumer_go_with_the_results(
    bootstrap: str, topic: str, new_name: Callable[[], str]
) -> None:
    with Producer(bootstrap) as plain:
        plain.send(topic, b"a")
    group = new_name()
    with (
        Consumer(
            bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer,
        Producer(bootstrap, transactional_id=new_name()) as producer,
    ):
        consumer.subscribe([topic])
        [record] = consumer.poll(1)
        partition = mk.TopicPartition(topic, 0)
        with producer.transaction() as transaction:
            producer.send(topic, b"result of " + (record.value or b""))
            transaction.send_offsets({partition: record.offset + 1}, consumer)
        found = consumer.committed([partition])[partition]
        assert found is not None
        assert found.offset == 1
    assert committed(bootstrap, topic) == [b"a", b"result of a"]


def test_a_new_producer_fences_the_old_one(bootstrap: str, topic: str, name: str) -> None:
    with Producer(bootstrap, transactional_id=name) as old:

        def be_fenced() -> None:
            with old.transaction():
                old.send(topic, b"zombie").result()
                with Producer(bootstrap, transactional_id=name) as new, new.transaction():
                    new.send(topic, b"new")

        with pytest.raises(mk.FencedError):
            be_fenced()
    assert committed(bootstrap, topic) == [b"new"]


def test_a_writer_has_no_transactions(bootstrap: str) -> None:
    with pytest.raises(ValueError, match="no transactions"):
        Writer(bootstrap, transactional_id="x")
