"""Keeps a connection's answers in the order of their requests.

A handler may return a `LaterAnswer`: the connection continues with the next request, and sends the
answer once it is ready and every earlier one has been sent. The call that makes an answer ready
also sends it, as far as the socket accepts it; the connection's task sends the rest.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ..handlers.later_answer import LaterAnswer
from ..transport.transport import FilePayload, Transport

logger = logging.getLogger(__name__)

LATER_ANSWERS_MAX = 256
"""Pending answers of one connection, beyond which it reads no more requests."""


class _Promise:
    """A place in the order of answers, for one that is ready (``parts``) or not (``later``)."""

    __slots__ = ("correlation_id", "later", "parts", "version")

    def __init__(self, later: LaterAnswer | None, parts: Sequence[Any]) -> None:
        self.later = later
        self.parts = parts
        self.version = 0
        self.correlation_id = 0


class AnswerQueue:
    """Answers of one connection, from the first that is not ready on.

    Attributes:
        unsent: what the socket did not accept; only the connection's task may send it.
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
        """The number of pending answers; unsent bytes count as one."""
        return len(self._promises) + bool(self.unsent)

    @property
    def deadline(self) -> float:
        return min((later.deadline for later in self._waiting()), default=float("inf"))

    def _waiting(self) -> list[LaterAnswer]:
        found = (one.later for one in self._promises)
        return [later for later in found if later is not None and not later.is_ready]

    def promise(self, later: LaterAnswer, version: int, correlation_id: int) -> None:
        promise = _Promise(later, ())
        promise.version = version
        promise.correlation_id = correlation_id
        self._promises.append(promise)
        later.on_ready = self._send_ready
        if later.is_ready:
            self._send_ready()

    def add(self, parts: Sequence[Any]) -> None:
        self._promises.append(_Promise(None, parts))

    def hold(self) -> None:
        """Send nothing until `release`, because the connection's task is sending."""
        self._is_held = True

    def release(self) -> None:
        self._is_held = False
        self._send_ready()

    def _send_ready(self) -> None:
        if self._is_held or self.unsent:
            return
        try:
            parts = self._take_ready()
        except Exception:
            # The caller that made the answer ready is not to blame.
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
                parts += later.encode(one.version, one.correlation_id)
            else:
                break
            promises.popleft()
        return parts

    def give_up(self, now: float) -> None:
        for later in self._waiting():
            if later.deadline <= now:
                later.give_up()

    def forget(self) -> None:
        """The client has disconnected: give up all answers."""
        promises, self._promises = self._promises, deque()
        for one in promises:
            if one.later is not None:
                one.later.on_ready = None
                one.later.give_up()
