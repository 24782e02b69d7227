"""Tasks that live as long as a client's ``async with`` block."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

import trio

from minikafka_client.errors import ClosedError


class Background:
    """A nursery for an object that is itself an async context manager.

    A nursery wraps whatever leaves its block in an exception group. Those who use a client should
    not see that a nursery is inside it: what their block raises comes out as they raised it.

    A cancellation from outside does not reach the tasks before the block is left: what is to be
    done then (the last commit, leaving the group) needs the connections, which are tasks.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._manager: Any = None
        self._nursery: trio.Nursery | None = None
        self._scopes: set[trio.CancelScope] = set()

    async def open(self) -> None:
        """Begin; the caller must `close` in the same task."""
        if self._manager is not None:
            raise ClosedError(f"this {self._owner} was opened before; make a new one")
        self._manager = trio.open_nursery()
        self._nursery = await self._manager.__aenter__()

    @property
    def nursery(self) -> trio.Nursery:
        """Where tasks run.

        Raises:
            ClosedError: the block was not entered yet, or is left already.
        """
        self.check_open()
        assert self._nursery is not None
        return self._nursery

    def check_open(self) -> None:
        """Refuse to work outside the block.

        Raises:
            ClosedError: it was not entered yet, or is left already.
        """
        if self._nursery is None:
            raise ClosedError(f"use the {self._owner} inside its `with` block")

    def start_soon(self, task: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        """Run a task until it ends or the block is left; while it is being left, do nothing."""
        if self._nursery is not None:
            self._nursery.start_soon(self._run, task, *arguments)

    async def _run(self, task: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        if self._nursery is None:
            return  # closed before it began
        with trio.CancelScope(shield=True) as scope:
            self._scopes.add(scope)
            try:
                await task(*arguments)
            finally:
                self._scopes.discard(scope)

    async def close(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """Cancel the tasks and wait for them; returns whether ``exc`` must not be raised again.

        Raises:
            BaseExceptionGroup: a task failed; ``exc`` alone is left to the caller to raise.
        """
        self.nursery.cancel_scope.cancel()
        self._nursery = None
        for scope in self._scopes:
            scope.cancel()
        try:
            return bool(await self._manager.__aexit__(exc_type, exc, traceback))
        except BaseExceptionGroup as group:
            if exc is not None and _is_only(group, exc):
                return False
            raise


def _is_only(group: BaseExceptionGroup[BaseException], exc: BaseException) -> bool:
    return len(group.exceptions) == 1 and group.exceptions[0] is exc
