"""Members of the group: heartbeats, revocations that take their time, commits."""

from __future__ import annotations

from collections import Counter
from typing import Any

from minikafka.lab.simulation.kit.invariants import require
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import consumer_group_heartbeat, offset_commit
from tests.simulation.groups.world import (
    GROUP,
    HEARTBEAT_S,
    REBALANCE_S,
    SESSION_S,
    Coordinator,
    World,
)

GIVE_UP_S = 5.0
FENCED = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
Partitions = dict[bytes, frozenset[int]]


class Member:
    """A consumer.

    Attributes:
        owned: the partitions that it reads.
        is_alive: it sends heartbeats.
        is_stuck: it does not revoke, because its application hangs.
    """

    def __init__(
        self,
        world: World,
        coordinator: Coordinator,
        member_id: str,
        instance: str | None,
        subscription: dict[str, Any],
        counts: Counter[str],
    ) -> None:
        self._world = world
        self._coordinator = coordinator
        self.member_id = member_id
        self.instance = instance
        self.subscription = subscription
        self._counts = counts
        self.epoch = 0
        self.owned: Partitions = {}
        self._wanted: Partitions | None = None
        self.is_alive = True
        self.is_stuck = False
        self._sent = 0
        self._heard_s = -SESSION_S
        self._revoked_s = -SESSION_S
        self._told: dict[str, Any] | None = None
        self._commits_open = 0
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
        regex = self.subscription.get("regex", "")
        is_told = self.epoch > 0 and self._told == self.subscription
        self._told = self.subscription
        request = consumer_group_heartbeat.Request(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance,
            rebalance_timeout_ms=-1 if is_told else round(REBALANCE_S * 1000),
            subscribed_topic_names=None if is_told else self.subscription.get("topics", []),
            subscribed_topic_regex=None if is_told else regex,
            topic_partitions=[
                consumer_group_heartbeat.TopicPartitionsRequest(
                    topic_id=topic_id, partitions=sorted(indexes)
                )
                for topic_id, indexes in sorted(self.owned.items())
            ],
        )
        matched = self._world.topics.matching(regex) if regex and not is_told else None
        self._coordinator.ask(request, 1, lambda answer: self._take(number, answer), matched)
        self._world.after(self._world.dice.uniform(0.2, GIVE_UP_S), self._give_up, number)

    def _give_up(self, number: int) -> None:
        if self._sent == number:
            self._sent = 0
            self._told = None
            self.heartbeat()

    def _take(self, number: int, answer: consumer_group_heartbeat.Response) -> None:
        if self._sent != number or not self.is_alive:
            return
        self._sent = 0
        error = ErrorCode(answer.error_code)
        self._world.note("{} gets {} {}", self.member_id, error.name, answer.assignment)
        if error in FENCED:
            self._counts["fenced"] += 1
            self.epoch, self.owned, self._wanted = 0, {}, None
        now = self._world.now
        last_s = now - SESSION_S / 2
        is_late = self._heard_s < last_s or self._revoked_s > last_s or self._is_revoking
        require(
            error is not ErrorCode.FENCED_INSTANCE_ID or is_late,
            "static members",
            f"{self.member_id} was replaced while it lived",
        )
        if error is not ErrorCode.NONE:
            self._told = None
            return
        self._heard_s = now
        require(
            answer.member_epoch >= self.epoch,
            "member epochs",
            f"{self.member_id} goes from {self.epoch} to {answer.member_epoch}",
        )
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self._assign(
                {
                    one.topic_id: frozenset(one.partitions)
                    for one in answer.assignment.topic_partitions
                }
            )

    def _assign(self, wanted: Partitions) -> None:
        if wanted == self._wanted:
            return
        self._wanted = wanted
        self._counts["assignments"] += 1
        if self._is_revoking:
            self._world.after(self._world.dice.uniform(0, 4), self._revoke)
        else:
            self.owned = wanted

    @property
    def _is_revoking(self) -> bool:
        wanted = self._wanted or {}
        return any(
            indexes - wanted.get(topic, frozenset()) for topic, indexes in self.owned.items()
        )

    def _revoke(self) -> None:
        """Stop to read when the last commit is answered, and say so."""
        if not self.is_alive or self._wanted is None:
            return
        if self.is_stuck or self._commits_open:
            self._is_finishing = not self.is_stuck  # no commit follows the one that is open
            self._world.after(1.0, self._revoke)
            return
        self._is_finishing = False
        self._revoked_s = self._world.now
        self.owned = {
            topic: kept
            for topic, indexes in self.owned.items()
            if (kept := indexes & self._wanted.get(topic, frozenset()))
        }
        self.heartbeat()

    # --- commits ---------------------------------------------------------------------------

    def commit(self) -> None:
        """Commit all that it reads; only the owner's commit may be accepted."""
        topics = [
            offset_commit.RequestTopic(
                name=topic.name,
                partitions=[
                    offset_commit.RequestPartition(
                        partition_index=index,
                        committed_offset=1,
                        committed_leader_epoch=-1,
                        committed_metadata=None,
                    )
                    for index in sorted(indexes)
                ],
            )
            for topic_id, indexes in sorted(self.owned.items())
            if (topic := self._world.topics.by_id(topic_id)) is not None
        ]
        if not topics or self._commits_open or self._is_finishing or not self.is_alive:
            return
        self._commits_open = number = self._world.dice.getrandbits(48) | 1
        request = offset_commit.Request(
            group_id=GROUP,
            generation_id_or_member_epoch=self.epoch,
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
        request = consumer_group_heartbeat.Request(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance,
            topic_partitions=None,
        )
        self._coordinator.ask(request, 1, lambda _: None)
        self.owned = {}

    def die(self) -> None:
        self.is_alive = False
        self.owned = {}
