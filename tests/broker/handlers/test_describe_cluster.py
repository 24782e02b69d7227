"""DescribeCluster, DescribeLogDirs and DescribeTopicPartitions over the wire."""

from pathlib import Path

import pytest

from minikafka.broker.handlers.authorization import (
    CLUSTER_OPERATIONS,
    NOT_ASKED,
    TOPIC_OPERATIONS,
)
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fields import ZERO_UUID
from minikafka.protocol.messages import (
    describe_cluster,
    describe_log_dirs,
    describe_topic_partitions,
)
from minikafka.storage.log_directory import DirectoryStatistics
from tests.kit.in_process import running_broker
from tests.kit.wire import WireClient

# --- DescribeCluster ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("asked", [True, False])
async def test_the_cluster_is_this_broker(tmp_path: Path, version: int, asked: bool) -> None:
    async with running_broker(tmp_path, "node.id=7", "broker.rack=r1") as under_test:
        request = describe_cluster.Request(include_cluster_authorized_operations=asked)
        response = await under_test.connect().ask(request, version, describe_cluster.Response)
        assert response.error_code == ErrorCode.NONE
        assert response.cluster_id == under_test.broker.store.cluster_id
        assert response.controller_id == 7
        (one,) = response.brokers
        assert (one.broker_id, one.host, one.port, one.rack) == (7, "broker.test", 9092, "r1")
        assert not one.is_fenced
        expected = CLUSTER_OPERATIONS if asked else NOT_ASKED
        assert response.cluster_authorized_operations == expected


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
async def test_there_are_no_controller_endpoints(
    tmp_path: Path, endpoint_type: int, code: ErrorCode
) -> None:
    async with running_broker(tmp_path) as under_test:
        request = describe_cluster.Request(
            include_cluster_authorized_operations=False, endpoint_type=endpoint_type
        )
        response = await under_test.connect().ask(request, 1, describe_cluster.Response)
        assert (response.error_code, response.brokers) == (code, [])
        assert response.error_message
        assert response.endpoint_type == endpoint_type


# --- DescribeLogDirs ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
async def test_the_directory_shows_all_partitions_and_their_sizes(
    tmp_path: Path, version: int
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("b", partitions=2)
        await client.create_topic("a")
        await client.produce("b", b"x" * 1000, partition=1)
        response = await client.ask(
            describe_log_dirs.Request(topics=None), version, describe_log_dirs.Response
        )
        (result,) = response.results
        assert (result.error_code, result.log_dir) == (ErrorCode.NONE, str(tmp_path))
        sizes = {
            (topic.name, one.partition_index): one.partition_size
            for topic in result.topics
            for one in topic.partitions
        }
        assert list(sizes) == [("a", 0), ("b", 0), ("b", 1)]
        stored = [path.stat().st_size for path in (tmp_path / "b-1").glob("*.log")]
        assert list(sizes.values()) == [0, 0, sum(stored)]
        for topic in result.topics:
            for one in topic.partitions:
                assert (one.offset_lag, one.is_future_key) == (0, False)
        if version >= 4:
            assert 0 < result.usable_bytes <= result.total_bytes
        else:
            assert (result.usable_bytes, result.total_bytes) == (-1, -1)
        assert not result.is_cordoned


async def test_only_requested_partitions_with_a_local_replica_are_described(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("a", partitions=3)
        asked = [
            describe_log_dirs.DescribableLogDirTopic(topic="a", partitions=[2, 1, 1, 9]),
            describe_log_dirs.DescribableLogDirTopic(topic="nowhere", partitions=[0]),
        ]
        response = await client.ask(
            describe_log_dirs.Request(topics=asked), 4, describe_log_dirs.Response
        )
        (topic,) = response.results[0].topics
        assert topic.name == "a"
        assert [one.partition_index for one in topic.partitions] == [1, 2]


async def test_a_failing_disk_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> DirectoryStatistics:
        raise OSError("the disk is gone")

    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        with monkeypatch.context() as patch:
            patch.setattr(type(under_test.broker.directory), "statistics", lambda _: fail())
            request = describe_log_dirs.Request(topics=None)
            response = await client.ask(request, 4, describe_log_dirs.Response)
        assert response.results[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_an_unknown_disk_size_is_minus_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str) -> None:
        raise OSError("no such disk")

    async with running_broker(tmp_path) as under_test:
        monkeypatch.setattr("shutil.disk_usage", fail)
        request = describe_log_dirs.Request(topics=None)
        response = await under_test.connect().ask(request, 4, describe_log_dirs.Response)
        assert response.results[0].total_bytes == -1
        assert response.results[0].error_code == ErrorCode.NONE


# --- DescribeTopicPartitions -------------------------------------------------------------------


async def describe(
    client: WireClient,
    *names: str,
    limit: int = 2000,
    cursor: tuple[str, int] | None = None,
) -> describe_topic_partitions.Response:
    request = describe_topic_partitions.Request(
        topics=[describe_topic_partitions.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None
        if cursor is None
        else describe_topic_partitions.CursorRequest(
            topic_name=cursor[0], partition_index=cursor[1]
        ),
    )
    return await client.ask(request, 0, describe_topic_partitions.Response)


def shown(response: describe_topic_partitions.Response) -> list[tuple[str | None, list[int]]]:
    return [
        (topic.name, [one.partition_index for one in topic.partitions]) for topic in response.topics
    ]


async def test_a_topic_is_described_exactly(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        response = await describe(client, "t")
        assert response.next_cursor is None
        (topic,) = response.topics
        assert (topic.error_code, topic.name, topic.is_internal) == (ErrorCode.NONE, "t", False)
        assert topic.topic_id == under_test.broker.image.topics["t"].topic_id
        assert topic.topic_authorized_operations == TOPIC_OPERATIONS
        (one,) = topic.partitions
        assert (one.error_code, one.partition_index, one.leader_id, one.leader_epoch) == (
            0,
            0,
            1,
            0,
        )
        assert (one.replica_nodes, one.isr_nodes, one.offline_replicas) == ([1], [1], [])
        assert (one.eligible_leader_replicas, one.last_known_elr) == ([], [])


async def test_a_partition_whose_disk_failed_has_no_leader(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2)
        under_test.broker.partitions["t", 1].log.fail(OSError("bad sector"))
        healthy, failed = (await describe(client, "t")).topics[0].partitions
        assert (healthy.error_code, healthy.leader_id) == (ErrorCode.NONE, 1)
        assert (failed.error_code, failed.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        assert (failed.replica_nodes, failed.offline_replicas) == ([1], [1])


async def test_topics_are_sorted_and_include_requested_ones_that_do_not_exist(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        for name in ("c", "a", "__consumer_offsets"):
            await client.create_topic(name)
        every = await describe(client)
        assert shown(every) == [("__consumer_offsets", [0]), ("a", [0]), ("c", [0])]
        assert [topic.is_internal for topic in every.topics] == [True, False, False]
        some = (await describe(client, "c", "b", "a b", "c")).topics
        assert [(topic.name, topic.error_code, topic.topic_id != ZERO_UUID) for topic in some] == [
            ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION, False),
            ("b", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
            ("c", ErrorCode.NONE, True),
        ]


async def test_a_page_can_end_inside_a_topic_and_the_cursor_continues_there(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("a", partitions=3)
        await client.create_topic("b", partitions=2)
        first = await describe(client, limit=2)
        assert shown(first) == [("a", [0, 1])]
        assert first.next_cursor == describe_topic_partitions.CursorResponse(
            topic_name="a", partition_index=2
        )
        second = await describe(client, limit=2, cursor=("a", 2))
        assert shown(second) == [("a", [2]), ("b", [0])]
        assert second.next_cursor == describe_topic_partitions.CursorResponse(
            topic_name="b", partition_index=1
        )
        third = await describe(client, "a", "b", limit=2, cursor=("b", 1))
        assert shown(third) == [("b", [1])]
        assert third.next_cursor is None


async def test_the_brokers_limit_bounds_the_requests_limit(tmp_path: Path) -> None:
    async with running_broker(tmp_path, "max.request.partition.size.limit=2") as under_test:
        client = under_test.connect()
        await client.create_topic("a", partitions=2)
        await client.create_topic("b")
        response = await describe(client, limit=100)
        assert shown(response) == [("a", [0, 1])]
        assert response.next_cursor == describe_topic_partitions.CursorResponse(
            topic_name="b", partition_index=0
        )
        assert shown(await describe(client, limit=0)) == [("a", [0])]


@pytest.mark.parametrize("cursor", [("b", 0), ("a", -1)])
async def test_an_impossible_cursor_is_refused(tmp_path: Path, cursor: tuple[str, int]) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("a")
        response = await describe(client, "a", cursor=cursor)
        assert [topic.error_code for topic in response.topics] == [ErrorCode.INVALID_REQUEST]


async def test_a_cursor_on_a_deleted_topic_continues_after_it(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("a")
        await client.create_topic("c", partitions=2)
        assert shown(await describe(client, cursor=("b", 1))) == [("c", [0, 1])]
        assert shown(await describe(client, cursor=("d", 0))) == []
        asked = await describe(client, "b", "c", cursor=("b", 1))
        assert shown(asked) == [("b", []), ("c", [0, 1])]
