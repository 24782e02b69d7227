"""The group service: which partition stores a group, and that a restart is a replay."""

from pathlib import Path

import pytest
import trio
import trio.testing

from minikafka.broker.coordinators.internal_topics import (
    OFFSETS_TOPIC,
    java_string_hash,
    partition_for,
)
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    find_coordinator,
    heartbeat,
    join_group,
    list_groups,
    offset_commit,
    offset_fetch,
)
from tests.kit.in_process import running_broker
from tests.kit.wire import WireClient


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -2147483648),
        ("Größe", 69209585),
        ("\U0001f600", 1772899),
    ],
)
def test_the_hash_is_javas(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


def test_groups_are_partitioned_by_the_hash_without_its_sign() -> None:
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("hello", 50) == 99162322 % 50


async def find(client: WireClient, key: str, key_type: int = 0) -> find_coordinator.Response:
    request = find_coordinator.Request(key_type=key_type, coordinator_keys=[key])
    return await client.ask(request, 4, find_coordinator.Response)


async def commit(client: WireClient, group: str, offsets: dict[tuple[str, int], int]) -> list[int]:
    request = offset_commit.Request(
        group_id=group,
        member_id="",
        topics=[
            offset_commit.RequestTopic(
                name=topic,
                partitions=[
                    offset_commit.RequestPartition(
                        partition_index=number, committed_offset=offset, committed_metadata="note"
                    )
                ],
            )
            for (topic, number), offset in offsets.items()
        ],
    )
    answer = await client.ask(request, 8, offset_commit.Response)
    return [one.error_code for topic in answer.topics for one in topic.partitions]


async def fetch_offset(client: WireClient, group: str, topic: str, number: int) -> int:
    request = offset_fetch.Request(
        groups=[
            offset_fetch.RequestGroup(
                group_id=group,
                topics=[offset_fetch.RequestGroupTopic(name=topic, partition_indexes=[number])],
            )
        ]
    )
    answer = await client.ask(request, 8, offset_fetch.Response)
    assert answer.groups[0].error_code == ErrorCode.NONE
    return answer.groups[0].topics[0].partitions[0].committed_offset


async def test_the_first_request_creates_the_offsets_topic(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        answer = await find(under_test.connect(), "g")
        coordinator = answer.coordinators[0]
        assert (coordinator.error_code, coordinator.node_id) == (0, 1)
        assert (coordinator.host, coordinator.port) == ("broker.test", 9092)
        topic = under_test.broker.topics[OFFSETS_TOPIC]
        assert len(under_test.broker.image.topics[OFFSETS_TOPIC].partitions) == 50
        assert topic.log_config.cleanup_compact
        assert not topic.log_config.cleanup_delete


@pytest.mark.parametrize("key_type", [2, 9])
async def test_unsupported_coordinator_types_get_a_permanent_error(
    tmp_path: Path, key_type: int
) -> None:
    async with running_broker(tmp_path) as under_test:
        answer = await find(under_test.connect(), "g", key_type)
        code = ErrorCode(answer.coordinators[0].error_code)
        assert code is not ErrorCode.NONE
        assert not code.is_retriable


async def test_before_the_topic_exists_a_group_has_no_coordinator(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        request = heartbeat.Request(group_id="g", generation_id=1, member_id="m")
        answer = await client.ask(request, 4, heartbeat.Response)
        assert answer.error_code == ErrorCode.NOT_COORDINATOR


async def test_committed_offsets_survive_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=2)
        await find(client, "g")
        assert await commit(client, "g", {("t", 0): 41, ("t", 1): 7}) == [0, 0]
        assert await commit(client, "g", {("t", 0): 42}) == [0]
        assert await fetch_offset(client, "g", "t", 0) == 42
        assert await fetch_offset(client, "stranger", "t", 0) == -1
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        while under_test.broker.groups.runtime.is_loading:
            await trio.testing.wait_all_tasks_blocked()
        assert await fetch_offset(client, "g", "t", 0) == 42
        assert await fetch_offset(client, "g", "t", 1) == 7


async def test_offsets_of_unknown_topics_are_refused_individually(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await find(client, "g")
        codes = await commit(client, "g", {("t", 0): 1, ("gone", 0): 1})
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert sorted(codes) == [ErrorCode.NONE, unknown]
        assert await commit(client, "g", {("t", 5): 1}) == [unknown]


async def test_old_offset_fetch_versions_have_one_group(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await find(client, "g")
        await commit(client, "g", {("t", 0): 5})
        wanted = [offset_fetch.RequestTopic(name="t", partition_indexes=[0])]
        for version in range(1, 8):
            request = offset_fetch.Request(group_id="g", topics=wanted)
            answer = await client.ask(request, version, offset_fetch.Response)
            partition = answer.topics[0].partitions[0]
            assert (partition.committed_offset, partition.metadata) == (5, "note")


async def test_offsets_by_topic_id(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await find(client, "g")
        topic_id = under_test.broker.image.topics["t"].topic_id
        stranger = b"0123456789abcdef"
        request = offset_commit.Request(
            group_id="g",
            member_id="",
            topics=[
                offset_commit.RequestTopic(
                    topic_id=one,
                    partitions=[
                        offset_commit.RequestPartition(
                            partition_index=0, committed_offset=3, committed_metadata=None
                        )
                    ],
                )
                for one in (topic_id, stranger)
            ],
        )
        committed = await client.ask(request, 10, offset_commit.Response)
        codes = {one.topic_id: one.partitions[0].error_code for one in committed.topics}
        assert codes == {topic_id: 0, stranger: ErrorCode.UNKNOWN_TOPIC_ID}
        fetch = offset_fetch.Request(
            groups=[
                offset_fetch.RequestGroup(
                    group_id="g",
                    topics=[
                        offset_fetch.RequestGroupTopic(topic_id=one, partition_indexes=[0])
                        for one in (topic_id, stranger)
                    ],
                )
            ]
        )
        answer = await client.ask(fetch, 10, offset_fetch.Response)
        found = {
            one.topic_id: (one.partitions[0].committed_offset, one.partitions[0].error_code)
            for one in answer.groups[0].topics
        }
        assert found == {topic_id: (3, 0), stranger: (-1, ErrorCode.UNKNOWN_TOPIC_ID)}


async def test_deleting_a_topic_deletes_its_offsets(tmp_path: Path) -> None:
    from minikafka.protocol.messages import delete_topics

    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await find(client, "g")
        await commit(client, "g", {("t", 0): 5})
        request = delete_topics.Request(topic_names=["t"], timeout_ms=1000)
        await client.ask(request, 3, delete_topics.Response)
        await client.create_topic("t")
        assert await fetch_offset(client, "g", "t", 0) == -1


def join_request(member_id: str, session_timeout_ms: int = 6000) -> join_group.Request:
    return join_group.Request(
        group_id="g",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=6000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[join_group.Protocol(name="range", metadata=b"\x00\x00")],
    )


async def test_a_join_waits_for_its_group_and_sessions_end_by_the_clock(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running_broker(
        tmp_path, "offsets.topic.num.partitions=1", "log.cleaner.enable=false"
    ) as under_test:
        client = under_test.connect()
        # Create the topic before the clock may jump over a worker thread.
        autojump_clock.autojump_threshold = float("inf")
        await find(client, "g")
        autojump_clock.autojump_threshold = 0
        first = await client.ask(join_request(""), 5, join_group.Response)
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        joined = await client.ask(join_request(first.member_id), 5, join_group.Response)
        assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, first.member_id)
        listed = await client.ask(list_groups.Request(), 4, list_groups.Response)
        assert [(one.group_id, one.group_state) for one in listed.groups] == [
            ("g", "CompletingRebalance")
        ]
        await trio.sleep(60)
        beat = heartbeat.Request(group_id="g", generation_id=1, member_id=first.member_id)
        gone = await client.ask(beat, 4, heartbeat.Response)
        assert gone.error_code == ErrorCode.UNKNOWN_MEMBER_ID
