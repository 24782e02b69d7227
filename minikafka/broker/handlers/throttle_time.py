"""``throttle_time_ms``, the field of nearly every answer that asks a client to wait."""

from __future__ import annotations

from typing import Any

from ...protocol.schema import Response


def set_throttle(response: Response, throttle_ms: int) -> None:
    """Say how long to wait, in an answer that can say it."""
    answer: Any = response
    if throttle_ms and hasattr(answer, "throttle_time_ms"):
        answer.throttle_time_ms = throttle_ms


def throttle_of(response: Response) -> int:
    """How long an answer says to wait, in milliseconds."""
    said: int = getattr(response, "throttle_time_ms", 0)
    return said
