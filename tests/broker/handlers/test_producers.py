"""InitProducerId and DescribeProducers over the wire."""

from pathlib import Path

import pytest

from minikafka.metadata.producer_ids import PRODUCER_ID_BLOCK_SIZE
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import describe_producers, init_producer_id
from minikafka.protocol.records import encode_batch
from tests.kit.in_process import running_broker
from tests.kit.wire import WireClient


async def init(
    client: WireClient,
    transactional_id: str | None = None,
    *,
    producer_id: int = -1,
    epoch: int = -1,
    version: int = 5,
) -> init_producer_id.Response:
    request = init_producer_id.Request(
        transactional_id=transactional_id,
        transaction_timeout_ms=60_000,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    return await client.ask(request, version, init_producer_id.Response)


@pytest.mark.parametrize("version", range(6))
async def test_every_version_hands_out_a_new_producer_id(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        answers = [await init(client, version=version) for _ in range(3)]
        assert [(one.error_code, one.producer_epoch) for one in answers] == [(0, 0)] * 3
        assert len({one.producer_id for one in answers}) == 3


async def test_a_producer_id_is_never_handed_out_again(tmp_path: Path) -> None:
    seen: list[int] = []
    for _ in range(2):
        async with running_broker(tmp_path) as under_test:
            client = under_test.connect()
            answers = [await init(client) for _ in range(PRODUCER_ID_BLOCK_SIZE // 2 + 1)]
            seen += [one.producer_id for one in answers]
    assert len(set(seen)) == len(seen)
    assert min(seen) >= 0


async def test_a_request_with_an_old_producer_id_gets_a_new_one(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        old = await init(client)
        new = await init(client, producer_id=old.producer_id, epoch=old.producer_epoch)
        assert (new.error_code, new.producer_epoch) == (ErrorCode.NONE, 0)
        assert new.producer_id != old.producer_id


@pytest.mark.parametrize(
    ("transactional_id", "producer_id", "epoch", "code"),
    [
        (None, 5, -1, ErrorCode.INVALID_REQUEST),
        (None, -1, 5, ErrorCode.INVALID_REQUEST),
        ("", -1, -1, ErrorCode.INVALID_REQUEST),
        ("tx", -1, -1, ErrorCode.NOT_COORDINATOR),  # no coordinator was requested yet
    ],
)
async def test_malformed_requests_get_no_producer_id(
    tmp_path: Path, transactional_id: str | None, producer_id: int, epoch: int, code: ErrorCode
) -> None:
    async with running_broker(tmp_path) as under_test:
        answer = await init(
            under_test.connect(), transactional_id, producer_id=producer_id, epoch=epoch
        )
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)


async def describe(
    client: WireClient, topic: str, *partitions: int
) -> list[describe_producers.PartitionResponse]:
    request = describe_producers.Request(
        topics=[describe_producers.TopicRequest(name=topic, partition_indexes=list(partitions))]
    )
    (answer,) = (await client.ask(request, 0, describe_producers.Response)).topics
    assert answer.name == topic
    return answer.partitions


async def test_idempotent_producers_are_described(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2)
        producer_id = (await init(client)).producer_id
        batch = encode_batch(
            [(None, b"a", (), 7), (None, b"b", (), 9)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
        )
        assert (await client.produce("t", batch=bytes(batch))).error_code == ErrorCode.NONE
        await client.produce("t", b"of nobody")
        first, second, third = await describe(client, "t", 0, 1, 2)
        (producer,) = first.active_producers
        assert (producer.producer_id, producer.producer_epoch) == (producer_id, 0)
        assert (producer.last_sequence, producer.last_timestamp) == (1, 9)
        assert producer.current_txn_start_offset == -1
        assert (second.error_code, second.active_producers) == (ErrorCode.NONE, [])
        assert third.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_producers_of_an_unknown_topic(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        (answer,) = await describe(under_test.connect(), "nowhere", 0)
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert answer.active_producers == []
