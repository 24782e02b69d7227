"""Where work runs that would block the event loop: worker threads, or what a simulation brings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import trio

_T = TypeVar("_T")


class RunInThread(Protocol):
    """`trio.to_thread.run_sync` for functions without arguments, or a stand-in."""

    def __call__(
        self, function: Callable[[], _T], /, *, abandon_on_cancel: bool = False
    ) -> Awaitable[_T]:
        """Call a function that blocks; a cancelled caller may leave it to itself."""
        ...


async def run_in_worker_thread(
    function: Callable[[], _T], /, *, abandon_on_cancel: bool = False
) -> _T:
    return await trio.to_thread.run_sync(function, abandon_on_cancel=abandon_on_cancel)


async def run_inline(function: Callable[[], _T], /, *, abandon_on_cancel: bool = False) -> _T:
    """Call it here: for simulations, and where nothing is synced."""
    del abandon_on_cancel
    return function()
