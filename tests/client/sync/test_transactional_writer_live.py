"""The light writer of transactions against our broker."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

import minikafka_client as mk
from minikafka.protocol.records import encode_batch
from minikafka_client.sync import AdminClient, Reader, TransactionalWriter

NewName = Callable[[], str]

PARTITIONS = 2  # of each topic


def committed(bootstrap: str, topic: str) -> list[bytes]:
    """All values that readers of committed records see."""
    partitions = [mk.TopicPartition(topic, number) for number in range(2)]
    with AdminClient(bootstrap) as admin:
        ends = admin.list_offsets(
            dict.fromkeys(partitions, mk.LATEST), isolation_level=mk.IsolationLevel.READ_COMMITTED
        )
    ranges = {partition: (0, ends[partition].offset) for partition in partitions}
    with Reader(bootstrap, ranges, isolation_level=mk.IsolationLevel.READ_COMMITTED) as reader:
        return sorted(value or b"" for run in reader for value in run.values)


def encoded(*values: bytes) -> tuple[bytearray, int]:
    return encode_batch([(None, value, (), 0) for value in values]), len(values)


def test_what_is_committed_is_seen(bootstrap: str, topic: str, name: str) -> None:
    with TransactionalWriter(bootstrap, transactional_id=name) as writer:
        for number in (b"1", b"2"):
            writer.begin()
            writer.send(topic, number, partition=0)
            writer.send_batch(topic, 1, *encoded(number))
            writer.flush()
            assert number not in committed(bootstrap, topic)
            writer.commit()
    assert committed(bootstrap, topic) == [b"1", b"1", b"2", b"2"]


def test_what_is_prepared_is_ended_by_others(bootstrap: str, topic: str, new_name: NewName) -> None:
    names = [new_name(), new_name()]
    prepared: list[mk.PreparedTransactionState] = []
    for name in names:
        with TransactionalWriter(bootstrap, transactional_id=name) as writer:
            writer.begin()
            writer.send(topic, name.encode(), partition=0)
            prepared.append(writer.prepare())
    with AdminClient(bootstrap) as admin:
        for name, state, commits in zip(names, prepared, (True, False), strict=True):
            admin.end_prepared_transaction(name, state, commits=commits)
    assert committed(bootstrap, topic) == [names[0].encode()]


def test_nothing_sent_prepares_nothing(bootstrap: str, name: str) -> None:
    with TransactionalWriter(bootstrap, transactional_id=name) as writer:
        writer.begin()
        assert not writer.prepare()


def test_leaving_the_block_aborts(bootstrap: str, topic: str, new_name: NewName) -> None:
    def fail() -> None:
        with TransactionalWriter(bootstrap, transactional_id=new_name()) as writer:
            writer.begin()
            writer.send(topic, b"lost", partition=0)
            writer.flush()
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError):
        fail()
    with TransactionalWriter(bootstrap, transactional_id=new_name()) as writer:
        writer.begin()
        writer.send(topic, b"kept", partition=0)
        writer.commit()
    assert committed(bootstrap, topic) == [b"kept"]


def test_nothing_is_sent_outside_a_transaction(bootstrap: str, topic: str, name: str) -> None:
    with TransactionalWriter(bootstrap, transactional_id=name) as writer:
        with pytest.raises(mk.TransactionStateError):
            writer.send(topic, b"value")
        with pytest.raises(mk.TransactionStateError):
            writer.send_batch(topic, 0, *encoded(b"value"))


def test_who_takes_over_fences(bootstrap: str, topic: str, name: str) -> None:
    with TransactionalWriter(bootstrap, transactional_id=name) as old:
        old.begin()
        old.send(topic, b"old", partition=0)
        old.flush()
        with TransactionalWriter(bootstrap, transactional_id=name) as new:
            new.begin()
            with pytest.raises((mk.FencedError, mk.TransactionAbortedError)):
                old.commit()
            new.send(topic, b"new", partition=0)
            new.commit()
    assert committed(bootstrap, topic) == [b"new"]


def test_a_batch_that_is_refused_takes_the_transaction_with_it(
    bootstrap: str, topic: str, name: str
) -> None:
    with TransactionalWriter(bootstrap, transactional_id=name) as writer:
        writer.begin()
        writer.send(topic, b"good", partition=0)
        writer.send(topic, b"x" * 300_000, partition=1)
        damaged, count = encoded(b"damaged")
        damaged[-1] ^= 1
        damaged[16] = 1  # no such magic
        with contextlib.suppress(mk.KafkaError):  # the broker may have refused it by now
            writer.send_batch(topic, 0, damaged, count)
        with pytest.raises(mk.KafkaError):
            writer.prepare()
    assert committed(bootstrap, topic) == []


def test_a_writer_of_transactions_needs_their_name() -> None:
    with pytest.raises(ValueError, match="transactional_id"):
        TransactionalWriter("localhost:9092")


def test_what_is_prepared_is_not_ended_by_taking_over(
    bootstrap: str, topic: str, name: str
) -> None:

    def writer_of_two_phases() -> TransactionalWriter:
        return TransactionalWriter(
            bootstrap, transactional_id=name, transaction_two_phase_commit_enable=True
        )

    with writer_of_two_phases() as writer:
        writer.begin()
        writer.send(topic, b"prepared", partition=0)
        prepared = writer.prepare()
    with writer_of_two_phases() as writer:
        assert writer.initialize() == prepared
        with pytest.raises(mk.TransactionStateError):
            writer.begin()
    with AdminClient(bootstrap) as admin:
        admin.complete_transaction(name, prepared)
    assert committed(bootstrap, topic) == [b"prepared"]
