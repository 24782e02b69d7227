"""Brokers in this process, on the caller's trio event loop.

`minikafka.testing.in_process_broker` is the whole: a listener, faults, requests, time. `LocalNode`
is the part without a listener, from which tests of the broker itself make what they need.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import trio
import trio.testing

from minikafka.broker import lifetime
from minikafka.broker.broker import Broker
from minikafka.broker.net.server import BoundListener, Server, bind
from minikafka.broker.opening import BrokerOptions, open_broker
from minikafka.broker.settings.config import load_config
from minikafka.broker.settings.node import Endpoint
from minikafka.broker.system.clock import Clock
from minikafka.broker.system.start_error import StartError
from minikafka.metadata.settings import InvalidSettingError
from minikafka.storage.disk import Disk

from .channel import CommandError
from .faults import Caller, Faults
from .inside.clocks import advance
from .inside.commands import Commands
from .inside.companion import Tampering
from .places import Address, Workspace
from .process import BrokerStartError
from .settings import DEFAULTS, Setting, merged

_NODE_ID: Final = 1


class LocalNode:
    """A node in this process, as far as there is one.

    Args:
        close_seconds: how long it may take to close its files when its task is cancelled; 0 is a
            crash.

    Attributes:
        broker: while it runs.
        is_running: between `run` and its end.
    """

    def __init__(self, close_seconds: float) -> None:
        self.broker: Broker
        self.is_running = False
        self._close_seconds_at_first = close_seconds
        self._close_seconds = close_seconds
        self._scope = trio.CancelScope()
        self._ended = trio.Event()

    async def run_node(
        self,
        options: BrokerOptions,
        endpoint: Endpoint,
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Open the directory and run until `end`, or until the task is cancelled.

        Raises:
            StartError: the directory cannot be used.
        """
        broker = self.broker = open_broker(options, clock=clock, disk=disk)
        broker.node.endpoint = endpoint
        self._scope, self._ended = trio.CancelScope(), trio.Event()
        self._close_seconds = self._close_seconds_at_first
        self.is_running = True
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    self.on_opened(nursery)
                    await nursery.start(lifetime.run, broker)
                    self.on_started(nursery)
                    task_status.started()
                    await trio.sleep_forever()
        finally:
            self.on_ending()
            lifetime.close(broker, self._close_seconds)
            self.is_running = False
            self._ended.set()

    def on_opened(self, nursery: trio.Nursery) -> None:
        """There is a broker; tasks in the nursery end with it."""

    def on_started(self, nursery: trio.Nursery) -> None:
        """The broker can serve."""

    def on_ending(self) -> None:
        """Its tasks have ended, and its files will be closed."""

    async def end(self, close_seconds: float) -> None:
        """End it; with 0 seconds no file is closed cleanly."""
        self._close_seconds = close_seconds
        self._scope.cancel()
        await self._ended.wait()


class LoopTime:
    """The event loop's time for a broker, so that a clock that the test moves moves it, too."""

    def __init__(self) -> None:
        self._began_s = trio.current_time()
        self._began_ms = time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds that only go forward."""
        return trio.current_time()

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return self._began_ms + round((trio.current_time() - self._began_s) * 1000)


class LoopClock:
    """Moves the time of an event loop that runs on trio's `MockClock`."""

    async def advance(self, seconds: float) -> None:
        """Let time pass for everything on this event loop: what is due by then happens before.

        Raises:
            RuntimeError: the event loop runs on the machine's clock.
            ValueError: ``seconds`` is negative.
        """
        clock = trio.lowlevel.current_clock()
        if not isinstance(clock, trio.testing.MockClock):
            raise RuntimeError(
                "this event loop runs on the machine's clock, which nobody can move; use the "
                "fixture `mock_clock` of pytest-trio, or trio.run(..., "
                "clock=trio.testing.MockClock(rate=1))"
            )
        await advance(clock.jump, seconds)


class _Here:
    """Has the broker of this process do what does not take time."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def call(self, command: str, **arguments: Any) -> Any:
        running = self._commands.run(command, arguments)
        try:
            running.send(None)
        except StopIteration as done:
            return done.value
        except Exception as error:
            raise CommandError(f"the broker: {type(error).__name__}: {error}") from error
        running.close()
        raise RuntimeError(f"{command!r} takes time, and is not to be called but awaited")


class InProcessBroker(Faults):
    """A broker on this event loop; `minikafka.testing.in_process_broker` makes one.

    What takes no time is a plain call, as with a broker in a process of its own. What lets the
    broker work is awaited: a call that blocks would stop the broker as well.

    Attributes:
        clock: moves the time, if the event loop's clock can be moved.
    """

    def __init__(
        self, settings: Mapping[str, Setting], workspace: Workspace, nursery: trio.Nursery
    ) -> None:
        self.clock = LoopClock()
        self._settings = settings
        self._workspace = workspace
        self._nursery = nursery
        self._address = Address("127.0.0.1:0")
        self._node: _ServingNode | None = None

    @property
    def bootstrap(self) -> str:
        """``HOST:PORT``, for clients; the same after a restart."""
        return str(self._address)

    @property
    def directory(self) -> Path:
        """What has its data."""
        return self._workspace.path

    @property
    def is_running(self) -> bool:
        """Whether it serves."""
        return self._node is not None and self._node.is_running

    def channels(self) -> Mapping[int, Caller]:
        """How to reach it.

        Raises:
            RuntimeError: it does not run.
        """
        return {_NODE_ID: _Here(self._commands)}

    @property
    def _commands(self) -> Commands:
        if self._node is None or not self._node.is_running:
            raise RuntimeError("the broker does not run")
        return self._node.commands

    async def start(self) -> None:
        """Start it; data are those that it had.

        Raises:
            BrokerStartError: it did not start, for instance because a setting is unknown.
        """
        if self.is_running:
            raise RuntimeError("the broker is already running")
        node = _ServingNode(self._address)
        listeners = {"listeners": f"PLAINTEXT://{self._address}"}
        try:
            config = load_config(None, merged(self._settings, listeners), {})
            options = BrokerOptions(config, self.directory / "data")
            endpoint = Endpoint(self._address.host, self._address.port)
            await self._nursery.start(node.run_serving, options, endpoint)
        except (InvalidSettingError, StartError) as error:
            raise BrokerStartError(f"the broker did not start: {error}") from error
        self._node = node

    async def stop(self) -> None:
        """Stop it in good order."""
        await self._end(math.inf)

    async def kill(self) -> None:
        """End it as a crash does: no file is closed, no client is told."""
        await self._end(0.0)

    async def _end(self, close_seconds: float) -> None:
        if self._node is not None and self._node.is_running:
            await self._node.end(close_seconds)

    async def reset(self) -> None:
        """Delete all topics, groups, transactions, faults and recorded requests."""
        await self._commands.run("reset", {})

    async def restore(self) -> None:
        """Undo what a test did: faults, requests and kills. Data and time stay."""
        if not self.is_running:
            await self.start()
        self.clear_faults()
        await self.disk_has_room()
        self.forget_requests()

    async def clean_logs(self) -> None:
        """Apply retention and compact now, instead of every few minutes."""
        await self._commands.run("clean_logs", {})

    async def disk_has_room(self) -> None:
        """Let the disk have room again, and bring back the partitions that had failed."""
        await self._commands.run("empty_disk", {})

    async def close(self) -> None:
        """Stop it if it runs, and remove what is temporary."""
        await self._end(math.inf if self._workspace.is_kept else 0.0)
        self._address.release()
        self._workspace.remove()


class _ServingNode(LocalNode):
    def __init__(self, address: Address) -> None:
        super().__init__(close_seconds=0.0)
        self.commands: Commands
        self._address = address
        self._listener: socket.socket | None = None
        self._tampering = Tampering()

    async def run_serving(
        self,
        options: BrokerOptions,
        endpoint: Endpoint,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        disk = self._tampering.disk
        await self.run_node(options, endpoint, clock=LoopTime(), disk=disk, task_status=task_status)

    def on_started(self, nursery: trio.Nursery) -> None:
        broker = self.broker
        self.commands = self._tampering.commands(broker, LoopClock())
        backlog = broker.config.socket_listen_backlog_size
        self._listener = bind(self._address.host, self._address.port, backlog)
        nursery.start_soon(
            Server(broker, self._tampering.connect).serve, [BoundListener(self._listener)]
        )

    def on_ending(self) -> None:
        if self._listener is not None:
            self._listener.close()


@asynccontextmanager
async def run_in_process(
    settings: Mapping[str, Setting] | None = None,
    *,
    directory: Path | str | None = None,
    keep: bool = False,
    defaults: Mapping[str, Setting] = DEFAULTS,
) -> AsyncGenerator[InProcessBroker]:
    """See `minikafka.testing.in_process_broker`."""
    workspace = Workspace(directory, keep)
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        kafka = InProcessBroker({**defaults, **(settings or {})}, workspace, nursery)
        try:
            await kafka.start()
            yield kafka
        except Exception as error:  # noqa: BLE001 - it is raised below, outside of the nursery
            failure = error
        finally:
            with trio.CancelScope(shield=True):
                await kafka.close()
    if failure is not None:
        raise failure
