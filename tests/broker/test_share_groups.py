"""Share groups over the wire: sessions, what is acquired, and what outlives a broker (KIP-932)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import trio
import trio.testing

from minikafka.broker.broker import Broker
from minikafka.broker.coordinators.internal_topics import SHARE_STATE_TOPIC
from minikafka.broker.shares.durations import milliseconds_of
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fields import ZERO_UUID
from minikafka.protocol.messages import (
    create_topics,
    delete_topics,
    describe_groups,
    describe_share_group_offsets,
    find_coordinator,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
)
from minikafka.protocol.records import ControlType, decode_records, encode_batch, iter_batches
from tests.kit.in_process import ClusterNode, running_broker, running_cluster
from tests.kit.wire import WireClient, assigned, create_request, set_for_group

ACCEPT, RELEASE = 1, 2
SMALL = ("share.coordinator.state.topic.num.partitions=3", "offsets.topic.num.partitions=3")
Range = tuple[int, int, int]
"""First and last offset, and delivery count."""


class Member:
    """A member of share group g that reads one partition of a topic, the first one if not told."""

    def __init__(self, client: WireClient, topic_id: bytes, name: str = "m") -> None:
        self.client = client
        self.topic_id = topic_id
        self.name = name
        self.epoch = 0
        self.index = 0

    async def join(self, topic: str) -> list[int]:
        """Join; returns the assigned partitions."""
        request = share_group_heartbeat.Request(
            group_id="g", member_id=self.name, member_epoch=0, subscribed_topic_names=[topic]
        )
        answer = await self.client.ask(request, 1, share_group_heartbeat.Response)
        assert answer.error_code == ErrorCode.NONE, answer
        assert answer.assignment is not None
        return [one for topic in answer.assignment.topic_partitions for one in topic.partitions]

    async def fetch(
        self, *words: tuple[int, int, int], epoch: int | None = None, **wanted: int
    ) -> share_fetch.Response:
        sent = self.epoch if epoch is None else epoch
        request = share_fetch.Request(
            group_id="g",
            member_id=self.name,
            share_session_epoch=sent,
            max_wait_ms=wanted.get("max_wait_ms", 0),
            min_bytes=1,
            max_records=wanted.get("max_records", 500),
            batch_size=500,
            share_acquire_mode=wanted.get("mode", 0),
            topics=[
                share_fetch.Topic(
                    topic_id=self.topic_id,
                    partitions=[
                        share_fetch.Partition(
                            partition_index=self.index,
                            acknowledgement_batches=[
                                share_fetch.AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=[word]
                                )
                                for first, last, word in words
                            ],
                        )
                    ],
                )
            ],
        )
        answer = await self.client.ask(request, 2, share_fetch.Response)
        if answer.error_code == ErrorCode.NONE:
            self.epoch = sent + 1
        return answer

    async def take(
        self, *words: tuple[int, int, int], epoch: int | None = None, **wanted: int
    ) -> list[Range]:
        """Fetch; returns what was acquired."""
        answer = await self.fetch(*words, epoch=epoch, **wanted)
        one = answer.responses[0].partitions[0]
        assert (one.error_code, one.acknowledge_error_code) == (0, 0), one
        return [
            (got.first_offset, got.last_offset, got.delivery_count) for got in one.acquired_records
        ]

    async def acknowledge(
        self, *words: tuple[int, int, int], epoch: int | None = None
    ) -> ErrorCode:
        sent = self.epoch if epoch is None else epoch
        request = share_acknowledge.Request(
            group_id="g",
            member_id=self.name,
            share_session_epoch=sent,
            topics=[
                share_acknowledge.Topic(
                    topic_id=self.topic_id,
                    partitions=[
                        share_acknowledge.Partition(
                            partition_index=self.index,
                            acknowledgement_batches=[
                                share_acknowledge.AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=[word]
                                )
                                for first, last, word in words
                            ],
                        )
                    ],
                )
            ],
        )
        answer = await self.client.ask(request, 2, share_acknowledge.Response)
        if answer.error_code != ErrorCode.NONE:
            return ErrorCode(answer.error_code)
        self.epoch = sent + 1
        return ErrorCode(answer.responses[0].partitions[0].error_code)


async def begun(client: WireClient, broker: Broker, name: str = "m") -> Member:
    """A member that has opened its session at the end of topic t."""
    if "t" not in broker.image.topics:
        await client.create_topic("t")
    find = find_coordinator.Request(key_type=0, coordinator_keys=["g"])
    await client.ask(find, 4, find_coordinator.Response)
    member = Member(client, broker.image.topics["t"].topic_id, name)
    await member.join("t")
    assert await member.take() == []
    return member


async def test_a_record_goes_to_one_member_until_it_is_released(tmp_path: Path) -> None:
    async with running_broker(tmp_path, *SMALL) as under_test:
        client = under_test.connect()
        first = await begun(client, under_test.broker)
        second = await begun(under_test.connect(), under_test.broker, "other")
        await client.produce("t", b"a", b"b", b"c")
        assert await first.take() == [(0, 2, 1)]
        assert await second.take() == []
        assert await first.acknowledge((0, 0, ACCEPT), (1, 2, RELEASE)) is ErrorCode.NONE
        assert await second.take() == [(1, 2, 2)]
        assert await first.acknowledge((1, 1, ACCEPT)) is ErrorCode.INVALID_RECORD_STATE


async def test_records_are_those_that_were_acquired(tmp_path: Path) -> None:
    async with running_broker(tmp_path, *SMALL) as under_test:
        client = under_test.connect()
        member = await begun(client, under_test.broker)
        for value in (b"a", b"b", b"c"):
            await client.produce("t", value)
        answer = await member.fetch(max_records=2, mode=1)
        one = answer.responses[0].partitions[0]
        assert isinstance(one.records, memoryview)
        content = bytes(one.records)
        values = [
            record.value
            for position, _ in iter_batches(content)
            for record in decode_records(content, position)
        ]
        assert values == [b"a", b"b"]
        assert answer.acquisition_lock_timeout_ms == 30_000


async def test_a_waiting_fetch_gets_what_another_member_releases(tmp_path: Path) -> None:
    async with running_broker(tmp_path, *SMALL) as under_test:
        client = under_test.connect()
        first = await begun(client, under_test.broker)
        second = await begun(under_test.connect(), under_test.broker, "other")
        await client.produce("t", b"a")
        assert await first.take() == [(0, 0, 1)]
        got: list[list[Range]] = []

        async def wait() -> None:
            got.append(await second.take(max_wait_ms=60_000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            assert await first.acknowledge((0, 0, RELEASE)) is ErrorCode.NONE
        assert got == [[(0, 0, 2)]]


async def test_a_fetch_acknowledges_before_it_acquires(tmp_path: Path) -> None:
    async with running_broker(tmp_path, *SMALL) as under_test:
        client = under_test.connect()
        member = await begun(client, under_test.broker)
        await client.produce("t", b"a", b"b")
        assert await member.take() == [(0, 1, 1)]
        assert await member.take((0, 0, ACCEPT), (1, 1, RELEASE)) == [(1, 1, 2)]


async def test_a_group_can_begin_at_the_start_of_the_log(tmp_path: Path) -> None:
    async with running_broker(tmp_path, *SMALL) as under_test:
        client = under_test.connect()
        await set_for_group(client, "g", "share.auto.offset.reset", "earliest")
        await client.create_topic("t")
        await client.produce("t", b"a", b"b")
        find = find_coordinator.Request(key_type=0, coordinator_keys=["g"])
        await client.ask(find, 4, find_coordinator.Response)
        member = Member(client, under_test.broker.image.topics["t"].topic_id)
        await member.join("t")
        assert await member.take() == [(0, 1, 1)]


async def test_records_of_aborted_transactions_are_passed_over(tmp_path: Path) -> None:
    async with running_broker(tmp_path, *SMALL) as under_test:
        client, broker = under_test.connect(), under_test.broker
        await set_for_group(client, "g", "share.isolation.level", "read_committed")
        member = await begun(client, broker)
        batch = bytes(
            encode_batch(
                [(None, b"aborted", (), 1000)],
                producer_id=7,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=True,
            )
        )
        partition = broker.partition("t", 0)
        verification = partition.log.verify_transaction(7, 0)
        assert verification is not None
        verification.is_confirmed = True
        partition.append(memoryview(batch), now_ms=1000, version=13, from_client=False)
        await client.produce("t", b"visible")
        assert await member.take() == []
        partition.append_marker(
            ControlType.ABORT,
            producer_id=7,
            producer_epoch=0,
            coordinator_epoch=0,
            transaction_version=0,
            now_ms=1000,
        )
        assert await member.take() == [(1, 1, 1)]
        assert await member.acknowledge((1, 1, ACCEPT)) is ErrorCode.NONE
        await client.produce("t", b"next")
        assert await member.take() == [(3, 3, 1)]


async def test_the_end_of_a_session_releases_what_it_has(tmp_path: Path) -> None:
    async with running_broker(tmp_path, *SMALL) as under_test:
        client = under_test.connect()
        first = await begun(client, under_test.broker)
        second = await begun(under_test.connect(), under_test.broker, "other")
        await client.produce("t", b"a", b"b")
        assert await first.take() == [(0, 1, 1)]
        assert await first.acknowledge((0, 0, ACCEPT), epoch=-1) is ErrorCode.NONE
        assert await second.take() == [(1, 1, 2)]
        assert await first.acknowledge((0, 0, ACCEPT), epoch=5) is ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_a_lost_connection_ends_the_session_that_was_opened_on_it(tmp_path: Path) -> None:
    async with running_broker(tmp_path, *SMALL) as under_test:
        first = await begun(under_test.connect(), under_test.broker)
        second = await begun(under_test.connect(), under_test.broker, "other")
        await second.client.produce("t", b"a", b"b")
        assert await first.take() == [(0, 1, 1)]
        got: list[list[Range]] = []

        async def wait() -> None:
            got.append(await second.take(max_wait_ms=60_000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await first.client.stream.aclose()
        assert got == [[(0, 1, 2)]]
        first.client = under_test.connect()
        assert (await first.fetch()).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_a_session_that_was_opened_again_does_not_end_with_its_first_connection(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path, *SMALL) as under_test:
        member = await begun(under_test.connect(), under_test.broker)
        await member.client.produce("t", b"a")
        old, member.client = member.client, under_test.connect()
        assert await member.take(epoch=0) == [(0, 0, 1)]
        await old.stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert await member.acknowledge((0, 0, ACCEPT)) is ErrorCode.NONE


async def test_the_end_of_the_last_session_keeps_the_delivery_count(tmp_path: Path) -> None:
    async with running_broker(tmp_path, *SMALL) as under_test:
        member = await begun(under_test.connect(), under_test.broker)
        await member.client.produce("t", b"a", b"b")
        assert await member.take() == [(0, 1, 1)]
        assert (await member.fetch((0, 0, RELEASE), epoch=-1)).error_code == ErrorCode.NONE
        assert await member.take(epoch=0) == [(0, 1, 2)]


@pytest.mark.parametrize(
    ("version", "error_code"), [(5, ErrorCode.NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)]
)
async def test_describe_groups_knows_no_share_groups(
    tmp_path: Path, version: int, error_code: ErrorCode
) -> None:
    async with running_broker(tmp_path, *SMALL) as under_test:
        member = await begun(under_test.connect(), under_test.broker)
        request = describe_groups.Request(groups=["g"])
        answer = await member.client.ask(request, version, describe_groups.Response)
        (found,) = answer.groups
        assert (found.group_state, found.error_code) == ("Dead", error_code)
        assert found.members == []


async def test_share_groups_are_described_with_their_members(tmp_path: Path) -> None:
    async with running_broker(tmp_path, *SMALL) as under_test:
        member = await begun(under_test.connect(), under_test.broker)
        request = share_group_describe.Request(group_ids=["g", "nobody"])
        answer = await member.client.ask(request, 1, share_group_describe.Response)
        found, nobody = answer.groups
        assert (found.group_state, found.error_code) == ("Stable", ErrorCode.NONE)
        (described,) = found.members
        assert (described.member_id, described.subscribed_topic_names) == ("m", ["t"])
        (topic,) = described.assignment.topic_partitions
        assert (topic.topic_name, topic.partitions) == ("t", [0])
        assert nobody.error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_requests_that_do_not_fit_their_session(tmp_path: Path) -> None:
    settings = (*SMALL, "group.share.max.share.sessions=1")
    async with running_broker(tmp_path, *settings) as under_test:
        client = under_test.connect()
        member = await begun(client, under_test.broker)
        wrong = await member.fetch(epoch=7)
        assert wrong.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        with_words = await member.fetch((0, 0, ACCEPT), epoch=0)
        assert with_words.error_code == ErrorCode.INVALID_REQUEST
        stranger = Member(client, member.topic_id, "stranger")
        assert (await stranger.fetch(epoch=1)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        full = await stranger.fetch()
        assert full.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        unknown = Member(client, bytes([9] * 16), "m")
        one = (await unknown.fetch()).responses[0].partitions[0]
        assert one.error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_deleted_topic_is_told_to_those_who_wait(tmp_path: Path) -> None:
    async with running_broker(tmp_path, *SMALL) as under_test:
        client = under_test.connect()
        member = await begun(client, under_test.broker)
        got: list[share_fetch.Response] = []

        async def wait() -> None:
            got.append(await member.fetch(max_wait_ms=60_000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await delete_topic(under_test.connect(), "t")
        one = got[0].responses[0].partitions[0]
        assert one.error_code in (
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )


async def delete_topic(client: WireClient, name: str) -> None:
    topics = [delete_topics.TopicState(name=name, topic_id=ZERO_UUID)]
    request = delete_topics.Request(topics=topics, timeout_ms=30_000)
    answer = await client.ask(request, 6, delete_topics.Response)
    assert answer.responses[0].error_code == ErrorCode.NONE


async def test_superseded_share_state_is_pruned(tmp_path: Path) -> None:
    settings = (*SMALL, "share.coordinator.snapshot.update.records.per.snapshot=2")
    async with running_broker(tmp_path, *settings) as under_test:
        client, broker = under_test.connect(), under_test.broker
        member = await begun(client, broker)
        for number in range(8):
            await client.produce("t", b"x")
            assert await member.take() == [(number, number, 1)]
            assert await member.acknowledge((number, number, ACCEPT)) is ErrorCode.NONE
        logs = [
            one.log for (topic, _), one in broker.partitions.items() if topic == SHARE_STATE_TOPIC
        ]
        written = sum(log.log_end_offset for log in logs)
        broker.share_state.prune()
        assert 0 < written - sum(log.log_start_offset for log in logs) < 5
    async with running_broker(tmp_path, *settings) as under_test:
        await begun(under_test.connect(), under_test.broker)
        assert await start_offset(under_test.connect()) == (8, 0)


async def start_offset(client: WireClient) -> tuple[int, int]:
    """Where group g starts in partition 0 of t, and its lag."""
    request = describe_share_group_offsets.Request(
        groups=[describe_share_group_offsets.RequestGroup(group_id="g")]
    )
    answer = await client.ask(request, 1, describe_share_group_offsets.Response)
    one = answer.groups[0].topics[0].partitions[0]
    assert one.error_code == ErrorCode.NONE, one
    return one.start_offset, one.lag


async def test_the_lag_is_known_wherever_the_partition_is_led(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, *SMALL) as cluster:
        client = cluster.nodes[1].connect()
        request = create_request(assigned("t", [1], [2], [3]))
        await client.ask(request, 7, create_topics.Response)
        await cluster.until(
            lambda: all("t" in one.broker.image.topics for one in cluster.nodes.values())
        )
        topic_id = cluster.nodes[1].broker.image.topics["t"].topic_id
        coordinator = await join_somewhere(cluster.nodes)
        for number, node in cluster.nodes.items():
            member = Member(node.connect(), topic_id)
            member.index = number - 1
            assert await member.take() == []
            await node.connect().produce("t", *[b"x"] * number, partition=number - 1)
        asked = describe_share_group_offsets.Request(
            groups=[describe_share_group_offsets.RequestGroup(group_id="g")]
        )
        answer = await coordinator.ask(asked, 1, describe_share_group_offsets.Response)
        (topic,) = answer.groups[0].topics
        assert {one.partition_index: one.lag for one in topic.partitions} == {0: 1, 1: 2, 2: 3}


async def test_another_leader_goes_on_where_the_killed_one_stopped(tmp_path: Path) -> None:
    settings = (
        *SMALL,
        "broker.session.timeout.ms=2000",
        "share.coordinator.state.topic.min.isr=1",
    )
    async with running_cluster(tmp_path, *settings) as cluster:
        client = cluster.nodes[1].connect()
        request = create_request(assigned("t", [3, 1, 2]))
        await client.ask(request, 7, create_topics.Response)
        await cluster.until(
            lambda: all("t" in one.broker.image.topics for one in cluster.nodes.values())
        )
        topic_id = cluster.nodes[1].broker.image.topics["t"].topic_id
        first = Member(cluster.nodes[3].connect(), topic_id)
        await join_somewhere(cluster.nodes)
        assert await first.take() == []
        await first.client.produce("t", b"a", b"b", b"c", acks=-1)
        assert await first.take() == [(0, 2, 1)]
        assert await first.acknowledge((1, 1, ACCEPT), (2, 2, RELEASE)) is ErrorCode.NONE
        await cluster.kill(3)
        image = cluster.nodes[1].broker
        await cluster.until(lambda: image.image.topics["t"].partitions[0].leader in (1, 2))
        leader = image.image.topics["t"].partitions[0].leader
        node = cluster.nodes[leader]
        await cluster.until(lambda: node.broker.partitions["t", 0].is_leader)
        second = Member(node.connect(), topic_id, "second")
        got: list[Range] = []
        while len(got) < 2:
            answer = await second.fetch(max_wait_ms=500)
            got += [
                (one.first_offset, one.last_offset, one.delivery_count)
                for topic in answer.responses
                for partition in topic.partitions
                for one in partition.acquired_records
            ]
        assert got == [(0, 0, 1), (2, 2, 2)]


async def join_somewhere(nodes: Mapping[int, ClusterNode]) -> WireClient:
    """Join group g at its coordinator, so that its share state is initialised."""
    while True:
        client = nodes[1].connect()
        request = find_coordinator.Request(key_type=0, coordinator_keys=["g"])
        found = (await client.ask(request, 4, find_coordinator.Response)).coordinators[0]
        if found.error_code == ErrorCode.NONE:
            coordinator = nodes[found.node_id].connect()
            heartbeat = share_group_heartbeat.Request(
                group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["t"]
            )
            answer = await coordinator.ask(heartbeat, 1, share_group_heartbeat.Response)
            if answer.assignment is not None and answer.assignment.topic_partitions:
                return coordinator
        await trio.testing.wait_all_tasks_blocked(0.01)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("P1D", 86_400_000), ("PT1H30M", 5_400_000), ("pt0.5s", 500), ("P2DT3S", 172_803_000)],
)
def test_durations(text: str, expected: int) -> None:
    assert milliseconds_of(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "1D", "P1DT", "P-1D", "PT1.5H"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        milliseconds_of(text)
