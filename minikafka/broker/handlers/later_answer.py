"""A response that a handler completes later, without blocking the requests behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...protocol.frames import encode_response
from ...protocol.schema import Response


class LaterAnswer:
    """A promised response.

    Attributes:
        response: may change until it is ready.
        deadline: when the connection calls `give_up`, in monotonic seconds.
        on_ready: called once when it becomes ready; must neither block nor raise.
    """

    __slots__ = ("deadline", "is_ready", "on_ready", "response")

    def __init__(self) -> None:
        self.response: Response | None = None
        self.is_ready = False
        self.deadline = float("inf")
        self.on_ready: Callable[[], None] | None = None

    def ready(self) -> None:
        self.is_ready = True
        if self.on_ready is not None:
            self.on_ready()

    def encode(self, version: int, correlation_id: int) -> list[Any]:
        """The answer's bytes, in parts, once it is ready."""
        assert self.response is not None
        return encode_response(self.response, version, correlation_id)

    def give_up(self) -> None:
        """Stop waiting; become ready with what is known."""
        raise NotImplementedError
