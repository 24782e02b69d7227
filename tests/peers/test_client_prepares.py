"""Our client's prepared transactions on Apache Kafka, which does not keep them (yet)."""

from __future__ import annotations

import pytest

import minikafka_client as mk
from minikafka_client.sync import AdminClient, Producer
from tests.interop.clients import CONFLUENT, consume
from tests.peers.apache_kafka import ApacheKafka

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]


def test_apache_kafka_does_not_know_two_phase_commit(apache_kafka: ApacheKafka, name: str) -> None:
    bootstrap = apache_kafka.bootstrap
    producer = Producer(bootstrap, transactional_id=name, transaction_two_phase_commit_enable=True)
    with pytest.raises(mk.TwoPhaseCommitError, match="use a broker with KIP-939"):
        producer.__enter__()
    with AdminClient(bootstrap) as admin, pytest.raises(mk.TwoPhaseCommitError, match="KIP-939"):
        admin.complete_transaction(name, None)


def test_a_transaction_is_prepared_and_decided_by_its_producer(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, transactional_id=topic) as producer:
        for value, commits in ((b"a", True), (b"b", False), (b"c", True)):
            with producer.transaction() as transaction:
                producer.send(topic, value)
                prepared = transaction.prepare()
            outcome = producer.complete_transaction(prepared if commits else None)
            expected = mk.TransactionOutcome.COMMITTED if commits else mk.TransactionOutcome.ABORTED
            assert outcome is expected
    received = consume(CONFLUENT, bootstrap, topic, 2)
    assert [one.value for one in received] == [b"a", b"c"]


@pytest.mark.parametrize("commits", [True, False])
def test_a_transaction_is_prepared_and_decided_by_another_program(
    bootstrap: str, topic: str, commits: bool
) -> None:
    with AdminClient(bootstrap) as admin, Producer(bootstrap, transactional_id=topic) as producer:
        with producer.transaction() as transaction:
            producer.send(topic, b"a")
            prepared = mk.PreparedTransactionState.parse(str(transaction.prepare()))
        admin.end_prepared_transaction(topic, prepared, commits=commits)
        admin.end_prepared_transaction(topic, prepared, commits=commits)
        with pytest.raises((mk.TransactionAbortedError, mk.TransactionStateError)):
            admin.end_prepared_transaction(topic, prepared, commits=not commits)
        with Producer(bootstrap, transactional_id=topic) as other:
            with pytest.raises(mk.FencedError):
                admin.end_prepared_transaction(topic, prepared, commits=commits)
            with other.transaction():
                other.send(topic, b"b")
    expected = [b"a", b"b"] if commits else [b"b"]
    received = consume(CONFLUENT, bootstrap, topic, len(expected))
    assert [one.value for one in received] == expected
