"""Tasks that live as long as a client's ``async with`` block."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from minikafka_client.errors import ClosedError
from minikafka_client.signatures import ExcDetails


class Background:
    """A nursery for an object that is itself an async context manager.

    A nursery wraps every exception that leaves its block in an exception group. A client's block
    raises what the user's code raised: the nursery inside is an implementation detail.

    A cancellation from outside reaches the tasks only after the block is left, because the last
    commit and leaving the group need the connections, which are tasks.
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
        self.check_open()
        assert self._nursery is not None
        return self._nursery

    def check_open(self) -> None:
        """Raise `ClosedError` outside the block."""
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

    async def close(self, *details: *ExcDetails) -> bool:
        """Cancel the tasks and wait for them; returns whether ``exc`` must not be raised again.

        Raises:
            BaseExceptionGroup: a task failed; ``exc`` alone is left to the caller to raise.
        """
        exc = details[1]
        self.nursery.cancel_scope.cancel()
        self._nursery = None
        for scope in self._scopes:
            scope.cancel()
        try:
            return bool(await self._manager.__aexit__(*details))
        except BaseExceptionGroup as group:
            if exc is not None and _is_only(group, exc):
                return False
            raise


def _is_only(group: BaseExceptionGroup[BaseException], exc: BaseException) -> bool:
    return len(group.exceptions) == 1 and group.exceptions[0] is exc
