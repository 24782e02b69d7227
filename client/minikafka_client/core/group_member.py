"""A consumer's membership in a group (the classic protocol).

    state      means                                            leaves it by
    IDLE       subscribes to nothing                            Subscribed -> UNJOINED
    UNJOINED   has to join (again)                              nothing to revoke -> JOINING
    REVOKING   waits until the application lets go              Revoked -> UNJOINED
    JOINING    JoinGroup is unanswered                          joined -> SYNCING or LEADING
    LEADING    is leader, waits for the topics' metadata        metadata -> SYNCING
    SYNCING    SyncGroup is unanswered                          assignment -> STABLE
    STABLE     has an assignment                                rebalance -> UNJOINED
    FAILED     can never join; the application has been told    Subscribed -> UNJOINED

Heartbeats are sent in REVOKING, STABLE and UNJOINED as long as there is a generation, whatever the
application does; ``max_poll_interval_ms`` after it last asked for records the member leaves.

Eager assignors: everything is revoked before the member joins. Cooperative ones (KIP-429): it joins
with what it has, and lets go of what its next assignment leaves out; then it joins once more, so
that others get it. What a member owned when the group forgot it (or it was too slow) is *lost*.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Final

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.heartbeat import HeartbeatResponse
from minikafka.protocol.messages.join_group import JoinGroupResponse
from minikafka.protocol.messages.sync_group import SyncGroupRequestAssignment, SyncGroupResponse
from minikafka.protocol.schema import MalformedMessageError, Response
from minikafka_client.core.assignors.choice import is_cooperative
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import Cluster
from minikafka_client.core.consumer_protocol import NO_GENERATION, decode_assignment
from minikafka_client.core.group_contents import (
    divide,
    heartbeat_request,
    join_request,
    leave_request,
    read_subscriptions,
    sync_request,
)
from minikafka_client.core.group_messages import (
    Answered,
    Assign,
    CoordinatorFailed,
    CoordinatorFound,
    Effect,
    Event,
    Fail,
    FindCoordinator,
    GroupConfig,
    Left,
    Polled,
    RefreshMetadata,
    Revoke,
    Revoked,
    Subscribed,
)
from minikafka_client.core.group_requests import GroupRequests
from minikafka_client.errors import FencedError, KafkaError, broker_error
from minikafka_client.types import TopicPartition

NO_MEMBER: Final = ""
JOIN_SLACK_MS: Final = 5_000
"""How much longer than a rebalance may take the member waits for the answer to JoinGroup."""

_COORDINATOR_GONE: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
)
_MEMBERSHIP_GONE: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


class State(Enum):
    """See the table above."""

    IDLE = 0
    UNJOINED = 1
    REVOKING = 2
    JOINING = 3
    LEADING = 4
    SYNCING = 5
    STABLE = 6
    FAILED = 7


_BEATING: Final = frozenset({State.UNJOINED, State.REVOKING, State.STABLE})


class GroupMember:
    """The machine.

    Attributes:
        state: see the table above.
        member_id, generation_id: the identity for commits; "" and -1 outside a generation.
        coordinator: its node id, None while unknown.
        topics: what it subscribes to; ``joined_topics``: what the group knows of it.
        owned: what the application has, or is being given.
        rebalance_count: how many assignments there were.
        requests: what the coordinator has not answered.
    """

    def __init__(self, config: GroupConfig, cluster: Cluster, backoff: Backoff) -> None:
        self._config = config
        self._cluster = cluster
        self._backoff = backoff
        self._is_cooperative = is_cooperative(config.assignors)
        self.state = State.IDLE
        self.member_id = NO_MEMBER
        self.generation_id = NO_GENERATION
        self.coordinator: int | None = None
        self.owned: frozenset[TopicPartition] = frozenset()
        self.rebalance_count = 0
        self.requests = GroupRequests()
        self.topics: tuple[str, ...] = ()
        self.joined_topics: tuple[str, ...] = ()
        self._led_counts: dict[str, int] = {}
        self._is_lost = False
        self._revoking = 0  # how many times the application was asked to let go
        self._is_finding = False
        self._retry_at = 0.0
        self._attempts = 0
        self._heartbeat_at = math.inf
        self._poll_deadline = math.inf
        self._led: JoinGroupResponse | None = None
        self._remembered: tuple[frozenset[TopicPartition], int] = (frozenset(), NO_GENERATION)

    # --- the machine's doors ---

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Take in an event, and go on."""
        effects: list[Effect] = []
        match event:
            case Subscribed(topics):
                self._subscribed(topics, now)
            case CoordinatorFound(node):
                self.coordinator = node
                self._is_finding = False
                self._attempts = 0
            case CoordinatorFailed(error):
                self._is_finding = False
                self._failed_for_now(error, now, effects)
            case Answered(token, answer):
                self._answered(token, answer, now, effects)
            case Left(reason):
                self._leave(effects, reason)
                self.topics = ()
                self.owned = frozenset()
                self._is_lost = False
                self._revoking = 0
                self.state = State.IDLE
            case Revoked():
                self._revoked()
            case Polled():
                self._poll_deadline = now + self._config.max_poll_interval_ms / 1000
            case _:  # MetadataChanged
                self._metadata_changed(now, effects)
        return effects + self.expire(now)

    def expire(self, now: float) -> list[Effect]:
        """Do what is due."""
        effects: list[Effect] = []
        if now >= self._poll_deadline and self.state not in (State.IDLE, State.FAILED):
            self._poll_deadline = math.inf  # until the application polls again
            self._leave(effects, "the application did not ask for records in max_poll_interval_ms")
            self._lose(effects)
        if self.coordinator is None:
            wants_one = self.state not in (State.IDLE, State.FAILED, State.LEADING)
            if wants_one and not self._is_finding and now >= self._retry_at:
                self._is_finding = True
                effects.append(FindCoordinator())
            return effects
        if self.state is State.UNJOINED and now >= self._retry_at and self._may_join:
            self._begin_to_join(self.coordinator, effects)
        if self.state in _BEATING and now >= self._heartbeat_at:
            self._beat(self.coordinator, now, effects)
        return effects

    def deadline(self) -> float | None:
        """When `expire` has something to do."""
        times = [self._poll_deadline if self.state not in (State.IDLE, State.FAILED) else math.inf]
        if self.coordinator is None:
            if not self._is_finding and self.state not in (State.IDLE, State.FAILED):
                times.append(self._retry_at)
        else:
            if self.state is State.UNJOINED and self._may_join:
                times.append(self._retry_at)
            if self.state in _BEATING and not self.requests.is_beating:
                times.append(self._heartbeat_at)
        first = min(times)
        return None if first == math.inf else first

    @property
    def group_instance_id(self) -> str | None:
        """The static member's name, if it has one."""
        return self._config.group_instance_id

    @property
    def _may_join(self) -> bool:
        """Whoever does not poll would only be thrown out again."""
        return self._poll_deadline < math.inf

    # --- joining ---

    def _subscribed(self, topics: tuple[str, ...], now: float) -> None:
        self.topics = topics
        self._poll_deadline = now + self._config.max_poll_interval_ms / 1000
        if self.state in (State.IDLE, State.FAILED, State.STABLE):
            self.state = State.UNJOINED
            self._retry_at = now

    def _begin_to_join(self, node: int, effects: list[Effect]) -> None:
        if self._revoking:
            return  # the application still has what was taken from it
        if self.owned and (self._is_lost or not self._is_cooperative):
            self._remembered = (self.owned, self.generation_id)
            self.state = State.REVOKING
            self._revoke(self.owned, effects, is_lost=self._is_lost)
            return
        request = join_request(
            self._config,
            self.member_id,
            self.topics,
            owned=self.owned,
            generation_id=self.generation_id,
            remembered=self._remembered,
        )
        self.state = State.JOINING
        self.joined_topics = self.topics
        timeout_ms = self._config.max_poll_interval_ms + JOIN_SLACK_MS
        self.requests.send(node, request, self._joined, effects, timeout_ms=timeout_ms)

    def _revoke(
        self, partitions: frozenset[TopicPartition], effects: list[Effect], *, is_lost: bool
    ) -> None:
        self._revoking += 1
        effects.append(Revoke(sorted(partitions), is_lost))

    def _revoked(self) -> None:
        self._revoking -= 1
        if not self._revoking and self.state is State.REVOKING:
            self.owned = frozenset()
            self._is_lost = False
            self.state = State.UNJOINED

    def _joined(self, response: Response, now: float, effects: list[Effect]) -> None:
        assert isinstance(response, JoinGroupResponse)
        code = response.error_code
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self._rejoin(now)
        elif code:
            self._refused(code, "join", now, effects)
        else:
            self._attempts = 0
            self.member_id = response.member_id
            self.generation_id = response.generation_id
            self._led_counts = {}
            if response.leader == response.member_id:
                self._led = response
                self._lead(effects)
            else:
                self._sync([], response.protocol_name, effects)

    def _lead(self, effects: list[Effect]) -> None:
        """Divide the partitions among the members, as soon as the topics are known."""
        response = self._led
        assert response is not None
        if response.skip_assignment:  # a static leader that came back to a stable group (KIP-814)
            self._sync([], response.protocol_name, effects)
            return
        subscriptions = read_subscriptions(self._config, response)
        if isinstance(subscriptions, KafkaError):
            self._give_up(subscriptions, effects)
            return
        topics = {topic for each in subscriptions.values() for topic in each.topics}
        if topics - self._cluster.topics.keys():
            self.state = State.LEADING
            effects.append(RefreshMetadata(frozenset(topics)))
            return
        self._led_counts = {topic: self._cluster.partition_count(topic) for topic in topics}
        assignments = divide(self._config, response.protocol_name, self._led_counts, subscriptions)
        if isinstance(assignments, KafkaError):
            self._give_up(assignments, effects)
            return
        self._sync(assignments, response.protocol_name, effects)

    def _metadata_changed(self, now: float, effects: list[Effect]) -> None:
        if self.state is State.LEADING:
            self._lead(effects)
        elif self.state is State.STABLE:
            # Only the leader notices that a topic has grown (or come, or gone).
            counts = {topic: self._cluster.partition_count(topic) for topic in self._led_counts}
            if counts != self._led_counts:
                self._rejoin(now)

    def _sync(
        self,
        assignments: list[SyncGroupRequestAssignment],
        protocol_name: str | None,
        effects: list[Effect],
    ) -> None:
        self._led = None
        if self.coordinator is None:  # lost it while the leader was waiting for metadata
            self.state = State.UNJOINED
            return
        request = sync_request(
            self._config, self.member_id, self.generation_id, protocol_name, assignments
        )
        self.state = State.SYNCING
        timeout_ms = self._config.max_poll_interval_ms + JOIN_SLACK_MS
        node = self.coordinator
        self.requests.send(node, request, self._synced, effects, timeout_ms=timeout_ms)

    def _synced(self, response: Response, now: float, effects: list[Effect]) -> None:
        assert isinstance(response, SyncGroupResponse)
        if response.error_code:
            self._refused(response.error_code, "sync", now, effects)
            return
        try:
            partitions, _user_data = decode_assignment(response.assignment)
        except MalformedMessageError as error:
            self._give_up(
                KafkaError(f"group {self._config.group_id!r}: unreadable assignment: {error}"),
                effects,
            )
            return
        assigned = frozenset(partitions)
        self.state = State.STABLE
        self.rebalance_count += 1
        self._attempts = 0
        self._heartbeat_at = now + self._config.heartbeat_interval_ms / 1000
        gone = self.owned - assigned
        added = sorted(assigned - self.owned)
        self.owned = assigned
        if gone:
            self._revoke(gone, effects, is_lost=False)
        if gone or self.joined_topics != self.topics:
            self._rejoin(now)
        effects.append(Assign(added))

    # --- staying ---

    def _beat(self, node: int, now: float, effects: list[Effect]) -> None:
        if self.generation_id == NO_GENERATION or self.requests.is_beating:
            return
        self._heartbeat_at = now + self._config.heartbeat_interval_ms / 1000
        request = heartbeat_request(self._config, self.member_id, self.generation_id)
        self.requests.send_heartbeat(node, request, self._heartbeat_answered, effects)

    def _heartbeat_answered(self, response: Response, now: float, effects: list[Effect]) -> None:
        assert isinstance(response, HeartbeatResponse)
        if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state is State.STABLE:
                self._rejoin(now)
        elif response.error_code:
            self._refused(response.error_code, "heartbeat", now, effects)

    def _leave(self, effects: list[Effect], reason: str) -> None:
        is_static = self._config.group_instance_id is not None
        if self.member_id != NO_MEMBER and self.coordinator is not None and not is_static:
            request = leave_request(self._config, self.member_id, reason)
            self.requests.send(self.coordinator, request, _nobody, effects)
        self.requests.forget()
        self.member_id = NO_MEMBER
        self.generation_id = NO_GENERATION
        self._heartbeat_at = math.inf

    def commit_refused(self, code: int, now: float) -> list[Effect]:
        """Take note of what the coordinator thinks of this member's commit."""
        effects: list[Effect] = []
        if code in _MEMBERSHIP_GONE | _COORDINATOR_GONE | {ErrorCode.FENCED_INSTANCE_ID}:
            self._refused(code, "commit", now, effects)
        return effects + self.expire(now)

    # --- going wrong ---

    def _answered(
        self, token: int, answer: Response | KafkaError, now: float, effects: list[Effect]
    ) -> None:
        handler = self.requests.answered(token)
        if handler is None:
            return  # superseded: the member has joined again or left since
        if isinstance(answer, KafkaError):
            self.coordinator = None
            self._failed_for_now(answer, now, effects)
            self._back_to_unjoined()
        else:
            handler(answer, now, effects)

    def _back_to_unjoined(self) -> None:
        if self.state in (State.JOINING, State.SYNCING, State.LEADING):
            self.state = State.UNJOINED

    def _rejoin(self, now: float) -> None:
        self.state = State.UNJOINED
        self._retry_at = now

    def _failed_for_now(self, error: KafkaError, now: float, effects: list[Effect]) -> None:
        if not error.is_retriable:
            self._give_up(error, effects)
            return
        self._retry_at = now + self._backoff.seconds(self._attempts)
        self._attempts += 1

    def _refused(self, code: int, what: str, now: float, effects: list[Effect]) -> None:
        error = broker_error(code, f"{what} of group {self._config.group_id!r}")
        if code in _COORDINATOR_GONE:
            self.coordinator = None
            self._failed_for_now(error, now, effects)
            self._back_to_unjoined()
        elif code in _MEMBERSHIP_GONE:
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = NO_MEMBER
            self._lose(effects)
            self._retry_at = now
        elif code == ErrorCode.FENCED_INSTANCE_ID:
            self._give_up(FencedError(str(error)), effects)
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._rejoin(now)
        elif error.is_retriable:
            self._failed_for_now(error, now, effects)
            self._back_to_unjoined()
        else:
            self._give_up(error, effects)

    def _lose(self, effects: list[Effect]) -> None:
        """The group goes on without this member: what it owned may have another owner already."""
        self.generation_id = NO_GENERATION
        self._heartbeat_at = math.inf
        self._is_lost = bool(self.owned)
        if self.state is not State.REVOKING:
            self.state = State.UNJOINED
        if self._is_lost and self.state is State.UNJOINED:
            # The application hears it when it next asks for records, also if nobody can join.
            self.state = State.REVOKING
            self._remembered = (frozenset(), NO_GENERATION)
            self._revoke(self.owned, effects, is_lost=True)

    def _give_up(self, error: KafkaError, effects: list[Effect]) -> None:
        self.state = State.FAILED
        self.generation_id = NO_GENERATION
        effects.append(Fail(error))


def _nobody(response: Response, now: float, effects: list[Effect]) -> None:
    """Who leaves does not wait for an answer."""
