"""Markers and changes of leaders while a coordinator loads its partition."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from minikafka.broker.coordinators import runtime as shard_runtime
from minikafka.broker.coordinators.internal_topics import OFFSETS_TOPIC
from minikafka.broker.coordinators.markers import Marker
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import offset_commit, offset_fetch
from tests.broker.handlers.transactional_wire import GROUP, TID, begun, commit_offset, find
from tests.kit.in_process import running_broker
from tests.kit.wire import WireClient

COMMITS = 30


async def commit(client: WireClient, offset: int) -> None:
    """Commit an offset without a transaction, of another partition."""
    one = offset_commit.RequestPartition(
        partition_index=1, committed_offset=offset, committed_metadata=""
    )
    topics = [offset_commit.RequestTopic(name="t", partitions=[one])]
    request = offset_commit.Request(group_id=GROUP, member_id="", topics=topics)
    answer = await client.ask(request, 7, offset_commit.Response)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


async def stable_offset(client: WireClient, partition: int = 0) -> int:
    """The committed offset of a partition of t; waits until the coordinator is loaded."""
    topic = offset_fetch.RequestTopic(name="t", partition_indexes=[partition])
    request = offset_fetch.Request(group_id=GROUP, topics=[topic], require_stable=True)
    while True:
        answer = await client.ask(request, 7, offset_fetch.Response)
        if answer.error_code == ErrorCode.NONE:
            one = answer.topics[0].partitions[0]
            assert one.error_code == ErrorCode.NONE, "the transaction is still open"
            return one.committed_offset


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("checkpoints", [0, 1, 4, 12, 25])
async def test_a_marker_arrives_while_its_offsets_are_being_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoints: int, commits: bool
) -> None:
    """The marker takes effect, however far the load has got."""
    async with running_broker(tmp_path) as under_test:
        client, broker = under_test.connect(), under_test.broker
        await client.create_topic("t", partitions=2)
        producer_id, epoch = producer = await begun(client)
        await find(client, GROUP, 0)
        for number in range(COMMITS):
            await commit(client, number)
            if number == COMMITS // 2:
                assert await commit_offset(client, producer, 7, version=5) is ErrorCode.NONE
        runtime = broker.groups.runtime
        number = runtime.partition_of(GROUP)
        partition = broker.partition(OFFSETS_TOPIC, number)
        runtime.resign(number)
        monkeypatch.setattr(shard_runtime, "_RECORDS_PER_CHECKPOINT", 1)
        runtime.lead(partition)
        for _ in range(checkpoints):
            await trio.lowlevel.checkpoint()
        marker = Marker(producer_id, epoch + 1, 0, 2, commits)
        assert await broker.markers.write_and_wait(marker, [(OFFSETS_TOPIC, number)]) == [
            ErrorCode.NONE
        ]
        assert await stable_offset(client) == (7 if commits else -1)


@pytest.mark.parametrize("checkpoints", [1, 2, 4, 12])
async def test_a_coordinator_that_is_replaced_while_it_loads_stops_loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoints: int
) -> None:
    """And the next one, possibly the same broker, starts over."""
    async with running_broker(tmp_path) as under_test:
        client, broker = under_test.connect(), under_test.broker
        await client.create_topic("t", partitions=2)
        await begun(client)
        await find(client, GROUP, 0)
        for number in range(COMMITS):
            await commit(client, number)
            await begun(client)
        monkeypatch.setattr(shard_runtime, "_RECORDS_PER_CHECKPOINT", 1)
        for runtime, key in ((broker.groups.runtime, GROUP), (broker.transactions.runtime, TID)):
            number = runtime.partition_of(key)
            partition = broker.partition(runtime.topic.name, number)
            runtime.resign(number)
            runtime.lead(partition)
            for _ in range(checkpoints):
                await trio.lowlevel.checkpoint()
            assert runtime.is_replaying(number)
            runtime.resign(number)
            for _ in range(2 * COMMITS):
                await trio.lowlevel.checkpoint()
            assert not runtime.is_replaying(number)
            runtime.lead(partition)
            await trio.testing.wait_all_tasks_blocked()
            assert not runtime.is_loading
        assert await stable_offset(client, 1) == COMMITS - 1
        assert (await begun(client))[1] == COMMITS + 1
