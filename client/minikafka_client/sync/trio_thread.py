"""Trio objects for programs without trio: they live in a thread that runs trio.

A blocking class that needs background work (heartbeats, linger, prefetch) is a `Proxy` for the trio
class, and `blocking` makes its methods of the trio methods, each in one line:

    class Consumer(ContextProxy[trio_consumer.Consumer[Key, Value]], Generic[Key, Value]):
        seek = blocking(trio_consumer.Consumer[Key, Value].seek)

There is one description of each method, the trio one. Type checkers see its parameters and its
result through a `ParamSpec`; ``inspect.signature`` and ``help`` see them, and the docstring, at run
time. The alternatives were worse: generated code has to be generated, checked in and compared; a
``__getattr__`` hides every name from type checkers and from ``help``; and methods that only repeat
parameters and docstrings drift apart.
"""

from __future__ import annotations

import functools
import inspect
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import (
    Any,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Self,
    TypeVar,
    cast,
    get_origin,
    overload,
)

import trio

from minikafka_client.errors import ClosedError
from minikafka_client.signatures import ExcDetails
from minikafka_client.types import TopicPartition

_P = ParamSpec("_P")
_Result = TypeVar("_Result")
_Item = TypeVar("_Item")
_Trio = TypeVar("_Trio", covariant=True)
_Proxy = TypeVar("_Proxy", bound="Proxy[Any]")
_Function = TypeVar("_Function", bound=Callable[..., None])

START_PATIENCE_S: Final = 30.0


class _End:
    """How a function ended: with a value or with an error."""

    __slots__ = ("error", "value")

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self.value = value
        self.error = error

    def result(self) -> Any:
        if self.error is not None:
            try:
                raise self.error
            finally:
                self.error = None  # it refers to this frame by its traceback
        return self.value


async def _ended(function: Callable[[], Awaitable[object]]) -> _End:
    try:
        return _End(await function())
    except trio.Cancelled:
        raise
    except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits
        return _End(error=error)


class _Callback:
    """A function that the calling thread must run while it waits for its call to end."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self.end = _End()
        self.is_done = trio.Event()

    def run(self) -> None:
        try:
            self.end.value = self._function()
        except BaseException as error:  # noqa: BLE001 - it is raised in the task that waits
            self.end.error = error


_Inbox = queue.SimpleQueue["_Callback | _End"]
_inbox: ContextVar[_Inbox] = ContextVar("_inbox")


class TrioThread:
    """Runs async functions in a thread of its own, one call per calling thread at a time.

    While a call waits, the async side can run functions in the caller's thread (`run_in_caller`),
    so that an application's callbacks see the thread they expect and can make calls of their own.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._thread: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._stop: trio.Event | None = None
        self._started = threading.Event()

    def start(self) -> None:
        """Start the thread and wait until it can take calls; `ClosedError` the second time."""
        if self._thread is not None:
            raise ClosedError(f"this {self.name} was opened before; make a new one")
        self._thread = threading.Thread(
            target=trio.run, args=(self._run,), name=f"minikafka {self.name}", daemon=True
        )
        self._thread.start()
        if not self._started.wait(START_PATIENCE_S):
            raise ClosedError(f"the thread of this {self.name} did not start")

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._stop = trio.Event()
        async with trio.open_nursery() as self._nursery:
            self._started.set()
            await self._stop.wait()
            self._nursery.cancel_scope.cancel()

    @property
    def token(self) -> trio.lowlevel.TrioToken:
        """For `run_sync_soon`; raises `ClosedError` while the thread does not run."""
        if self._token is None or self._thread is None or not self._thread.is_alive():
            raise ClosedError(f"use the {self.name} inside its `with` block")
        return self._token

    def call(
        self, function: Callable[_P, Awaitable[_Result]], *args: _P.args, **kwargs: _P.kwargs
    ) -> _Result:
        """Run an async function in the thread and return (or raise) what it does.

        An interruption (Ctrl-C) while waiting cancels it.

        Raises:
            ClosedError: the thread does not run.
            RuntimeError: it is called in the thread itself.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                f"this thread runs the {self.name}, so it cannot wait for it: do not use it in the "
                f"callback of a commit"
            )
        inbox: _Inbox = queue.SimpleQueue()
        scope = trio.CancelScope()

        async def run() -> None:
            _inbox.set(inbox)
            end = _End(error=ClosedError(f"the {self.name} was closed during the call"))
            try:
                with scope:
                    end = await _ended(lambda: function(*args, **kwargs))
            finally:
                inbox.put(end)

        token = self.token
        token.run_sync_soon(self.spawn, run)
        while True:
            try:
                message = inbox.get()
            except BaseException:
                token.run_sync_soon(scope.cancel)
                raise
            if isinstance(message, _End):
                return cast("_Result", message.result())
            message.run()
            token.run_sync_soon(message.is_done.set)

    def call_plain(
        self, function: Callable[_P, _Result], *args: _P.args, **kwargs: _P.kwargs
    ) -> _Result:
        """Run a function that is not async in the thread; see `call`."""

        async def run() -> _Result:
            return function(*args, **kwargs)

        return self.call(run)

    def iterate(self, items: AsyncIterator[_Item]) -> Iterator[_Item]:
        while True:
            yield self.call(items.__anext__)

    def enter(self, manager: AbstractAsyncContextManager[_Result, bool | None]) -> Held[_Result]:
        """Start the thread, and hold a context manager open in it; stop if entering fails."""
        self.start()
        try:
            held: Held[_Result] = Held(self, manager)
            self.call(held.open)
        except BaseException:
            self.stop()
            raise
        return held

    def spawn(self, task: Callable[[], Awaitable[None]]) -> None:
        """Run a task until it ends or the thread stops; only from inside the thread."""
        assert self._nursery is not None
        self._nursery.start_soon(task)

    def stop(self) -> None:
        """End the thread; calls in progress raise `ClosedError`."""
        if self._thread is not None and self._thread.is_alive():
            assert self._stop is not None
            self.token.run_sync_soon(self._stop.set)
            self._thread.join()


class Held(Generic[_Result]):
    value: _Result

    def __init__(
        self, thread: TrioThread, manager: AbstractAsyncContextManager[_Result, bool | None]
    ) -> None:
        self._thread = thread
        self._manager = manager
        self._left = _End()

    async def open(self) -> None:
        self._leave = trio.Event()
        self._is_left = trio.Event()
        entered = trio.Event()
        entry = _End()
        self._exc_info: tuple[Any, Any, Any] = (None, None, None)

        async def live() -> None:
            nonlocal entry
            entry = await _ended(self._manager.__aenter__)
            entered.set()
            if entry.error is not None:
                return
            await self._leave.wait()
            _inbox.set(self._leaver)  # callbacks on leaving run in the thread that leaves
            self._left = await _ended(lambda: self._manager.__aexit__(*self._exc_info))
            self._is_left.set()

        self._thread.spawn(live)
        await entered.wait()
        self.value = entry.result()

    def close(self, *details: *ExcDetails) -> None:
        self._exc_info = details
        try:
            self._thread.call(self._close)
        finally:
            self._thread.stop()
        self._left.result()

    async def _close(self) -> None:
        self._leaver = _inbox.get()
        self._leave.set()
        await self._is_left.wait()


async def run_in_caller(
    function: Callable[_P, _Result], *args: _P.args, **kwargs: _P.kwargs
) -> _Result:
    """Run a function in the thread whose call the current task serves, and wait for it."""
    callback = _Callback(lambda: function(*args, **kwargs))
    _inbox.get().put(callback)
    await callback.is_done.wait()
    return cast("_Result", callback.end.result())


class Proxy(Generic[_Trio]):
    """Stands in a program without trio for an object that lives in a `TrioThread`."""

    def __init__(self, thread: TrioThread, value: _Trio) -> None:
        self._thread = thread
        self._value: _Trio | None = value

    @property
    def _trio(self) -> _Trio:
        if self._value is None:
            raise ClosedError(f"use the {type(self).__name__} inside its `with` block")
        return self._value


class ContextProxy(Proxy[_Trio]):
    """A proxy that opens its object, and the thread, with its ``with`` block."""

    def __init__(self, manager: AbstractAsyncContextManager[_Trio, bool | None]) -> None:
        self._open_with_block(manager)

    def _open_with_block(self, manager: AbstractAsyncContextManager[Any, bool | None]) -> None:
        self._thread = TrioThread(type(self).__name__)
        self._value = None
        self._manager = manager
        self._held: Held[_Trio] | None = None

    def __enter__(self) -> Self:
        self._held = self._thread.enter(self._manager)
        self._value = self._held.value
        return self

    def __exit__(self, *details: *ExcDetails) -> None:
        held, self._held = self._held, None
        if held is not None:
            try:
                held.close(*details)
            finally:
                self._value = None


def proxy(made: type[_Proxy], thread: TrioThread, value: object) -> _Proxy:
    """A proxy of a class that usually opens its object, for an object that is open."""
    result: Any = object.__new__(get_origin(made) or made)
    result._thread, result._value = thread, value
    return cast("_Proxy", result)


@overload
def blocking(
    method: Callable[Concatenate[_Trio, _P], Coroutine[Any, Any, _Result]],
) -> Callable[Concatenate[Proxy[_Trio], _P], _Result]: ...


@overload
def blocking(
    method: Callable[Concatenate[_Trio, _P], _Result],
) -> Callable[Concatenate[Proxy[_Trio], _P], _Result]: ...


def blocking(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method of a `Proxy` that calls a method of its object in the trio thread and waits.

    An iterator among the arguments is exhausted first, in the caller's thread: it is the caller's
    code, which may use the proxy.
    """
    is_async = inspect.iscoroutinefunction(method)

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        call_thread = self._thread.call if is_async else self._thread.call_plain
        positional = map(_exhausted, args)
        named = {name: _exhausted(value) for name, value in kwargs.items()}
        return call_thread(method, self._trio, *positional, **named)

    return call


def _exhausted(argument: Any) -> Any:
    return list(argument) if hasattr(argument, "__next__") else argument


def makes(
    trio_class: Callable[..., AbstractAsyncContextManager[Any, bool | None]],
) -> Callable[[_Function], _Function]:
    """Decorates the ``__init__`` of a `ContextProxy`, which then makes the trio object.

    The decorated function is never called. It has the trio class's parameters, with plain functions
    for callbacks (``on_partitions_...``), which are called in the thread that uses the proxy.
    """

    def decorate(signature: _Function) -> _Function:
        @functools.wraps(signature)
        def make(self: Any, *args: Any, **kwargs: Any) -> None:
            for name in kwargs:
                if name.startswith("on_partitions_"):
                    kwargs[name] = _called_by_caller(kwargs[name])
            self._open_with_block(trio_class(*args, **kwargs))

        return cast("_Function", make)

    return decorate


def _called_by_caller(
    callback: Callable[[Sequence[TopicPartition]], object] | None,
) -> Callable[[Sequence[TopicPartition]], Awaitable[None]] | None:
    if callback is None:
        return None

    async def call(partitions: Sequence[TopicPartition]) -> None:
        await run_in_caller(callback, partitions)

    return call
