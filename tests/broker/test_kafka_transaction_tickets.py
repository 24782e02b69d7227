"""Apache Kafka's own tickets about transactions in brokers, each as a scenario."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.broker.coordinators.internal_topics import TRANSACTIONS_TOPIC
from minikafka.broker.handlers.transaction_errors import append_error
from minikafka.broker.rpc.operations import ConfirmTransaction, Place
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import write_txn_markers
from minikafka.protocol.records import encode_batch
from minikafka.storage.errors import InvalidTransactionState
from tests.broker.handlers.transactional_wire import (
    GROUP,
    TID,
    add,
    add_offsets,
    begun,
    commit_offset,
    end,
    find,
    stable_values,
    write,
    write_markers,
)
from tests.broker.replicated import replicated, until
from tests.kit.in_process import running_broker

OK = ErrorCode.NONE


async def test_kafka_9777_markers_that_are_committed_one_by_one_are_answered_once(
    tmp_path: Path,
) -> None:
    """Some immediately, others when a replica comes back; there is one answer for all of them."""
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        await cluster.create_topic("alone", (1,))
        client = cluster.nodes[1].connect()
        for producer_id in range(5):
            batch = encode_batch(
                [(None, b"x", (), 1000)], producer_id=producer_id, producer_epoch=0, base_sequence=0
            )
            for topic in ("t", "alone"):
                assert (await client.produce(topic, batch=bytes(batch))).error_code == OK
        await cluster.nodes[2].stop()
        topics = [
            write_txn_markers.Topic(name=name, partition_indexes=[0]) for name in ("t", "alone")
        ]
        markers = [
            write_txn_markers.Marker(
                producer_id=producer_id,
                producer_epoch=0,
                transaction_result=False,
                topics=topics,
                coordinator_epoch=0,
            )
            for producer_id in range(5)
        ]
        await client.send(write_txn_markers.Request(markers=markers[:1]), 1)
        partition = cluster.nodes[1].partition("t")
        await until(lambda: len(partition.commits))
        # A client that disconnects in the meantime does no harm.
        other = cluster.nodes[1].connect()
        await other.send(write_txn_markers.Request(markers=markers[1:]), 1)
        await until(lambda: len(partition.commits) > 1)
        await other.stream.aclose()
        await cluster.restart(cluster.nodes[2])
        _, answer = await client.receive(write_txn_markers.Response, 1)
        (one,) = answer.markers
        codes = [part.error_code for topic in one.topics for part in topic.partitions]
        assert codes == [OK, OK]
        await until(lambda: partition.log.high_watermark == partition.log.log_end_offset)
        assert not len(partition.commits)


@pytest.mark.parametrize("version", [9, 12])
async def test_kafka_14904_a_coordinator_that_is_still_loading_is_waited_for(
    tmp_path: Path, version: int
) -> None:
    """A temporary failure of the verification is no reason to abort the transaction."""
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        producer = await begun(client)
        await find(client, GROUP, 0)
        await add(client, producer, ("t", 0))
        assert await add_offsets(client, producer) is OK
        # As a leader on another broker than the coordinator, which has not been told.
        under_test.broker.partitions["t", 0].log.producer_state.transactions.forget_verifications()
        runtime = under_test.broker.transactions.runtime
        number = runtime.partition_of(TID)
        runtime.resign(number)
        assert await write(client, producer, b"x", version=version) is (
            ErrorCode.NOT_ENOUGH_REPLICAS  # after which every client retries
        )
        code = await commit_offset(client, producer, 1, version=3 if version < 12 else 5)
        assert code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # and after this, too
        runtime.lead(under_test.broker.partitions[TRANSACTIONS_TOPIC, number])
        while (code := await write(client, producer, b"x", version=version)) is not OK:
            assert code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert (await end(client, producer)).error_code == OK


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    ],
)
@pytest.mark.parametrize("knows_abortable", [True, False])
def test_kafka_14904_produce_has_one_code_for_transient_errors(
    code: ErrorCode, knows_abortable: bool
) -> None:
    found = append_error(code, knows_abortable=knows_abortable)
    assert found is ErrorCode.NOT_ENOUGH_REPLICAS


async def test_kafka_18957_a_late_record_leaves_no_transaction_hanging(tmp_path: Path) -> None:
    """A record that arrives after the end of its transaction, in one of its partitions."""
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        producer = await begun(client)
        await add(client, producer, ("t", 0))
        assert (await end(client, producer)).error_code == OK
        while (await stable_values(client))[1] < 1:
            pass
        assert await write(client, producer, b"late") is not OK
        assert await stable_values(client) == (1, 1, 0)


async def test_a_decision_waits_for_a_topic_missing_from_its_coordinators_metadata(
    tmp_path: Path,
) -> None:
    """Otherwise it would consider the topic deleted, and the transaction would hang forever."""
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        producer = await begun(client)
        topics = under_test.broker.image.topics
        unheard_of = topics.pop("t")
        transactions = under_test.broker.transactions
        request = ConfirmTransaction(TID, *producer, (Place("t", 0),), adds=True)
        codes: list[ErrorCode] = []
        transactions.serve_confirm(2, request, (), lambda answer, _: codes.append(*answer))
        assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        topics["t"] = unheard_of
        transactions.serve_confirm(2, request, (), lambda answer, _: codes.append(*answer))
        await until(lambda: len(codes) > 1)
        assert codes[1] == OK
        assert await write(client, producer, b"x", version=12) is OK
        assert (await end(client, producer, version=5)).error_code == OK
        while (await stable_values(client))[0] < 2:
            pass
        assert await write_markers(client, (2**40, 0), ("t", 0)) == [OK]


async def test_a_leader_that_comes_back_has_transactions_confirmed_again(tmp_path: Path) -> None:
    """A transaction that was confirmed long ago may have been ended by the leader in between."""
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        partition = cluster.nodes[1].partition("t")
        verification = partition.log.verify_transaction(7, 0)
        assert verification is not None
        verification.is_confirmed = True
        await cluster.lead(2, (1, 2))
        await cluster.lead(1, (1, 2))
        batch = encode_batch(
            [(None, b"late", (), 1000)],
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        with pytest.raises(InvalidTransactionState):
            partition.append(bytes(batch), now_ms=1000, version=9)
