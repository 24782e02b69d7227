"""The leader's side of replica fetch: what followers ask, and when they are answered.

See `replica_sessions` for what travels. No task waits for a follower. A request is a plain call
that answers at once or leaves its session open; an append marks the sessions that have news, and
one task answers them in the same turn of the event loop, so that everything that was appended in it
goes out together. Where somebody waits for the high watermark, as a Produce with acks=all does, the
answers do not wait for that task: they go out when the `telling_followers` block ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import trio

from .replica_news import News
from .replica_positions import Positions
from .replica_sessions import (
    SESSION_LOST,
    Answer,
    Position,
    Respond,
    Session,
)
from .rpc import RpcFailure

if TYPE_CHECKING:
    from .broker import Broker

logger = logging.getLogger(__name__)


class _TellingFollowers:
    """A block of appends; when the outermost one ends, followers are answered in the same call."""

    __slots__ = ("_depth", "_flush")

    def __init__(self, flush: Callable[[], None]) -> None:
        self._depth = 0
        self._flush = flush

    def __bool__(self) -> bool:
        """Whether such a block is being executed."""
        return self._depth > 0

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._flush()


class ReplicaServer:
    """Answers the fetches of all followers.

    Attributes:
        telling_followers: `with` it, followers hear what is appended as soon as the block ends;
            nothing may be awaited in it.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sessions: dict[int, Session] = {}
        self._ready: dict[Session, None] = {}
        self._sleeper: trio.lowlevel.Task | None = None
        self._timer_at = float("inf")
        self._timer_scope: trio.CancelScope | None = None
        self.telling_followers = _TellingFollowers(self.flush)
        self._positions = Positions(broker)
        rate_bytes = broker.config.leader_replication_throttled_rate
        self._news = News(self._positions, rate_bytes, self._set_timer)

    # --- operations ----------------------------------------------------------------------------

    def fetch(
        self, node_id: int, fields: Any, attachments: Sequence[memoryview], respond: Respond
    ) -> None:
        """Answer a follower, now or when there is something to say.

        Raises:
            RpcFailure: the request is none.
        """
        del attachments
        try:
            (
                session_id,
                number,
                broker_epoch,
                wait_ms,
                min_bytes,
                max_bytes,
                partition_bytes,
                changed,
                forgotten,
                failed,
            ) = fields
            positions = [Position(*one) for one in changed]
            deadline = trio.current_time() + wait_ms / 1000
        except (TypeError, ValueError) as error:
            raise RpcFailure("BadRequest", f"a fetch that makes no sense: {error}") from None
        session = self._session(node_id, session_id, number)
        if session is None:
            respond((SESSION_LOST, ()), [])
            return
        session.broker_epoch = broker_epoch
        session.deadline = deadline
        session.min_bytes = min_bytes
        session.answer = answer = Answer(max_bytes, partition_bytes)
        for slot in failed:
            self._positions.lose(session, slot)
        for slot in forgotten:
            session.forget(slot)
        for position in positions:
            self._positions.take(session, position, answer)
        if session.next_number != number + 1:  # ended by what the positions led to
            respond((SESSION_LOST, ()), [])
            return
        session.respond = respond
        if not self._answer(session):
            self._set_timer(deadline)

    def fetch_wake(self, node_id: int, fields: Any, attachments: Sequence[memoryview]) -> None:
        """End a follower's wait."""
        del attachments
        session = self._sessions.get(node_id)
        if session is not None and fields == session.session_id:
            session.send()

    @property
    def waiting_for_metadata(self) -> int:
        """How many positions are ahead of this broker's metadata."""
        return sum(len(session.unknown) for session in self._sessions.values())

    def metadata_changed(self) -> None:
        """Positions that were ahead of the metadata may be right now."""
        for session in self._sessions.values():
            if session.unknown:
                session.fresh |= session.unknown
                if session.respond is not None:
                    self._on_ready(session)

    def set_rate(self, rate_bytes: float) -> None:
        """Bytes per second for throttled replicas (leader.replication.throttled.rate)."""
        if self._news.throttle.set_rate(rate_bytes):
            for session in self._sessions.values():
                session.fresh |= dict.fromkeys(session.delayed)
                session.delayed.clear()
                if session.respond is not None:
                    self._on_ready(session)

    def forget(self, node_id: int) -> None:
        """A broker is not there any more."""
        session = self._sessions.pop(node_id, None)
        if session is not None:
            self._ready.pop(session, None)
            session.end()

    def _session(self, node_id: int, session_id: int, number: int) -> Session | None:
        session = self._sessions.get(node_id)
        if number == 0:
            self.forget(node_id)
            session = self._sessions[node_id] = Session(node_id, session_id, self._on_ready)
        elif session is None or session.session_id != session_id or session.next_number != number:
            return None
        session.next_number = number + 1
        return session

    # --- when to answer ------------------------------------------------------------------------

    async def run(self) -> None:
        """Answer those who wait, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_deadlines)
            while True:
                if not self._ready:
                    self._sleeper = trio.lowlevel.current_task()
                    await trio.lowlevel.wait_task_rescheduled(self._abort_sleep)
                self.flush()

    def _abort_sleep(self, _: object) -> trio.lowlevel.Abort:
        self._sleeper = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _on_ready(self, session: Session) -> None:
        """A session has news and an open request."""
        self._ready[session] = None
        if self._sleeper is not None and not self.telling_followers:
            trio.lowlevel.reschedule(self._sleeper)
            self._sleeper = None

    def flush(self) -> None:
        """Answer all sessions that have news."""
        ready, self._ready = self._ready, {}
        for session in ready:
            if session.respond is not None:
                self._answer(session)

    def _answer(self, session: Session) -> bool:
        """Answer if there is enough to say; returns whether."""
        answer = session.answer
        self._news.collect(session, answer)
        if not answer.is_enough(session.min_bytes):
            if answer.served:
                session.answer = answer.emptied()
            return False
        session.send()
        return True

    async def _watch_deadlines(self) -> None:
        """Answer what has waited long enough, and let throttled replicas go on."""
        while True:
            self._timer_at = min(map(_next_deadline, self._sessions.values()), default=float("inf"))
            with trio.CancelScope(deadline=self._timer_at) as self._timer_scope:
                await trio.sleep_forever()
            now = trio.current_time()
            for session in list(self._sessions.values()):
                if session.delayed:
                    due = [one for one, until in session.delayed.items() if until <= now]
                    for served in due:
                        del session.delayed[served]
                        session.fresh[served] = None
                    if due and session.respond is not None:
                        self._answer(session)
                if session.respond is not None and session.deadline <= now:
                    self._news.collect(session, session.answer)
                    self._news.tell_high_watermarks(session, session.answer)
                    session.send()

    def _set_timer(self, at: float) -> None:
        if at < self._timer_at:
            self._timer_at = at
            if self._timer_scope is not None:
                self._timer_scope.deadline = at


def _next_deadline(session: Session) -> float:
    times = [*session.delayed.values()]
    if session.respond is not None:
        times.append(session.deadline)
    return min(times, default=float("inf"))
