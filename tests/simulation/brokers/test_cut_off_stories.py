"""A transaction is open while the leader of its partition is cut off from the other brokers."""

from __future__ import annotations

import pytest
import trio

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import create_topics
from minikafka.testing.simulation.machines import SETTINGS
from minikafka.testing.simulation.network import HOST, Sockets, pass_time
from minikafka.testing.simulation.node import SimulatedNode
from tests.broker.handlers.transactional_wire import Producer, end, find, init, stable_values, write
from tests.kit.wire import WireClient, assigned, create_request
from tests.simulation.brokers.clients import Client
from tests.simulation.brokers.simulation import Simulation, play

_LOOK_SECONDS = 0.1
_PATIENCE_SECONDS = 120.0
OK = ErrorCode.NONE
REFUSED = ErrorCode.NOT_LEADER_OR_FOLLOWER


class CutOffStory(Simulation):
    """Its leader is cut off after a record of the transaction, and comes back before the end.

    Attributes:
        is_two_phase: the transaction is prepared, and its application asks for it again (KIP-939).
        seen: what the clients were told, in order.
    """

    settings = (*SETTINGS, "transaction.two.phase.commit.enable=true")

    def __init__(self, seed: int, *, is_two_phase: bool) -> None:
        super().__init__(seed, 0.0)
        self.is_two_phase = is_two_phase
        self.seen: list[object] = []
        self.client = Client("client", seed, self.network, self.trace.note, len(self.nodes))

    async def run(self) -> float:
        """Play it; returns the simulated seconds."""
        Sockets(self.network).install()
        async with trio.open_nursery() as nursery:
            self.machines.start_all(nursery)
            HOST.set("client")
            with trio.fail_after(_PATIENCE_SECONDS):
                await self._until("all serve", lambda: all(one.is_serving for one in self.nodes))
                await self._tell()
            nursery.cancel_scope.cancel()
        return trio.current_time()

    async def _tell(self) -> None:
        client = await self.client._connect(1)
        await find(client)
        coordinator = self.nodes[await self.client.coordinator("job-1", 1) - 1]
        leader, other = (one for one in self.nodes if one is not coordinator)
        order = [leader.node_id, other.node_id, coordinator.node_id]
        created = await client.ask(create_request(assigned("t", order)), 7, create_topics.Response)
        assert created.topics[0].error_code == OK
        at_coordinator = await self._ready(coordinator)
        at_leader = await self.client._connect(leader.node_id)
        begun = await init(at_coordinator, version=6, is_two_phase=self.is_two_phase)
        producer = (begun.producer_id, begun.producer_epoch)
        self.seen.append(await write(at_leader, producer, b"a", version=12))
        for node in (other, coordinator):
            self._cut(leader.host, node.host)
            self._cut(node.host, leader.host)
        await self._until("the leader stops", lambda: leader.broker.lifecycle.is_cut_off)
        self.seen.append(await write(at_leader, producer, b"b", sequence=1, version=12))
        await self._until("another one leads", lambda: self._leader(other) == other.node_id)
        producer = await self._go_on(at_coordinator, await self._ready(other), producer)
        self.network.heal()
        await self._until("it is back", lambda: not leader.broker.lifecycle.is_cut_off)
        self.seen.append((await end(at_coordinator, producer, version=5)).error_code)
        at_other = await self._ready(other)
        while (await stable_values(at_other))[0] < self._end(other):
            await pass_time(_LOOK_SECONDS)
        await self._until("both are equal", lambda: self._end(leader) == self._end(other))
        self.seen.append((await stable_values(at_other))[2])

    async def _go_on(
        self, coordinator: WireClient, leader: WireClient, producer: Producer
    ) -> Producer:
        """Another record of the transaction, or the question which transaction was prepared."""
        if not self.is_two_phase:
            self.seen.append(await write(leader, producer, b"b", sequence=1, version=12))
            return producer
        kept = await init(coordinator, version=6, is_two_phase=True, keeps_prepared=True)
        assert (kept.ongoing_txn_producer_id, kept.ongoing_txn_producer_epoch) == producer
        self.seen.append(kept.error_code)
        return kept.producer_id, kept.producer_epoch

    async def _ready(self, node: SimulatedNode) -> WireClient:
        await self._until("it knows its part", lambda: node.broker.lifecycle.has_lease)
        return await self.client._connect(node.node_id)

    def _leader(self, node: SimulatedNode) -> int:
        return node.broker.image.topics["t"].partitions[0].leader

    def _end(self, node: SimulatedNode) -> int:
        return node.broker.partitions["t", 0].log.log_end_offset


@pytest.mark.parametrize("is_two_phase", [False, True])
def test_a_transaction_outlives_its_leaders_fence(is_two_phase: bool) -> None:
    story = CutOffStory(5, is_two_phase=is_two_phase)
    play(story)
    assert story.seen == [OK, REFUSED, OK, OK, 0]
