"""Runs a node: starts it, serves until a signal, and stops it in time."""

from __future__ import annotations

import gc
import logging
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Protocol, cast

import trio

from ..data_class import replace
from ..metadata.records import MetadataLogError
from ..metadata.setting_table import BrokerConfig
from ..metadata.settings import InvalidSettingError
from ..storage.disk import Disk
from . import lifetime
from .broker import Broker
from .net.connection import Connection
from .net.server import BoundListener, Server, bind, endpoint_of
from .opening import BrokerOptions, open_broker
from .security.internal import InternalSecurity, internal_security, require_closed
from .security.tls import TlsOfListener
from .settings.addresses import render_address
from .settings.listeners import PLAINTEXT_LISTENER, listeners_of, render_listeners
from .settings.node import Endpoint, Node
from .settings.topology import Topology, topology_of
from .system.clock import Clock
from .system.start_error import StartError
from .system.stop_signals import STOP_SIGNALS, StopSignals, stop_signals
from .system.turns import watch_if_asked
from .transport.transport import Transport

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

    def connect(self, broker: Broker, transport: Transport) -> Connection:
        """Make a client's connection."""
        ...

    async def run(self, broker: Broker) -> None:
        """Run until cancelled, from before the node serves."""
        ...


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
        topology = topology_of(options.config)
        internal = internal_security(options.config)
    except InvalidSettingError as error:
        raise StartError(str(error)) from None
    listeners = _listen(options.config) if topology.is_broker else []
    broker: Broker | None = None
    try:
        encrypted = [one.tls for one in listeners if one.tls is not None]
        _require_closed(topology, internal, encrypted)
        with stop_signals() as signals:
            advertised: list[tuple[str, str, int]] = []
            if listeners:
                options, advertised = _with_addresses(options, listeners)
            if companion is None:
                broker = open_broker(options)
            else:
                broker = open_broker(options, clock=companion.clock, disk=companion.disk)
            signals.is_interruptible = False
            _set_addresses(broker.node, advertised)
            _calm_garbage_collector()
            node = _Node(broker, listeners, on_ready, companion, is_ephemeral=options.is_ephemeral)
            clock = None if companion is None else companion.trio_clock
            try:
                trio.run(node.run, signals, clock=clock)
            except BaseExceptionGroup as group:
                raise _reason(group) from group
            finally:
                _close(broker, node.close_seconds())
    finally:
        for one in listeners:
            one.socket.close()
    logger.info("stopped")
    return broker


def _require_closed(
    topology: Topology, internal: InternalSecurity, listeners: Sequence[TlsOfListener]
) -> None:
    try:
        require_closed(topology, internal, listeners)
    except InvalidSettingError as error:
        raise StartError(str(error)) from None


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

    There is no collection first: it takes as long as a tenth of the start, and finds nothing.
    Requests make no reference cycles, so collections find next to nothing, but with 10,000 open
    partitions a full one would visit a million objects and block the event loop. One of the middle
    generation visits 100,000, which takes 20 ms: requests may have so many entries.
    """
    gc.freeze()
    gc.set_threshold(*_OBJECTS_PER_COLLECTION)
    gc.enable()


def _listen(config: BrokerConfig) -> list[BoundListener]:
    """Open all listeners, after everything that they need has been read."""
    try:
        listeners = listeners_of(config)
        encrypted = {
            one.name: TlsOfListener(config, one) for one in listeners if one.protocol.is_tls
        }
    except InvalidSettingError as error:
        raise StartError(str(error)) from None
    bound: list[BoundListener] = []
    for one in listeners:
        try:
            plain = bind(one.host, one.port, config.socket_listen_backlog_size)
        except OSError as error:
            for other in bound:
                other.socket.close()
            raise StartError(
                f"cannot listen on {one.host}:{one.port}: {error.strerror or error}; "
                "choose another --listen HOST:PORT (port 0 picks a free one)"
            ) from None
        bound.append(BoundListener(plain, one, encrypted.get(one.name)))
    return bound


def _with_addresses(
    options: BrokerOptions, bound: Sequence[BoundListener]
) -> tuple[BrokerOptions, list[tuple[str, str, int]]]:
    """Fill in the ports that were picked; returns the options and the advertised addresses."""
    listening: list[tuple[str, str, int]] = []
    advertised: list[tuple[str, str, int]] = []
    for one in bound:
        name, given = one.listener.name, one.listener.advertised
        at = endpoint_of(one.socket, one.listener.host)
        listening.append((name, at.host, at.port))
        if given is not None:
            advertised.append((name, given[0], given[1] or at.port))
    config = options.config
    config = replace(
        config,
        listeners=render_listeners(listening),
        advertised_listeners=render_listeners(advertised),
        explicitly_set=config.explicitly_set | {"listeners", "advertised.listeners"},
    )
    return replace(options, config=config), advertised


def _set_addresses(node: Node, advertised: Sequence[tuple[str, str, int]]) -> None:
    if advertised:
        node.endpoint = Endpoint(*advertised[0][1:])
        if [name for name, _, _ in advertised] != [PLAINTEXT_LISTENER.name]:
            node.listeners = tuple(advertised)


class _Node:
    def __init__(
        self,
        broker: Broker,
        listeners: Sequence[BoundListener],
        on_ready: Callable[[str], None],
        companion: Companion | None,
        *,
        is_ephemeral: bool,
    ) -> None:
        self._broker = broker
        self._companion = companion
        self._listeners = listeners
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
            if not self._listeners:
                self._on_ready(render_address(*broker.node.internal_endpoint))
                await self._stopping.wait()
                await self._hand_over_quorum()
            else:
                for text in broker.config.listeners[1:]:
                    logger.info("also listening on %s", text)
                first = self._listeners[0]
                self._on_ready(render_address(*endpoint_of(first.socket, first.listener.host)))
                await self._server.serve(self._listeners)
                logs = broker.directory.logs.values()
                disk = broker.directory.disk
                await broker.flusher.flush_all(disk, logs, self._flush_seconds())
            # A log that is not closed in time is checked by the next start: use all the time.
            left = self._stop_deadline - trio.current_time()
            self._close_seconds = max(_CLOSE_SECONDS, left)
            nursery.cancel_scope.cancel()

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
        if self._listeners:
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
