"""The coordinator of one group, its log, and the way to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minikafka.coordinator.group import (
    Append,
    Ask,
    CreateInternalTopics,
    Effect,
    GroupConfig,
    GroupShard,
    Match,
    NewTopic,
    Now,
    Record,
    Reply,
)
from minikafka.coordinator.group.consumer.consumer_group import ConsumerGroup
from minikafka.coordinator.group.topics import GroupSettings
from minikafka.lab.simulation.kit import world as kit
from minikafka.lab.simulation.kit.invariants import require
from minikafka.protocol.messages import offset_commit
from tests.coordinator.group.consumer import consumer_shell

GROUP = "readers"
SESSION_S = 12.0
HEARTBEAT_S = 2.0
REBALANCE_S = 15.0
START_MS = 1_700_000_000_000
LOSS = 0.03
COMMIT_S = (0.001, 0.4)
SETTINGS = GroupSettings(
    consumer_session_timeout_ms=round(SESSION_S * 1000),
    consumer_heartbeat_interval_ms=round(HEARTBEAT_S * 1000),
    streams_session_timeout_ms=round(SESSION_S * 1000),
    streams_heartbeat_interval_ms=round(HEARTBEAT_S * 1000),
    streams_num_standby_replicas=1,
    streams_initial_rebalance_delay_ms=2_000,
    streams_assignment_interval_ms=1_000,
)


class World(kit.World):
    """Time, dice, topics.

    Attributes:
        topics: of the cluster.
        is_calm: nothing is lost any longer.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.topics = consumer_shell.World(flights=4, fleet=2)
        self.is_calm = False

    @property
    def clocks(self) -> Now:
        return Now(self.now, START_MS + round(self.now * 1000))

    def is_lost(self) -> bool:
        return not self.is_calm and self.dice.random() < LOSS


class Coordinator:
    """The shard that leads now, with a log that commits a little later than it appends.

    Attributes:
        log: of the partition; what is not committed may be lost with the leader.
        terms: how many coordinators there were.
        on_loaded: called when the next one has read the log.
        members_at_death: whom the last one knew.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.on_loaded: Callable[[], None] = lambda: None
        self.log: list[Record] = []
        self._committed = 0
        self._ends: list[int] = []  # batches are lost as a whole
        self.terms = 0
        self._expiry: float | None = None
        self.is_up = False
        self.members_at_death: frozenset[str] = frozenset()
        self.shard = self._load()

    # --- leading ---------------------------------------------------------------------------

    def _load(self) -> GroupShard:
        self.terms += 1
        ids = iter(range(10**9))
        shard = GroupShard(
            GroupConfig(),
            new_id=lambda: f"{self.terms}-{next(ids)}",
            topics=self._world.topics,
            settings_of=lambda _: SETTINGS,
        )
        self.shard = shard
        for key, value in self.log:
            shard.replay(key, value)
        self.is_up = True
        self.on_loaded()
        self.carry_out(shard.loaded(self._world.clocks))
        return shard

    def fail_over(self) -> None:
        """The leader dies, and a part of what was not committed with it."""
        if not self.is_up:
            return
        ends = [end for end in self._ends if self._committed <= end <= len(self.log)]
        kept = self._world.dice.choice([self._committed, *ends])
        self.members_at_death = self.member_ids()
        self._ends = [end for end in self._ends if end <= kept]
        self._world.note("the coordinator dies; {} of {} records stay", kept, len(self.log))
        del self.log[kept:]
        self._committed = kept
        self.is_up = False
        self.terms += 1
        self._world.after(self._world.dice.uniform(0.05, 3.0), self._take_over)

    def _take_over(self) -> None:
        self._load()

    def member_ids(self) -> frozenset[str]:
        """Whom it knows."""
        return frozenset(() if self.group is None else self.group.members)

    @property
    def group(self) -> ConsumerGroup | None:
        group = self.shard._context.groups.get(GROUP)
        return group if isinstance(group, ConsumerGroup) else None

    # --- effects ---------------------------------------------------------------------------

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Reply(token, response):
                    assert callable(token)
                    token(response)
                case Append(records, write_id):
                    self.log.extend(records)
                    self.shard.appended(write_id)
                    delay_s = self._world.dice.uniform(*COMMIT_S)
                    end = len(self.log)
                    self._ends.append(end)
                    self._world.after(delay_s, self._commit, self.terms, write_id, end)
                case Match(group_id, regex):
                    self._world.after(0.01, self._matched, self.terms, group_id, regex)
                case CreateInternalTopics(_, topics):
                    self._world.after(self._world.dice.uniform(0.01, 1.0), self._create, topics)
        self._watch_time()

    def _commit(self, term: int, write_id: int, end: int) -> None:
        """The high watermark is monotonous; a write that is overtaken is committed with it."""
        if term == self.terms and self.is_up:
            self._committed = max(self._committed, end)
            self.carry_out(self.shard.committed(write_id, self._world.clocks))

    def _matched(self, term: int, group_id: str, regex: str) -> None:
        if term == self.terms and self.is_up:
            topics = self._world.topics.matching(regex)
            self.carry_out(self.shard.matched(group_id, regex, topics, self._world.clocks))

    def _create(self, topics: tuple[NewTopic, ...]) -> None:
        for topic in topics:
            if self._world.topics.by_name(topic.name) is None and not self._world.is_lost():
                self._world.topics.create(topic.name, topic.partitions)
                self.topics_changed(topic.name)

    def _watch_time(self) -> None:
        deadline = self.shard.deadline()
        if deadline is not None and (self._expiry is None or deadline < self._expiry):
            self._expiry = deadline
            self._world.at(max(deadline, self._world.now), self._expire, deadline)

    def _expire(self, deadline: float) -> None:
        if self._expiry == deadline:
            self._expiry = None
        if self.is_up:
            self.carry_out(self.shard.expire(self._world.clocks))

    # --- requests --------------------------------------------------------------------------

    def topics_changed(self, name: str) -> None:
        if self.is_up:
            self.carry_out(self.shard.on_topics_changed([name], self._world.clocks))

    def ask(
        self,
        request: Any,
        version: int,
        take: Callable[[Any], None],
        matched: frozenset[str] | None = None,
    ) -> None:
        """Send a request; the answer may not come."""
        if self._world.is_lost():
            self._world.note("lost {}", request)
            return
        term = self.terms
        delay_s = self._world.dice.uniform(0.001, 0.1)
        self._world.after(delay_s, self._handle, term, request, version, take, matched)

    def _handle(
        self,
        term: int,
        request: Any,
        version: int,
        take: Callable[[Any], None],
        matched: frozenset[str] | None,
    ) -> None:
        if term != self.terms or not self.is_up:
            return

        def answer(response: Any) -> None:
            if not self._world.is_lost():
                self._world.after(0.001, take, response)

        ask = Ask(request, version, "app", "/10.0.0.7", answer, matched)
        effects = self.shard.handle(ask, self._world.clocks)
        if isinstance(request, offset_commit.Request):
            self._check_commit(request, is_accepted=any(isinstance(e, Append) for e in effects))
        self.carry_out(effects)

    def _check_commit(self, request: offset_commit.Request, *, is_accepted: bool) -> None:
        """Only who has a partition may commit for it."""
        if not is_accepted:
            return
        for topic in request.topics:
            for partition in topic.partitions:
                index = partition.partition_index
                owners = self.owners(topic.name, index)
                require(
                    owners is None or request.member_id in owners,
                    "commits",
                    f"{request.member_id} commits for {topic.name}-{index} of {owners}",
                )

    def owners(self, topic: str, index: int) -> frozenset[str] | None:
        """Who may commit for a partition; None if the topic is gone."""
        found = self._world.topics.by_name(topic)
        if found is None:
            return None
        owner = None if self.group is None else self.group.owner(found.topic_id, index)
        return frozenset() if owner is None else frozenset([owner])
