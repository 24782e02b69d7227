"""Random failures of brokers in one process: records acknowledged with acks=all survive.

    MINIKAFKA_FAULTS_SEED=7 MINIKAFKA_FAULTS_ROUNDS=500 pytest tests/broker -k chaos

plays other failures, and more of them. Elections are the controller's own decisions.
"""

from __future__ import annotations

import errno
import random
import time
from collections import Counter
from pathlib import Path

import pytest
import trio

from minikafka.metadata.brokers import Registration, fence_brokers, register_broker, unfence_broker
from minikafka.metadata.decision import Refusal
from minikafka.metadata.elections import ElectionKind, elect_leaders
from minikafka.metadata.replication_rules import ReplicationRules
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import produce
from minikafka.protocol.records import decode_records, encode_batch, iter_batches
from minikafka.testing.wire import WireClosedError
from tests.broker.replicated import NO_LEADER, ReplicatedCluster, replicated, until
from tests.broker.test_replication import bytes_of
from tests.faults.campaign import rounds, with_seed
from tests.kit.wire import WireClient, produce_request

RULES = ReplicationRules(2)
SETTINGS = ("replica.lag.time.max.ms=400", "min.insync.replicas=2")
NODES = (1, 2, 3)


class Writer:
    """An idempotent producer with acks=all that retries each record until it is acknowledged."""

    def __init__(self, cluster: ReplicatedCluster, partition: int) -> None:
        self.cluster = cluster
        self.partition = partition
        self.acknowledged: list[bytes] = []
        self.is_done = False
        self._clients: dict[object, WireClient] = {}

    async def run(self) -> None:
        """Write until `is_done`."""
        sequence = 0
        while not self.is_done:
            value = b"%d" % sequence
            # With an old timestamp the producer would expire at every restart.
            batch = encode_batch(
                [(None, value, (), time.time_ns() // 1_000_000)],
                producer_id=100 + self.partition,
                producer_epoch=0,
                base_sequence=sequence,
            )
            while await self._send(bytes(batch)) is not ErrorCode.NONE:
                with trio.move_on_after(0.005):  # as a producer's retry.backoff.ms
                    await trio.sleep_forever()
            self.acknowledged.append(value)
            sequence += 1

    async def _send(self, batch: bytes) -> ErrorCode:
        leader = self.cluster.now("t", self.partition).leader
        node = self.cluster.nodes.get(leader)
        if leader == NO_LEADER or node is None or node.stopped.is_set():
            return ErrorCode.LEADER_NOT_AVAILABLE
        request = produce_request("t", batch, partition=self.partition, acks=-1)
        request.timeout_ms = 1000
        try:
            client = self._clients.get(node.broker)
            if client is None:
                client = self._clients[node.broker] = node.connect()
            await client.send(request, 9)
            _, answer = await client.receive(produce.Response, 9)
        except (
            trio.BrokenResourceError,
            trio.ClosedResourceError,
            WireClosedError,
            RuntimeError,  # the broker is stopping
        ):
            self._clients.pop(node.broker, None)
            return ErrorCode.NETWORK_EXCEPTION
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)


class Chaos:
    """Failures and recoveries."""

    def __init__(self, cluster: ReplicatedCluster, dice: random.Random) -> None:
        self.cluster = cluster
        self.dice = dice
        self.events: list[str] = []

    @property
    def alive(self) -> list[int]:
        return [one for one, node in self.cluster.nodes.items() if not node.stopped.is_set()]

    def note(self, text: str) -> None:
        self.events.append(text)

    async def crash(self, node_id: int) -> None:
        """Kill a broker, and fence it."""
        self.note(f"crash {node_id}")
        await self.cluster.nodes[node_id].stop()
        decision = fence_brokers(self.cluster.image, [node_id], RULES)
        await self.cluster.decide(*decision.records)

    async def come_back(self, node_id: int) -> None:
        """Start a broker again, with another registration."""
        self.note(f"start {node_id}")
        cluster, node = self.cluster, self.cluster.nodes[node_id]
        node.gets_no_metadata = False
        await cluster.run_node(node)
        registration = Registration(
            node_id, node.broker.node.incarnation, "b.test", 9092, *node.address, None
        )
        decision = register_broker(cluster.image, registration, RULES, is_old_alive=False)
        assert not isinstance(decision.result, Refusal)
        node.broker_epoch = decision.result.broker_epoch
        await cluster.decide(*decision.records)
        await node.broker.replicas.activate(node.broker_epoch)
        unfencing = unfence_broker(cluster.image, node_id, node.broker_epoch, RULES)
        assert unfencing.result is None
        await cluster.decide(*unfencing.records)

    async def move_leaders(self) -> None:
        """Elect preferred replicas."""
        self.note("move leaders")
        decision = elect_leaders(self.cluster.image, ElectionKind.PREFERRED, None, RULES)
        await self.cluster.decide(*decision.records)

    async def fall_behind(self, node_id: int) -> None:
        """A broker gets no metadata for a while."""
        self.note(f"behind {node_id}")
        self.cluster.nodes[node_id].gets_no_metadata = True

    async def catch_up(self, node_id: int) -> None:
        self.note(f"catch up {node_id}")
        node = self.cluster.nodes[node_id]
        node.gets_no_metadata = False
        if not node.stopped.is_set():
            await node.catch_up()

    async def break_disk(self, node_id: int) -> None:
        """A log goes offline, and is recovered a little later."""
        node = self.cluster.nodes[node_id]
        number = self.dice.randrange(3)
        partition = node.broker.partitions.get(("t", number))
        if partition is not None:
            self.note(f"disk of {node_id} under {number}")
            partition.log.fail(OSError(errno.EIO, "Input/output error"))
            await self.pause()
            if not node.stopped.is_set():
                await node.broker.replicas.reopen("t", number)

    async def pause(self) -> None:
        with trio.move_on_after(self.dice.uniform(0, 0.1)):
            await trio.sleep_forever()

    async def disaster(self) -> None:
        """One random event."""
        dice, alive = self.dice, self.alive
        dead = [one for one in NODES if one not in alive]
        behind = [one for one in NODES if self.cluster.nodes[one].gets_no_metadata]
        kind = dice.choice(["crash", "crash", "back", "back", "move", "behind", "catch up", "disk"])
        if kind == "crash" and len(alive) > 1:
            await self.crash(dice.choice(alive))
        elif kind == "back" and dead:
            await self.come_back(dice.choice(dead))
        elif kind == "move":
            await self.move_leaders()
        elif kind == "behind" and not behind:
            await self.fall_behind(dice.choice(NODES))
        elif kind == "catch up" and behind:
            await self.catch_up(behind[0])
        elif kind == "disk" and alive:
            await self.break_disk(dice.choice(alive))
        await self.pause()

    async def heal(self) -> None:
        """End all failures."""
        for node_id in NODES:
            await self.catch_up(node_id)
            if self.cluster.nodes[node_id].stopped.is_set():
                await self.come_back(node_id)


def values_in(content: bytes) -> list[bytes | None]:
    return [
        record.value
        for position, _ in iter_batches(content)
        for record in decode_records(content, position)
    ]


@with_seed
@pytest.mark.timeout(36_000)
async def test_records_acknowledged_by_all_survive_chaos(tmp_path: Path, seed: int) -> None:
    dice = random.Random(f"replication {seed}")
    async with replicated(tmp_path, 3, *SETTINGS) as cluster:
        await cluster.create_topic("t", (1, 2, 3), (2, 3, 1), (3, 1, 2))
        chaos = Chaos(cluster, dice)
        cluster.rules = RULES
        writers = [Writer(cluster, number) for number in range(3)]
        async with trio.open_nursery() as nursery:
            for writer in writers:
                nursery.start_soon(writer.run)
            for _ in range(rounds(12)):
                await chaos.disaster()
            await chaos.heal()
            for writer in writers:
                before = len(writer.acknowledged)
                await until(lambda w=writer, n=before: len(w.acknowledged) > n)
                writer.is_done = True
        for number, writer in enumerate(writers):
            await until(lambda n=number: len(cluster.now("t", n).in_sync_replicas) == 3)
            logs = [node.partition("t", number).log for node in cluster.nodes.values()]
            await until(lambda logs=logs: len({one.log_end_offset for one in logs}) == 1)
            contents = [bytes_of(log) for log in logs]
            assert contents[0] == contents[1] == contents[2], chaos.events
            found = [value for value in values_in(contents[0]) if value is not None]
            lost = [one for one in writer.acknowledged if one not in set(found)]
            doubled = [value for value, times in Counter(found).items() if times > 1]
            problem = f"lost {lost[:9]}, doubled {doubled[:9]}, after {chaos.events}"
            assert found == writer.acknowledged, problem
