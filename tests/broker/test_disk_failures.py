"""A failing disk: errors for clients, what survives, and how partitions come back."""

import errno
from pathlib import Path

import pytest

from minikafka.broker.replicas import maintenance
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import create_topics, metadata
from minikafka.storage.disk import RealFile
from minikafka.storage.log import FlushWork
from tests.kit.in_process import running_broker
from tests.kit.wire import WireClient, creatable, create_request, values_of

NO_SPACE = OSError(errno.ENOSPC, "No space left on device")


async def leader_of(client: WireClient, topic: str) -> tuple[int, int, list[int]]:
    request = metadata.Request(topics=[metadata.RequestTopic(name=topic)])
    answer = await client.ask(request, 9, metadata.Response)
    partition = answer.topics[0].partitions[0]
    return partition.error_code, partition.leader_id, partition.offline_replicas


async def test_a_partition_whose_disk_failed_is_offline_and_comes_back_intact(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2)
        await client.produce("t", b"before")
        under_test.broker.partitions["t", 0].log.fail(NO_SPACE)

        refused = await client.produce("t", b"lost")
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "No space left" in str(refused.error_message)
        assert (await client.fetch("t", 0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert await leader_of(client, "t") == (ErrorCode.LEADER_NOT_AVAILABLE, -1, [1])
        assert (await client.produce("t", b"fine", partition=1)).error_code == ErrorCode.NONE

        await under_test.broker.maintenance.reopen_offline()
        assert await leader_of(client, "t") == (ErrorCode.NONE, 1, [])
        assert (await client.produce("t", b"after")).base_offset == 1
        assert values_of(await client.fetch("t", 0)) == [b"before", b"after"]


async def test_while_the_disk_is_full_nothing_is_reopened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "_REOPEN_FREE_BYTES_MIN", 2**63)
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        under_test.broker.partitions["t", 0].log.fail(NO_SPACE)
        await under_test.broker.maintenance.reopen_offline()
        assert under_test.broker.index.is_offline("t", 0)


async def test_a_failed_sync_is_never_an_acknowledgement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", flush_messages="1")
        await client.produce("t", b"durable")
        log = under_test.broker.partitions["t", 0].log

        def fail(_: object) -> None:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(FlushWork, "run", fail)
        refused = await client.produce("t", b"not durable")
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert refused.base_offset == -1
        assert log.high_watermark == 1
        again = await client.produce("t", b"nor this")
        assert again.error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_metadata_log_that_cannot_be_synced_refuses_changes_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as under_test:
        client, other = under_test.connect(), under_test.connect()
        await client.create_topic("t")

        def fail(*_: object) -> None:
            raise NO_SPACE

        with monkeypatch.context() as broken:
            broken.setattr(RealFile, "fsync", fail)
            request = create_request(creatable("u"))
            refused = await client.ask(request, 7, create_topics.Response)
            assert refused.topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "u" not in under_test.broker.image.topics
        refused = await other.ask(request, 7, create_topics.Response)
        assert refused.topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "started again" in (refused.topics[0].error_message or "")
        healthy = under_test.connect()
        assert (await healthy.produce("t", b"x")).error_code == ErrorCode.NONE
