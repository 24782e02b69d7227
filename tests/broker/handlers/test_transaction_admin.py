"""Administration of transactions, hanging ones among them (KIP-664)."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.broker.coordinators.internal_topics import TRANSACTIONS_TOPIC
from minikafka.broker.coordinators.markers import Marker
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import describe_producers, describe_transactions, list_transactions
from tests.broker.handlers.transactional_wire import (
    TID,
    Producer,
    add,
    begun,
    end,
    stable_values,
    write,
    write_markers,
)
from tests.kit.in_process import running_broker
from tests.kit.wire import WireClient

OK = ErrorCode.NONE


async def opened(client: WireClient, transactional_id: str = TID) -> Producer:
    """A producer with an open transaction in t-0 and t-1."""
    producer = await begun(client, transactional_id=transactional_id)
    await add(client, producer, ("t", 1), ("t", 0), transactional_id=transactional_id)
    return producer


async def describe(
    client: WireClient, *transactional_ids: str
) -> list[describe_transactions.TransactionState]:
    request = describe_transactions.Request(transactional_ids=list(transactional_ids))
    return (await client.ask(request, 0, describe_transactions.Response)).transaction_states


async def listed(client: WireClient, version: int = 2, **filters: object) -> dict[str, str]:
    """The transactional ids and states that match the filters."""
    request = list_transactions.Request(**filters)  # type: ignore[arg-type]  # what a test names
    answer = await client.ask(request, version, list_transactions.Response)
    assert answer.error_code == OK
    return {one.transactional_id: one.transaction_state for one in answer.transaction_states}


async def test_transactions_are_described(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2)
        (before,) = await describe(client, TID)
        assert before.error_code == ErrorCode.NOT_COORDINATOR  # there is no topic for it yet
        producer = await opened(client)
        one, unknown, empty = await describe(client, TID, "nobody", "")
        assert (one.error_code, one.transaction_state) == (OK, "Ongoing")
        assert (one.producer_id, one.producer_epoch) == producer
        assert one.transaction_timeout_ms == 60_000
        assert one.transaction_start_time_ms > 0
        assert [(topic.topic, topic.partitions) for topic in one.topics] == [("t", [0, 1])]
        assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert empty.error_code == ErrorCode.INVALID_REQUEST
        await end(client, producer)
        while (await describe(client, TID))[0].transaction_state != "CompleteCommit":
            pass
        (ended,) = await describe(client, TID)
        assert ended.topics == []
        assert ended.transaction_start_time_ms == one.transaction_start_time_ms
        assert await listed(client, 1, duration_filter=0) == {TID: "CompleteCommit"}
        await begun(client)
        assert (await describe(client, TID))[0].transaction_start_time_ms == -1
        assert await listed(client, 1, duration_filter=0) == {}
        assert await describe(client) == []


async def test_transactions_are_listed(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2)
        assert await listed(client) == {}
        producer = await opened(client)
        await begun(client, transactional_id="job-2")
        both = {TID: "Ongoing", "job-2": "Empty"}
        for version in range(3):
            assert await listed(client, version) == both
            assert await listed(client, version, state_filters=["Ongoing"]) == {TID: "Ongoing"}
            one = await listed(client, version, producer_id_filters=[producer[0], -1, 2**63 - 1])
            assert one == {TID: "Ongoing"}
            assert await listed(client, version, producer_id_filters=[2**63 - 1]) == {}
        assert await listed(client, 1, duration_filter=0) == {TID: "Ongoing"}
        assert await listed(client, 1, duration_filter=2**63 - 1) == {}
        assert await listed(client, 1, duration_filter=-(2**63)) == both
        assert await listed(client, transactional_id_pattern="job-.") == both
        assert (
            await listed(client, transactional_id_pattern="2") == {}
        )  # it has to match the whole id
        assert await listed(client, transactional_id_pattern="") == both


async def test_invalid_filters_are_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        request = list_transactions.Request(state_filters=["Ongoing", "Asleep", ""])
        answer = await client.ask(request, 0, list_transactions.Response)
        assert (answer.error_code, answer.unknown_state_filters) == (OK, ["Asleep", ""])
        for pattern in ("(", "[", "*", "x" * 5_000, r"(a)\1", "(?=a)", "(a{999}){999}"):
            request = list_transactions.Request(transactional_id_pattern=pattern)
            answer = await client.ask(request, 2, list_transactions.Response)
            assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)+b", "(.*)*(.*)*x", "(a?){25}a{25}b"])
async def test_a_pathological_pattern_is_matched_quickly(tmp_path: Path, pattern: str) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await begun(client, transactional_id="a" * 100)
        assert await listed(client, transactional_id_pattern=pattern) == {}


@pytest.mark.parametrize("version", [1, 2])
async def test_a_hanging_transaction_is_aborted(tmp_path: Path, version: int) -> None:
    """It has no coordinator any longer; DescribeProducers has what is needed to abort it."""
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2)
        producer = await opened(client)
        assert await write(client, producer, b"x") is OK
        asked = describe_producers.Request(
            topics=[describe_producers.TopicRequest(name="t", partition_indexes=[0])]
        )
        answer = await client.ask(asked, 0, describe_producers.Response)
        (found,) = answer.topics[0].partitions[0].active_producers
        assert (found.producer_id, found.producer_epoch) == producer
        assert (found.current_txn_start_offset, found.coordinator_epoch) == (0, -1)
        assert await stable_values(client) == (0, 1, 0)
        codes = await write_markers(
            client, producer, ("t", 0), coordinator_epoch=0, version=version
        )
        assert codes == [OK]
        assert await stable_values(client) == (2, 2, 1)


async def test_invalid_markers_are_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2)
        old = await begun(client)
        producer = await opened(client)
        assert await write(client, producer, b"x") is OK
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        places = (("t", 2), ("t", -1), ("t", 2**31 - 1), ("nowhere", 0))
        assert await write_markers(client, producer, *places) == [unknown] * 4
        assert await write_markers(client, producer) == []
        fenced = ErrorCode.INVALID_PRODUCER_EPOCH
        assert await write_markers(client, old, ("t", 0)) == [fenced]
        # With an epoch for each transaction, a marker has to have a greater one (KIP-1228).
        codes = await write_markers(client, producer, ("t", 0), transaction_version=2)
        assert codes == [fenced]
        for nobody in ((-1, 0), (-(2**63), 0), (producer[0], -1), (2**40, -(2**15))):
            codes = await write_markers(client, nobody, ("t", 0))
            assert codes[0] is not OK
        assert await stable_values(client) == (0, 1, 0)


HOSTILE_EPOCHS = [
    # (more than the producer's epoch, coordinator epoch, transaction version)
    (0, 2**31 - 1, 0),
    (0, 1, 0),
    (1, 2**31 - 1, 2),
    (1, 0, 0),
    (2, 0, 2),
    (32_000, 0, 2),
]


@pytest.mark.parametrize(("further", "coordinator_epoch", "transaction_version"), HOSTILE_EPOCHS)
async def test_epochs_that_no_transaction_has_are_refused_and_block_nobody(
    tmp_path: Path, further: int, coordinator_epoch: int, transaction_version: int
) -> None:
    """What a marker says is stored: everything less than it would be refused for good."""
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2)
        producer_id, epoch = producer = await opened(client)
        assert await write(client, producer, b"x") is OK
        codes = await write_markers(
            client,
            (producer_id, epoch + further),
            ("t", 0),
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )
        assert codes[0] in (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_PRODUCER_EPOCH)
        assert (await end(client, producer)).error_code == OK
        while (await stable_values(client))[0] < 2:
            pass
        assert await stable_values(client) == (2, 2, 0)


async def test_clients_cannot_commit_a_part_of_a_transaction(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2)
        producer = await opened(client)
        assert await write(client, producer, b"x") is OK
        codes = await write_markers(client, producer, ("t", 0), ("t", 1), commits=True)
        assert codes == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2
        assert await stable_values(client) == (0, 1, 0)


async def test_a_marker_for_a_producer_that_has_written_nothing_is_not_stored(
    tmp_path: Path,
) -> None:
    """It could only fence a producer that has yet to write."""
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2)
        producer_id, epoch = producer = await opened(client)
        assert await write_markers(client, (producer_id, epoch + 5), ("t", 0)) == [OK]
        assert await write(client, producer, b"x") is OK


async def test_another_broker_cannot_invent_a_coordinator_epoch(tmp_path: Path) -> None:
    """At most the highest leader epoch of __transaction_state that this broker knows of."""
    async with running_broker(tmp_path) as under_test:
        client, broker = under_test.connect(), under_test.broker
        await client.create_topic("t", partitions=2)
        producer_id, epoch = producer = await opened(client)
        assert await write(client, producer, b"x") is OK
        known = max(one.leader_epoch for one in broker.image.topics[TRANSACTIONS_TOPIC].partitions)
        for coordinator_epoch, code in (
            (2**31 - 1, ErrorCode.INVALID_REQUEST),
            (known + 1, ErrorCode.INVALID_REQUEST),
            (known, OK),
        ):
            marker = Marker(producer_id, epoch, coordinator_epoch, 0, commits=True)
            assert await broker.markers.write_and_wait(marker, [("t", 0)]) == [code]
