"""Keeping turns of the event loop short where a request has as many entries as the client likes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar

import trio

_T = TypeVar("_T")

_TURN_SECONDS = 0.01
_ENTRIES_PER_LOOK = 16


async def paced(entries: Iterable[_T], monotonic: Callable[[], float]) -> AsyncIterator[_T]:
    """Iterate, and let other tasks run every ten milliseconds.

    What a handler looks at may have changed after each step.
    """
    turn_ends = monotonic() + _TURN_SECONDS
    for number, entry in enumerate(entries, 1):
        yield entry
        if number % _ENTRIES_PER_LOOK == 0 and monotonic() > turn_ends:
            await trio.lowlevel.checkpoint()
            turn_ends = monotonic() + _TURN_SECONDS
