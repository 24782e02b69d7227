"""Our client's prepared transactions on Apache Kafka, which does not keep them (yet)."""

from __future__ import annotations

import pytest

from minikafka_client import (
    FencedError,
    PreparedTransactionState,
    TransactionAbortedError,
    TransactionOutcome,
    TransactionStateError,
    TwoPhaseCommitError,
)
from minikafka_client.sync import AdminClient, Producer
from tests.interop.clients import CONFLUENT, consume
from tests.interop.wire import MakeTopic
from tests.peers.apache_kafka import ApacheKafka

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]


def test_apache_kafka_does_not_know_two_phase_commit(apache_kafka: ApacheKafka, topic: str) -> None:
    bootstrap = apache_kafka.bootstrap
    producer = Producer(bootstrap, transactional_id=topic, transaction_two_phase_commit_enable=True)
    with pytest.raises(TwoPhaseCommitError, match="use a broker with KIP-939"):
        producer.__enter__()
    with AdminClient(bootstrap) as admin, pytest.raises(TwoPhaseCommitError, match="KIP-939"):
        admin.complete_transaction(topic, None)


def test_a_transaction_is_prepared_and_decided_by_its_producer(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    with Producer(bootstrap, transactional_id=topic) as producer:
        for value, commits in ((b"a", True), (b"b", False), (b"c", True)):
            with producer.transaction() as transaction:
                producer.send(topic, value)
                prepared = transaction.prepare()
            outcome = producer.complete_transaction(prepared if commits else None)
            expected = TransactionOutcome.COMMITTED if commits else TransactionOutcome.ABORTED
            assert outcome is expected
    received = consume(CONFLUENT, bootstrap, topic, 2)
    assert [one.value for one in received] == [b"a", b"c"]


@pytest.mark.parametrize("commits", [True, False])
def test_a_transaction_is_prepared_and_decided_by_somebody_else(
    bootstrap: str, make_topic: MakeTopic, commits: bool
) -> None:
    topic = make_topic()
    with AdminClient(bootstrap) as admin, Producer(bootstrap, transactional_id=topic) as producer:
        with producer.transaction() as transaction:
            producer.send(topic, b"a")
            prepared = PreparedTransactionState.parse(str(transaction.prepare()))
        admin.end_prepared_transaction(topic, prepared, commits=commits)
        admin.end_prepared_transaction(topic, prepared, commits=commits)
        with pytest.raises((TransactionAbortedError, TransactionStateError)):
            admin.end_prepared_transaction(topic, prepared, commits=not commits)
        with Producer(bootstrap, transactional_id=topic) as other:
            with pytest.raises(FencedError):
                admin.end_prepared_transaction(topic, prepared, commits=commits)
            with other.transaction():
                other.send(topic, b"b")
    expected = [b"a", b"b"] if commits else [b"b"]
    received = consume(CONFLUENT, bootstrap, topic, len(expected))
    assert [one.value for one in received] == expected
