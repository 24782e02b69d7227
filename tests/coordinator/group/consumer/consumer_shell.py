"""A shell around `GroupShard` for consumer groups: topics, heartbeats, and members that obey."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from minikafka.coordinator.group import Effect, GroupConfig, GroupShard, Match, Now, Record
from minikafka.coordinator.group.consumer.partitions import Partitions
from minikafka.coordinator.group.consumer.regex import compile_regex
from minikafka.coordinator.group.topics import GroupSettings, Topic
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import consumer_group_describe, consumer_group_heartbeat
from tests.coordinator.group.harness import GROUP, START_MS, Call, Shell

SESSION_S = 45
REBALANCE_MS = 30_000


class World:
    """The topics of the cluster; ids are never used again."""

    def __init__(self, **partition_counts: int) -> None:
        self._ids = itertools.count(1)
        self._topics: dict[str, Topic] = {}
        for name, count in partition_counts.items():
            self.create(name, count)

    def create(self, name: str, count: int) -> None:
        self._topics[name] = Topic(name, next(self._ids).to_bytes(16, "big"), count)

    def delete(self, name: str) -> None:
        del self._topics[name]

    def grow(self, name: str, count: int) -> None:
        self._topics[name] = self._topics[name]._replace(partition_count=count)

    def names(self) -> list[str]:
        return list(self._topics)

    def by_name(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return next((one for one in self._topics.values() if one.topic_id == topic_id), None)

    def id_of(self, name: str) -> bytes:
        return self._topics[name].topic_id

    def matching(self, regex: str) -> frozenset[str]:
        return frozenset(filter(compile_regex(regex), self._topics))


class ConsumerShell(Shell):
    """As `Shell`, with topics; it answers `Match` at once."""

    def __init__(
        self,
        world: World,
        *,
        log: Iterable[Record] = (),
        now: Now | None = None,
        new_ids: itertools.count[int] | None = None,
        **settings: Any,
    ) -> None:
        self.world = world
        super().__init__(log=log, now=now or Now(1000.0, START_MS), new_ids=new_ids, **settings)

    def new_shard(self) -> GroupShard:
        return GroupShard(
            GroupConfig(**self.settings),
            new_id=lambda: str(next(self.new_ids)),
            topics=self.world,
            settings_of=lambda _: GroupSettings(SESSION_S * 1000, 5_000),
        )

    def restart(self, *, keeps_uncommitted: bool = True, **settings: Any) -> ConsumerShell:
        return ConsumerShell(
            self.world,
            log=self.kept_log(keeps_uncommitted=keeps_uncommitted),
            now=self.now,
            new_ids=self.new_ids,
            **{**self.settings, **settings},
        )

    def carry_out(self, effects: list[Effect]) -> None:
        super().carry_out(effects)
        for effect in effects:
            if isinstance(effect, Match):
                topics = self.world.matching(effect.regex)
                more = self.shard.matched(effect.group_id, effect.regex, topics, self.now)
                self.carry_out(more)

    def topics_changed(self, *names: str) -> None:
        self.carry_out(self.shard.on_topics_changed(names, self.now))

    def beat_later(
        self,
        member_id: str,
        epoch: int,
        *,
        group: str = GROUP,
        owned: Partitions | None = None,
        topics: Collection[str] | None = None,
        regex: str | None = None,
        instance: str | None = None,
        rack: str | None = None,
        rebalance_ms: int = -1,
        assignor: str | None = None,
        version: int = 1,
    ) -> Call[consumer_group_heartbeat.Response]:
        call: Call[consumer_group_heartbeat.Response] = Call()
        request = consumer_group_heartbeat.Request(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rack_id=rack,
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=None if topics is None else list(topics),
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=None
            if owned is None
            else [
                consumer_group_heartbeat.TopicPartitionsRequest(
                    topic_id=topic_id, partitions=sorted(indexes)
                )
                for topic_id, indexes in owned.items()
            ],
        )
        matched = self.world.matching(regex) if regex else None
        self.ask(request, version, call, matched_topics=matched)
        return call

    def beat(self, member_id: str, epoch: int, **options: Any) -> consumer_group_heartbeat.Response:
        return self.beat_later(member_id, epoch, **options).response

    def join_consumers(self, member_id: str, *topics: str, **options: Any) -> int:
        """Join a group and return the epoch."""
        options.setdefault("rebalance_ms", REBALANCE_MS)
        response = self.beat(member_id, 0, owned={}, topics=topics or None, **options)
        assert response.error_code == ErrorCode.NONE, response.error_message
        return response.member_epoch

    def describe_consumers(self, group: str = GROUP) -> consumer_group_describe.DescribedGroup:
        return self.shard.describe_consumer(group)

    def epochs(self, group: str = GROUP) -> tuple[int, int, dict[str, int]]:
        """Group epoch, assignment epoch, member epochs."""
        found = self.describe_consumers(group)
        members = {one.member_id: one.member_epoch for one in found.members}
        return found.group_epoch, found.assignment_epoch, members


class Obedient:
    """A member as a good client behaves: it revokes when told to, and says what it owns.

    Attributes:
        owned: what it reads now.
    """

    def __init__(self, shell: ConsumerShell, member_id: str, *topics: str, **options: Any) -> None:
        self.shell = shell
        self.member_id = member_id
        self.epoch = 0
        self.owned: dict[bytes, frozenset[int]] = {}
        self._topics = topics
        self._options = options
        self.beat()

    def beat(self) -> ErrorCode:
        """One heartbeat; obeys the answer."""
        full: dict[str, Any] = {"owned": self.owned, "rebalance_ms": REBALANCE_MS}
        if self._topics:
            full["topics"] = self._topics
        response = self.shell.beat(self.member_id, self.epoch, **full, **self._options)
        error = ErrorCode(response.error_code)
        if error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.epoch, self.owned = 0, {}
        if error is ErrorCode.NONE:
            self.epoch = response.member_epoch
            if response.assignment is not None:
                self.owned = assigned(response)
        return error

    def leave(self) -> None:
        options = {k: v for k, v in self._options.items() if k == "instance"}
        self.shell.beat(self.member_id, -1, **options)
        self.epoch, self.owned = 0, {}

    def indexes(self, topic: str) -> set[int]:
        return set(self.owned.get(self.shell.world.id_of(topic), ()))


def assigned(response: consumer_group_heartbeat.Response) -> dict[bytes, frozenset[int]]:
    assert response.assignment is not None
    return {one.topic_id: frozenset(one.partitions) for one in response.assignment.topic_partitions}


def settle(*members: Obedient) -> None:
    """Heartbeats until nothing changes."""
    for _ in range(10):
        before = [(one.epoch, dict(one.owned)) for one in members]
        for one in members:
            one.beat()
        if before == [(one.epoch, dict(one.owned)) for one in members]:
            return
    raise AssertionError(f"the members do not settle: {before}")


def owners(members: Iterable[Obedient]) -> Mapping[tuple[bytes, int], list[str]]:
    """Who reads each partition."""
    found: dict[tuple[bytes, int], list[str]] = {}
    for member in members:
        for topic_id, indexes in member.owned.items():
            for index in indexes:
                found.setdefault((topic_id, index), []).append(member.member_id)
    return found
