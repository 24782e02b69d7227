"""Keeping turns of the event loop short where a request has as many entries as the client likes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator
from typing import Final, Generic, Self, TypeVar

import trio

_T = TypeVar("_T")
_H = TypeVar("_H", bound=Hashable)

_TURN_SECONDS: Final = 0.01
_ENTRIES_PER_LOOK: Final = 16
_DUPLICATES_KEPT: Final = 16
PIECE_ENTRIES: Final = 500
"""How many entries go together where several have to be dealt with in one call."""


def _one(entry: object) -> int:
    del entry
    return 1


class Pace:
    """Lets other tasks run every ten milliseconds, in loops however nested.

    What a handler looks at may have changed after each step.

    Args:
        monotonic: the time in seconds.
    """

    __slots__ = ("_monotonic", "_steps", "_turn_ends")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._turn_ends = monotonic() + _TURN_SECONDS
        self._steps = 0

    async def step(self) -> None:
        """Call it with every entry."""
        self._steps += 1
        if self._steps % _ENTRIES_PER_LOOK == 0 and self._monotonic() > self._turn_ends:
            await trio.lowlevel.checkpoint()
            self._turn_ends = self._monotonic() + _TURN_SECONDS

    def each(self, entries: Iterable[_T]) -> AsyncIterator[_T]:
        """Iterate, with a step before each entry."""
        return _Paced(iter(entries), self)

    async def every(self, entries: Iterable[_T]) -> list[_T]:
        """Evaluate a generator."""
        return [entry async for entry in self.each(entries)]

    async def repeated(self, keys: Iterable[_H]) -> set[_H]:
        """Those that come more than once."""
        once: set[_H] = set()
        repeated: set[_H] = set()
        async for key in self.each(keys):
            (repeated if key in once else once).add(key)
        return repeated

    async def pieces(
        self,
        entries: list[_T],
        key: Callable[[_T], Hashable],
        weight: Callable[[_T], int] = _one,
    ) -> list[list[_T]]:
        """Cut what cannot be dealt with one by one, so that each piece is a turn of its own.

        Entries with the same key stay together, in one piece, so that it is seen that they are
        duplicates. What is not larger than one piece comes as it is, even if it is empty.
        """
        if len(entries) <= PIECE_ENTRIES and sum(map(weight, entries)) <= PIECE_ENTRIES:
            return [entries]
        groups: dict[Hashable, list[_T]] = {}
        async for entry in self.each(entries):
            group = groups.setdefault(key(entry), [])
            if len(group) < _DUPLICATES_KEPT:
                group.append(entry)
        pieces: list[list[_T]] = [[]]
        size = 0
        async for group in self.each(groups.values()):
            size += sum(map(weight, group))
            if size > PIECE_ENTRIES and pieces[-1]:
                pieces.append([])
                size = sum(map(weight, group))
            pieces[-1] += group
        return pieces


class _Paced(Generic[_T]):
    """Not an async generator, which would have to be closed by loops that end early."""

    __slots__ = ("_entries", "_pace")

    def __init__(self, entries: Iterator[_T], pace: Pace) -> None:
        self._entries = entries
        self._pace = pace

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _T:
        await self._pace.step()
        try:
            return next(self._entries)
        except StopIteration:
            raise StopAsyncIteration from None


def paced(entries: Iterable[_T], monotonic: Callable[[], float]) -> AsyncIterator[_T]:
    """Iterate, and let other tasks run every ten milliseconds; see `Pace`."""
    return Pace(monotonic).each(entries)
