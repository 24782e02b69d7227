"""What can happen to a producer between two of its calls, as rules of a state machine."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from minikafka.protocol.errors import ErrorCode
from tests.client.core.sender_world import NODES, World

NODE = st.sampled_from(NODES)
PARTITION = st.integers(0, 1)


class SenderFaults(RuleBasedStateMachine):
    """Two nodes and two partitions; a subclass makes the world, sends and is refused."""

    world: World

    @rule(node=NODE)
    def process(self, node: int) -> None:
        self.world.process(node)

    @rule(node=NODE, count=st.integers(1, 5))
    def process_and_answer(self, node: int, count: int) -> None:
        for _ in range(count):
            self.world.process(node)
            self.world.answer(node)

    @rule(node=NODE)
    def append_but_say_timed_out(self, node: int) -> None:
        self.world.process(node, ErrorCode.REQUEST_TIMED_OUT, append_anyway=True)

    @rule(node=NODE)
    def answer(self, node: int) -> None:
        self.world.answer(node)

    @rule(node=NODE)
    def lose_connection(self, node: int) -> None:
        self.world.lose_connection(node)

    @rule(node=NODE)
    def process_zombie(self, node: int) -> None:
        self.world.process_zombie(node)

    @rule(partition=PARTITION, node=NODE)
    def move_leader(self, partition: int, node: int) -> None:
        # A deposed leader's connection does not outlive it in this model, but its requests may.
        self.world.move_leader(partition, node)

    @rule()
    def recover(self) -> None:
        self.world.recover()

    @rule(seconds=st.sampled_from([0.05, 0.3, 3.0, 21.0]))
    def pass_time(self, seconds: float) -> None:
        self.world.expire(seconds)
