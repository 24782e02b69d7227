"""Requests that wait until an offset that only rises has reached theirs."""

from __future__ import annotations

from typing import Protocol

from ...protocol.errors import ErrorCode

_NONE_WAITING = 2**63


class OffsetWaiter(Protocol):
    """Waits for an offset."""

    def settle(self, error_code: ErrorCode) -> None:
        """Called once, on the event loop: NONE when it is reached, else why it may never be."""
        ...


class OffsetWaiters:
    """A partition's waiters for one kind of offset.

    Bounded by its users: a connection waits for one request's partitions at a time, a coordinator
    for the writes that its clients wait for.

    Attributes:
        next_offset: the lowest offset that is waited for; compare it before calling `reach`.
    """

    __slots__ = ("_waiting", "next_offset")

    def __init__(self) -> None:
        self._waiting: dict[OffsetWaiter, int] = {}
        self.next_offset = _NONE_WAITING

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiter: OffsetWaiter, offset: int) -> None:
        """Settle a waiter when ``offset``, which is not reached yet, is."""
        self._waiting[waiter] = offset
        if offset < self.next_offset:
            self.next_offset = offset

    def forget(self, waiter: OffsetWaiter) -> None:
        if self._waiting.pop(waiter, None) is not None:
            self.next_offset = min(self._waiting.values(), default=_NONE_WAITING)

    def reach(self, offset: int) -> None:
        """Settle those that wait for at most ``offset``."""
        if offset < self.next_offset:
            return
        waiting = self._waiting
        reached = [waiter for waiter, wanted in waiting.items() if wanted <= offset]
        for waiter in reached:
            del waiting[waiter]
        self.next_offset = min(waiting.values(), default=_NONE_WAITING)
        for waiter in reached:
            waiter.settle(ErrorCode.NONE)

    def fail(self, error_code: ErrorCode) -> None:
        """Settle all with an error."""
        waiting, self._waiting = self._waiting, {}
        self.next_offset = _NONE_WAITING
        for waiter in waiting:
            waiter.settle(error_code)
