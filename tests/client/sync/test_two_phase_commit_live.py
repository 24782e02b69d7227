"""Prepared transactions are decided from other processes, on blocking sockets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from minikafka_client import (
    FencedError,
    NewTopic,
    PreparedTransactionState,
    TopicPartition,
    TransactionAbortedError,
    TransactionOutcome,
    TransactionStateError,
    TwoPhaseCommitError,
)
from minikafka_client.sync import AdminClient, Consumer, Producer
from tests.live_broker import LiveBroker


@pytest.fixture
def topic(bootstrap: str, new_name: Callable[[], str]) -> str:
    name = new_name()
    with AdminClient(bootstrap) as admin:
        admin.create_topics([NewTopic(name, 1)])
    return name


def committed(bootstrap: str, topic: str) -> list[bytes | None]:
    partition = TopicPartition(topic, 0)
    values: list[bytes | None] = []
    with (
        Consumer(bootstrap) as careless,
        Consumer(
            bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer,
    ):
        end = consumer.end_offsets([partition])[partition]
        while end < careless.end_offsets([partition])[partition]:  # markers are on their way
            end = consumer.end_offsets([partition])[partition]
        consumer.assign([partition])
        while consumer.position(partition) < end:
            values += [record.value for record in consumer.poll(timeout_ms=100)]
    return values


def open_state(admin: AdminClient, transactional_id: str) -> PreparedTransactionState:
    found = admin.describe_transactions([transactional_id])[transactional_id]
    assert found.state == "Ongoing"
    return PreparedTransactionState(found.producer_id, found.producer_epoch)


@pytest.mark.parametrize("commits", [True, False])
def test_another_process_ends_the_transaction_and_may_say_it_again(
    bootstrap: str, topic: str, new_name: Callable[[], str], commits: bool
) -> None:
    name = new_name()
    with AdminClient(bootstrap) as admin, Producer(bootstrap, transactional_id=name) as producer:

        def be_decided_about() -> None:
            with producer.transaction():
                producer.send(topic, b"prepared").result()
                prepared = open_state(admin, name)
                admin.end_prepared_transaction(name, prepared, commits=commits)
                admin.end_prepared_transaction(name, prepared, commits=commits)
                other = TransactionStateError if commits else TransactionAbortedError
                with pytest.raises(other):
                    admin.end_prepared_transaction(name, prepared, commits=not commits)
                admin.recover_transaction(name)
                with pytest.raises(FencedError):
                    admin.end_prepared_transaction(name, prepared, commits=commits)

        with pytest.raises(FencedError):
            be_decided_about()
    assert committed(bootstrap, topic) == ([b"prepared"] if commits else [])


@pytest.mark.parametrize("is_stored", [True, False])
def test_what_is_open_after_a_crash_is_completed(
    bootstrap: str, topic: str, new_name: Callable[[], str], is_stored: bool
) -> None:
    name = new_name()
    with AdminClient(bootstrap) as admin, Producer(bootstrap, transactional_id=name) as producer:

        def crash() -> None:
            with producer.transaction():
                producer.send(topic, b"prepared").result()
                prepared = open_state(admin, name)
                found = admin.recover_transaction(name)
                assert found.ongoing == prepared
                stored = prepared if is_stored else None
                outcome = admin.complete_transaction(name, stored)
                expected = TransactionOutcome.COMMITTED if is_stored else TransactionOutcome.ABORTED
                assert outcome is expected
                again = admin.complete_transaction(name, stored)
                assert again is TransactionOutcome.NONE_OPEN

        with pytest.raises(FencedError):
            crash()
    assert committed(bootstrap, topic) == ([b"prepared"] if is_stored else [])


def test_a_broker_that_does_not_allow_it_says_so(tmp_path: Path) -> None:
    with LiveBroker(tmp_path) as broker, AdminClient(broker.bootstrap) as admin:
        with pytest.raises(TwoPhaseCommitError, match=r"transaction\.two\.phase\.commit\.enable"):
            admin.recover_transaction("id")
        with pytest.raises(TwoPhaseCommitError):
            admin.complete_transaction("id", None)


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_blocking_producer_completes_what_the_one_before_it_has_prepared(
    bootstrap: str, topic: str, new_name: Callable[[], str], is_stored: bool
) -> None:
    name = new_name()
    with Producer(
        bootstrap, transactional_id=name, transaction_two_phase_commit_enable=True
    ) as producer:
        with producer.transaction() as transaction:
            producer.send(topic, b"a")
            prepared = transaction.prepare()
        assert producer.prepared_transaction == prepared
    with Producer(
        bootstrap, transactional_id=name, transaction_two_phase_commit_enable=True
    ) as producer:
        assert producer.prepared_transaction == prepared
        outcome = producer.complete_transaction(prepared if is_stored else None)
        expected = TransactionOutcome.COMMITTED if is_stored else TransactionOutcome.ABORTED
        assert outcome is expected
        with producer.transaction():
            producer.send(topic, b"b")
    assert committed(bootstrap, topic) == ([b"a", b"b"] if is_stored else [b"b"])
