"""Members of a streams group: heartbeats, revocations that take their time, commits."""

from __future__ import annotations

from collections import Counter

from minikafka.coordinator.group.streams.streams_group import StreamsGroup
from minikafka.coordinator.group.streams.tasks import NOTHING, Assignment, Role, TaskId
from minikafka.lab.simulation.kit.invariants import require
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import offset_commit, streams_group_heartbeat
from tests.coordinator.group.streams.streams_shell import (
    Topology,
    assigned,
    subtopology,
    task_ids,
)
from tests.simulation.groups.members import FENCED, GIVE_UP_S
from tests.simulation.groups.world import (
    GROUP,
    HEARTBEAT_S,
    REBALANCE_S,
    SESSION_S,
    Coordinator,
    World,
)

TOPOLOGY = Topology(
    epoch=0,
    subtopologies=[
        subtopology(0, ["flights"], sinks=["by-plane"]),
        subtopology(1, changelogs=["counts"], repartitions=[("by-plane", 0)]),
        subtopology(2, ["fleet"]),
    ],
)
SOURCES = {"0": "flights", "1": "by-plane", "2": "fleet"}
"""The topic that each subtopology reads."""
STATEFUL = ("1",)
READERS = {topic: subtopology_id for subtopology_id, topic in SOURCES.items()}


class StreamsCoordinator(Coordinator):
    """As `Coordinator`, of a streams group."""

    @property
    def streams(self) -> StreamsGroup | None:
        group = self.shard._context.groups.get(GROUP)
        return group if isinstance(group, StreamsGroup) else None

    def member_ids(self) -> frozenset[str]:
        return frozenset(() if self.streams is None else self.streams.members)

    def owners(self, topic: str, index: int) -> frozenset[str] | None:
        group, task = self.streams, TaskId(READERS[topic], index)
        return frozenset() if group is None else group.holders(Role.ACTIVE, task)


class StreamsMember:
    """A thread of a Kafka Streams application.

    Attributes:
        owned: the tasks that it has.
        is_alive: it sends heartbeats.
        is_stuck: it does not give up tasks, because its application hangs.
    """

    def __init__(
        self,
        world: World,
        coordinator: StreamsCoordinator,
        member_id: str,
        instance: str | None,
        process: str,
        counts: Counter[str],
    ) -> None:
        self._world = world
        self._coordinator = coordinator
        self.member_id = member_id
        self.instance = instance
        self.process = process
        self._counts = counts
        self.epoch = 0
        self.owned = NOTHING
        self._wanted = NOTHING
        self.is_alive = True
        self.is_stuck = False
        self._sent = 0
        self._heard_s = -SESSION_S
        self._revoked_s = -SESSION_S
        self._commits_open = 0
        self._commit_epoch = 0
        self._is_finishing = False
        self.heartbeat()
        self._tick()

    # --- heartbeats ------------------------------------------------------------------------

    def _tick(self) -> None:
        if self.is_alive:
            self.heartbeat()
            self._world.after(HEARTBEAT_S * self._world.dice.uniform(0.8, 1.2), self._tick)

    def heartbeat(self) -> None:
        """One at a time; one without an answer is given up after a while."""
        if not self.is_alive or self._sent:
            return
        self._sent = number = self._world.dice.getrandbits(48) | 1
        joins = self.epoch == 0
        request = streams_group_heartbeat.Request(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance,
            rebalance_timeout_ms=round(REBALANCE_S * 1000) if joins else -1,
            topology=TOPOLOGY if joins else None,
            active_tasks=task_ids(self.owned.active),
            standby_tasks=task_ids(self.owned.standby),
            warmup_tasks=[],
            process_id=self.process,
        )
        self._coordinator.ask(request, 1, lambda answer: self._take(number, answer))
        self._world.after(self._world.dice.uniform(0.2, GIVE_UP_S), self._give_up, number)

    def _give_up(self, number: int) -> None:
        if self._sent == number:
            self._sent = 0
            self.heartbeat()

    def _take(self, number: int, answer: streams_group_heartbeat.Response) -> None:
        if self._sent != number or not self.is_alive:
            return
        self._sent = 0
        error, told = ErrorCode(answer.error_code), assigned(answer)
        self._world.note("{} gets {} {} {}", self.member_id, error.name, told, answer.status)
        if error in FENCED:
            self._counts["fenced"] += 1
            self.epoch, self.owned, self._wanted = 0, NOTHING, NOTHING
        now = self._world.now
        last_s = now - SESSION_S / 2
        is_late = self._heard_s < last_s or self._revoked_s > last_s or self._is_revoking
        require(
            error is not ErrorCode.FENCED_INSTANCE_ID or is_late,
            "static members",
            f"{self.member_id} was replaced while it lived",
        )
        require(
            error is not ErrorCode.INVALID_REQUEST or self._world.topics.by_name("fleet") is None,
            "requests",
            f"{self.member_id} is told {answer.error_message}",
        )
        if error is not ErrorCode.NONE:
            return
        self._heard_s = now
        require(
            answer.member_epoch >= self.epoch,
            "member epochs",
            f"{self.member_id} goes from {self.epoch} to {answer.member_epoch}",
        )
        self.epoch = answer.member_epoch
        if self._world.dice.random() < 0.7:  # the thread that commits hears of it later
            self._commit_epoch = self.epoch
        if told is not None and told != self._wanted:
            self._assign(told)

    def _assign(self, wanted: Assignment) -> None:
        self._wanted = wanted
        self._counts["assignments"] += 1
        if self._is_revoking:
            self._world.after(self._world.dice.uniform(0, 4), self._revoke)
        else:
            self.owned = wanted

    @property
    def _is_revoking(self) -> bool:
        return not self.owned.is_within(self._wanted)

    def _revoke(self) -> None:
        """Close tasks when the last commit is answered, open the others, and say so."""
        if not self.is_alive:
            return
        if self.is_stuck or self._commits_open:
            self._is_finishing = not self.is_stuck  # no commit follows the one that is open
            self._world.after(1.0, self._revoke)
            return
        self._is_finishing = False
        self._revoked_s = self._world.now
        self.owned = self._wanted
        self.heartbeat()

    # --- commits ---------------------------------------------------------------------------

    def commit(self) -> None:
        """Commit all that it processes; only the owner's commit may be accepted."""
        if self._commits_open or self._is_finishing or not self.is_alive or not self.owned.active:
            return
        topics = [
            offset_commit.RequestTopic(
                name=SOURCES[task.subtopology_id],
                partitions=[
                    offset_commit.RequestPartition(
                        partition_index=task.partition,
                        committed_offset=1,
                        committed_leader_epoch=-1,
                        committed_metadata=None,
                    )
                ],
            )
            for task in sorted(self.owned.active)
        ]
        self._commits_open = number = self._world.dice.getrandbits(48) | 1
        request = offset_commit.Request(
            group_id=GROUP,
            generation_id_or_member_epoch=self._commit_epoch or self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance,
            retention_time_ms=-1,
            topics=topics,
        )
        self._coordinator.ask(request, 9, lambda answer: self._committed(number, answer))
        self._world.after(GIVE_UP_S, self._forget_commit, number)

    def _forget_commit(self, number: int) -> None:
        if self._commits_open == number:
            self._commits_open = 0

    def _committed(self, number: int, answer: offset_commit.Response) -> None:
        self._forget_commit(number)
        for topic in answer.topics:
            for partition in topic.partitions:
                self._counts["commits"] += partition.error_code == ErrorCode.NONE

    # --- the end ---------------------------------------------------------------------------

    def leave(self, epoch: int) -> None:
        self.is_alive = False
        request = streams_group_heartbeat.Request(
            group_id=GROUP, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance
        )
        self._coordinator.ask(request, 1, lambda _: None)
        self.owned = NOTHING

    def die(self) -> None:
        self.is_alive = False
        self.owned = NOTHING
