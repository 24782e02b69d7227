"""Nodes that form a cluster: elections, registration, failures and returns, as clients see them."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import create_topics, delete_topics, metadata
from tests.kit.in_process import ClusterNode, running_cluster
from tests.kit.wire import WireClient, creatable, create_request, values_of


async def metadata_of(client: WireClient, *topics: str) -> metadata.Response:
    request = metadata.Request(
        topics=[metadata.RequestTopic(name=name) for name in topics],
        allow_auto_topic_creation=False,
    )
    return await client.ask(request, 12, metadata.Response)


async def create(client: WireClient, name: str, partitions: int = 3, factor: int = 3) -> int:
    """Create a topic; returns the error code."""
    request = create_request(creatable(name, partitions, factor))
    response = await client.ask(request, 7, create_topics.Response)
    return response.topics[0].error_code


async def delete_topic(client: WireClient, name: str) -> None:
    request = delete_topics.Request(topic_names=[name], timeout_ms=10_000)
    response = await client.ask(request, 5, delete_topics.Response)
    assert response.responses[0].error_code == ErrorCode.NONE


def is_live(node: ClusterNode, *brokers: int) -> bool:
    return node.live() == list(brokers)


def knows(node: ClusterNode, topics: int) -> bool:
    return len(node.broker.image.topics) == topics


def has_records(node: ClusterNode, count: int) -> bool:
    partition = node.broker.partitions.get(("t", 0))
    return partition is not None and partition.log.log_end_offset == count


def leaders(node: ClusterNode, topic: str) -> list[int]:
    return [one.leader for one in node.broker.image.topics[topic].partitions]


# --- a cluster begins ---------------------------------------------------------------------------


async def test_three_nodes_elect_a_controller_and_are_visible_to_clients(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "broker.rack=r") as cluster:
        controller = await cluster.controller()
        cluster_ids: set[str | None] = set()
        for node in cluster.nodes.values():
            await cluster.until(partial(is_live, node, 1, 2, 3))
            answer = await metadata_of(node.connect())
            assert [(one.node_id, one.host, one.rack) for one in answer.brokers] == [
                (number, f"broker{number}.test", "r") for number in (1, 2, 3)
            ]
            assert answer.controller_id == controller.node_id
            cluster_ids.add(answer.cluster_id)
        assert len(cluster_ids) == 1
        assert None not in cluster_ids


async def test_voters_are_connected_before_the_first_election(tmp_path: Path) -> None:
    an_hour = "controller.quorum.election.timeout.ms=3600000"
    async with running_cluster(tmp_path, an_hour, start=False) as cluster:
        for number in (1, 2, 3):
            cluster.begin(number)
        await cluster.until(lambda: len(cluster.running) == 3)
        for node in cluster.running:
            interconnect = node.broker.interconnect
            assert interconnect is not None
            for other in {1, 2, 3} - {node.node_id}:
                await cluster.until(partial(interconnect.peers.is_connected, other))
            assert node.broker.quorum.epoch == 0


async def test_every_node_forwards_requests_to_the_controller_and_shows_the_result(
    tmp_path: Path,
) -> None:
    async with running_cluster(tmp_path) as cluster:
        for node in cluster.nodes.values():
            client = node.connect()
            name = f"made-by-{node.node_id}"
            assert await create(client, name) == ErrorCode.NONE
            # A client reads its own writes, whichever node it asks.
            (topic,) = (await metadata_of(client, name)).topics
            assert topic.error_code == ErrorCode.NONE
            assert sorted(one.leader_id for one in topic.partitions) == [1, 2, 3]
            assert all(sorted(one.isr_nodes) == [1, 2, 3] for one in topic.partitions)
            assert await create(client, name) == ErrorCode.TOPIC_ALREADY_EXISTS
        for node in cluster.nodes.values():
            await cluster.until(partial(knows, node, 3))


async def test_records_reach_all_replicas(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        client = cluster.nodes[1].connect()
        assert await create(client, "t", partitions=1) == ErrorCode.NONE
        leader = cluster.nodes[leaders(cluster.nodes[1], "t")[0]]
        await cluster.until(lambda: ("t", 0) in leader.broker.partitions)
        written = await leader.connect().produce("t", b"a", b"b", acks=-1)
        assert written.error_code == ErrorCode.NONE
        for node in cluster.nodes.values():
            await cluster.until(partial(has_records, node, 2))


# --- nodes fail ---------------------------------------------------------------------------------


async def test_a_killed_broker_is_fenced_immediately_and_others_lead(tmp_path: Path) -> None:
    # A session of an hour: only the closed connection shows that it is dead.
    async with running_cluster(tmp_path, "broker.session.timeout.ms=3600000") as cluster:
        controller = await cluster.controller()
        assert await create(controller.connect(), "t") == ErrorCode.NONE
        victim = next(one for one in cluster.running if one is not controller)
        other = next(one for one in cluster.running if one not in (controller, victim))
        await cluster.kill(victim.node_id)
        await cluster.until(lambda: victim.node_id not in other.live())
        assert victim.node_id not in leaders(other, "t")
        (topic,) = (await metadata_of(other.connect(), "t")).topics
        for one in topic.partitions:
            assert one.offline_replicas == [victim.node_id]
            assert victim.node_id not in one.isr_nodes
        await cluster.start(victim.node_id)
        await cluster.until(lambda: other.live() == [1, 2, 3])
        await cluster.until(lambda: all(len(other.partition("t", n)[2]) == 3 for n in range(3)))


async def test_when_the_controller_is_killed_another_takes_over_and_fences_it(
    tmp_path: Path,
) -> None:
    async with running_cluster(tmp_path, "broker.session.timeout.ms=3600000") as cluster:
        old = await cluster.controller()
        assert await create(old.connect(), "t") == ErrorCode.NONE
        await cluster.kill(old.node_id)
        new = await cluster.controller()
        other = next(one for one in cluster.running if one is not new)
        await cluster.until(lambda: old.node_id not in other.live())
        assert old.node_id not in leaders(other, "t")
        # It continues, also through a node that had known the old controller.
        assert await create(other.connect(), "u", factor=2) == ErrorCode.NONE
        await cluster.start(old.node_id)
        await cluster.until(lambda: old.node_id in other.live())
        assert "u" in old.broker.image.topics


async def test_a_silent_broker_is_fenced_when_its_session_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cluster(
        tmp_path, "broker.session.timeout.ms=300", "controller.quorum.election.timeout.ms=5000"
    ) as cluster:
        controller = await cluster.controller()
        silent = next(one for one in cluster.running if one is not controller)
        epoch = silent.broker.lifecycle.broker_epoch
        may_speak = trio.Event()
        ask = silent.broker.forwarder.ask

        async def hesitate(operation: Any, request: Any, *, timeout_s: float) -> Any:
            await may_speak.wait()
            return await ask(operation, request, timeout_s=timeout_s)

        monkeypatch.setattr(silent.broker.forwarder, "ask", hesitate)
        await cluster.until(lambda: silent.node_id not in controller.live())
        may_speak.set()
        await cluster.until(lambda: controller.live() == [1, 2, 3])
        assert silent.broker.lifecycle.broker_epoch == epoch


async def test_without_a_majority_requests_fail_and_nothing_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minikafka.broker.control.forwarder.CONTROLLER_SECONDS_MAX", 0.2)
    async with running_cluster(tmp_path) as cluster:
        controller = await cluster.controller()
        assert await create(controller.connect(), "t") == ErrorCode.NONE
        others = [one.node_id for one in cluster.running if one is not controller]
        await cluster.kill(*others)
        await cluster.until(lambda: not controller.is_active_controller)
        client = controller.connect()
        assert await create(client, "u") == ErrorCode.NOT_CONTROLLER
        # It still answers from its metadata.
        assert (await metadata_of(client, "t")).topics[0].error_code == ErrorCode.NONE
        await cluster.start(others[0])
        assert await create(client, "u", factor=2) == ErrorCode.NONE


async def test_clients_are_not_sent_to_a_leader_that_just_died(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        survivor = cluster.nodes[2]
        client = survivor.connect()
        assert await create(client, "t") == ErrorCode.NONE
        await cluster.until(lambda: sorted(leaders(survivor, "t")) == [1, 2, 3])
        # They cannot be fenced: two of three voters are down.
        await cluster.kill(1, 3)
        (topic,) = (await metadata_of(client, "t")).topics
        for one, leader in zip(topic.partitions, leaders(survivor, "t"), strict=True):
            is_gone = leader in (1, 3)
            assert one.leader_id == (-1 if is_gone else 2)
            assert one.error_code == (ErrorCode.LEADER_NOT_AVAILABLE if is_gone else 0)
            assert sorted(one.offline_replicas) == [1, 3]


async def test_an_uncommitted_change_is_reported_as_uncertain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cluster(tmp_path) as cluster:
        controller = await cluster.controller()
        client = controller.connect()
        for node in cluster.running:
            if node is not controller:  # it receives from them, but they do not receive from it
                assert controller.broker.interconnect is not None
                peer = controller.broker.interconnect.peers.client(node.node_id)
                monkeypatch.setattr(peer, "send", lambda *_: False)
        assert await create(client, "u", factor=1) == ErrorCode.REQUEST_TIMED_OUT


async def test_requests_to_a_deposed_controller_are_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cluster(tmp_path) as cluster:
        old = await cluster.controller()
        other = next(one for one in cluster.running if one is not old)
        asked = trio.Event()

        async def hang(decide: object) -> None:
            asked.set()
            await trio.sleep_forever()

        monkeypatch.setattr(old.broker.controller, "change", hang)
        codes: list[int] = []

        async def ask() -> None:
            codes.append(await create(other.connect(), "t"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await asked.wait()
            await old.broker.quorum.transfer_leadership()
        assert codes == [ErrorCode.REQUEST_TIMED_OUT]
        await cluster.until(lambda: not old.is_active_controller)
        assert await create(other.connect(), "t") == ErrorCode.NONE


async def test_preferred_leaders_come_back_by_themselves(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, "leader.imbalance.check.interval.seconds=1") as cluster:
        node = cluster.nodes[1]
        assert await create(node.connect(), "t") == ErrorCode.NONE
        preferred = leaders(node, "t")
        await cluster.kill(3)
        await cluster.until(lambda: 3 not in leaders(node, "t"))
        await cluster.start(3)
        await cluster.until(lambda: leaders(node, "t") == preferred)


# --- nodes stop and start -----------------------------------------------------------------------


async def test_all_nodes_stop_and_start_again(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        assert await create(cluster.nodes[2].connect(), "t", partitions=1) == ErrorCode.NONE
        leader = cluster.nodes[leaders(cluster.nodes[2], "t")[0]]
        await cluster.until(lambda: ("t", 0) in leader.broker.partitions)
        await leader.connect().produce("t", b"kept", acks=-1)
        cluster_id = leader.broker.store.cluster_id
        for number in (1, 2, 3):
            await cluster.stop(number)
        await cluster.start(1, 2, 3)
        assert {node.broker.store.cluster_id for node in cluster.running} == {cluster_id}
        await cluster.until(lambda: leaders(cluster.nodes[1], "t")[0] > 0)
        leader = cluster.nodes[leaders(cluster.nodes[1], "t")[0]]
        await cluster.until(lambda: leader.broker.partitions["t", 0].is_leader)
        await cluster.until(lambda: leader.broker.partitions["t", 0].log.high_watermark == 1)
        assert values_of(await leader.connect().fetch("t", 0)) == [b"kept"]


async def test_all_nodes_are_killed_and_start_again(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        assert await create(cluster.nodes[2].connect(), "t", partitions=1) == ErrorCode.NONE
        await cluster.kill(1, 2, 3)
        await cluster.start(1, 2, 3)
        await cluster.until(lambda: leaders(cluster.nodes[1], "t")[0] > 0)
        assert await create(cluster.nodes[1].connect(), "u") == ErrorCode.NONE


async def test_a_clean_stop_is_recorded_and_a_crash_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.stop(3)
        await cluster.start(3)
        assert cluster.nodes[3].broker.lifecycle.previous_epoch >= 0
        await cluster.kill(3)
        await cluster.start(3)
        assert cluster.nodes[3].broker.lifecycle.previous_epoch == -1
        await cluster.stop(3)
        (cluster.nodes[3].data_dir / "broker-epoch").write_bytes(b"damaged")
        await cluster.start(3)
        assert cluster.nodes[3].broker.lifecycle.previous_epoch == -1
        assert "broker-epoch" in caplog.text


# --- other kinds of nodes -----------------------------------------------------------------------


async def test_a_broker_outside_the_quorum_joins_and_serves(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        assert await create(cluster.nodes[1].connect(), "t") == ErrorCode.NONE
        await cluster.start(4)
        fourth = cluster.nodes[4]
        assert fourth.live() == [1, 2, 3, 4]
        assert 4 not in fourth.broker.quorum.voter_ids
        client = fourth.connect()
        assert await create(client, "u", partitions=8, factor=1) == ErrorCode.NONE
        assert 4 in leaders(fourth, "u")
        number = leaders(fourth, "u").index(4)
        answer = await client.produce("u", b"x", partition=number, acks=-1)
        assert answer.error_code == ErrorCode.NONE
        controller = await cluster.controller()
        await cluster.kill(4)
        await cluster.until(lambda: controller.live() == [1, 2, 3])
        assert leaders(controller, "u")[number] == -1


async def test_a_node_that_was_down_for_long_gets_a_snapshot(tmp_path: Path) -> None:
    small = "metadata.log.max.record.bytes.between.snapshots=3000"
    async with running_cluster(tmp_path, small) as cluster:
        client = cluster.nodes[1].connect()
        assert await create(client, "gone") == ErrorCode.NONE
        assert await create(client, "kept") == ErrorCode.NONE
        await cluster.start(4)
        await cluster.kill(3)
        await delete_topic(client, "gone")
        for number in range(40):
            assert await create(client, f"new-{number}", factor=2) == ErrorCode.NONE
        await cluster.start(3)
        third = cluster.nodes[3]
        assert third.broker.quorum.stored().snapshot_index > 0
        await cluster.until(lambda: len(third.broker.image.topics) == 41)
        assert ("kept", 0) in third.broker.partitions
        assert ("gone", 0) not in third.broker.partitions
        assert not (third.data_dir / "gone-0").exists()
        # A broker that joins now gets everything from the snapshot, too.
        await cluster.start(5)
        fifth = cluster.nodes[5]
        assert len(fifth.broker.image.topics) == 41
        assert fifth.broker.store.cluster_id == third.broker.store.cluster_id
        # And one that was following all the time loads the snapshot, too.
        await cluster.until(lambda: len(cluster.nodes[4].broker.image.topics) == 41)


async def test_dedicated_controllers_decide_and_serve_no_partitions(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, start=False) as cluster:
        for number in (1, 2, 3):
            cluster.node(number, "process.roles=controller")
        await cluster.start(1, 2, 3, 4, 5)
        fifth = cluster.nodes[5]
        await cluster.until(lambda: fifth.live() == [4, 5])
        client = fifth.connect()
        assert await create(client, "t", partitions=4, factor=2) == ErrorCode.NONE
        assert set(leaders(fifth, "t")) == {4, 5}
        answer = await metadata_of(client, "t")
        assert answer.controller_id in (4, 5)
        assert [one.node_id for one in answer.brokers] == [4, 5]
        controller = await cluster.controller()
        assert not controller.broker.partitions
        await cluster.kill(controller.node_id)
        assert await create(client, "u", factor=2) == ErrorCode.NONE


async def test_a_quorum_of_one_accepts_other_brokers(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, voters=1) as cluster:
        await cluster.start(2, 3)
        client = cluster.nodes[3].connect()
        assert await create(client, "t") == ErrorCode.NONE
        assert sorted(leaders(cluster.nodes[3], "t")) == [1, 2, 3]
        await cluster.kill(1)
        await cluster.start(1)
        await cluster.until(lambda: cluster.nodes[3].live() == [1, 2, 3])


async def test_a_second_process_with_a_brokers_id_is_refused_while_the_first_lives(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.start(4)
        first = cluster.nodes.pop(4)
        cluster.node(4).data_dir = tmp_path / "another"
        with caplog.at_level(logging.WARNING):
            cluster.begin(4)
            await cluster.until(lambda: "says at 127.0.0.1" in caplog.text)
        assert first.broker.lifecycle.is_in_service
        await first.end(0.0)
        await cluster.until(lambda: cluster.nodes[4].broker.lifecycle.is_in_service)


async def test_an_unregistered_broker_that_lives_registers_again(tmp_path: Path) -> None:
    from minikafka.protocol.messages import unregister_broker

    async with running_cluster(tmp_path) as cluster:
        epoch = cluster.nodes[3].broker.lifecycle.broker_epoch
        request = unregister_broker.Request(broker_id=3)
        answer = await cluster.nodes[2].connect().ask(request, 0, unregister_broker.Response)
        assert answer.error_code == ErrorCode.NONE
        await cluster.until(lambda: cluster.nodes[3].broker.lifecycle.broker_epoch > epoch)
        await cluster.until(lambda: cluster.nodes[2].live() == [1, 2, 3])
        with trio.fail_after(10):
            assert await create(cluster.nodes[3].connect(), "t") == ErrorCode.NONE
