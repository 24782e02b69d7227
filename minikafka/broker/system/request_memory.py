"""One budget for the memory of requests that are being received, shared by all connections.

Memory is reserved as a frame arrives, not as it is announced. So frames may all be half received
when the budget is used up, and to let none of them go on would be a deadlock: one connection at a
time, the one that has waited longest, may therefore exceed the budget until its request is served.
"""

from __future__ import annotations

from collections import deque

import trio


class RequestMemory:
    """The budget.

    Args:
        size_bytes_max: how much; -1 for no limit.

    Attributes:
        used_bytes: what is reserved.
        waiting: how many reservations wait.
    """

    def __init__(self, size_bytes_max: int) -> None:
        self.used_bytes = 0
        self._size_bytes_max = float("inf") if size_bytes_max < 0 else size_bytes_max
        self._waiting: deque[tuple[Reservation, int, trio.Event]] = deque()
        self._exceeding: Reservation | None = None

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def take(self, reservation: Reservation, size_bytes: int) -> bool:
        """Reserve more if there is room; those that wait come first."""
        if reservation is not self._exceeding and (
            self._waiting or self.used_bytes + size_bytes > self._size_bytes_max
        ):
            return False
        self.used_bytes += size_bytes
        reservation.size_bytes += size_bytes
        return True

    async def wait(self, reservation: Reservation, size_bytes: int) -> None:
        """Reserve more when there is room, or when this one may exceed the budget."""
        entry = reservation, size_bytes, trio.Event()
        self._waiting.append(entry)
        self._serve_waiting()
        try:
            await entry[2].wait()
        except trio.Cancelled:
            if not entry[2].is_set():
                self._waiting.remove(entry)
                self._serve_waiting()
            raise

    def give_back(self, reservation: Reservation) -> None:
        """Release all of a reservation."""
        self.used_bytes -= reservation.size_bytes
        reservation.size_bytes = 0
        if self._exceeding is reservation:
            self._exceeding = None
        if self._waiting:
            self._serve_waiting()

    def _serve_waiting(self) -> None:
        while self._waiting:
            reservation, size_bytes, event = self._waiting[0]
            if self.used_bytes + size_bytes > self._size_bytes_max:
                if self._exceeding is not None:
                    return
                self._exceeding = reservation
            self._waiting.popleft()
            self.used_bytes += size_bytes
            reservation.size_bytes += size_bytes
            event.set()


class Reservation:
    """What one connection has reserved."""

    __slots__ = ("size_bytes",)

    def __init__(self) -> None:
        self.size_bytes = 0
