"""A thread that runs trio, for programs that do not."""

from __future__ import annotations

import queue
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast

import outcome
import trio

from minikafka_client.errors import ClosedError

_P = ParamSpec("_P")
_Result = TypeVar("_Result")
_Entered = TypeVar("_Entered")

START_PATIENCE_S: Final = 30.0


class _Callback:
    """A function that the calling thread must run while it waits for its call to end."""

    def __init__(self, function: Callable[..., object], arguments: tuple[object, ...]) -> None:
        self.function = function
        self.arguments = arguments
        self.outcome: outcome.Outcome[object] | None = None
        self.is_done = trio.Event()


_Inbox = queue.SimpleQueue["_Callback | outcome.Outcome[Any]"]
_inbox: ContextVar[_Inbox] = ContextVar("_inbox")


class Portal:
    """Runs async functions in a thread of its own, one call per calling thread at a time.

    While a call waits, a function that the async side wants to run in the caller's thread
    (`run_in_caller`) is run there, so that an application's callbacks see the thread they expect
    and can make calls of their own.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._stop: trio.Event | None = None
        self._started = threading.Event()

    def start(self) -> None:
        """Start the thread and wait until it can take calls."""
        if self._thread is not None:
            raise ClosedError(f"this {self._name} was opened before; make a new one")
        self._thread = threading.Thread(
            target=trio.run, args=(self._run,), name=f"minikafka {self._name}", daemon=True
        )
        self._thread.start()
        if not self._started.wait(START_PATIENCE_S):
            raise ClosedError(f"the thread of this {self._name} did not start")

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._stop = trio.Event()
        async with trio.open_nursery() as self._nursery:
            self._started.set()
            await self._stop.wait()
            self._nursery.cancel_scope.cancel()

    @property
    def token(self) -> trio.lowlevel.TrioToken:
        """For `run_sync_soon`.

        Raises:
            ClosedError: the thread does not run.
        """
        if self._token is None or self._thread is None or not self._thread.is_alive():
            raise ClosedError(f"use the {self._name} inside its `with` block")
        return self._token

    def call(
        self,
        function: Callable[_P, Awaitable[_Result]],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _Result:
        """Run an async function in the thread and return (or raise) what it does.

        An interruption (Ctrl-C) while waiting cancels it.

        Raises:
            ClosedError: the thread does not run.
        """
        inbox: _Inbox = queue.SimpleQueue()
        scope = trio.CancelScope()

        async def run() -> None:
            _inbox.set(inbox)
            result: outcome.Outcome[_Result] = outcome.Error(
                ClosedError(f"the {self._name} was closed during the call")
            )
            try:
                with scope:
                    result = await outcome.acapture(_awaited, function, args, kwargs)
            finally:
                inbox.put(result)

        token = self.token
        token.run_sync_soon(self._spawn, run)
        while True:
            try:
                message = inbox.get()
            except BaseException:
                token.run_sync_soon(scope.cancel)
                raise
            if isinstance(message, _Callback):
                message.outcome = outcome.capture(message.function, *message.arguments)
                token.run_sync_soon(message.is_done.set)
            else:
                return cast("_Result", message.unwrap())

    def _spawn(self, task: Callable[[], Awaitable[None]]) -> None:
        assert self._nursery is not None
        self._nursery.start_soon(task)

    def enter(self, make: Callable[[], AbstractAsyncContextManager[_Entered]]) -> Held[_Entered]:
        """Make an async context manager in the thread, enter it, and hold it open.

        The portal is started first if need be, and stopped again if this fails.
        """
        self.start()
        try:
            held: Held[_Entered] = Held(self, make)
            self.call(held.open)
        except BaseException:
            self.stop()
            raise
        return held

    def spawn(self, task: Callable[[], Awaitable[None]]) -> None:
        """Run a task until it ends or the portal stops; only from inside the thread."""
        self._spawn(task)

    def stop(self) -> None:
        """End the thread; calls that wait end with it."""
        if self._thread is not None and self._thread.is_alive():
            assert self._stop is not None
            self.token.run_sync_soon(self._stop.set)
            self._thread.join()


class Held(Generic[_Entered]):
    """An async context manager that is open in a portal's thread: entered and left by one task.

    Attributes:
        value: what entering it gave.
    """

    value: _Entered

    def __init__(
        self, portal: Portal, make: Callable[[], AbstractAsyncContextManager[_Entered]]
    ) -> None:
        self._portal = portal
        self._make = make
        self._left: outcome.Outcome[bool | None] | None = None

    async def open(self) -> None:
        """Enter it (in the portal's thread)."""
        self._leave = trio.Event()
        self._is_left = trio.Event()
        entered = trio.Event()
        failed: list[BaseException] = []
        self._exc_info: tuple[Any, Any, Any] = (None, None, None)

        async def live() -> None:
            manager = self._make()
            result = await outcome.acapture(manager.__aenter__)
            if isinstance(result, outcome.Error):
                failed.append(result.error)
                entered.set()
                return
            self.value = result.value
            entered.set()
            await self._leave.wait()
            _inbox.set(self._leaver)  # callbacks on leaving run in the thread that leaves
            self._left = await outcome.acapture(manager.__aexit__, *self._exc_info)
            self._is_left.set()

        self._portal.spawn(live)
        await entered.wait()
        if failed:
            raise failed[0]

    def close(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave it (from the caller's thread), and stop the portal."""
        self._exc_info = (exc_type, exc, traceback)
        try:
            self._portal.call(self._close)
        finally:
            self._portal.stop()
        if self._left is not None:
            self._left.unwrap()

    async def _close(self) -> None:
        self._leaver = _inbox.get()
        self._leave.set()
        await self._is_left.wait()


async def _awaited(
    function: Callable[..., Awaitable[_Result]], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> _Result:
    return await function(*args, **kwargs)


async def run_in_caller(function: Callable[..., _Result], *arguments: object) -> _Result:
    """Run a function in the thread whose call the current task serves, and wait for it."""
    callback = _Callback(function, arguments)
    _inbox.get().put(callback)
    await callback.is_done.wait()
    assert callback.outcome is not None
    return cast("_Result", callback.outcome.unwrap())
