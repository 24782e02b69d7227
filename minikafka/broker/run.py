"""Start a node, run it until a signal, stop it."""

from __future__ import annotations

import gc
import logging
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import trio

from ..metadata.records import MetadataLogError
from ..metadata.settings import InvalidSettingError
from .addresses import parse_address, render_address
from .broker import Broker, Endpoint
from .config import BrokerConfig
from .opening import BrokerOptions, open_broker
from .server import Server, bind, endpoint_of
from .start_error import StartError
from .stop_signals import STOP_SIGNALS, StopSignals, stop_signals
from .topology import topology_of

__all__ = ["BrokerOptions", "StartError", "open_broker", "run_broker"]

logger = logging.getLogger(__name__)

_ANY_ADDRESS = ("0.0.0.0", "::", "")
_YOUNG_OBJECTS_PER_COLLECTION = 20_000

# A stop must end within five seconds: handing over, `DRAIN_SECONDS` of the server, and these.
_STOP_SECONDS = 4.5
_LEAVE_SECONDS = 1.5
_TRANSFER_SECONDS = 0.5
_FLUSH_SECONDS = 1.5
_CLOSE_SECONDS = 1.0
_CLOSE_SECONDS_MIN = 0.2


def run_broker(options: BrokerOptions, on_ready: Callable[[str], None]) -> None:
    """Run a node until SIGTERM or SIGINT; returns after a clean stop.

    Args:
        options: what to run.
        on_ready: called with ``HOST:PORT`` when clients can connect (other nodes, when this one
            is a controller alone).

    Raises:
        StartError: the address or the data directory cannot be used, or the cluster does not want
            this node.
    """
    try:
        is_broker = topology_of(options.config).is_broker
    except InvalidSettingError as error:
        raise StartError(str(error)) from None
    listener = _listen(options.config) if is_broker else None
    try:
        with stop_signals() as signals:
            advertised = Endpoint("", 0)
            if listener is not None:
                options, advertised = _with_addresses(options, listener)
            broker = open_broker(options)
            signals.is_interruptible = False
            broker.endpoint = advertised
            _calm_garbage_collector()
            node = _Node(broker, listener, on_ready, is_ephemeral=options.is_ephemeral)
            try:
                trio.run(node.run, signals)
            except BaseExceptionGroup as group:
                raise _reason(group) from group
            finally:
                broker.close(node.close_seconds())
    finally:
        if listener is not None:
            listener.close()
    logger.info("stopped")


def _reason(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What people should be told."""
    leaves: list[BaseException] = [group]
    for one in leaves:
        if isinstance(one, BaseExceptionGroup):
            leaves += cast("BaseExceptionGroup[BaseException]", one).exceptions
        elif isinstance(one, StartError | MetadataLogError):
            return StartError(str(one))
    return group


def _calm_garbage_collector() -> None:
    """Leave what start-up made out of collections, and collect less often.

    Requests make no reference cycles, so collections find next to nothing; with 10,000 partitions
    open a full one would look at a million objects and stop the event loop meanwhile.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS_PER_COLLECTION, 20, 100)


def _listen(config: BrokerConfig) -> socket.socket:
    if len(config.listeners) != 1 or len(config.advertised_listeners) > 1:
        raise StartError(
            f"listeners={','.join(config.listeners)} and advertised.listeners="
            f"{','.join(config.advertised_listeners)}: give one listener, and one advertised"
        )
    try:
        host, port = parse_address(config.listeners[0])
        for text in config.advertised_listeners:
            parse_address(text)
    except InvalidSettingError as error:
        raise StartError(str(error)) from None
    if host in _ANY_ADDRESS and not config.advertised_listeners:
        raise StartError(
            f"listening on {host} says nothing that clients could connect to; add "
            "--advertise HOST:PORT with the name or address they know this machine by"
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
    """Fill in the port that was picked: (options, what clients are told)."""
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
    """A node from its start to its stop."""

    def __init__(
        self,
        broker: Broker,
        listener: socket.socket | None,
        on_ready: Callable[[str], None],
        *,
        is_ephemeral: bool,
    ) -> None:
        self._broker = broker
        self._listener = listener
        self._on_ready = on_ready
        self._is_ephemeral = is_ephemeral
        self._server = Server(broker)
        self._starting = trio.CancelScope()
        self._stopping = trio.Event()
        self._stop_deadline = float("inf")

    async def run(self, signals: StopSignals) -> None:
        """Start, serve, stop."""
        broker = self._broker
        async with trio.open_nursery() as nursery:
            await nursery.start(self._wait_for_signals)
            if signals.was_received:  # before trio began to listen to them
                self._stop()
            with self._starting:
                await nursery.start(broker.run)
            if self._starting.cancelled_caught:
                nursery.cancel_scope.cancel()
                return
            nursery.start_soon(self._leave)
            if self._listener is None:
                self._on_ready(render_address(*broker.internal_endpoint))
                await self._stopping.wait()
                await self._hand_over_quorum()
            else:
                self._on_ready(render_address(*endpoint_of(self._listener, self._host())))
                await self._server.serve([self._listener])
                await broker.flush_all(self._flush_seconds())
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
        """Stop serving when others have taken over."""
        await self._stopping.wait()
        if self._listener is not None:
            if self._broker.topology.is_clustered:
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
        """How long closing may take."""
        return 0.0 if self._is_ephemeral else _CLOSE_SECONDS
