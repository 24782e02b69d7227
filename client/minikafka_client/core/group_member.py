"""A consumer's membership in a group (the classic protocol).

    state      means                                            leaves it by
    IDLE       subscribes to nothing                            Subscribed -> UNJOINED
    UNJOINED   has to join (again)                              nothing to revoke -> JOINING
    REVOKING   waits for the application's callback             Revoked -> UNJOINED
    JOINING    JoinGroup is unanswered                          joined -> SYNCING or LEADING
    LEADING    is leader, waits for the topics' metadata        metadata -> SYNCING
    SYNCING    SyncGroup is unanswered                          assignment -> STABLE
    STABLE     has an assignment                                rebalance -> UNJOINED
    FAILED     can never join; the application has the error    Subscribed -> UNJOINED

Heartbeats are sent in REVOKING, STABLE and UNJOINED as long as there is a generation, whatever the
application does; ``max_poll_interval_ms`` after the last poll the member leaves.

Eager assignors: everything is revoked before the member joins. Cooperative ones (KIP-429): it joins
with what it owns, and revokes what its next assignment leaves out; then it joins once more, so that
others get it. What a member owned when the group removed it is *lost*.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.exceptions import MalformedMessageError
from minikafka.protocol.messages import heartbeat, join_group, leave_group, sync_group
from minikafka.protocol.schema import Request, Response
from minikafka_client.core.assignors.assignor import Assignor
from minikafka_client.core.assignors.registry import is_cooperative
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import Cluster
from minikafka_client.core.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    NO_GENERATION,
    Subscription,
    decode_assignment,
    encode_assignment,
)
from minikafka_client.core.membership import (
    NO_MEMBER,
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


class GroupConfig(NamedTuple):
    """The consumer's settings, as far as membership goes; see `Consumer`."""

    group_id: str
    group_instance_id: str | None
    assignors: tuple[Assignor, ...]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int


JOIN_SLACK_MS: Final = 5_000
"""A member waits for the answer to JoinGroup this much longer than a rebalance may take."""

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
        member_id, generation_id: the identity for commits; "" and -1 outside a generation.
        topics: what it subscribes to; ``joined_topics``: what the group knows of it.
        owned: the partitions that the application has, or is being assigned.
        rebalance_count: how many assignments there were.
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
        self._revoking = 0  # how many revocations the application has not finished
        self._is_finding = False
        self._retry_at = 0.0
        self._attempts = 0
        self._heartbeat_at = math.inf
        self._poll_deadline = math.inf
        self._led: join_group.Response | None = None
        self._remembered: tuple[frozenset[TopicPartition], int] = (frozenset(), NO_GENERATION)

    # --- the machine ---

    def handle(self, event: Event, now: float) -> list[Effect]:
        effects: list[Effect] = []
        match event:
            case Subscribed(topics, pattern):
                assert pattern is None, "the classic protocol resolves patterns at the client"
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
    def uses_member_epochs(self) -> bool:
        return False

    @property
    def state_name(self) -> str:
        return self.state.name.lower()

    @property
    def group_instance_id(self) -> str | None:
        return self._config.group_instance_id

    @property
    def _may_join(self) -> bool:
        """A member that does not poll would only be removed again."""
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
            return  # the application has not released everything yet
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
        assert isinstance(response, join_group.Response)
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
            # Only the leader notices that a topic was created or deleted, or has grown.
            counts = {topic: self._cluster.partition_count(topic) for topic in self._led_counts}
            if counts != self._led_counts:
                self._rejoin(now)

    def _sync(
        self,
        assignments: list[sync_group.Assignment],
        protocol_name: str | None,
        effects: list[Effect],
    ) -> None:
        self._led = None
        if self.coordinator is None:  # lost while the leader was waiting for metadata
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
        assert isinstance(response, sync_group.Response)
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
        assert isinstance(response, heartbeat.Response)
        if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state is State.STABLE:
                self._rejoin(now)
        elif response.error_code:
            self._refused(response.error_code, "heartbeat", now, effects)

    def _leave(self, effects: list[Effect], reason: str) -> None:
        is_static = self._config.group_instance_id is not None
        if self.member_id != NO_MEMBER and self.coordinator is not None and not is_static:
            request = leave_request(self._config, self.member_id, reason)
            self.requests.send(self.coordinator, request, _ignore_answer, effects)
        self.requests.forget()
        self.member_id = NO_MEMBER
        self.generation_id = NO_GENERATION
        self._heartbeat_at = math.inf

    def commit_refused(self, code: int, now: float) -> list[Effect]:
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
        """The group removed this member: its partitions may have another owner already."""
        self.generation_id = NO_GENERATION
        self._heartbeat_at = math.inf
        self._is_lost = bool(self.owned)
        if self.state is not State.REVOKING:
            self.state = State.UNJOINED
        if self._is_lost and self.state is State.UNJOINED:
            # The next poll runs the callback, even if the member cannot join.
            self.state = State.REVOKING
            self._remembered = (frozenset(), NO_GENERATION)
            self._revoke(self.owned, effects, is_lost=True)

    def _give_up(self, error: KafkaError, effects: list[Effect]) -> None:
        self.state = State.FAILED
        self.generation_id = NO_GENERATION
        effects.append(Fail(error))


def _ignore_answer(response: Response, now: float, effects: list[Effect]) -> None:
    """A leaving member does not wait for an answer."""


def join_request(
    config: GroupConfig,
    member_id: str,
    topics: Iterable[str],
    *,
    owned: frozenset[TopicPartition],
    generation_id: int,
    remembered: tuple[frozenset[TopicPartition], int],
) -> join_group.Request:
    """A member's subscription for each assignor, with what it owns now and what it had before.

    ``remembered`` (partitions, generation) is for assignors whose members join without owning
    anything and still get back what they had.
    """
    topics = tuple(topics)
    had, had_in = (owned, generation_id) if owned else remembered
    protocols: list[join_group.Protocol] = []
    for assignor in config.assignors:
        subscription = Subscription(
            topics,
            owned_partitions=owned,
            generation_id=generation_id if owned else NO_GENERATION,
            user_data=assignor.user_data(had, had_in),
        )
        protocols.append(join_group.Protocol(name=assignor.name, metadata=subscription.encode()))
    return join_group.Request(
        group_id=config.group_id,
        session_timeout_ms=config.session_timeout_ms,
        rebalance_timeout_ms=config.max_poll_interval_ms,
        member_id=member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocols=protocols,
    )


def read_subscriptions(
    config: GroupConfig, response: join_group.Response
) -> dict[str, Subscription] | KafkaError:
    subscriptions: dict[str, Subscription] = {}
    for member in response.members:
        try:
            subscriptions[member.member_id] = Subscription.decode(
                member.metadata, group_instance_id=member.group_instance_id
            )
        except MalformedMessageError as error:
            return KafkaError(
                f"group {config.group_id!r}: the subscription of member {member.member_id!r} "
                f"cannot be read: {error}"
            )
    return subscriptions


def divide(
    config: GroupConfig,
    protocol_name: str | None,
    partition_counts: Mapping[str, int],
    subscriptions: Mapping[str, Subscription],
) -> list[sync_group.Assignment] | KafkaError:
    for assignor in config.assignors:
        if assignor.name == protocol_name:
            assigned = assignor.assign(partition_counts, subscriptions)
            return [
                sync_group.Assignment(member_id=member, assignment=encode_assignment(partitions))
                for member, partitions in assigned.items()
            ]
    return KafkaError(
        f"group {config.group_id!r} chose the assignor {protocol_name!r}, which this member "
        f"did not offer"
    )


def sync_request(
    config: GroupConfig,
    member_id: str,
    generation_id: int,
    protocol_name: str | None,
    assignments: list[sync_group.Assignment],
) -> sync_group.Request:
    """Ask for this member's assignment; the leader sends those of all members."""
    return sync_group.Request(
        group_id=config.group_id,
        generation_id=generation_id,
        member_id=member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=protocol_name,
        assignments=assignments,
    )


def heartbeat_request(config: GroupConfig, member_id: str, generation_id: int) -> heartbeat.Request:
    return heartbeat.Request(
        group_id=config.group_id,
        generation_id=generation_id,
        member_id=member_id,
        group_instance_id=config.group_instance_id,
    )


def leave_request(config: GroupConfig, member_id: str, reason: str) -> leave_group.Request:
    """Leave the group, in the shapes of all versions."""
    return leave_group.Request(
        group_id=config.group_id,
        members=[leave_group.MemberIdentity(member_id=member_id, reason=reason)],
        member_id=member_id,
    )


Handler = Callable[[Response, float, list[Effect]], None]
"""Takes the response, the time, and the effects to add to."""

_NONE: Final = -1


class GroupRequests:
    """A member's unanswered requests: which answers are still wanted, and by what.

    At most one heartbeat is in flight, and at most one request of the rebalance (join, sync). A
    newer one supersedes it, and the answer to the older one, should it come, is dropped.
    """

    def __init__(self) -> None:
        self.last_token = 0
        self._handlers: dict[int, Handler] = {}
        self._heartbeat = _NONE

    @property
    def is_beating(self) -> bool:
        return self._heartbeat != _NONE

    def send(
        self,
        node: int,
        request: Request,
        handler: Handler,
        effects: list[Effect],
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Send a request of the rebalance; it supersedes the one before."""
        heartbeat = self._handlers.pop(self._heartbeat, None)
        self._handlers.clear()
        if heartbeat is not None:
            self._handlers[self._heartbeat] = heartbeat
        self._send(node, request, handler, effects, timeout_ms)

    def send_heartbeat(
        self, node: int, request: Request, handler: Handler, effects: list[Effect]
    ) -> None:
        self._send(node, request, handler, effects, None)
        self._heartbeat = self.last_token

    def _send(
        self,
        node: int,
        request: Request,
        handler: Handler,
        effects: list[Effect],
        timeout_ms: int | None,
    ) -> None:
        self.last_token += 1
        self._handlers[self.last_token] = handler
        effects.append(Send(node, self.last_token, request, timeout_ms))

    def answered(self, token: int) -> Handler | None:
        """The handler for the answer; None if it is no longer wanted."""
        if token == self._heartbeat:
            self._heartbeat = _NONE
        return self._handlers.pop(token, None)

    def forget(self) -> None:
        self._handlers.clear()
        self._heartbeat = _NONE
