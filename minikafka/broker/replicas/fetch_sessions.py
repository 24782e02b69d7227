"""Incremental fetch sessions (KIP-227).

A client that fetches many partitions sends them all once (epoch 0) and then only the changes; the
answer then holds only partitions with something new. The cache is bounded: when it is full, the
session that has been idle longest is evicted if it is old enough, otherwise a client gets no
session and continues with full fetches, which every client supports.

``epoch`` is the number that the next request of a session must carry. A request with another number
gets INVALID_FETCH_SESSION_EPOCH, one for an unknown session FETCH_SESSION_ID_NOT_FOUND; both make
the client start again with a full fetch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.messages import fetch

EVICTION_AGE_SECONDS = 120.0
PARTITIONS_MAX = 400_000
"""Partitions that all sessions remember together, at about 500 bytes each."""

FULL_EPOCH = 0
SESSIONLESS_EPOCH = -1

PartitionKey = tuple[str, bytes, int]
"""(topic name or "", topic id, partition)."""


class SessionError(Exception):
    """The request does not fit its session; ``error_code`` is the whole answer."""

    def __init__(self, error_code: ErrorCode) -> None:
        super().__init__(error_code.name)
        self.error_code = error_code


class CachedPartition:
    """What a session remembers of a partition: what to fetch and what was last sent.

    ``topic_name`` is the name that its topic has, or had when its id was last known; "" until then.
    """

    __slots__ = (
        "asked",
        "high_watermark",
        "key",
        "last_stable_offset",
        "log_start_offset",
        "topic_name",
    )

    def __init__(self, key: PartitionKey, asked: fetch.Partition) -> None:
        self.key = key
        self.asked = asked
        self.topic_name = key[0]
        self.high_watermark = -1
        self.log_start_offset = -1
        self.last_stable_offset = -1


class FetchSession:
    """One client's session: partitions in the order they will be served next."""

    __slots__ = ("epoch", "last_used", "partitions", "session_id", "uses_topic_ids")

    def __init__(self, session_id: int, uses_topic_ids: bool, now: float) -> None:
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        self.last_used = now
        self.partitions: dict[PartitionKey, CachedPartition] = {}

    def advance(self) -> None:
        """Increment the epoch; the largest wraps to 1, because 0 means "full"."""
        self.epoch = 1 if self.epoch >= 2**31 - 1 else self.epoch + 1

    def move_to_end(self, keys: Iterable[PartitionKey]) -> None:
        """Serve partitions that just got data after the others (fairness under max.bytes)."""
        for key in keys:
            cached = self.partitions.pop(key, None)
            if cached is not None:
                self.partitions[key] = cached


class FetchPlan(NamedTuple):
    """How to answer one Fetch request.

    Attributes:
        session: None for a sessionless fetch.
        partitions: what to read, in order.
        is_incremental: answer only with what is new.
        session_id: for the response.
    """

    session: FetchSession | None
    partitions: list[CachedPartition]
    is_incremental: bool
    session_id: int


class FetchSessionCache:
    """All sessions of a broker.

    Args:
        slots: setting ``max.incremental.fetch.session.cache.slots``.
        new_session_id: returns random 31-bit numbers.
    """

    def __init__(self, slots: int, new_session_id: Callable[[], int]) -> None:
        self._slots = slots
        self._new_session_id = new_session_id
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, session_id: int) -> FetchSession | None:
        """A session, if it is still here."""
        return self._sessions.get(session_id)

    def plan(
        self,
        request: fetch.Request,
        uses_topic_ids: bool,
        now: float,
        wanted: list[CachedPartition],
    ) -> FetchPlan:
        """Update a request's session, and return what to answer.

        Args:
            request: what the client sent.
            uses_topic_ids: its version names topics by id.
            now: the time in monotonic seconds.
            wanted: its partitions, from `asked_partitions`.

        Raises:
            SessionError: the request does not fit a session here.
        """
        session_id, epoch = request.session_id, request.session_epoch
        if epoch in (FULL_EPOCH, SESSIONLESS_EPOCH):
            self._sessions.pop(session_id, None)
            session = None
            if epoch == FULL_EPOCH and self._has_room_for(len(wanted), now):
                session = self._create(uses_topic_ids, now)
            if session is None:
                return FetchPlan(None, wanted, False, 0)
            session.partitions = {one.key: one for one in wanted}
            return FetchPlan(session, wanted, False, session.session_id)
        return self._plan_incremental(request, uses_topic_ids, now, wanted)

    def withhold(self, plan: FetchPlan) -> int:
        """Take back a plan that is not answered, for a client above its quota (KIP-219).

        Returns:
            The session id for an empty answer. A session that the request would have begun ends:
            its client takes an empty answer to a full fetch for a refusal, and asks again.
        """
        if plan.is_incremental:
            return plan.session_id
        self._sessions.pop(plan.session_id, None)
        return 0

    def _plan_incremental(
        self,
        request: fetch.Request,
        uses_topic_ids: bool,
        now: float,
        wanted: list[CachedPartition],
    ) -> FetchPlan:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise SessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise SessionError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise SessionError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.advance()
        session.last_used = now
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                session.partitions.pop((topic.topic, topic.topic_id, number), None)
        added: dict[PartitionKey, CachedPartition] = {}
        for one in wanted:
            cached = session.partitions.get(one.key)
            if cached is None:
                added[one.key] = one
            else:
                cached.asked = one.asked
        if added and not self._has_room_for(len(added), now):
            self._sessions.pop(session.session_id, None)  # its client starts again without one
            raise SessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session.partitions |= added
        return FetchPlan(session, list(session.partitions.values()), True, session.session_id)

    def _has_room_for(self, partitions: int, now: float) -> bool:
        """Whether so many more partitions may be remembered; evicts old sessions if necessary."""
        partitions += sum(len(one.partitions) for one in self._sessions.values())
        while partitions > PARTITIONS_MAX:
            evicted = self._evict(now)
            if evicted is None:
                return False
            partitions -= len(evicted.partitions)
        return True

    def _create(self, uses_topic_ids: bool, now: float) -> FetchSession | None:
        if len(self._sessions) >= self._slots and self._evict(now) is None:
            return None
        session_id = 0
        while session_id == 0 or session_id in self._sessions:
            session_id = self._new_session_id()
        session = FetchSession(session_id, uses_topic_ids, now)
        self._sessions[session_id] = session
        return session

    def _evict(self, now: float) -> FetchSession | None:
        """Evict the session that has been idle longest, if it is old enough."""
        oldest = min(self._sessions.values(), key=lambda one: one.last_used, default=None)
        if oldest is None or now - oldest.last_used < EVICTION_AGE_SECONDS:
            return None
        return self._sessions.pop(oldest.session_id)


def asked_partitions(topics: Iterable[fetch.Topic]) -> Iterator[CachedPartition]:
    """The partitions of a request, as no session knows them yet."""
    for topic in topics:
        for asked in topic.partitions:
            yield CachedPartition((topic.topic, topic.topic_id, asked.partition), asked)
