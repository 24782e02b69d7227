"""AlterReplicaLogDirs over the wire: a broker has one directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import alter_replica_log_dirs
from tests.broker.test_cluster import create
from tests.kit.in_process import running_broker, running_cluster
from tests.kit.wire import WireClient


async def move(
    client: WireClient, *moves: tuple[str, str, int], version: int = 2
) -> dict[tuple[str, int], int]:
    """Move each (path, topic, partition); returns the error code of each partition."""
    request = alter_replica_log_dirs.Request(
        dirs=[
            alter_replica_log_dirs.Directory(
                path=path, topics=[alter_replica_log_dirs.Topic(name=topic, partitions=[number])]
            )
            for path, topic, number in moves
        ]
    )
    response = await client.ask(request, version, alter_replica_log_dirs.Response)
    return {
        (topic.topic_name, one.partition_index): one.error_code
        for topic in response.results
        for one in topic.partitions
    }


@pytest.mark.parametrize("version", [1, 2])
async def test_a_replica_is_already_in_the_only_directory(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2)
        here, elsewhere = str(tmp_path), str(tmp_path / "elsewhere")
        found = await move(
            client,
            (here, "t", 0),
            (elsewhere, "t", 1),
            (here, "t", 2),
            (here, "t", -1),
            (here, "nowhere", 0),
            version=version,
        )
        assert found == {
            ("t", 0): ErrorCode.NONE,
            ("t", 1): ErrorCode.LOG_DIR_NOT_FOUND,
            ("t", 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("t", -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert await move(client, (elsewhere, "t", 0), (here, "t", 0)) == {("t", 0): 0}


async def test_a_replica_that_is_offline_does_not_move(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        under_test.broker.partitions["t", 0].log.fail(OSError("the disk is gone"))
        code = ErrorCode.KAFKA_STORAGE_ERROR
        assert await move(client, (str(tmp_path), "t", 0)) == {("t", 0): code}


async def test_a_replica_on_another_broker_is_not_available(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        node = cluster.nodes[1]
        client = node.connect()
        assert await create(client, "t", factor=1) == ErrorCode.NONE
        partitions = node.broker.image.topics["t"].partitions
        here = node.broker.directory.path
        assert await move(client, *((here, "t", one.partition) for one in partitions)) == {
            ("t", one.partition): (
                ErrorCode.NONE if one.replicas == (1,) else ErrorCode.REPLICA_NOT_AVAILABLE
            )
            for one in partitions
        }
        assert any(one.replicas == (1,) for one in partitions)
