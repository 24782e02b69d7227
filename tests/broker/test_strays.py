"""Logs that the metadata does not know: deleted, restored or set aside, never lost by accident."""

import os
import shutil
from pathlib import Path

from minikafka.broker.coordinators.internal_topics import OFFSETS_TOPIC
from minikafka.broker.replicas.strays import StrayLogs, decide_strays
from minikafka.metadata.image import RESOURCE_TOPIC, MetadataImage
from minikafka.metadata.records import PartitionRecord, SettingRecord, TopicRecord
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import delete_topics, init_producer_id
from minikafka.protocol.records import encode_batch
from tests.broker.test_groups import commit, fetch_offset, find
from tests.kit.in_process import running_broker
from tests.kit.wire import WireClient, values_of

ID, OTHER_ID = b"i" * 16, b"o" * 16


def image_of(*records: TopicRecord | PartitionRecord) -> MetadataImage:
    image = MetadataImage()
    for record in records:
        image.replay(record)
    return image


def partition(topic_id: bytes, number: int) -> PartitionRecord:
    return PartitionRecord(topic_id, number, (1,), (1,), 1, 0, 0)


def test_partitions_in_the_metadata_are_not_strays() -> None:
    image = image_of(TopicRecord("t", ID), partition(ID, 0))
    assert decide_strays(image, {("t", 0): ID}, (), 1, {}) == StrayLogs([], [], [])


def test_a_topic_that_was_removed_is_deleted() -> None:
    strays = decide_strays(MetadataImage(), {("t", 0): ID, ("t", 1): ID}, {ID}, 1, {})
    assert strays == StrayLogs([("t", 0), ("t", 1)], [], [])


def test_a_topic_that_was_not_removed_is_restored_without_retention() -> None:
    strays = decide_strays(MetadataImage(), {("t", 1): ID}, {OTHER_ID}, 1, {})
    assert strays.restored == [
        TopicRecord("t", ID),
        SettingRecord(RESOURCE_TOPIC, "t", "retention.ms", "-1"),
        SettingRecord(RESOURCE_TOPIC, "t", "retention.bytes", "-1"),
        partition(ID, 0),
        partition(ID, 1),
    ]
    assert not strays.deleted
    assert not strays.set_aside


def test_partitions_that_were_added_last_are_restored() -> None:
    image = image_of(TopicRecord("t", ID), partition(ID, 0))
    strays = decide_strays(image, {("t", 0): ID, ("t", 1): ID, ("t", 2): ID}, (), 1, {})
    assert strays.restored == [partition(ID, 1), partition(ID, 2)]


def test_logs_that_match_no_topic_are_set_aside() -> None:
    image = image_of(TopicRecord("t", ID), partition(ID, 0))
    for key, topic_id in (
        (("t", 0), OTHER_ID),  # another topic has the name
        (("u", 0), ID),  # another topic has the id
        (("not a name", 0), OTHER_ID),
        (("v", 10_000_000), OTHER_ID),
    ):
        assert decide_strays(image, {key: topic_id}, (), 1, {}) == StrayLogs([], [], [key])
    two = decide_strays(image, {("u", 0): OTHER_ID, ("u", 1): b"x" * 16}, (), 1, {})
    assert two.set_aside == [("u", 1)]


async def delete_topic(client: WireClient, name: str) -> None:
    request = delete_topics.Request(topic_names=[name], timeout_ms=1000)
    answer = await client.ask(request, 5, delete_topics.Response)
    assert answer.responses[0].error_code == ErrorCode.NONE


async def test_a_lost_metadata_log_loses_no_records_and_no_offsets(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2, retention_ms="1000000000000")
        await client.produce("t", b"kept", partition=1)
        await find(client, "g")
        assert await commit(client, "g", {("t", 1): 1}) == [ErrorCode.NONE]
    (tmp_path / "quorum.log").unlink()
    for _ in range(2):
        async with running_broker(tmp_path) as under_test:
            client = under_test.connect()
            assert values_of(await client.fetch("t", 0, partition=1)) == [b"kept"]
            assert await fetch_offset(client, "g", "t", 1) == 1
            assert under_test.broker.topics[OFFSETS_TOPIC].log_config.cleanup_compact
            log_config = under_test.broker.partitions["t", 1].log.config
            assert (log_config.retention_ms, log_config.retention_bytes) == (-1, -1)


async def test_a_damaged_end_of_the_metadata_log_loses_no_records(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("deleted")
        await delete_topic(client, "deleted")
        await client.create_topic("t")
        await client.produce("t", b"kept")
    path = tmp_path / "quorum.log"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    async with running_broker(tmp_path) as under_test:
        assert values_of(await under_test.connect().fetch("t", 0)) == [b"kept"]
        assert "deleted" not in under_test.broker.topics
    assert sum(name.startswith("quorum.log.cut-at-") for name in os.listdir(tmp_path)) == 1


async def test_a_deleted_topics_files_do_not_bring_it_back(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "data") as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await client.produce("t", b"old")
        shutil.copytree(tmp_path / "data" / "t-0", tmp_path / "t-0")
        await delete_topic(client, "t")
    shutil.copytree(tmp_path / "t-0", tmp_path / "data" / "t-0")  # as if killed before the rename
    async with running_broker(tmp_path / "data") as under_test:
        assert "t" not in under_test.broker.topics
        client = under_test.connect()
        await client.create_topic("t")
        assert values_of(await client.fetch("t", 0)) == []


async def test_the_records_of_an_older_topic_of_that_name_are_set_aside(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "data") as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await client.produce("t", b"old")
    (tmp_path / "data" / "quorum.log").unlink()
    (tmp_path / "data" / "t-0").rename(tmp_path / "t-0")
    async with running_broker(tmp_path / "data") as under_test:
        await under_test.connect().create_topic("t", partitions=2)
    shutil.rmtree(tmp_path / "data" / "t-0")
    (tmp_path / "t-0").rename(tmp_path / "data" / "t-0")
    async with running_broker(tmp_path / "data") as under_test:
        assert values_of(await under_test.connect().fetch("t", 0)) == []
    (stray,) = (tmp_path / "data").glob("t-0.*-stray")
    assert b"old" in (stray / "00000000000000000000.log").read_bytes()


async def test_a_partition_that_lost_its_identity_keeps_its_records(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await client.produce("t", b"kept")
    (tmp_path / "t-0" / "partition.metadata").write_bytes(b"")
    async with running_broker(tmp_path) as under_test:
        assert values_of(await under_test.connect().fetch("t", 0)) == [b"kept"]


async def new_producer_id(client: WireClient) -> int:
    request = init_producer_id.Request(transactional_id=None, transaction_timeout_ms=1000)
    return (await client.ask(request, 3, init_producer_id.Response)).producer_id


async def test_producer_ids_are_not_reused_without_the_metadata_log(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        idle = await new_producer_id(client)
        batch = encode_batch(
            [(None, b"v", (), 1)], producer_id=idle + 5000, producer_epoch=0, base_sequence=0
        )
        await client.produce("t", batch=bytes(batch))
    (tmp_path / "quorum.log").unlink()
    async with running_broker(tmp_path) as under_test:
        assert await new_producer_id(under_test.connect()) > idle + 5000
