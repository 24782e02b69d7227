"""Those who wait until an offset that only rises has reached what they need."""

from __future__ import annotations

from typing import Protocol

from ..protocol.errors import ErrorCode

_NOBODY_WAITS = 2**63


class OffsetWaiter(Protocol):
    """Somebody who waits for an offset."""

    def settle(self, error_code: ErrorCode) -> None:
        """Called once, on the event loop: NONE when it is reached, else why it may never be."""
        ...


class OffsetWaiters:
    """A partition's waiters for one kind of offset.

    Bounded by those who wait: a connection waits for one request's partitions at a time, a
    coordinator for the writes that its clients wait for.

    Attributes:
        next_offset: nobody is waiting for less; look at it before calling `reach`.
    """

    __slots__ = ("_waiting", "next_offset")

    def __init__(self) -> None:
        self._waiting: dict[OffsetWaiter, int] = {}
        self.next_offset = _NOBODY_WAITS

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def add(self, waiter: OffsetWaiter, offset: int) -> None:
        """Tell somebody when ``offset`` is reached; it is not yet."""
        self._waiting[waiter] = offset
        if offset < self.next_offset:
            self.next_offset = offset

    def forget(self, waiter: OffsetWaiter) -> None:
        """Somebody does not wait any more."""
        if self._waiting.pop(waiter, None) is not None:
            self.next_offset = min(self._waiting.values(), default=_NOBODY_WAITS)

    def reach(self, offset: int) -> None:
        """Everything up to ``offset`` is reached."""
        if offset < self.next_offset:
            return
        waiting = self._waiting
        reached = [waiter for waiter, wanted in waiting.items() if wanted <= offset]
        for waiter in reached:
            del waiting[waiter]
        self.next_offset = min(waiting.values(), default=_NOBODY_WAITS)
        for waiter in reached:
            waiter.settle(ErrorCode.NONE)

    def fail(self, error_code: ErrorCode) -> None:
        """Tell everybody that they may wait for ever."""
        waiting, self._waiting = self._waiting, {}
        self.next_offset = _NOBODY_WAITS
        for waiter in waiting:
            waiter.settle(error_code)
