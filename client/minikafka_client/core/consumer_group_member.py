"""Membership by heartbeats: consumer groups since KIP-848, and share groups (KIP-932).

The coordinator divides the partitions. A member only sends heartbeats, and moves step by step from
what it owns to what the last answer assigned to it.

    state           means                                             leaves it by
    IDLE            subscribes to nothing                             Subscribed -> JOINING
    JOINING         heartbeats with epoch 0                           an answer -> STABLE
    STABLE          the coordinator knows what it owns                another assignment -> below
    RECONCILING     waits for the application to release partitions   Revoked -> ACKNOWLEDGING
    ACKNOWLEDGING   owns what was assigned, and has yet to say so     a heartbeat -> STABLE
    LOST            was removed, waits for the application's callback Revoked -> JOINING
    FAILED          can never join; the application has the error     Subscribed -> JOINING

An assignment in STABLE, RECONCILING or ACKNOWLEDGING replaces the one before. What it leaves out is
revoked first (RECONCILING); what it adds is assigned when everything revoked has been released. So
no partition has two owners: the coordinator gives it to another member only after the heartbeat in
which this one no longer owns it. Of topics that are known by their id only, nothing is assigned
until their name is known.

Heartbeats continue in every state but IDLE, LOST and FAILED, whatever the application does, at the
interval that the last answer named. They say only what has changed; the first one, and the one
after any error or lost answer, says everything. ``max_poll_interval_ms`` after the last poll the
member leaves. What it owned when the group removed it (or when it had to leave) is *lost*.

    an answer to a heartbeat                     what the member does
    NOT_COORDINATOR and its like, a lost answer  looks for the coordinator and says everything
    UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH       loses what it owns, joins again with the same id
    other retriable codes                        says everything again after a pause
    all others                                   FAILED
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple, Protocol, cast

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import consumer_group_heartbeat, share_group_heartbeat
from minikafka.protocol.schema import Request, Response
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import Cluster
from minikafka_client.core.membership import (
    Answered,
    Assign,
    CoordinatorFailed,
    CoordinatorFound,
    Effect,
    Event,
    Fail,
    FindCoordinator,
    Left,
    Polled,
    RefreshMetadata,
    Revoke,
    Revoked,
    Send,
    Subscribed,
)
from minikafka_client.errors import FencedError, KafkaError, broker_error
from minikafka_client.types import TopicPartition

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
PAUSE_EPOCH: Final = -2
"""Of a static member's last heartbeat: its partitions wait for it until the session times out."""
OUTSIDE: Final = -1
"""The generation of a member that is not in the group."""
_PATTERN_VERSION: Final = 1

_COORDINATOR_GONE: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
)
_REMOVED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
_ABOUT_THE_MEMBER: Final = (
    _REMOVED
    | _COORDINATOR_GONE
    | {ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID}
)


class HeartbeatConfig(NamedTuple):
    """The settings of a member; see `Consumer`."""

    group_id: str
    max_poll_interval_ms: int
    group_instance_id: str | None = None
    rack_id: str | None = None
    server_assignor: str | None = None


class Said(NamedTuple):
    """What a heartbeat says besides who sends it; None: as before."""

    topics: tuple[str, ...] | None
    pattern: str | None
    owned: Mapping[bytes, list[int]] | None
    is_everything: bool


MakeHeartbeat = Callable[[HeartbeatConfig, str, int, Said], Request]
"""Makes the request of settings, member id, member epoch, and what it says."""


def consumer_heartbeat(
    config: HeartbeatConfig, member_id: str, member_epoch: int, said: Said
) -> consumer_group_heartbeat.Request:
    owned = None
    if said.owned is not None:
        owned = [
            consumer_group_heartbeat.TopicPartitionsRequest(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in sorted(said.owned.items())
        ]
    return consumer_group_heartbeat.Request(
        group_id=config.group_id,
        member_id=member_id,
        member_epoch=member_epoch,
        instance_id=config.group_instance_id,
        rack_id=config.rack_id if said.is_everything else None,
        rebalance_timeout_ms=config.max_poll_interval_ms if said.is_everything else -1,
        subscribed_topic_names=None if said.topics is None else list(said.topics),
        subscribed_topic_regex=said.pattern,
        server_assignor=config.server_assignor if said.is_everything else None,
        topic_partitions=owned,
    )


def share_heartbeat(
    config: HeartbeatConfig, member_id: str, member_epoch: int, said: Said
) -> share_group_heartbeat.Request:
    return share_group_heartbeat.Request(
        group_id=config.group_id,
        member_id=member_id,
        member_epoch=member_epoch,
        rack_id=config.rack_id if said.is_everything else None,
        subscribed_topic_names=None if said.topics is None else list(said.topics),
    )


class _TopicPartitions(Protocol):
    topic_id: bytes
    partitions: list[int]


class _Assignment(Protocol):
    @property
    def topic_partitions(self) -> Iterable[_TopicPartitions]: ...


class HeartbeatAnswer(Protocol):
    """The answer to a heartbeat of either kind of group."""

    error_code: int
    error_message: str | None
    member_epoch: int
    heartbeat_interval_ms: int

    @property
    def assignment(self) -> _Assignment | None: ...


class State(Enum):
    """See the table above."""

    IDLE = 0
    JOINING = 1
    STABLE = 2
    RECONCILING = 3
    ACKNOWLEDGING = 4
    LOST = 5
    FAILED = 6


_BEATING: Final = frozenset({State.JOINING, State.STABLE, State.RECONCILING, State.ACKNOWLEDGING})
_INSIDE: Final = _BEATING - {State.JOINING}

_Place = tuple[bytes, int]
"""A partition as the coordinator names it: topic id and index."""

_Told = tuple[tuple[str, ...], str | None, frozenset[_Place] | None]
"""What the coordinator has heard last: topics, pattern, and what is owned (None: say it again)."""


class ConsumerGroupMember:
    """The machine; ``member_id`` is the same for as long as the member lives (KIP-1082).

    Attributes:
        generation_id: the member epoch; -1 outside the group.
        owned: the partitions that the application has, or is being assigned; those that it is
            releasing are still among them.
        answer_count: how many heartbeats were answered, in whatever way.
    """

    def __init__(
        self,
        config: HeartbeatConfig,
        member_id: str,
        cluster: Cluster,
        backoff: Backoff,
        make_heartbeat: MakeHeartbeat = consumer_heartbeat,
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._backoff = backoff
        self._make_heartbeat = make_heartbeat
        self.state = State.IDLE
        self.member_id = member_id
        self.generation_id = OUTSIDE
        self.coordinator: int | None = None
        self.topics: tuple[str, ...] = ()
        self.pattern: str | None = None
        self.rebalance_count = 0
        self.answer_count = 0
        self._places: dict[_Place, TopicPartition] = {}  # what it owns
        self._target: frozenset[_Place] = frozenset()
        self._is_new = False  # nothing was assigned since it joined
        self._told: _Told | None = None
        self._revoking: frozenset[_Place] = frozenset()
        self._is_finding = False
        self._retry_at = 0.0
        self._attempts = 0
        self._interval_s = 0.0
        self._last_token = 0
        self._unanswered: int | None = None
        self._beat_at = math.inf
        self._poll_deadline = math.inf

    @property
    def owned(self) -> frozenset[TopicPartition]:
        return frozenset(self._places.values())

    @property
    def uses_member_epochs(self) -> bool:
        return True

    @property
    def state_name(self) -> str:
        return self.state.name.lower()

    @property
    def group_instance_id(self) -> str | None:
        return self._config.group_instance_id

    # --- the machine ---

    def handle(self, event: Event, now: float) -> list[Effect]:
        effects: list[Effect] = []
        match event:
            case Subscribed(topics, pattern):
                self._subscribed(topics, pattern, now)
            case CoordinatorFound(node):
                self.coordinator = node
                self._is_finding = False
                self._beat_at = now
            case CoordinatorFailed(error):
                self._is_finding = False
                self._failed_for_now(error, now, effects)
            case Answered(token, answer):
                self._answered(token, answer, now, effects)
            case Left():
                self._leave(effects)
                self._places = {}
                self._revoking = frozenset()
                self.topics, self.pattern = (), None
                self.state = State.IDLE
            case Revoked():
                self._revoked(now, effects)
            case Polled():
                self._poll_deadline = now + self._config.max_poll_interval_ms / 1000
            case _:  # MetadataChanged
                self._reconcile(now, effects)
        return effects + self.expire(now)

    def expire(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        if now >= self._poll_deadline and self.state not in (State.IDLE, State.FAILED):
            self._poll_deadline = math.inf  # until the application polls again
            self._leave(effects)
            self._lose(now, effects)
        if self.state not in _BEATING or now < self._retry_at:
            return effects
        if self.coordinator is None:
            if not self._is_finding:
                self._is_finding = True
                effects.append(FindCoordinator())
        elif now >= self._beat_at and self._unanswered is None and self._may_beat:
            self._beat(self.coordinator, now, effects)
        return effects

    def deadline(self) -> float | None:
        times = [self._poll_deadline if self.state not in (State.IDLE, State.FAILED) else math.inf]
        if self.state in _BEATING:
            if self.coordinator is None:
                times.append(math.inf if self._is_finding else self._retry_at)
            elif self._unanswered is None and self._may_beat:
                times.append(max(self._beat_at, self._retry_at))
        first = min(times)
        return None if first == math.inf else first

    @property
    def _may_beat(self) -> bool:
        """A member that does not poll would only have to leave again."""
        return self.state is not State.JOINING or self._poll_deadline < math.inf

    def _subscribed(self, topics: tuple[str, ...], pattern: str | None, now: float) -> None:
        self.topics, self.pattern = topics, pattern
        self._poll_deadline = now + self._config.max_poll_interval_ms / 1000
        if self.state in (State.IDLE, State.FAILED):
            self.state = State.LOST if self._places else State.JOINING
            self._retry_at = now
        self._beat_at = now

    # --- heartbeats ---

    def _beat(self, node: int, now: float, effects: list[Effect]) -> None:
        places = frozenset(self._places)
        told = self._told
        is_joining = self.state is State.JOINING
        if told is None or is_joining:
            said = Said(self.topics, self.pattern, _by_topic(places), True)
        else:
            topics, pattern, owned = told
            said = Said(
                None if topics == self.topics else self.topics,
                # An empty pattern takes back the one before.
                None if pattern == self.pattern else self.pattern or "",
                None if owned == places else _by_topic(places),
                False,
            )
        self._told = (self.topics, self.pattern, places)
        if self.state is State.ACKNOWLEDGING:
            self.state = State.STABLE
        self._beat_at = now + self._interval_s if self._interval_s else math.inf
        epoch = JOIN_EPOCH if is_joining else self.generation_id
        self._unanswered = self._send(node, epoch, said, effects)

    def _send(self, node: int, epoch: int, said: Said, effects: list[Effect]) -> int:
        self._last_token += 1
        request = self._make_heartbeat(self._config, self.member_id, epoch, said)
        version_min = _PATTERN_VERSION if said.pattern else 0
        effects.append(Send(node, self._last_token, request, version_min=version_min))
        return self._last_token

    def _answered(
        self, token: int, answer: Response | KafkaError, now: float, effects: list[Effect]
    ) -> None:
        if token != self._unanswered:
            return  # it has left since
        self._unanswered = None
        self.answer_count += 1
        if isinstance(answer, KafkaError):
            self.coordinator = None
            self._failed_for_now(answer, now, effects)
        else:
            self._heard(cast("HeartbeatAnswer", answer), now, effects)

    def _heard(self, answer: HeartbeatAnswer, now: float, effects: list[Effect]) -> None:
        if answer.error_code:
            self._refused(answer.error_code, answer.error_message, now, effects)
            return
        self._attempts = 0
        self._interval_s = answer.heartbeat_interval_ms / 1000
        self._beat_at = now + self._interval_s
        self.generation_id = answer.member_epoch
        if self.state is State.JOINING:
            self.state = State.STABLE
            self._is_new = True
        if answer.assignment is not None:
            before, self._target = (
                self._target,
                frozenset(
                    (topic.topic_id, index)
                    for topic in answer.assignment.topic_partitions
                    for index in topic.partitions
                ),
            )
            if self._target != before and self._told is not None:
                # The coordinator waits to hear that what it takes back is not owned, even if it
                # never was: its topic's name may not have been known.
                self._told = (*self._told[:2], None)
        self._reconcile(now, effects)
        if self._told is not None and self._told[:2] != (self.topics, self.pattern):
            self._beat_at = now  # the application has subscribed to others meanwhile

    def _leave(self, effects: list[Effect]) -> None:
        is_known = self.generation_id != OUTSIDE or self._unanswered is not None
        if self.coordinator is not None and is_known:
            is_static = self._config.group_instance_id is not None
            epoch = PAUSE_EPOCH if is_static else LEAVE_EPOCH
            self._send(self.coordinator, epoch, Said(None, None, None, False), effects)
        self._forget_membership()

    def _forget_membership(self) -> None:
        self._unanswered = None
        self._told = None
        self._target = frozenset()
        self.generation_id = OUTSIDE

    # --- from what it owns to what it is assigned ---

    def _reconcile(self, now: float, effects: list[Effect]) -> None:
        if self._revoking or self.state not in _INSIDE:
            return
        gone = frozenset(self._places) - self._target
        if gone:
            self.state = State.RECONCILING
            self._revoke(gone, effects, is_lost=False)
            return
        added: dict[_Place, TopicPartition] = {}
        unknown: set[bytes] = set()
        for place in self._target - self._places.keys():
            topic_id, index = place
            name = self._cluster.names_by_id.get(topic_id)
            if name is None:
                unknown.add(topic_id)
            else:
                added[place] = TopicPartition(name, index)
        if unknown:
            effects.append(RefreshMetadata(frozenset(), frozenset(unknown)))
        if added or (self._is_new and not unknown):
            self._is_new = False
            self.rebalance_count += 1
            self._places.update(added)
            effects.append(Assign(sorted(added.values())))
        is_told = self._told is not None and self._told[2] == self._places.keys()
        self.state = State.STABLE if is_told else State.ACKNOWLEDGING
        if not is_told:
            self._beat_at = now

    def _revoke(self, places: frozenset[_Place], effects: list[Effect], *, is_lost: bool) -> None:
        self._revoking = places
        effects.append(Revoke(sorted(self._places[place] for place in places), is_lost))

    def _revoked(self, now: float, effects: list[Effect]) -> None:
        released, self._revoking = self._revoking, frozenset()
        for place in released:
            del self._places[place]
        if self.state in (State.LOST, State.FAILED):
            if self._places:  # lost while it was releasing some of them
                self._revoke(frozenset(self._places), effects, is_lost=True)
            elif self.state is State.LOST:
                self.state = State.JOINING
                self._beat_at = now
        else:
            self._reconcile(now, effects)

    def _lose(self, now: float, effects: list[Effect]) -> None:
        """The group removed this member: its partitions may have another owner already."""
        self._forget_membership()
        self.state = State.LOST if self._places else State.JOINING
        self._beat_at = now
        if self._places and not self._revoking:
            self._revoke(frozenset(self._places), effects, is_lost=True)

    # --- going wrong ---

    def commit_refused(self, code: int, now: float) -> list[Effect]:
        """Ask the coordinator where this member stands."""
        if code in _ABOUT_THE_MEMBER:
            self._beat_at = now
        if code in _COORDINATOR_GONE:
            self.coordinator = None
            self._told = None
        return self.expire(now)

    def _failed_for_now(self, error: KafkaError, now: float, effects: list[Effect]) -> None:
        self._told = None  # whether the coordinator has heard the last heartbeat is not known
        if not error.is_retriable:
            self._give_up(error, effects)
            return
        self._retry_at = now + self._backoff.seconds(self._attempts)
        self._attempts += 1
        self._beat_at = self._retry_at

    def _refused(self, code: int, message: str | None, now: float, effects: list[Effect]) -> None:
        error = broker_error(code, f"heartbeat in group {self._config.group_id!r}", message)
        if code in _COORDINATOR_GONE:
            self.coordinator = None
            self._failed_for_now(error, now, effects)
        elif code in _REMOVED:
            if self.state is State.JOINING:  # not even a new member is welcome
                self._retry_at = now + self._backoff.seconds(self._attempts)
                self._attempts += 1
            self._lose(now, effects)
        elif code == ErrorCode.FENCED_INSTANCE_ID:
            self._give_up(FencedError(str(error)), effects)
        else:
            self._failed_for_now(error, now, effects)

    def _give_up(self, error: KafkaError, effects: list[Effect]) -> None:
        self._lose(math.inf, effects)
        self.state = State.FAILED
        effects.append(Fail(error))


def _by_topic(places: Iterable[_Place]) -> dict[bytes, list[int]]:
    grouped: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(places):
        grouped.setdefault(topic_id, []).append(index)
    return grouped
