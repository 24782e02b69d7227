"""Prepared transactions are decided from other processes, on blocking sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

import minikafka_client as mk
from minikafka import testing
from minikafka_client.sync import AdminClient, Producer
from tests.client.sync.committed import committed


def open_state(admin: AdminClient, transactional_id: str) -> mk.PreparedTransactionState:
    found = admin.describe_transactions([transactional_id])[transactional_id]
    assert found.state == "Ongoing"
    return mk.PreparedTransactionState(found.producer_id, found.producer_epoch)


@pytest.mark.parametrize("commits", [True, False])
def test_another_process_ends_the_transaction_and_may_say_it_again(
    bootstrap: str, topic: str, name: str, commits: bool
) -> None:
    with AdminClient(bootstrap) as admin, Producer(bootstrap, transactional_id=name) as producer:

        def be_decided_about() -> None:
            with producer.transaction():
                producer.send(topic, b"prepared").result()
                prepared = open_state(admin, name)
                admin.end_prepared_transaction(name, prepared, commits=commits)
                admin.end_prepared_transaction(name, prepared, commits=commits)
                other = mk.TransactionStateError if commits else mk.TransactionAbortedError
                with pytest.raises(other):
                    admin.end_prepared_transaction(name, prepared, commits=not commits)
                admin.recover_transaction(name)
                with pytest.raises(mk.FencedError):
                    admin.end_prepared_transaction(name, prepared, commits=commits)

        with pytest.raises(mk.FencedError):
            be_decided_about()
    assert committed(bootstrap, topic) == ([b"prepared"] if commits else [])


@pytest.mark.parametrize("is_stored", [True, False])
def test_what_is_open_after_a_crash_is_completed(
    bootstrap: str, topic: str, name: str, is_stored: bool
) -> None:
    with AdminClient(bootstrap) as admin, Producer(bootstrap, transactional_id=name) as producer:

        def crash() -> None:
            with producer.transaction():
                producer.send(topic, b"prepared").result()
                prepared = open_state(admin, name)
                found = admin.recover_transaction(name)
                assert found.ongoing == prepared
                stored = prepared if is_stored else None
                outcome = admin.complete_transaction(name, stored)
                expected = (
                    mk.TransactionOutcome.COMMITTED if is_stored else mk.TransactionOutcome.ABORTED
                )
                assert outcome is expected
                again = admin.complete_transaction(name, stored)
                assert again is mk.TransactionOutcome.NONE_OPEN

        with pytest.raises(mk.FencedError):
            crash()
    assert committed(bootstrap, topic) == ([b"prepared"] if is_stored else [])


def test_a_broker_that_does_not_allow_it_says_so(tmp_path: Path) -> None:
    with testing.broker(directory=tmp_path) as broker, AdminClient(broker.bootstrap) as admin:
        with pytest.raises(
            mk.TwoPhaseCommitError, match=r"transaction\.two\.phase\.commit\.enable"
        ):
            admin.recover_transaction("id")
        with pytest.raises(mk.TwoPhaseCommitError):
            admin.complete_transaction("id", None)


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_blocking_producer_completes_what_the_one_before_it_has_prepared(
    bootstrap: str, topic: str, name: str, is_stored: bool
) -> None:
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
        expected = mk.TransactionOutcome.COMMITTED if is_stored else mk.TransactionOutcome.ABORTED
        assert outcome is expected
        with producer.transaction():
            producer.send(topic, b"b")
    assert committed(bootstrap, topic) == ([b"a", b"b"] if is_stored else [b"b"])
