"""Runs a node: starts it, serves until a signal, and stops it in time."""

from __future__ import annotations

import gc
import logging
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, cast

import trio

from ..metadata.records import MetadataLogError
from ..metadata.setting_table import BrokerConfig
from ..metadata.settings import InvalidSettingError
from ..storage.disk import Disk
from . import lifetime
from .broker import Broker
from .net.connection import Connection
from .net.server import Server, bind, endpoint_of
from .opening import BrokerOptions, open_broker
from .settings.addresses import parse_address, render_address
from .settings.node import Endpoint
from .settings.topology import topology_of
from .system.clock import Clock
from .system.start_error import StartError
from .system.stop_signals import STOP_SIGNALS, StopSignals, stop_signals
from .system.turns import watch_if_asked

__all__ = ["BrokerOptions", "StartError", "open_broker", "run_broker"]

logger = logging.getLogger(__name__)


class Companion(Protocol):
    """What may accompany a node in its process: a test's hands (`minikafka.testing.inside`)."""

    @property
    def clock(self) -> Clock:
        """The broker's clocks."""
        ...

    @property
    def trio_clock(self) -> trio.abc.Clock:
        """The event loop's clock."""
        ...

    @property
    def disk(self) -> Disk:
        """What holds the data directory."""
        ...

    def connect(self, broker: Broker, client: socket.socket, peer: str) -> Connection:
        """Make a client's connection."""
        ...

    async def run(self, broker: Broker) -> None:
        """Run until cancelled, from before the node serves."""
        ...


_ANY_ADDRESS = ("0.0.0.0", "::", "")
_OBJECTS_PER_COLLECTION = (20_000, 5, 400)

# A stop must take at most five seconds: hand-overs, `DRAIN_SECONDS` of the server, and these.
_STOP_SECONDS = 4.5
_LEAVE_SECONDS = 1.5
_TRANSFER_SECONDS = 0.5
_FLUSH_SECONDS = 1.5
_CLOSE_SECONDS = 1.0


def run_broker(
    options: BrokerOptions, on_ready: Callable[[str], None], companion: Companion | None = None
) -> Broker | None:
    """Run a node until SIGTERM or SIGINT.

    ``on_ready`` is called with ``HOST:PORT`` when clients can connect (or other nodes, if this one
    is only a controller).

    Returns:
        The closed broker, in which a disk that hangs may still keep threads busy; None if a signal
        came before the node had started.

    Raises:
        StartError: the address or the data directory cannot be used, or the cluster rejects this
            node.
    """
    try:
        is_broker = topology_of(options.config).is_broker
    except InvalidSettingError as error:
        raise StartError(str(error)) from None
    listener = _listen(options.config) if is_broker else None
    broker: Broker | None = None
    try:
        with stop_signals() as signals:
            advertised = Endpoint("", 0)
            if listener is not None:
                options, advertised = _with_addresses(options, listener)
            if companion is None:
                broker = open_broker(options)
            else:
                broker = open_broker(options, clock=companion.clock, disk=companion.disk)
            signals.is_interruptible = False
            broker.node.endpoint = advertised
            _calm_garbage_collector()
            node = _Node(broker, listener, on_ready, companion, is_ephemeral=options.is_ephemeral)
            clock = None if companion is None else companion.trio_clock
            try:
                trio.run(node.run, signals, clock=clock)
            except BaseExceptionGroup as group:
                raise _reason(group) from group
            finally:
                _close(broker, node.close_seconds())
    finally:
        if listener is not None:
            listener.close()
    logger.info("stopped")
    return broker


def _close(broker: Broker, seconds: float) -> None:
    """Close the broker; if the disk hangs, leave the rest to the next start's recovery."""
    errors: list[Exception] = []

    def close() -> None:
        try:
            lifetime.close(broker, seconds)
        except Exception as error:  # noqa: BLE001 - it is raised below, in the other thread
            errors.append(error)

    closing = threading.Thread(target=close, name="close", daemon=True)
    closing.start()
    closing.join(seconds + _CLOSE_SECONDS)
    if closing.is_alive():
        logger.warning(
            "the disk takes too long; the next start checks the logs that were not closed"
        )
    if errors:
        raise errors[0]


def _reason(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error to show: a `StartError` if there is one."""
    leaves: list[BaseException] = [group]
    for one in leaves:
        if isinstance(one, BaseExceptionGroup):
            leaves += cast("BaseExceptionGroup[BaseException]", one).exceptions
        elif isinstance(one, StartError | MetadataLogError):
            return StartError(str(one))
    return group


def _calm_garbage_collector() -> None:
    """Exempt the objects made during start-up from collections, and collect less often.

    Requests make no reference cycles, so collections find next to nothing, but with 10,000 open
    partitions a full one would visit a million objects and block the event loop. One of the middle
    generation visits 100,000, which takes 20 ms: requests may have so many entries.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_OBJECTS_PER_COLLECTION)


def _listen(config: BrokerConfig) -> socket.socket:
    if len(config.listeners) != 1 or len(config.advertised_listeners) > 1:
        raise StartError(
            f"listeners={','.join(config.listeners)} and advertised.listeners="
            f"{','.join(config.advertised_listeners)}: only one of each is supported"
        )
    try:
        host, port = parse_address(config.listeners[0])
        for text in config.advertised_listeners:
            parse_address(text)
    except InvalidSettingError as error:
        raise StartError(str(error)) from None
    if host in _ANY_ADDRESS and not config.advertised_listeners:
        raise StartError(
            f"clients cannot connect to {host}, the address to listen on; add "
            "--advertise HOST:PORT with a name or address by which they reach this machine"
        )
    try:
        return bind(host, port, config.socket_listen_backlog_size)
    except OSError as error:
        raise StartError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; "
            "choose another --listen HOST:PORT (port 0 picks a free one)"
        ) from None


def _with_addresses(
    options: BrokerOptions, listener: socket.socket
) -> tuple[BrokerOptions, Endpoint]:
    """Fill in the port that was picked; returns the options and the advertised address."""
    config = options.config
    listening = endpoint_of(listener, parse_address(config.listeners[0])[0])
    advertised = listening
    for text in config.advertised_listeners:
        host, port = parse_address(text)
        advertised = Endpoint(host, port or listening.port)
    config = replace(
        config,
        listeners=(f"PLAINTEXT://{render_address(*listening)}",),
        advertised_listeners=(f"PLAINTEXT://{render_address(*advertised)}",),
        explicitly_set=config.explicitly_set | {"listeners", "advertised.listeners"},
    )
    return replace(options, config=config), advertised


class _Node:
    def __init__(
        self,
        broker: Broker,
        listener: socket.socket | None,
        on_ready: Callable[[str], None],
        companion: Companion | None,
        *,
        is_ephemeral: bool,
    ) -> None:
        self._broker = broker
        self._companion = companion
        self._listener = listener
        self._on_ready = on_ready
        self._is_ephemeral = is_ephemeral
        self._server = Server(broker) if companion is None else Server(broker, companion.connect)
        self._starting = trio.CancelScope()
        self._stopping = trio.Event()
        self._stop_deadline = float("inf")
        self._close_seconds = _CLOSE_SECONDS

    async def run(self, signals: StopSignals) -> None:
        with watch_if_asked():
            await self._run(signals)

    async def _run(self, signals: StopSignals) -> None:
        broker = self._broker
        async with trio.open_nursery() as nursery:
            await nursery.start(self._wait_for_signals)
            if signals.was_received:  # before trio received signals
                self._stop()
            with self._starting:
                await nursery.start(lifetime.run, broker)
            if self._starting.cancelled_caught:
                nursery.cancel_scope.cancel()
                return
            nursery.start_soon(self._leave)
            if self._companion is not None:
                nursery.start_soon(self._companion.run, broker)
            if self._listener is None:
                self._on_ready(render_address(*broker.node.internal_endpoint))
                await self._stopping.wait()
                await self._hand_over_quorum()
            else:
                self._on_ready(render_address(*endpoint_of(self._listener, self._host())))
                await self._server.serve([self._listener])
                logs = broker.directory.logs.values()
                disk = broker.directory.disk
                await broker.flusher.flush_all(disk, logs, self._flush_seconds())
            # A log that is not closed in time is checked by the next start: use all the time.
            left = self._stop_deadline - trio.current_time()
            self._close_seconds = max(_CLOSE_SECONDS, left)
            nursery.cancel_scope.cancel()

    def _host(self) -> str:
        return parse_address(self._broker.config.listeners[0])[0]

    async def _wait_for_signals(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        with trio.open_signal_receiver(*STOP_SIGNALS) as signals:
            task_status.started()
            async for number in signals:
                logger.info("%s: stopping", signal.Signals(number).name)
                self._stop()

    def _stop(self) -> None:
        if not self._stopping.is_set():
            self._stop_deadline = trio.current_time() + _STOP_SECONDS
            self._stopping.set()
            self._starting.cancel()

    async def _leave(self) -> None:
        """After a stop signal, hand over leadership, then stop serving."""
        await self._stopping.wait()
        if self._listener is not None:
            if self._broker.node.is_clustered:
                await self._broker.lifecycle.leave(_LEAVE_SECONDS)
                await self._hand_over_quorum()
            self._server.stop()

    async def _hand_over_quorum(self) -> None:
        with trio.move_on_after(_TRANSFER_SECONDS):
            await self._broker.quorum.transfer_leadership()

    def _flush_seconds(self) -> float:
        if self._is_ephemeral:
            return 0.0
        left = self._stop_deadline - trio.current_time() - _CLOSE_SECONDS
        return max(0.0, min(_FLUSH_SECONDS, left))

    def close_seconds(self) -> float:
        return 0.0 if self._is_ephemeral else self._close_seconds
