"""A shell around `GroupShard` for streams groups: topics, topologies, and members that obey."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from minikafka.coordinator.group import (
    CreateInternalTopics,
    Effect,
    GroupConfig,
    GroupShard,
    NewTopic,
    Now,
    Record,
)
from minikafka.coordinator.group.streams.internal_topics import Status
from minikafka.coordinator.group.streams.streams_group import StreamsGroup
from minikafka.coordinator.group.streams.tasks import Assignment, TaskId, Tasks, grouped
from minikafka.coordinator.group.topics import GroupSettings
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import streams_group_describe, streams_group_heartbeat
from tests.coordinator.group.consumer.consumer_shell import World
from tests.coordinator.group.harness import GROUP, START_MS, Call, Shell

SESSION_S = 45
REBALANCE_MS = 30_000
SETTINGS = GroupSettings(
    streams_session_timeout_ms=SESSION_S * 1000,
    streams_initial_rebalance_delay_ms=0,
    streams_assignment_interval_ms=0,
)

Subtopology = streams_group_heartbeat.Subtopology
Topology = streams_group_heartbeat.Topology


def subtopology(
    number: int,
    sources: Sequence[str] = (),
    *,
    changelogs: Sequence[str] = (),
    repartitions: Sequence[tuple[str, int]] = (),
    sinks: Sequence[str] = (),
    copartitioned: Sequence[tuple[Sequence[int], Sequence[int]]] = (),
) -> Subtopology:
    """A subtopology; ``copartitioned`` has indexes of sources and of repartition topics."""
    return Subtopology(
        subtopology_id=str(number),
        source_topics=list(sources),
        state_changelog_topics=[_topic(name, 0, "compact") for name in changelogs],
        repartition_sink_topics=list(sinks),
        repartition_source_topics=[_topic(name, count, "delete") for name, count in repartitions],
        copartition_groups=[
            streams_group_heartbeat.CopartitionGroup(
                source_topics=list(of_sources), repartition_source_topics=list(of_repartitions)
            )
            for of_sources, of_repartitions in copartitioned
        ],
    )


def _topic(name: str, partitions: int, policy: str) -> streams_group_heartbeat.TopicInfo:
    return streams_group_heartbeat.TopicInfo(
        name=name,
        partitions=partitions,
        replication_factor=0,
        topic_configs=[streams_group_heartbeat.KeyValue(key="cleanup.policy", value=policy)],
    )


WORDS = Topology(epoch=0, subtopologies=[subtopology(0, ["words"], changelogs=["counts"])])
"""One subtopology with state."""

TWO_PARTS = Topology(
    epoch=0,
    subtopologies=[
        subtopology(0, ["words"], sinks=["by-word"]),
        subtopology(1, changelogs=["counts"], repartitions=[("by-word", 0)]),
    ],
)
"""Two, with a repartition topic between them."""


class StreamsShell(Shell):
    """As `Shell`, with topics; it creates internal ones at once.

    Attributes:
        asked: the topics that it was asked to create.
        creates: whether it does.
        of_group: the settings of all groups.
    """

    def __init__(
        self,
        world: World,
        *,
        of_group: GroupSettings = SETTINGS,
        log: Iterable[Record] = (),
        now: Now | None = None,
        new_ids: itertools.count[int] | None = None,
        **settings: Any,
    ) -> None:
        self.world = world
        self.of_group = of_group
        self.asked: list[NewTopic] = []
        self.creates = True
        super().__init__(log=log, now=now or Now(1000.0, START_MS), new_ids=new_ids, **settings)

    def new_shard(self) -> GroupShard:
        return GroupShard(
            GroupConfig(**self.settings),
            new_id=lambda: str(next(self.new_ids)),
            topics=self.world,
            settings_of=lambda _: self.of_group,
        )

    def restart(self, *, keeps_uncommitted: bool = True, **settings: Any) -> StreamsShell:
        return StreamsShell(
            self.world,
            of_group=self.of_group,
            log=self.kept_log(keeps_uncommitted=keeps_uncommitted),
            now=self.now,
            new_ids=self.new_ids,
            **{**self.settings, **settings},
        )

    def carry_out(self, effects: list[Effect]) -> None:
        super().carry_out(effects)
        for effect in effects:
            if isinstance(effect, CreateInternalTopics):
                self.asked += effect.topics
                for topic in effect.topics if self.creates else ():
                    self.world.create(topic.name, topic.partitions)

    def group(self, group_id: str = GROUP) -> StreamsGroup:
        found = self.shard._context.groups[group_id]
        assert isinstance(found, StreamsGroup)
        return found

    def beat_later(
        self,
        member_id: str,
        epoch: int,
        *,
        group: str = GROUP,
        owned: Assignment | None = None,
        topology: Topology | None = None,
        process: str | None = None,
        instance: str | None = None,
        rebalance_ms: int = -1,
        endpoint: tuple[str, int] | None = None,
        endpoint_epoch: int = 0,
        shutdown: bool = False,
        tags: Mapping[str, str] | None = None,
    ) -> Call[streams_group_heartbeat.Response]:
        call: Call[streams_group_heartbeat.Response] = Call()
        lists = [] if owned is None else [task_ids(one) for _, one in owned.by_role()]
        active, standby, warmup = lists or (None, None, None)
        request = streams_group_heartbeat.Request(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            endpoint_information_epoch=endpoint_epoch,
            instance_id=instance,
            rebalance_timeout_ms=rebalance_ms,
            topology=topology,
            active_tasks=active,
            standby_tasks=standby,
            warmup_tasks=warmup,
            process_id=process,
            user_endpoint=None
            if endpoint is None
            else streams_group_heartbeat.Endpoint(host=endpoint[0], port=endpoint[1]),
            client_tags=None
            if tags is None
            else [streams_group_heartbeat.KeyValue(key=k, value=v) for k, v in tags.items()],
            shutdown_application=shutdown,
        )
        self.ask(request, 1, call)
        return call

    def beat(self, member_id: str, epoch: int, **options: Any) -> streams_group_heartbeat.Response:
        return self.beat_later(member_id, epoch, **options).response

    def join_streams(
        self, member_id: str, topology: Topology = WORDS, **options: Any
    ) -> streams_group_heartbeat.Response:
        """The first heartbeat of a member; by default each is a process of its own."""
        options.setdefault("process", f"process of {member_id}")
        options.setdefault("rebalance_ms", REBALANCE_MS)
        return self.beat(member_id, 0, owned=Assignment(), topology=topology, **options)

    def describe_streams(self, group: str = GROUP) -> streams_group_describe.DescribedGroup:
        return self.shard.describe_streams_group(group)

    def epochs(self, group: str = GROUP) -> tuple[int, int, dict[str, int]]:
        """Group epoch, assignment epoch, member epochs."""
        found = self.describe_streams(group)
        members = {one.member_id: one.member_epoch for one in found.members}
        return found.group_epoch, found.assignment_epoch, members


def task_ids(tasks: Tasks) -> list[streams_group_heartbeat.TaskIds]:
    return [
        streams_group_heartbeat.TaskIds(subtopology_id=one, partitions=indexes)
        for one, indexes in grouped(tasks)
    ]


def tasks(subtopology_id: int, *partitions: int) -> Tasks:
    return frozenset(TaskId(str(subtopology_id), index) for index in partitions)


def assigned(response: streams_group_heartbeat.Response) -> Assignment | None:
    """The tasks that an answer names; None if it names none."""
    lists = (response.active_tasks, response.standby_tasks, response.warmup_tasks)
    if any(one is None for one in lists):
        return None
    return Assignment(
        *(
            frozenset(
                TaskId(each.subtopology_id, index)
                for each in one or ()
                for index in each.partitions
            )
            for one in lists
        )
    )


def statuses(response: streams_group_heartbeat.Response) -> list[Status]:
    return [Status(one.status_code) for one in response.status or ()]


class Obedient:
    """A member as a good client behaves: it revokes when told to, and says what it owns.

    Attributes:
        owned: the tasks that it has.
    """

    def __init__(
        self, shell: StreamsShell, member_id: str, topology: Topology = WORDS, **options: Any
    ) -> None:
        self.shell = shell
        self.member_id = member_id
        self.epoch = 0
        self.owned = Assignment()
        self._topology = topology
        self._options = {"process": f"process of {member_id}", **options}
        self.beat()

    def beat(self) -> ErrorCode:
        """One heartbeat; obeys the answer."""
        full: dict[str, Any] = {"owned": self.owned, **self._options}
        if self.epoch == 0:
            full |= {"topology": self._topology, "rebalance_ms": REBALANCE_MS}
        response = self.shell.beat(self.member_id, self.epoch, **full)
        error = ErrorCode(response.error_code)
        if error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.epoch, self.owned = 0, Assignment()
        if error is ErrorCode.NONE:
            self.epoch = response.member_epoch
            told = assigned(response)
            self.owned = self.owned if told is None else told
        return error

    def leave(self, epoch: int = -1) -> None:
        options = {k: v for k, v in self._options.items() if k == "instance"}
        self.shell.beat(self.member_id, epoch, **options)
        self.epoch, self.owned = 0, Assignment()


def settle(*members: Obedient) -> None:
    """Heartbeats until nothing changes."""
    for _ in range(12):
        before = [(one.epoch, one.owned) for one in members]
        for one in members:
            one.beat()
        if before == [(one.epoch, one.owned) for one in members]:
            return
    raise AssertionError(f"the members do not settle: {before}")
