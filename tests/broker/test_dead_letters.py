"""Dead letters: what share groups give up is written to a topic (KIP-1191)."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from minikafka.broker.broker import Broker
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import create_topics
from minikafka.protocol.records import Record, decode_records, encode_batch, iter_batches
from tests.broker.test_share_groups import SMALL, Member, begun, join_somewhere
from tests.kit.in_process import running_broker, running_cluster
from tests.kit.wire import WireClient, assigned, create_request, set_for_group

ACCEPT, RELEASE, REJECT = 1, 2, 3
TOPIC = "errors.deadletterqueue.topic.name"
COPY = "errors.deadletterqueue.copy.record.enable"
ENABLED = "errors_deadletterqueue_group_enable"
TWICE = "group.share.delivery.count.limit=2"


async def records_of(
    client: WireClient, topic: str, count: int, partition: int = 0
) -> list[Record]:
    """So many records of a topic, once they are there."""
    found: list[Record] = []
    while len(found) < count:
        answer = await client.fetch(topic, len(found), partition=partition, max_wait_ms=60_000)
        assert answer.error_code == ErrorCode.NONE
        assert isinstance(answer.records, memoryview)
        content = bytes(answer.records)
        for position, _ in iter_batches(content):
            found += [one for one in decode_records(content, position) if one.offset == len(found)]
    return found


async def until_finished(broker: Broker, offset: int) -> None:
    """Wait until group g starts at an offset."""
    while True:
        (running,) = broker.shares._running.values()
        if running.machine.start_offset >= offset and not running.machine.is_writing:
            return
        await trio.testing.wait_all_tasks_blocked(0.001)


async def test_what_a_member_rejects_is_written_with_its_content(tmp_path: Path) -> None:
    async with running_broker(tmp_path, *SMALL) as under_test:
        client = under_test.connect()
        await client.create_topic("dlq.g", 3, **{ENABLED: "true"})
        await set_for_group(client, "g", TOPIC, "dlq.g")
        await set_for_group(client, "g", COPY, "true")
        member = await begun(client, under_test.broker)
        batch = bytes(encode_batch([(b"k", b"a", [("h", b"1")], 7), (None, None, (), 8)]))
        await client.produce("t", batch=batch)
        await client.produce("t", b"good")
        assert await member.take() == [(0, 2, 1)]
        assert await member.acknowledge((0, 1, REJECT), (2, 2, ACCEPT)) is ErrorCode.NONE
        first, second = await records_of(client, "dlq.g", 2)
        assert first.headers == (
            ("__dlq.errors.topic", b"t"),
            ("__dlq.errors.partition", b"0"),
            ("__dlq.errors.offset", b"0"),
            ("__dlq.errors.group", b"g"),
            ("__dlq.errors.delivery.count", b"1"),
            ("__dlq.errors.message", b"Offset rejected by client."),
        )
        assert (first.key, first.value) == (b"k", b"a")
        assert (second.key, second.value) == (None, None)
        await until_finished(under_test.broker, 3)


async def test_what_was_delivered_too_often_is_written_without_its_content(tmp_path: Path) -> None:
    async with running_broker(tmp_path, *SMALL, TWICE) as under_test:
        client = under_test.connect()
        await client.create_topic("dlq.g", 1, **{ENABLED: "true"})
        await set_for_group(client, "g", TOPIC, "dlq.g")
        member = await begun(client, under_test.broker)
        await client.produce("t", b"bad")
        assert await member.take() == [(0, 0, 1)]
        assert await member.take((0, 0, RELEASE)) == [(0, 0, 2)]
        assert await member.take((0, 0, RELEASE)) == []
        (letter,) = await records_of(client, "dlq.g", 1)
        assert letter.value is None
        assert dict(letter.headers)["__dlq.errors.delivery.count"] == b"2"
        message = dict(letter.headers)["__dlq.errors.message"]
        assert message == b"Offset delivery count exceeded the threshold."


async def test_the_topic_is_created_with_the_first_letter_if_that_is_allowed(
    tmp_path: Path,
) -> None:
    creates = "errors.deadletterqueue.auto.create.topics.enable=true"
    async with running_broker(tmp_path, *SMALL, creates) as under_test:
        client = under_test.connect()
        await set_for_group(client, "g", TOPIC, "dlq.new")
        member = await begun(client, under_test.broker)
        await client.produce("t", b"bad")
        assert await member.take() == [(0, 0, 1)]
        assert "dlq.new" not in under_test.broker.image.topics
        assert await member.acknowledge((0, 0, REJECT)) is ErrorCode.NONE
        await until_finished(under_test.broker, 1)
        assert len(await records_of(client, "dlq.new", 1)) == 1
        values = under_test.broker.settings.topic_values("dlq.new")
        assert values["errors.deadletterqueue.group.enable"] is True


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("dlq.other", {}, "does not have errors.deadletterqueue.group.enable"),
        ("other", {ENABLED: "true"}, "must begin with 'dlq.'"),
        ("dlq.other", {ENABLED: "true", "cleanup_policy": "compact"}, "is compacted"),
        ("", {}, "there is no topic dlq.missing"),
    ],
)
async def test_a_topic_that_must_not_be_used_holds_nobody_up(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    name: str,
    settings: dict[str, str],
    reason: str,
) -> None:
    async with running_broker(tmp_path, *SMALL) as under_test:
        client = under_test.connect()
        if name:
            await client.create_topic(name, 1, **settings)
        await set_for_group(client, "g", TOPIC, name or "dlq.missing")
        member = await begun(client, under_test.broker)
        await client.produce("t", b"bad")
        assert await member.take() == [(0, 0, 1)]
        assert await member.acknowledge((0, 0, REJECT)) is ErrorCode.NONE
        await until_finished(under_test.broker, 1)
        assert reason in caplog.text


async def test_a_lower_limit_gives_up_what_was_delivered_too_often_by_then(tmp_path: Path) -> None:
    async with running_broker(tmp_path, *SMALL) as under_test:
        client = under_test.connect()
        await client.create_topic("dlq.g", 1, **{ENABLED: "true"})
        await set_for_group(client, "g", TOPIC, "dlq.g")
        member = await begun(client, under_test.broker)
        await client.produce("t", b"bad")
        assert await member.take() == [(0, 0, 1)]
        assert await member.take((0, 0, RELEASE)) == [(0, 0, 2)]
        assert await member.acknowledge((0, 0, RELEASE)) is ErrorCode.NONE
        await set_for_group(client, "g", "share.delivery.count.limit", "2")
        assert await member.take() == []
        assert len(await records_of(client, "dlq.g", 1)) == 1


async def test_letters_that_were_not_written_are_written_by_the_next_leader(
    tmp_path: Path,
) -> None:
    settings = (
        *SMALL,
        "broker.session.timeout.ms=2000",
        "share.coordinator.state.topic.min.isr=1",
    )
    async with running_cluster(tmp_path, *settings) as cluster:
        client = cluster.nodes[1].connect()
        for name, replicas in (("t", [3, 1]), ("dlq.t", [2])):
            request = create_request(assigned(name, replicas))
            if name == "dlq.t":
                request.topics[0].configs = [
                    create_topics.CreatableTopicConfig(
                        name="errors.deadletterqueue.group.enable", value="true"
                    )
                ]
            await client.ask(request, 7, create_topics.Response)
        await set_for_group(client, "g", TOPIC, "dlq.t")
        await cluster.until(
            lambda: all("dlq.t" in one.broker.image.topics for one in cluster.nodes.values())
        )
        await join_somewhere(cluster.nodes)
        topic_id = cluster.nodes[1].broker.image.topics["t"].topic_id
        member = Member(cluster.nodes[3].connect(), topic_id)
        assert await member.take() == []
        await member.client.produce("t", b"bad", b"good", acks=-1)
        assert await member.take() == [(0, 1, 1)]
        cluster.nodes[3].broker.dead_letters._peers = None  # it does not reach the topic's leader
        assert await member.acknowledge((0, 0, REJECT), (1, 1, RELEASE)) is ErrorCode.NONE
        await cluster.kill(3)
        one = cluster.nodes[1].broker
        await cluster.until(lambda: one.image.topics["t"].partitions[0].leader == 1)
        await cluster.until(lambda: one.partitions["t", 0].is_leader)
        second = Member(cluster.nodes[1].connect(), topic_id, "second")
        while not (got := await taken(second)):
            pass
        assert got == [(1, 1, 2)]
        (letter,) = await records_of(cluster.nodes[2].connect(), "dlq.t", 1)
        assert dict(letter.headers)["__dlq.errors.message"] == b"Offset rejected by client."


async def taken(member: Member) -> list[tuple[int, int, int]]:
    """What a member gets while leaders change."""
    answer = await member.fetch(max_wait_ms=500)
    return [
        (one.first_offset, one.last_offset, one.delivery_count)
        for topic in answer.responses
        for partition in topic.partitions
        for one in partition.acquired_records
    ]
