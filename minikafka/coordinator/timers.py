"""Many timers behind one `deadline`: at most one per key, and cheap to push further out."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

# Outdated entries that the heap may hold before it is rebuilt.
_STALE_ENTRIES_MAX = 64


class Timers(Generic[Key]):
    """Timers by key, in seconds on whatever clock the caller uses.

    A heartbeat moves its member's deadline every few seconds, so postponing a timer must cost no
    more than a dictionary write: the heap keeps the old entry, and when that comes up it is pushed
    again with the current deadline. Timers that are due together fire in the order of their
    deadlines, then in the order in which they were queued.
    """

    def __init__(self) -> None:
        self._due: dict[Key, float] = {}
        self._queued: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: Key) -> bool:
        return key in self._due

    def set(self, key: Key, when: float) -> None:
        """Let ``key`` fire at ``when`` instead of at any earlier setting."""
        self._due[key] = when
        queued = self._queued.get(key)
        if queued is None or when < queued:
            self._push(key, when)
            if len(self._heap) > 2 * len(self._due) + _STALE_ENTRIES_MAX:
                self._rebuild()

    def cancel(self, key: Key) -> None:
        self._due.pop(key, None)

    def clear(self) -> None:
        self._due.clear()
        self._queued.clear()
        self._heap.clear()

    def deadline(self) -> float | None:
        """When the next timer fires; None if there is none."""
        heap = self._heap
        while heap:
            when, _, key = heap[0]
            if self._queued.get(key) != when:  # an earlier entry for this key was pushed later
                heapq.heappop(heap)
                continue
            due = self._due.get(key)
            if due == when:
                return when
            heapq.heappop(heap)
            del self._queued[key]
            if due is not None:
                self._push(key, due)
        return None

    def pop_due(self, now: float) -> Key | None:
        """Remove and return one timer that is due at ``now``; None if there is none."""
        when = self.deadline()
        if when is None or when > now:
            return None
        key = heapq.heappop(self._heap)[2]
        del self._queued[key]
        del self._due[key]
        return key

    def _push(self, key: Key, when: float) -> None:
        self._sequence += 1
        self._queued[key] = when
        heapq.heappush(self._heap, (when, self._sequence, key))

    def _rebuild(self) -> None:
        self._heap.clear()
        self._queued.clear()
        for key, when in self._due.items():
            self._push(key, when)
