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
    # An exception that trio brings back refers to itself, by the frames of its traceback. So it
    # keeps what it came through, a request of megabytes perhaps, until the next collection.
    errors: list[BaseException] = []

    def call() -> list[_T]:
        try:
            return [function()]
        except BaseException as error:  # noqa: BLE001 - it is raised below, in trio's thread
            errors.append(error)
            return []

    results = await trio.to_thread.run_sync(call, abandon_on_cancel=abandon_on_cancel)
    if errors:
        raise errors.pop()
    return results[0]


async def run_inline(function: Callable[[], _T], /, *, abandon_on_cancel: bool = False) -> _T:
    """Call it here: for simulations, and where nothing is synced."""
    del abandon_on_cancel
    return function()
