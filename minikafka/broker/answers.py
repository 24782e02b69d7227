"""Answers that are not there yet, and the order in which a connection sends them.

A handler may return a `LaterAnswer`: the connection then serves what comes behind that request, and
sends the answer when it is ready and all before it were sent. `AnswerQueue` keeps that order. What
becomes ready is sent at once, by whoever made it ready, as far as the socket takes it; the rest is
left to the connection's task.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ..protocol.frames import encode_response
from ..protocol.schema import Response
from .transport import FilePayload, Transport

logger = logging.getLogger(__name__)

LATER_ANSWERS_MAX = 256
"""Answers that one connection may have waiting; with more of them no request is read."""


class LaterAnswer:
    """An answer that a handler promises.

    Attributes:
        response: the answer; what it says may change until it is ready.
        is_ready: it may be sent.
        deadline: when `give_up` has to be called, monotonic seconds.
        on_ready: called once when it is ready; it must neither wait nor raise.
    """

    __slots__ = ("deadline", "is_ready", "on_ready", "response")

    def __init__(self) -> None:
        self.response: Response | None = None
        self.is_ready = False
        self.deadline = float("inf")
        self.on_ready: Callable[[], None] | None = None

    def ready(self) -> None:
        """Let it be sent."""
        self.is_ready = True
        if self.on_ready is not None:
            self.on_ready()

    def give_up(self) -> None:
        """Do not wait any longer: be ready with what is known."""
        raise NotImplementedError


class _Promise:
    """A place in the order of answers."""

    __slots__ = ("correlation_id", "later", "parts", "version")

    def __init__(self, later: LaterAnswer | None, parts: Sequence[Any]) -> None:
        self.later = later
        self.parts = parts
        self.version = 0
        self.correlation_id = 0


class AnswerQueue:
    """Answers of one connection, from the first that is not ready on.

    Attributes:
        unsent: what the socket did not take; only the connection's task may send it.
        on_rest: called when something is left for the task.
        on_sent: called when answers were sent.
    """

    __slots__ = ("_is_held", "_promises", "_transport", "on_rest", "on_sent", "unsent")

    def __init__(
        self, transport: Transport, on_rest: Callable[[], None], on_sent: Callable[[], None]
    ) -> None:
        self._transport = transport
        self._promises: deque[_Promise] = deque()
        self._is_held = False
        self.on_rest = on_rest
        self.on_sent = on_sent
        self.unsent: list[Any] = []

    def __len__(self) -> int:
        """How many answers wait, or wait to be sent."""
        return len(self._promises) + bool(self.unsent)

    @property
    def deadline(self) -> float:
        """When the first of them has to be given up."""
        return min((later.deadline for later in self._waiting()), default=float("inf"))

    def _waiting(self) -> list[LaterAnswer]:
        found = (one.later for one in self._promises)
        return [later for later in found if later is not None and not later.is_ready]

    def promise(self, later: LaterAnswer, version: int, correlation_id: int) -> None:
        """Keep a place for an answer."""
        promise = _Promise(later, ())
        promise.version = version
        promise.correlation_id = correlation_id
        self._promises.append(promise)
        later.on_ready = self._send_ready
        if later.is_ready:
            self._send_ready()

    def add(self, parts: Sequence[Any]) -> None:
        """Put an answer that is ready behind those that wait."""
        self._promises.append(_Promise(None, parts))

    def hold(self) -> None:
        """The connection's task sends something itself: nothing may come in between."""
        self._is_held = True

    def release(self) -> None:
        """Go on."""
        self._is_held = False
        self._send_ready()

    def _send_ready(self) -> None:
        """Send all answers up to the first that is not ready."""
        if self._is_held or self.unsent:
            return
        try:
            parts = self._take_ready()
        except Exception:
            # Whoever made it ready has nothing to do with it.
            logger.exception("closing connection from %s after a bug", self._transport.peer)
            self._transport.close()
            return
        if not parts:
            return
        if any(type(part) is FilePayload for part in parts):
            self.unsent = parts
        else:
            self.unsent = self._transport.send_now(parts)
        if self.unsent:
            self.on_rest()
        else:
            self.on_sent()

    def _take_ready(self) -> list[Any]:
        promises = self._promises
        parts: list[Any] = []
        while promises:
            one = promises[0]
            later = one.later
            if later is None:
                parts += one.parts
            elif later.is_ready:
                assert later.response is not None
                parts += encode_response(later.response, one.version, one.correlation_id)
            else:
                break
            promises.popleft()
        return parts

    def give_up(self, now: float) -> None:
        """Let those be answered whose time is over."""
        for later in self._waiting():
            if later.deadline <= now:
                later.give_up()

    def forget(self) -> None:
        """The client is gone."""
        promises, self._promises = self._promises, deque()
        for one in promises:
            if one.later is not None:
                one.later.on_ready = None
                one.later.give_up()
