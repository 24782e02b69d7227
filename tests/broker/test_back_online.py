"""Partitions that were offline or could not be created come back without a restart."""

import errno
from pathlib import Path

import pytest
import trio
import trio.testing

from minikafka.broker.coordinators.internal_topics import OFFSETS_TOPIC
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import fetch
from minikafka.storage.disk import FileSlice
from minikafka.storage.errors import StorageError
from minikafka.storage.log_directory import LogDirectory
from tests.broker.test_groups import commit, fetch_offset, find
from tests.kit.in_process import running_broker
from tests.kit.wire import fetch_request, values_of

ONE_SHARD = "offsets.topic.num.partitions=1"


def flip_a_bit_in(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)


async def test_groups_are_loaded_once_their_damaged_partition_is_repaired(tmp_path: Path) -> None:
    async with running_broker(tmp_path, ONE_SHARD) as under_test:
        client = under_test.connect()
        await find(client, "g")
        await client.create_topic("t")
        for offset in (1, 2, 3):
            assert await commit(client, "g", {("t", 0): offset}) == [ErrorCode.NONE]
    flip_a_bit_in(tmp_path / f"{OFFSETS_TOPIC}-0" / "00000000000000000000.log")
    async with running_broker(tmp_path, ONE_SHARD) as under_test:
        client = under_test.connect()
        await trio.testing.wait_all_tasks_blocked()
        assert await commit(client, "g", {("t", 0): 4}) != [ErrorCode.NONE]
        await under_test.broker.maintenance.repair_damaged()
        await trio.testing.wait_all_tasks_blocked()
        assert await fetch_offset(client, "g", "t", 0) == 3
        assert await commit(client, "g", {("t", 0): 4}) == [ErrorCode.NONE]


async def test_groups_are_loaded_when_their_disk_works_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path, ONE_SHARD) as under_test:
        client = under_test.connect()
        await find(client, "g")
        await client.create_topic("t")
        await commit(client, "g", {("t", 0): 7})

    def fail(_: FileSlice) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(FileSlice, "read", fail)
        async with running_broker(tmp_path, ONE_SHARD) as under_test:
            client = under_test.connect()
            await trio.testing.wait_all_tasks_blocked()
            assert under_test.broker.index.is_offline(OFFSETS_TOPIC, 0)
            broken.undo()
            await under_test.broker.maintenance.reopen_offline()
            await trio.testing.wait_all_tasks_blocked()
            assert await fetch_offset(client, "g", "t", 0) == 7


async def test_a_log_that_could_not_be_created_is_created_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StorageError("no space left")

    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        with monkeypatch.context() as broken:
            broken.setattr(LogDirectory, "create_log", fail)
            await client.create_topic("t", partitions=2)
        answer = await client.produce("t", b"x")
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await under_test.broker.maintenance.reopen_offline()
        assert (await client.produce("t", b"x", partition=1)).error_code == ErrorCode.NONE


async def test_a_long_poll_continues_with_a_recovered_partition(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        producer, consumer = under_test.connect(), under_test.connect()
        await producer.create_topic("t")
        await producer.produce("t", b"before")
        await consumer.send(fetch_request("t", 1, max_wait_ms=600_000), 11)
        await trio.testing.wait_all_tasks_blocked()
        under_test.broker.partitions["t", 0].log.fail(OSError(errno.EIO, "Input/output error"))
        await under_test.broker.maintenance.reopen_offline()
        assert (await producer.produce("t", b"after")).base_offset == 1
        _, answer = await consumer.receive(fetch.Response, 11)
        assert values_of(answer.responses[0].partitions[0]) == [b"after"]


async def test_a_partition_deleted_while_offline_is_not_reopened(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        await under_test.connect().create_topic("t")
        under_test.broker.directory.delete_log("t", 0, unique_suffix="1")
        await under_test.broker.replicas.reopen("t", 0)
        await under_test.broker.replicas.reopen("u", 0)
        assert ("t", 0) not in under_test.broker.directory.logs


async def test_a_partition_being_created_makes_clients_refresh_metadata(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        partition = under_test.broker.partitions.pop(("t", 0))
        produced = await client.produce("t", b"x")
        fetched = await client.fetch("t", 0)
        assert produced.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert fetched.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        under_test.broker.partitions["t", 0] = partition
        assert (await client.produce("t", b"x")).error_code == ErrorCode.NONE
