"""Random faults against the sender: no duplicate, no reordering, no acknowledged loss."""

from __future__ import annotations

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from minikafka.protocol.errors import ErrorCode
from tests.client.core.sender_faults import NODE, PARTITION, SenderFaults
from tests.client.core.sender_world import NODES, World

RETRIABLE = st.sampled_from(
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ]
)
FINAL = st.sampled_from([ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED])


class SenderAgainstFaults(SenderFaults):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(delivery_timeout_s=20.0)
        self.count = 0
        self.world.send(0, b"first")
        self.world.send(1, b"second")
        self.world.settle()

    @rule(partition=PARTITION, count=st.integers(1, 6))
    def send(self, partition: int, count: int) -> None:
        for _ in range(count):
            self.count += 1
            self.world.send(partition, b"%d-%032d" % (partition, self.count))
        self.world.expire()

    @rule(node=NODE, error=RETRIABLE)
    def refuse_for_now(self, node: int, error: ErrorCode) -> None:
        self.world.process(node, error)

    @rule(node=NODE, error=FINAL)
    def refuse_for_good(self, node: int, error: ErrorCode) -> None:
        self.world.process(node, error)

    @precondition(lambda self: self.world.wants_connection)
    @rule()
    def refuse_connection(self) -> None:
        self.world.refuse_connection(self.world.wants_connection[0])

    @precondition(lambda self: self.world.wants_producer_id)
    @rule()
    def refuse_producer_id(self) -> None:
        self.world.refuse_producer_id(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    @invariant()
    def memory_is_bounded(self) -> None:
        accumulator = self.world.accumulator
        reserved = sum(batch.reserved_bytes for batch in accumulator.batches())
        assert accumulator.used_bytes == reserved <= accumulator.buffer_memory

    def teardown(self) -> None:
        finish(self.world)


TestSenderAgainstFaults = SenderAgainstFaults.TestCase
TestSenderAgainstFaults.settings = settings(stateful_step_count=50)


def finish(world: World) -> None:
    world.settle()
    for node in NODES:
        while world.zombies[node]:
            world.process_zombie(node)
    world.check()


ORDERLY = {"send": 8, "process": 8, "answer": 8, "recover": 6, "wait": 3}
FAULTS = {
    "lose": 1,
    "zombie": 1,
    "busy": 1,
    "timed_out": 1,
    "refuse": 0.3,
    "move": 0.5,
    "late": 0.1,
}


def random_walk(seed: int, steps: int) -> World:
    """Let chance decide, mostly in favour of progress; the seed tells the whole story."""
    dice = random.Random(seed)
    world = World(delivery_timeout_s=20.0)
    weights = ORDERLY | FAULTS
    for step in range(steps):
        node, partition = dice.choice(NODES), dice.randrange(2)
        match dice.choices(list(weights), list(weights.values()))[0]:
            case "send":
                for each in range(dice.randint(1, 6)):
                    world.send(partition, b"%d-%d-%032d" % (partition, step, each))
                world.expire()
            case "process":
                world.process(node)
            case "answer":
                world.answer(node)
            case "recover":
                world.recover()
            case "wait":
                world.expire(dice.choice([0.01, 0.3, 1.0]))
            case "lose":
                world.lose_connection(node)
            case "zombie":
                world.process_zombie(node)
            case "busy":
                world.process(node, ErrorCode.NOT_ENOUGH_REPLICAS)
            case "timed_out":
                world.process(node, ErrorCode.REQUEST_TIMED_OUT, append_anyway=True)
            case "refuse":
                world.process(node, ErrorCode.MESSAGE_TOO_LARGE)
            case "move":
                world.move_leader(partition, node)
            case _:
                world.expire(21.0)
    return world


@pytest.mark.parametrize("seed", range(40))
def test_a_long_random_walk(seed: int) -> None:
    finish(random_walk(seed, 600))


@pytest.mark.parametrize("seed", [1007, 1098, 1416, 1421, 1436, 1504])
def test_a_late_request_of_a_closed_connection_is_not_stored_twice(seed: int) -> None:
    finish(random_walk(seed, 800))  # each of them once did


def test_the_random_walks_meet_what_they_are_for() -> None:
    worlds = [random_walk(seed, 600) for seed in range(40)]
    epochs = [queue.producer_epoch for w in worlds for queue in w.accumulator.queues.values()]
    assert max(epochs) >= 3
    assert sum(len(world.failed) for world in worlds) > 100
    repeated = [batch for world in worlds for batch, _, _ in world.handles if batch.attempts > 1]
    assert len(repeated) > 500
