"""Members of a group with KIP-848's protocol, and a coordinator that is as simple as it can be."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import consumer_group_heartbeat as api
from minikafka.protocol.messages import metadata as metadata_api
from minikafka_client.core import membership
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import Cluster
from minikafka_client.core.consumer_group_member import (
    ConsumerGroupMember,
    HeartbeatConfig,
    State,
)
from minikafka_client.errors import ConnectionLostError, KafkaError
from minikafka_client.types import TopicPartition

GROUP = "readers"
NODE = 1
HEARTBEAT_INTERVAL_MS = 5_000
SESSION_S = 45.0

Place = tuple[bytes, int]


@dataclass
class Known:
    """What the coordinator knows of a member.

    ``given``: its current assignment; ``held``: what it may have, which is what it was given since
    it last said what it owns, and that.
    """

    member_id: str
    instance_id: str | None
    heard_at: float
    epoch: int = 0
    topics: frozenset[str] = frozenset()
    given: frozenset[Place] = frozenset()
    held: frozenset[Place] = frozenset()
    is_away: bool = False


class Coordinator:
    """Divides partitions in turn; one moves only after its owner has said that it let go."""

    def __init__(self, **partition_counts: int) -> None:
        self.topics: dict[str, tuple[bytes, int]] = {}
        self.recreated: set[str] = set()
        self.names_by_id: dict[bytes, str] = {}
        self.group_epoch = 0
        self.members: dict[str, Known] = {}
        self._ids = 0
        for name, count in partition_counts.items():
            self.create(name, count)

    def create(self, name: str, count: int) -> None:
        """Create a topic, again under another id if there was one of this name."""
        self._ids += 1
        if name in self.topics:
            self.recreated.add(name)
        topic_id = self._ids.to_bytes(16, "big")
        self.topics[name] = (topic_id, count)
        self.names_by_id[topic_id] = name
        self.group_epoch += 1

    def names(self, places: frozenset[Place]) -> set[TopicPartition]:
        return {TopicPartition(self.names_by_id[topic_id], index) for topic_id, index in places}

    def grow(self, name: str, count: int) -> None:
        self.topics[name] = (self.topics[name][0], count)
        self.group_epoch += 1

    def target(self, member_id: str) -> frozenset[Place]:
        share: set[Place] = set()
        for name, (topic_id, count) in self.topics.items():
            readers = sorted(m.member_id for m in self.members.values() if name in m.topics)
            share |= {
                (topic_id, index)
                for index in range(count)
                if readers and readers[index % len(readers)] == member_id
            }
        return frozenset(share)

    def expire(self, now: float) -> None:
        for member in list(self.members.values()):
            if now >= member.heard_at + SESSION_S:
                self.remove(member.member_id)

    def remove(self, member_id: str) -> None:
        if self.members.pop(member_id, None) is not None:
            self.group_epoch += 1

    def heartbeat(self, request: api.Request, now: float) -> api.Response:
        if request.member_epoch < 0:
            return self._leave(request)
        code = self._check(request)
        if code:
            return api.Response(error_code=code, member_epoch=0, heartbeat_interval_ms=0)
        member = self.members.get(request.member_id)
        if request.member_epoch == 0:
            assert request.topic_partitions == []
            assert request.rebalance_timeout_ms > 0
            member = self._join(request, now)
        assert member is not None
        member.heard_at = now
        self._subscribe(member, request)
        if request.topic_partitions is not None:
            member.held = places_in(request)
        before = member.given
        self._reconcile(member)
        is_full = request.topic_partitions is not None and request.rebalance_timeout_ms > 0
        assignment = None
        if is_full or member.given != before:
            assignment = api.Assignment(
                topic_partitions=[
                    api.TopicPartitionsResponse(topic_id=topic_id, partitions=[index])
                    for topic_id, index in sorted(member.given)
                ]
            )
        return api.Response(
            error_code=0,
            member_epoch=member.epoch,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            assignment=assignment,
        )

    def _leave(self, request: api.Request) -> api.Response:
        member = self.members.get(request.member_id)
        if member is not None and request.member_epoch == -2:
            assert member.instance_id is not None
            member.is_away = True
        else:
            self.remove(request.member_id)
        return api.Response(error_code=0, member_epoch=-1, heartbeat_interval_ms=0)

    def _check(self, request: api.Request) -> ErrorCode:
        holder = self._holder(request.instance_id)
        if holder is not None and holder.member_id != request.member_id and not holder.is_away:
            is_new = request.member_epoch == 0
            return ErrorCode.UNRELEASED_INSTANCE_ID if is_new else ErrorCode.FENCED_INSTANCE_ID
        if request.member_epoch == 0:
            return ErrorCode.NONE
        member = self.members.get(request.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        # After a lost answer a member is one epoch behind; then it says everything.
        is_behind = request.member_epoch < member.epoch and request.topic_partitions is not None
        if request.member_epoch != member.epoch and not is_behind:
            return ErrorCode.FENCED_MEMBER_EPOCH
        return ErrorCode.NONE

    def _holder(self, instance_id: str | None) -> Known | None:
        for member in self.members.values():
            if instance_id is not None and member.instance_id == instance_id:
                return member
        return None

    def _join(self, request: api.Request, now: float) -> Known:
        known = self._holder(request.instance_id) or self.members.get(request.member_id)
        if known is None:
            known = Known(request.member_id, request.instance_id, now)
            self.group_epoch += 1
        else:
            del self.members[known.member_id]
            known.member_id, known.is_away = request.member_id, False
        known.held = frozenset()
        self.members[request.member_id] = known
        return known

    def _subscribe(self, member: Known, request: api.Request) -> None:
        if request.subscribed_topic_names is not None:
            topics = frozenset(request.subscribed_topic_names)
            if topics != member.topics:
                member.topics = topics
                self.group_epoch += 1

    def _reconcile(self, member: Known) -> None:
        target = self.target(member.member_id)
        if member.held - target:
            member.given &= target  # it has to release some first
            return
        others = [each.held for each in self.members.values() if each is not member]
        member.given = target.difference(*others)
        member.held |= member.given
        member.epoch = self.group_epoch


def places_in(request: api.Request) -> frozenset[Place]:
    """What a heartbeat says that its sender owns."""
    return frozenset(
        (each.topic_id, index)
        for each in request.topic_partitions or ()
        for index in each.partitions
    )


@dataclass
class Asked:
    """A request on its way; ``answer`` when the coordinator has processed it."""

    token: int
    request: api.Request
    answer: api.Response | None = None


@dataclass
class Application:
    """One member, its application, and its connection to the coordinator.

    Attributes:
        holding: what the application reads.
        actions: what it has been asked to do when it next polls.
        said: everything that its heartbeats said.
    """

    world: World
    member_id: str
    instance_id: str | None = None
    holding: set[TopicPartition] = field(default_factory=set[TopicPartition])
    actions: deque[membership.Revoke | membership.Assign] = field(
        default_factory=deque[membership.Revoke | membership.Assign]
    )
    unanswered: deque[Asked] = field(default_factory=deque[Asked])
    said: list[api.Request] = field(default_factory=list[api.Request])
    error: KafkaError | None = None
    wants_coordinator: bool = False
    wants_ids: frozenset[bytes] = frozenset()
    lost: int = 0
    revoked: int = 0
    assigned: int = 0

    def __post_init__(self) -> None:
        self.cluster = Cluster([("h", 9092)])
        config = HeartbeatConfig(GROUP, 60_000, self.instance_id, "rack", "uniform")
        self.member = ConsumerGroupMember(
            config, self.member_id, self.cluster, Backoff(100, 1_000, lambda: 0.5)
        )

    @property
    def state(self) -> State:
        return self.member.state

    def feed(self, *events: membership.Event) -> None:
        for event in events:
            self.run(self.member.handle(event, self.world.now))

    def run(self, effects: list[membership.Effect]) -> None:
        for effect in effects:
            match effect:
                case membership.Send(_node, token, request):
                    assert isinstance(request, api.Request)
                    self._sent(token, request)
                case membership.FindCoordinator():
                    self.wants_coordinator = True
                case membership.RefreshMetadata(_topics, topic_ids):
                    self.wants_ids |= topic_ids
                case membership.Revoke() | membership.Assign():
                    self.actions.append(effect)
                case membership.Fail(error):
                    self.error = error

    def _sent(self, token: int, request: api.Request) -> None:
        self.said.append(request)
        self.unanswered.append(Asked(token, request))
        if request.topic_partitions is not None:
            reported = self.world.coordinator.names(places_in(request))
            assert self.holding <= reported, "it says that it has released what it still reads"

    # --- what may happen ---

    def subscribe(self, *topics: str) -> None:
        self.feed(membership.Subscribed(topics))

    def poll(self) -> None:
        """The application polls, which runs its rebalance callbacks."""
        self.feed(membership.Polled())
        while self.actions:
            action = self.actions.popleft()
            if isinstance(action, membership.Revoke):
                assert self.holding >= set(action.partitions)
                self.holding -= set(action.partitions)
                self.lost += action.is_lost
                self.revoked += not action.is_lost
                self.feed(membership.Revoked())
            else:
                assert self.holding.isdisjoint(action.partitions)
                self.holding |= set(action.partitions)
                self.assigned += 1

    def serve(self) -> None:
        """The coordinator processes what has arrived."""
        for asked in self.unanswered:
            if asked.answer is None:
                asked.answer = self.world.coordinator.heartbeat(asked.request, self.world.now)

    def receive(self) -> None:
        """Deliver the answers that are there, in order."""
        while self.unanswered and self.unanswered[0].answer is not None:
            asked = self.unanswered.popleft()
            assert asked.answer is not None
            self.feed(membership.Answered(asked.token, asked.answer))

    def answer(self, code: ErrorCode) -> None:
        """Answer the only request with an error code."""
        [asked] = self.unanswered
        asked.answer = api.Response(error_code=code, member_epoch=0, heartbeat_interval_ms=0)
        self.receive()

    def lose_connection(self) -> None:
        lost, self.unanswered = self.unanswered, deque()
        for asked in lost:
            self.feed(membership.Answered(asked.token, ConnectionLostError("lost")))

    def recover(self) -> None:
        """Get what it asked the rest of the client for."""
        if self.wants_coordinator:
            self.wants_coordinator = False
            self.feed(membership.CoordinatorFound(NODE))
        if self.wants_ids:
            self.wants_ids = frozenset()
            self.learn()

    def learn(self) -> None:
        """Metadata arrives."""
        response = metadata_api.Response(
            brokers=[metadata_api.Broker(node_id=NODE, host="h", port=9092)],
            topics=[
                metadata_api.ResponseTopic(
                    name=name,
                    topic_id=topic_id,
                    error_code=0,
                    partitions=[
                        metadata_api.Partition(error_code=0, partition_index=i, leader_id=NODE)
                        for i in range(count)
                    ],
                )
                for name, (topic_id, count) in self.world.coordinator.topics.items()
            ],
        )
        self.cluster.update(response, self.world.now)
        self.feed(membership.MetadataChanged())

    def leave(self) -> None:
        self.feed(membership.Left("leaving"))
        self.actions.clear()
        self.holding.clear()
        self.serve()
        self.receive()


class World:
    """A coordinator, a clock, and the group's members."""

    def __init__(self, **partition_counts: int) -> None:
        self.now = 1_000.0
        self.coordinator = Coordinator(**partition_counts)
        self.applications: list[Application] = []
        self._count = 0

    def join(self, *topics: str, instance_id: str | None = None) -> Application:
        self._count += 1
        application = Application(self, f"member-{self._count}", instance_id)
        self.applications.append(application)
        application.learn()
        application.subscribe(*(topics or ("t",)))
        return application

    def advance(self, seconds: float) -> None:
        """Let time pass; members do what is due, and sessions end."""
        end = self.now + seconds
        while self.now < end:
            due = [each.member.deadline() for each in self.applications]
            ahead = [time for time in due if time is not None and time > self.now]
            self.now = min([end, *ahead])
            for application in self.applications:
                application.run(application.member.expire(self.now))
            self.coordinator.expire(self.now)

    def settle(self) -> None:
        """Everybody polls and nothing fails, until the group is stable."""
        for _ in range(200):
            for application in self.applications:
                application.recover()
                application.serve()
                application.receive()
                application.poll()
            if self.is_settled:
                return
            self.advance(1.0)
        states = [(a.member_id, a.member.state, a.holding) for a in self.applications]
        raise AssertionError(f"the group does not become stable: {states}")

    @property
    def is_settled(self) -> bool:
        coordinator = self.coordinator
        return all(
            each.member.state is State.STABLE
            and not each.actions
            and not each.unanswered
            and each.member.generation_id == coordinator.group_epoch
            and each.holding == coordinator.names(coordinator.target(each.member_id))
            for each in self.applications
        )

    def check_disjoint(self) -> None:
        """No two applications whose members are in the group read the same partition.

        A partition of a topic that exists again is another one with the same name.
        """
        recreated = self.coordinator.recreated
        owners: dict[TopicPartition, str] = {}
        for application in self.applications:
            if application.member_id in self.coordinator.members:
                for partition in application.holding:
                    if partition.topic in recreated:
                        continue
                    other = owners.setdefault(partition, application.member_id)
                    assert other == application.member_id, f"{partition} has two readers"


def stable(**partition_counts: int) -> tuple[World, Application]:
    """A world of these topics, and a member that is alone in its group."""
    world = World(**partition_counts)
    application = world.join(*partition_counts)
    world.settle()
    return world, application


def partitions(topic: str, *indexes: int) -> set[TopicPartition]:
    return {TopicPartition(topic, index) for index in indexes}
