"""A member's unanswered requests: whose answer is still wanted, and who hears it.

At most one heartbeat is under way, and at most one request of the rebalance (join, sync); a newer
one supersedes it, and the answer to the older one, should it come, is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from minikafka.protocol.schema import Request, Response
from minikafka_client.core.group_messages import Effect, Send

Handler = Callable[[Response, float, list[Effect]], None]
"""Takes the response, the time, and the effects to add to."""

_NONE: Final = -1


class GroupRequests:
    """Hands out tokens for requests, and takes them back with the answers.

    Attributes:
        last_token: that of the newest request.
    """

    def __init__(self) -> None:
        self.last_token = 0
        self._handlers: dict[int, Handler] = {}
        self._heartbeat = _NONE

    @property
    def is_beating(self) -> bool:
        """Whether a heartbeat is unanswered."""
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
        """Send a heartbeat, beside what else is under way."""
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
        """Who hears the answer; None when nobody does any more."""
        if token == self._heartbeat:
            self._heartbeat = _NONE
        return self._handlers.pop(token, None)

    def forget(self) -> None:
        """Drop whatever is still to come."""
        self._handlers.clear()
        self._heartbeat = _NONE
