"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords over the wire."""

from pathlib import Path

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import delete_records as delete_records_api
from minikafka.protocol.messages import list_offsets as list_offsets_api
from minikafka.protocol.messages import offset_for_leader_epoch
from minikafka.protocol.records import Compression, encode_batch
from tests.kit.in_process import running_broker
from tests.kit.wire import WireClient, values_of

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)
CONSUMER, DEBUGGER = -1, -2


async def list_offsets(
    client: WireClient,
    timestamp: int,
    *,
    topic: str = "t",
    partitions: tuple[int, ...] = (0,),
    leader_epoch: int = -1,
    version: int = 11,
    isolation: int = 0,
    replica_id: int = CONSUMER,
) -> list[list_offsets_api.PartitionResponse]:
    request = list_offsets_api.Request(
        replica_id=replica_id,
        isolation_level=isolation,
        topics=[
            list_offsets_api.Topic(
                name=topic,
                partitions=[
                    list_offsets_api.Partition(
                        partition_index=number,
                        current_leader_epoch=leader_epoch,
                        timestamp=timestamp,
                    )
                    for number in partitions
                ],
            )
        ],
    )
    (answer,) = (await client.ask(request, version, list_offsets_api.Response)).topics
    assert answer.name == topic
    return answer.partitions


async def offset(client: WireClient, timestamp: int, version: int = 11) -> tuple[int, int, int]:
    (answer,) = await list_offsets(client, timestamp, version=version)
    assert answer.error_code == ErrorCode.NONE
    return answer.offset, answer.timestamp, answer.leader_epoch


async def produce_at(
    client: WireClient, *timestamps: int, compression: Compression = Compression.NONE
) -> None:
    """One batch with a record for each timestamp."""
    records = [(None, b"x" * 100, (), timestamp) for timestamp in timestamps]
    batch = bytes(encode_batch(records, compression=compression))
    assert (await client.produce("t", batch=batch)).error_code == ErrorCode.NONE


# --- ListOffsets -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 12))
async def test_every_version_finds_both_ends(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        epoch = 0 if version >= 4 else -1
        assert await offset(client, EARLIEST, version) == (0, -1, epoch)
        assert await offset(client, LATEST, version) == (0, -1, epoch)
        await client.produce("t", b"a", b"b", b"c")
        await delete_records(client, 1)
        assert await offset(client, EARLIEST, version) == (1, -1, epoch)
        assert await offset(client, LATEST, version) == (3, -1, epoch)


@pytest.mark.parametrize("compression", list(Compression))
async def test_a_timestamp_finds_the_first_record_that_is_not_older(
    tmp_path: Path, compression: Compression
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await produce_at(client, 10, 20, 30, compression=compression)
        await produce_at(client, 15, 40, 35, compression=compression)
        for timestamp, expected in [
            (0, (0, 10, 0)),
            (10, (0, 10, 0)),
            (11, (1, 20, 0)),
            (30, (2, 30, 0)),
            (31, (4, 40, 0)),
            (41, (-1, -1, -1)),
        ]:
            assert await offset(client, timestamp) == expected
        assert await offset(client, MAX_TIMESTAMP) == (4, 40, 0)


async def test_an_empty_log_has_no_record_at_any_time(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        for timestamp in (0, MAX_TIMESTAMP, LATEST_TIERED, EARLIEST_PENDING):
            assert await offset(client, timestamp) == (-1, -1, -1)
        assert await offset(client, EARLIEST_LOCAL) == (0, -1, 0)


@pytest.mark.parametrize(
    ("timestamp", "first_version"),
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING, 11)],
)
async def test_special_timestamps_are_refused_in_older_versions(
    tmp_path: Path, timestamp: int, first_version: int
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        for version in (first_version - 1, first_version):
            (answer,) = await list_offsets(client, timestamp, version=version)
            known = version == first_version
            expected = ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_VERSION
            assert answer.error_code == expected
        (answer,) = await list_offsets(client, -7)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_invisible_records_are_not_found(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await produce_at(client, 10, 20)
        partition = under_test.broker.partitions["t", 0]
        partition.log.high_watermark = 1
        for isolation in (0, 1):
            (answer,) = await list_offsets(client, LATEST, isolation=isolation)
            assert answer.offset == 1
            (answer,) = await list_offsets(client, 20, isolation=isolation)
            assert answer.offset == -1
        (answer,) = await list_offsets(client, LATEST, replica_id=DEBUGGER)
        assert answer.offset == 2
        (answer,) = await list_offsets(client, 20, replica_id=DEBUGGER)
        assert answer.offset == 1


async def test_each_partition_has_its_own_error(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2)
        answers = await list_offsets(client, LATEST, partitions=(0, 1, 1, 7))
        assert [(one.partition_index, one.error_code) for one in answers] == [
            (0, ErrorCode.NONE),
            (1, ErrorCode.INVALID_REQUEST),
            (1, ErrorCode.INVALID_REQUEST),
            (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert [one.offset for one in answers] == [0, -1, -1, -1]
        (answer,) = await list_offsets(client, LATEST, topic="nowhere")
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_leader_epochs_are_fenced(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        under_test.broker.partitions["t", 0].leader_epoch = 3
        for epoch, code in [
            (2, ErrorCode.FENCED_LEADER_EPOCH),
            (3, ErrorCode.NONE),
            (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ]:
            (answer,) = await list_offsets(client, LATEST, leader_epoch=epoch)
            assert answer.error_code == code
            (found,) = await end_of_epoch(client, 0, current=epoch)
            assert found.error_code == code


async def test_a_partition_on_a_failed_disk_has_no_offsets(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2)
        under_test.broker.partitions["t", 0].log.fail(OSError("bad sector"))
        for timestamp in (LATEST, EARLIEST, MAX_TIMESTAMP, 5):
            failed, healthy = await list_offsets(client, timestamp, partitions=(0, 1))
            assert failed.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert healthy.error_code == ErrorCode.NONE
        (found,) = await end_of_epoch(client, 0)
        assert found.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await delete_records(client, 0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR


# --- OffsetForLeaderEpoch ----------------------------------------------------------------------


async def end_of_epoch(
    client: WireClient, epoch: int, *, topic: str = "t", current: int = -1, version: int = 4
) -> list[offset_for_leader_epoch.EpochEndOffset]:
    asked = offset_for_leader_epoch.Partition(
        partition=0, current_leader_epoch=current, leader_epoch=epoch
    )
    request = offset_for_leader_epoch.Request(
        topics=[offset_for_leader_epoch.Topic(topic=topic, partitions=[asked])]
    )
    (answer,) = (await client.ask(request, version, offset_for_leader_epoch.Response)).topics
    assert answer.topic == topic
    return answer.partitions


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_an_epoch_ends_where_the_next_one_began(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        partition = under_test.broker.partitions["t", 0]
        for epoch, count in [(0, 1), (2, 3)]:
            partition.leader_epoch = epoch
            await client.produce("t", *[b"x"] * count)
        partition.leader_epoch = 5
        found: list[tuple[int, int]] = []
        for epoch in (0, 1, 2, 3, 5, 6):
            (answer,) = await end_of_epoch(client, epoch, version=version)
            assert answer.error_code == ErrorCode.NONE
            found.append((answer.leader_epoch, answer.end_offset))
        assert found == [(0, 1), (0, 1), (2, 4), (-1, -1), (5, 4), (-1, -1)]


async def test_the_current_epoch_of_an_empty_log_ends_at_its_end(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        (answer,) = await end_of_epoch(client, 0)
        assert (answer.leader_epoch, answer.end_offset) == (0, 0)


async def test_epochs_of_an_unknown_topic_are_an_error(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        (answer,) = await end_of_epoch(under_test.connect(), 0, topic="nowhere")
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (answer.leader_epoch, answer.end_offset) == (-1, -1)


# --- DeleteRecords -----------------------------------------------------------------------------


async def delete_records(
    client: WireClient, before: int, *, topic: str = "t", partition: int = 0, version: int = 2
) -> delete_records_api.PartitionResult:
    asked = delete_records_api.Partition(partition_index=partition, offset=before)
    request = delete_records_api.Request(
        topics=[delete_records_api.Topic(name=topic, partitions=[asked])], timeout_ms=1000
    )
    response = await client.ask(request, version, delete_records_api.Response)
    return response.topics[0].partitions[0]


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_deleted_records_stay_deleted_after_a_restart(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        for value in (b"a", b"b", b"c"):
            await client.produce("t", value)
        result = await delete_records(client, 2, version=version)
        assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 2)
        assert (await client.fetch("t", 1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert values_of(await client.fetch("t", 2)) == [b"c"]
        result = await delete_records(client, 1, version=version)
        assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 2)
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        assert await offset(client, EARLIEST) == (2, -1, 0)
        result = await delete_records(client, -1, version=version)
        assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 3)
        assert values_of(await client.fetch("t", 3)) == []
        answer = await client.produce("t", b"d")
        assert (answer.base_offset, answer.log_start_offset) == (3, 3)


@pytest.mark.parametrize(
    ("topic", "partition", "before", "code"),
    [
        ("t", 0, 2, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("t", 0, -2, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("t", 1, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("u", 0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("compacted", 0, 0, ErrorCode.POLICY_VIOLATION),
        ("both", 0, 0, ErrorCode.NONE),
        ("__consumer_offsets", 0, 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
async def test_invalid_deletions_are_refused(
    tmp_path: Path, topic: str, partition: int, before: int, code: ErrorCode
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await client.create_topic("compacted", cleanup_policy="compact")
        await client.create_topic("both", cleanup_policy="compact,delete")
        await client.create_topic("__consumer_offsets")
        await client.produce("t", b"a")
        result = await delete_records(client, before, topic=topic, partition=partition)
        assert result.error_code == code
        assert result.low_watermark == (0 if code is ErrorCode.NONE else -1)


async def test_records_above_the_high_watermark_cannot_be_deleted(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await client.produce("t", b"a", b"b")
        under_test.broker.partitions["t", 0].log.high_watermark = 1
        result = await delete_records(client, 2)
        assert result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (await delete_records(client, -1)).low_watermark == 1
