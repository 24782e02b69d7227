"""Consumers in one group: our members against the coordinator of our broker, without sockets."""

from __future__ import annotations

from collections import deque
from typing import Any

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import heartbeat, join_group, leave_group, sync_group
from minikafka.protocol.messages import metadata as metadata_api
from minikafka.protocol.schema import Request
from minikafka_client.core import group_member, membership
from minikafka_client.core.assignors.registry import AssignorName, choose_assignors
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import ConnectionLostError, KafkaError
from minikafka_client.types import TopicPartition
from tests.coordinator.group.harness import Call, Shell

GROUP = "readers"
NODE = 1
VERSIONS: dict[type[Request], int] = {
    join_group.Request: 9,
    sync_group.Request: 5,
    heartbeat.Request: 4,
    leave_group.Request: 5,
}


def metadata(partition_counts: dict[str, int]) -> metadata_api.Response:
    return metadata_api.Response(
        brokers=[metadata_api.Broker(node_id=NODE, host="h", port=9092)],
        topics=[
            metadata_api.ResponseTopic(
                error_code=0 if count else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                name=name,
                partitions=[
                    metadata_api.Partition(error_code=0, partition_index=index, leader_id=NODE)
                    for index in range(count)
                ],
            )
            for name, count in partition_counts.items()
        ],
    )


class Consumer:
    """One member, its application, and its connection to the coordinator.

    Attributes:
        holding: what the application reads.
        actions: what it has been asked to do when it next polls.
        lost, revoked: how often its callbacks were called.
    """

    def __init__(
        self,
        world: World,
        name: str,
        assignors: tuple[AssignorName, ...],
        *,
        instance_id: str | None = None,
    ) -> None:
        self.world = world
        self.name = name
        self.cluster = Cluster([("h", 9092)])
        config = group_member.GroupConfig(
            group_id=GROUP,
            group_instance_id=instance_id,
            assignors=choose_assignors(assignors),
            session_timeout_ms=10_000,
            heartbeat_interval_ms=3_000,
            max_poll_interval_ms=60_000,
        )
        self.member = group_member.GroupMember(
            config, self.cluster, Backoff(100, 1_000, lambda: 0.5)
        )
        self.holding: set[TopicPartition] = set()
        self.actions: deque[membership.Revoke | membership.Assign] = deque()
        self.error: KafkaError | None = None
        self.unanswered: deque[tuple[int, Call[Any]]] = deque()
        self.wants_coordinator = False
        self.wants_metadata: frozenset[str] = frozenset()
        self.lost = self.revoked = 0

    @property
    def now(self) -> float:
        return self.world.shell.now.monotonic_s

    def feed(self, *events: Any) -> None:
        for event in events:
            self.run(self.member.handle(event, self.now))

    def run(self, effects: list[membership.Effect]) -> None:
        for effect in effects:
            match effect:
                case membership.Send(_node, token, request):
                    call: Call[Any] = Call()
                    self.unanswered.append((token, call))
                    self.world.ask(request, call, self.name)
                case membership.FindCoordinator():
                    self.wants_coordinator = True
                case membership.RefreshMetadata(topics):
                    self.wants_metadata |= topics
                case membership.Revoke() | membership.Assign():
                    self.actions.append(effect)
                case membership.Fail(error):
                    self.error = error

    # --- what may happen ---

    def subscribe(self, *topics: str) -> None:
        self.feed(membership.Subscribed(topics))

    def poll(self) -> None:
        """The application polls, which runs its rebalance callbacks."""
        self.feed(membership.Polled())
        while self.actions:
            action = self.actions.popleft()
            if isinstance(action, membership.Revoke):
                self.holding -= set(action.partitions)
                self.lost += action.is_lost
                self.revoked += not action.is_lost
                self.feed(membership.Revoked())
            else:
                self.holding |= set(action.partitions)

    def receive(self) -> None:
        """Deliver the answers that have arrived, in order."""
        while self.unanswered and self.unanswered[0][1].is_answered:
            token, call = self.unanswered.popleft()
            self.feed(membership.Answered(token, call.response))

    def lose_connection(self) -> None:
        lost, self.unanswered = self.unanswered, deque()
        for token, _call in lost:
            self.feed(membership.Answered(token, ConnectionLostError("lost")))

    def recover(self) -> None:
        """Get what it asked the rest of the client for."""
        if self.wants_coordinator:
            self.wants_coordinator = False
            self.feed(membership.CoordinatorFound(NODE))
        if self.wants_metadata:
            names, self.wants_metadata = self.wants_metadata, frozenset()
            self.learn(names)

    def fail_to_find_coordinator(self, error: KafkaError) -> None:
        if self.wants_coordinator:
            self.wants_coordinator = False
            self.feed(membership.CoordinatorFailed(error))

    def learn(self, names: frozenset[str]) -> None:
        counts = {name: self.world.partition_counts.get(name, 0) for name in names}
        self.cluster.update(metadata(counts), self.now)
        self.feed(membership.MetadataChanged())

    def leave(self) -> None:
        self.feed(membership.Left("leaving"))
        self.actions.clear()
        self.holding.clear()


class World:
    """A coordinator, a clock, and the group's consumers."""

    def __init__(self, **partition_counts: int) -> None:
        self.partition_counts = dict(partition_counts)
        self.shell = Shell(group_initial_rebalance_delay_ms=0)
        self.consumers: list[Consumer] = []

    def ask(self, request: Request, call: Call[Any], client_id: str) -> None:
        self.shell.ask(request, VERSIONS[type(request)], call, client_id)  # type: ignore[arg-type]  # one of the four

    def join(
        self, name: str, *assignors: AssignorName, topics: tuple[str, ...] = ("t",)
    ) -> Consumer:
        consumer = Consumer(self, name, assignors)
        self.consumers.append(consumer)
        consumer.subscribe(*topics)
        return consumer

    def advance(self, seconds: float) -> None:
        """Let time pass in small steps; coordinator and members do what is due."""
        end = self.shell.now.monotonic_s + seconds
        while self.shell.now.monotonic_s < end:
            deadlines = [each.member.deadline() for each in self.consumers]
            due = [each for each in deadlines if each is not None]
            step = min([end, *due]) - self.shell.now.monotonic_s
            self.shell.advance(max(step, 0.01))
            for consumer in self.consumers:
                consumer.run(consumer.member.expire(consumer.now))

    def restart_coordinator(self) -> None:
        """The coordinator loads its log; every connection breaks."""
        self.shell = self.shell.restart()
        for consumer in self.consumers:
            consumer.lose_connection()

    def settle(self) -> None:
        """Everybody polls and nothing fails, until the group is stable.

        Raises:
            AssertionError: it does not become stable.
        """
        for _ in range(400):
            for consumer in self.consumers:
                consumer.recover()
                consumer.receive()
                consumer.poll()
            if self.is_settled:
                return
            self.advance(0.5)
        states = [
            (each.name, each.member.state, each.member.generation_id) for each in self.consumers
        ]
        raise AssertionError(f"the group does not become stable: {states}")

    @property
    def state(self) -> str:
        """What the coordinator says of the group."""
        return self.shell.shard.describe(GROUP, 5).group_state

    @property
    def is_settled(self) -> bool:
        alive = [
            each.member
            for each in self.consumers
            if each.member.state is not group_member.State.IDLE
        ]
        return (
            self.state in ("Stable", "Empty", "Dead")
            and all(member.state is group_member.State.STABLE for member in alive)
            and len({member.generation_id for member in alive}) <= 1
            and not any(each.actions or each.unanswered for each in self.consumers)
            and not any(member.topics != member.joined_topics for member in alive)
        )

    def check_disjoint(self) -> None:
        """No two members of one generation have the same partition."""
        owners: dict[tuple[int, TopicPartition], str] = {}
        for consumer in self.consumers:
            member = consumer.member
            if member.state is not group_member.State.STABLE:
                continue
            for partition in member.owned:
                key = (member.generation_id, partition)
                assert key not in owners, f"{partition}: {owners[key]} and {consumer.name}"
                owners[key] = consumer.name

    def check_all_assigned(self, *topics: str) -> None:
        """Between them, the consumers read each partition exactly once."""
        wanted = sorted(
            TopicPartition(topic, index)
            for topic in topics
            for index in range(self.partition_counts[topic])
        )
        held = sorted(partition for each in self.consumers for partition in each.holding)
        assert held == wanted
        for consumer in self.consumers:
            assert consumer.holding == set(consumer.member.owned)


def stable(**partitions: int) -> tuple[World, Consumer]:
    """A world of these topics, and a consumer that is alone in its group."""
    world = World(**partitions)
    consumer = world.join("a", "range")
    world.settle()
    return world, consumer


def joining(**partitions: int) -> tuple[World, Consumer]:
    """The same, when the consumer's first request is with the coordinator."""
    world = World(**partitions)
    consumer = world.join("a", "range")
    consumer.recover()
    return world, consumer


def state_of(consumer: Consumer) -> group_member.State:
    """The state now (a type checker would believe that an attribute stays as it was asserted)."""
    return consumer.member.state


def partitions(topic: str, *indexes: int) -> set[TopicPartition]:
    return {TopicPartition(topic, index) for index in indexes}
