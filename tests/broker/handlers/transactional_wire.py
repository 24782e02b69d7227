"""A transactional producer of any version, request by request."""

from __future__ import annotations

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fields import ZERO_UUID
from minikafka.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    fetch,
    find_coordinator,
    init_producer_id,
    produce,
    txn_offset_commit,
    write_txn_markers,
)
from minikafka.protocol.records import encode_batch
from tests.kit.wire import WireClient, fetch_request, produce_request

TID = "job-1"
GROUP = "group-1"
Producer = tuple[int, int]
"""Producer id and epoch."""


async def find(client: WireClient, key: str = TID, key_type: int = 1) -> None:
    """Have the coordinator's topic created, and wait until it is loaded."""
    code = None
    while code != ErrorCode.NONE:
        request = find_coordinator.Request(key=key, key_type=key_type)
        code = (await client.ask(request, 3, find_coordinator.Response)).error_code


async def init(
    client: WireClient,
    producer: Producer = (-1, -1),
    *,
    transactional_id: str = TID,
    timeout_ms: int = 60_000,
    version: int = 5,
    keeps_prepared: bool = False,
    is_two_phase: bool = False,
) -> init_producer_id.Response:
    """InitProducerId."""
    request = init_producer_id.Request(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer[0],
        producer_epoch=producer[1],
        enable2_pc=is_two_phase,
        keep_prepared_txn=keeps_prepared,
    )
    return await client.ask(request, version, init_producer_id.Response)


async def begun(client: WireClient, *, transactional_id: str = TID) -> Producer:
    """A producer that may begin transactions."""
    await find(client, transactional_id)
    answer = await init(client, transactional_id=transactional_id)
    assert answer.error_code == ErrorCode.NONE
    return answer.producer_id, answer.producer_epoch


def _codes(results: list[add_partitions_to_txn.TopicResult]) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.name, one.partition_index): ErrorCode(one.partition_error_code)
        for topic in results
        for one in topic.results_by_partition
    }


async def add(
    client: WireClient,
    producer: Producer,
    *places: tuple[str, int],
    transactional_id: str = TID,
    version: int = 3,
    verifies_only: bool = False,
) -> dict[tuple[str, int], ErrorCode]:
    """AddPartitionsToTxn: the error of each partition."""
    topics = [
        add_partitions_to_txn.Topic(name=name, partitions=[number]) for name, number in places
    ]
    if version < 4:
        request = add_partitions_to_txn.Request(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=topics,
        )
    else:
        asked = transaction(
            producer, *places, transactional_id=transactional_id, verifies_only=verifies_only
        )
        request = add_partitions_to_txn.Request(transactions=[asked])
    answer = await client.ask(request, version, add_partitions_to_txn.Response)
    if version < 4:
        return _codes(answer.results_by_topic_v3_and_below)
    (result,) = answer.results_by_transaction
    return _codes(result.topic_results)


def transaction(
    producer: Producer,
    *places: tuple[str, int],
    transactional_id: str = TID,
    verifies_only: bool = False,
) -> add_partitions_to_txn.Transaction:
    """One of the transactions that a broker verifies."""
    return add_partitions_to_txn.Transaction(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        verify_only=verifies_only,
        topics=[
            add_partitions_to_txn.Topic(name=name, partitions=[number]) for name, number in places
        ],
    )


async def add_many(
    client: WireClient, *asked: add_partitions_to_txn.Transaction, version: int = 5
) -> dict[str, dict[tuple[str, int], ErrorCode]]:
    """AddPartitionsToTxn of brokers: errors by transactional id."""
    request = add_partitions_to_txn.Request(transactions=list(asked))
    answer = await client.ask(request, version, add_partitions_to_txn.Response)
    assert answer.error_code == ErrorCode.NONE
    return {
        one.transactional_id: _codes(one.topic_results) for one in answer.results_by_transaction
    }


async def write(
    client: WireClient,
    producer: Producer,
    *values: bytes,
    sequence: int = 0,
    topic: str = "t",
    partition: int = 0,
    version: int = 9,
    transactional_id: str | None = TID,
) -> ErrorCode:
    """Produce a batch of the transaction."""
    batch = encode_batch(
        [(None, value, (), 1000) for value in values],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        is_transactional=True,
    )
    request = produce_request(topic, bytes(batch), partition=partition, acks=-1)
    request.transactional_id = transactional_id
    answer = await client.ask(request, version, produce.Response)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


async def end(
    client: WireClient,
    producer: Producer,
    *,
    commits: bool = True,
    version: int = 3,
    transactional_id: str = TID,
) -> end_txn.Response:
    """EndTxn."""
    request = end_txn.Request(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        committed=commits,
    )
    return await client.ask(request, version, end_txn.Response)


async def add_offsets(
    client: WireClient, producer: Producer, *, group_id: str = GROUP, version: int = 3
) -> ErrorCode:
    """AddOffsetsToTxn."""
    request = add_offsets_to_txn.Request(
        transactional_id=TID,
        producer_id=producer[0],
        producer_epoch=producer[1],
        group_id=group_id,
    )
    return ErrorCode((await client.ask(request, version, add_offsets_to_txn.Response)).error_code)


async def commit_offset(
    client: WireClient,
    producer: Producer,
    offset: int,
    *,
    topic: str = "t",
    topic_id: bytes = ZERO_UUID,
    group_id: str = GROUP,
    generation_id: int = -1,
    version: int = 3,
    transactional_id: str = TID,
) -> ErrorCode:
    """TxnOffsetCommit; from version 6 on the topic is found by its id only."""
    by_id = version >= 6
    one = txn_offset_commit.RequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    request = txn_offset_commit.Request(
        transactional_id=transactional_id,
        group_id=group_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        generation_id=generation_id,
        topics=[
            txn_offset_commit.RequestTopic(
                name="" if by_id else topic,
                topic_id=topic_id if by_id else ZERO_UUID,
                partitions=[one],
            )
        ],
    )
    answer = await client.ask(request, version, txn_offset_commit.Response)
    named = ("", topic_id) if by_id else (topic, ZERO_UUID)
    assert (answer.topics[0].name, answer.topics[0].topic_id) == named
    return ErrorCode(answer.topics[0].partitions[0].error_code)


async def write_markers(
    client: WireClient,
    producer: Producer,
    *places: tuple[str, int],
    commits: bool = False,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
    version: int = 2,
) -> list[ErrorCode]:
    """WriteTxnMarkers: the error of each partition."""
    marker = write_txn_markers.Marker(
        producer_id=producer[0],
        producer_epoch=producer[1],
        transaction_result=commits,
        topics=[write_txn_markers.Topic(name=name, partition_indexes=[n]) for name, n in places],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version if version >= 2 else 0,
    )
    request = write_txn_markers.Request(markers=[marker])
    (answer,) = (await client.ask(request, version, write_txn_markers.Response)).markers
    return [ErrorCode(one.error_code) for topic in answer.topics for one in topic.partitions]


async def stable_values(client: WireClient, partition: int = 0) -> tuple[int, int, int]:
    """(last stable offset, high watermark, how many transactions a fetch says were aborted)."""
    request = fetch_request("t", 0, partition=partition)
    request.isolation_level = 1
    answer = await client.ask(request, 11, fetch.Response)
    found = answer.responses[0].partitions[0]
    return found.last_stable_offset, found.high_watermark, len(found.aborted_transactions or ())
