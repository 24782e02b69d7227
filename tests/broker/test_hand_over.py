"""Planned changes of leaders lose no acknowledged record, even with acks=1."""

from __future__ import annotations

from pathlib import Path

import trio

from minikafka.metadata.records import BrokerChangeRecord
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import produce
from tests.broker.replicated import ReplicatedCluster, replicated, until
from tests.kit.wire import one_batch, produce_request, values_of


class Writer:
    """Sends records with acks=1 to the current leader, and notes which are acknowledged."""

    def __init__(self, cluster: ReplicatedCluster) -> None:
        self.cluster = cluster
        self.acknowledged: list[bytes] = []
        self.refused: list[ErrorCode] = []

    async def run(self) -> None:
        """Write until cancelled; requests are pipelined, as in producers."""
        clients = {number: node.connect() for number, node in self.cluster.nodes.items()}
        number = 0
        while True:
            client = clients[self.cluster.now().leader]
            values = [b"%d" % one for one in range(number, number + 3)]
            number += 3
            for value in values:
                batch = one_batch(value)
                await client.send(produce_request("t", batch), 9)
            for value in values:
                _, answer = await client.receive(produce.Response, 9)
                code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
                if code is ErrorCode.NONE:
                    self.acknowledged.append(value)
                else:
                    self.refused.append(code)


async def check(cluster: ReplicatedCluster, writer: Writer) -> None:
    """Every acknowledged record is there once."""
    leader = cluster.nodes[cluster.now().leader]
    answer = await leader.connect().produce("t", b"last", acks=-1)
    assert answer.error_code == 0
    found = values_of(await leader.connect().fetch("t", 0))
    assert set(writer.acknowledged) <= set(found)
    assert len(found) == len(set(found))
    assert set(writer.refused) <= {ErrorCode.NOT_LEADER_OR_FOLLOWER}


async def test_a_leader_hands_over_without_losing_a_record(tmp_path: Path) -> None:
    async with replicated(tmp_path, 3) as cluster:
        await cluster.create_topic("t", (1, 2, 3))
        writer = Writer(cluster)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run)
            for next_leader in (2, 3, 1, 2):
                before = len(writer.acknowledged)
                await until(lambda before=before: len(writer.acknowledged) > before + 20)
                await cluster.decide(cluster.changed(next_leader=next_leader))
                await until(lambda leader=next_leader: cluster.now().leader == leader)
            before = len(writer.acknowledged)
            await until(lambda: len(writer.acknowledged) > before + 20)
            nursery.cancel_scope.cancel()
        assert cluster.now().leader_epoch == 4
        await check(cluster, writer)


async def test_a_stopping_broker_hands_over_what_it_leads(tmp_path: Path) -> None:
    async with replicated(tmp_path, 3) as cluster:
        await cluster.create_topic("t", (1, 2, 3), (1, 3), (1,))
        writer = Writer(cluster)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run)
            await until(lambda: len(writer.acknowledged) > 20)
            epoch = cluster.image.brokers[1].broker_epoch
            await cluster.decide(
                BrokerChangeRecord(1, epoch, is_fenced=False, is_shutting_down=True)
            )
            await until(lambda: cluster.now().leader != 1)
            await until(lambda: cluster.now("t", 1).leader == 3)
            nursery.cancel_scope.cancel()
        assert cluster.now("t", 2).leader == 1
        await check(cluster, writer)


async def test_a_refused_hand_over_is_abandoned(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        client = cluster.nodes[1].connect()
        assert (await client.produce("t", b"a", acks=-1)).error_code == 0
        cluster.refusal = ErrorCode.NOT_CONTROLLER
        partition = cluster.nodes[1].partition()
        await cluster.decide(cluster.changed(next_leader=2))
        await until(lambda: partition.is_frozen)
        batch = one_batch(b"b")
        await client.send(produce_request("t", batch), 9)
        cluster.refusal = None
        _, answer = await client.receive(produce.Response, 9)
        one = answer.responses[0].partition_responses[0]
        await until(lambda: not cluster.nodes[1].broker.replicas.frozen)
        # Either the leader abandoned it in time, or the other one took over.
        leader = cluster.now().leader
        expected = ErrorCode.NONE if leader == 1 else ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert one.error_code == expected
        await until(lambda: cluster.nodes[leader].partition().is_leader)
        assert (await cluster.nodes[leader].connect().produce("t", b"c", acks=-1)).error_code == 0


async def test_a_hand_over_waits_for_the_next_leader_to_catch_up(tmp_path: Path) -> None:
    async with replicated(tmp_path, 2) as cluster:
        await cluster.create_topic("t", (1, 2))
        client = cluster.nodes[1].connect()
        assert (await client.produce("t", b"a", acks=-1)).error_code == 0
        await cluster.nodes[2].stop()
        assert (await client.produce("t", b"b", acks=1)).error_code == 0
        await cluster.decide(cluster.changed(next_leader=2))
        assert (await client.produce("t", b"c", acks=1)).error_code == 0
        assert cluster.now().leader == 1
        await cluster.restart(cluster.nodes[2])
        await until(lambda: cluster.now().leader == 2)
        found = values_of(await cluster.nodes[2].connect().fetch("t", 0))
        assert found[:1] == [b"a"]
        await until(lambda: cluster.nodes[2].partition().log.high_watermark == 3)
