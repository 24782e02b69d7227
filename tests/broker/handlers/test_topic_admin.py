"""CreateTopics, DeleteTopics and CreatePartitions over the wire."""

from pathlib import Path

import pytest

from minikafka.metadata.setting_table import TOPIC_SETTINGS
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fields import ZERO_UUID
from minikafka.protocol.messages import (
    create_partitions,
    create_topics,
    delete_groups,
    delete_topics,
    metadata,
)
from tests.kit.in_process import running_broker
from tests.kit.wire import WireClient, creatable, values_of


async def create(
    client: WireClient,
    *topics: create_topics.CreatableTopic,
    version: int = 7,
    validate_only: bool = False,
) -> create_topics.Response:
    request = create_topics.Request(topics=list(topics), validate_only=validate_only)
    return await client.ask(request, version, create_topics.Response)


async def partition_counts(client: WireClient) -> dict[str | None, int]:
    response = await client.ask(metadata.Request(topics=None), 12, metadata.Response)
    return {one.name: len(one.partitions) for one in response.topics}


# --- CreateTopics ------------------------------------------------------------------------------


async def test_a_created_topic_is_visible_immediately(tmp_path: Path) -> None:
    async with running_broker(tmp_path, "log.segment.bytes=4096") as under_test:
        client = under_test.connect()
        (made,) = (await create(client, creatable("t", 3, retention_ms="5"))).topics
        assert (made.error_code, made.error_message) == (ErrorCode.NONE, None)
        assert (made.num_partitions, made.replication_factor) == (3, 1)
        assert made.topic_id == under_test.broker.image.topics["t"].topic_id != ZERO_UUID
        assert made.configs is not None
        configs = {one.name: (one.value, one.config_source) for one in made.configs}
        assert set(configs) == set(TOPIC_SETTINGS)
        assert configs["retention.ms"] == ("5", 1)
        assert configs["segment.bytes"] == ("4096", 4)
        assert configs["cleanup.policy"] == ("delete", 5)
        assert not any(one.read_only or one.is_sensitive for one in made.configs)
        assert (await client.produce("t", b"x", partition=2)).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", range(2, 8))
async def test_every_version_creates(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path, "num.partitions=4") as under_test:
        client = under_test.connect()
        given = creatable("t") if version < 4 else creatable("t", -1, -1)
        (made,) = (await create(client, given, version=version)).topics
        assert made.error_code == ErrorCode.NONE
        assert await partition_counts(client) == {"t": 1 if version < 4 else 4}


async def test_validating_answers_the_same_and_creates_nothing(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        response = await create(client, creatable("t", 3), creatable("u", 0), validate_only=True)
        made, refused = response.topics
        assert (made.num_partitions, refused.error_code) == (3, ErrorCode.INVALID_PARTITIONS)
        assert await partition_counts(client) == {}


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (creatable("old"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (creatable("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creatable("o", factor=2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (creatable("o", no_such="1"), ErrorCode.INVALID_CONFIG),
        (creatable("o", retention_ms=None), ErrorCode.INVALID_CONFIG),
    ],
)
async def test_invalid_topics_are_refused_with_a_message(
    tmp_path: Path, wanted: create_topics.CreatableTopic, code: ErrorCode
) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await create(client, creatable("old"))
        (refused,) = (await create(client, wanted)).topics
        assert (refused.name, refused.error_code) == (wanted.name, code)
        assert refused.error_message
        assert (refused.num_partitions, refused.replication_factor) == (-1, -1)


async def test_a_duplicate_name_gets_one_answer(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        (refused,) = (await create(client, creatable("t"), creatable("t"))).topics
        assert refused.error_code == ErrorCode.INVALID_REQUEST


async def test_many_topics_are_created_and_deleted_with_their_own_settings(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        names = [f"t-{number}" for number in range(100)]
        wanted = [creatable(name, retention_ms=str(len(name))) for name in names]
        made = (await create(client, *wanted)).topics
        for one in made:
            assert one.configs is not None
            (retention,) = (entry for entry in one.configs if entry.name == "retention.ms")
            assert retention.value == str(len(one.name))
        assert await partition_counts(client) == dict.fromkeys(names, 1)
        request = delete_topics.Request(topic_names=names, timeout_ms=1000)
        response = await client.ask(request, 5, delete_topics.Response)
        assert {one.error_code for one in response.responses} == {ErrorCode.NONE}
        assert await partition_counts(client) == {}


async def test_groups_work_after_a_client_created_the_offsets_topic(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        (made,) = (await create(client, creatable("__consumer_offsets", 3))).topics
        assert made.error_code == ErrorCode.NONE
        request = delete_groups.Request(groups_names=["g"])
        for version, words in ((2, None), (3, "Group 'g' does not exist.")):
            response = await client.ask(request, version, delete_groups.Response)
            assert response.results[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
            assert response.results[0].error_message == words


# --- DeleteTopics ------------------------------------------------------------------------------


async def test_topics_are_deleted_by_name_or_id_and_can_be_recreated(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        made = (await create(client, creatable("a", 2), creatable("b"))).topics
        await client.produce("a", b"old")
        request = delete_topics.Request(
            topics=[
                delete_topics.TopicState(name="a", topic_id=ZERO_UUID),
                delete_topics.TopicState(name=None, topic_id=made[1].topic_id),
            ],
            timeout_ms=1000,
        )
        response = await client.ask(request, 6, delete_topics.Response)
        assert [(one.name, one.topic_id, one.error_code) for one in response.responses] == [
            ("a", made[0].topic_id, ErrorCode.NONE),
            ("b", made[1].topic_id, ErrorCode.NONE),
        ]
        assert await partition_counts(client) == {}
        assert not under_test.broker.partitions
        assert not under_test.broker.topics
        assert (await client.fetch("a", 0)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        (again,) = (await create(client, creatable("a"))).topics
        assert again.topic_id != made[0].topic_id
        assert values_of(await client.fetch("a", 0)) == []


@pytest.mark.parametrize("version", range(1, 6))
async def test_older_versions_delete_by_name(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await create(client, creatable("a"))
        request = delete_topics.Request(topic_names=["a", "b"], timeout_ms=1000)
        response = await client.ask(request, version, delete_topics.Response)
        assert [(one.name, one.error_code) for one in response.responses] == [
            ("a", ErrorCode.NONE),
            ("b", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert bool(response.responses[1].error_message) == (version >= 5)


@pytest.mark.parametrize(
    ("version", "code"),
    [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)],
)
async def test_deletion_can_be_disabled(tmp_path: Path, version: int, code: ErrorCode) -> None:
    async with running_broker(tmp_path, "delete.topic.enable=false") as under_test:
        client = under_test.connect()
        await create(client, creatable("a"))
        request = delete_topics.Request(topic_names=["a"], timeout_ms=1000)
        response = await client.ask(request, version, delete_topics.Response)
        assert response.responses[0].error_code == code
        assert await partition_counts(client) == {"a": 1}


async def test_a_topic_named_by_name_and_id_is_not_deleted(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        (made,) = (await create(client, creatable("a"))).topics
        both = delete_topics.TopicState(name="a", topic_id=made.topic_id)
        request = delete_topics.Request(topics=[both], timeout_ms=1000)
        response = await client.ask(request, 6, delete_topics.Response)
        assert response.responses[0].error_code == ErrorCode.INVALID_REQUEST
        assert await partition_counts(client) == {"a": 1}


async def test_created_and_deleted_topics_survive_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        made = (await create(client, creatable("a", 2, retention_ms="7"), creatable("b"))).topics
        request = delete_topics.Request(topic_names=["b"], timeout_ms=1000)
        await client.ask(request, 5, delete_topics.Response)
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        assert await partition_counts(client) == {"a": 2}
        asked = metadata.RequestTopic(name=None, topic_id=made[0].topic_id)
        response = await client.ask(metadata.Request(topics=[asked]), 12, metadata.Response)
        assert response.topics[0].name == "a"
        assert under_test.broker.topics["a"].values["retention.ms"] == 7


# --- CreatePartitions --------------------------------------------------------------------------


async def grow(
    client: WireClient,
    *topics: create_partitions.Topic,
    version: int = 3,
    validate_only: bool = False,
) -> dict[str, int]:
    request = create_partitions.Request(
        topics=list(topics), timeout_ms=1000, validate_only=validate_only
    )
    response = await client.ask(request, version, create_partitions.Response)
    for result in response.results:
        assert bool(result.error_message) == bool(result.error_code)
    return {result.name: result.error_code for result in response.results}


def more(
    name: str, count: int, assignments: list[list[int]] | None = None
) -> create_partitions.Topic:
    given = None
    if assignments is not None:
        given = [create_partitions.Assignment(broker_ids=nodes) for nodes in assignments]
    return create_partitions.Topic(name=name, count=count, assignments=given)


@pytest.mark.parametrize("version", range(4))
async def test_added_partitions_can_be_used_immediately(tmp_path: Path, version: int) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await create(client, creatable("t"), creatable("u"))
        outcome = await grow(
            client, more("t", 3), more("u", 2, [[1]]), more("v", 2), version=version
        )
        assert outcome == {
            "t": ErrorCode.NONE,
            "u": ErrorCode.NONE,
            "v": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert await partition_counts(client) == {"t": 3, "u": 2}
        assert (await client.produce("t", b"x", partition=2)).error_code == ErrorCode.NONE


async def test_validating_growth_changes_nothing(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await create(client, creatable("t", 2))
        outcome = await grow(client, more("t", 3), validate_only=True)
        assert outcome == {"t": ErrorCode.NONE}
        assert await partition_counts(client) == {"t": 2}


async def test_invalid_growth_is_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await create(client, creatable("t", 2), creatable("u"), creatable("__consumer_offsets", 2))
        outcome = await grow(
            client,
            more("t", 2),
            more("u", 2, [[9]]),
            more("__consumer_offsets", 3),
            more("__consumer_offsets", 4),
        )
        assert outcome == {
            "t": ErrorCode.INVALID_PARTITIONS,
            "u": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "__consumer_offsets": ErrorCode.INVALID_TOPIC_EXCEPTION,
        }
