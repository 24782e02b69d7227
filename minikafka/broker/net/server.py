"""Listens, accepts connections within limits, closes idle ones, and stops cleanly.

On shutdown no new connections are accepted. Requests that are being served get `DRAIN_SECONDS` to
finish (long polls answer immediately with what they have), then connections are closed.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections import Counter
from collections.abc import Callable

import trio

from ..broker import Broker
from ..settings.node import Endpoint
from ..system.descriptors import descriptor_budget
from ..transport.transport import SocketTransport
from .connection import Connection

logger = logging.getLogger(__name__)

DRAIN_SECONDS = 2.0
_REAP_INTERVAL_SECONDS = 1.0
_ACCEPT_PAUSE_SECONDS = 0.1
_ACCEPTED_AT_ONCE_MAX = 32
_REFUSAL_LOG_INTERVAL_SECONDS = 10.0
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def bind(host: str, port: int, backlog: int) -> socket.socket:
    """Open a listening socket; port 0 picks a free one.

    Raises:
        OSError: the address is in use or not this machine's.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(backlog)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


Connect = Callable[[Broker, socket.socket, str], Connection]
"""Makes a connection of the broker, a client's socket and the client's address."""


def _connect(broker: Broker, client: socket.socket, peer: str) -> Connection:
    return Connection(broker, SocketTransport(client, peer))


class Server:
    """Serves a broker on listening sockets; ``connections`` has the client's address of each."""

    def __init__(self, broker: Broker, connect: Connect = _connect) -> None:
        self._broker = broker
        self._connect = connect
        self.connections: dict[Connection, str] = {}
        self._per_address: Counter[str] = Counter()
        self._accept_scope = trio.CancelScope()
        self._idle = trio.Event()
        self._refused = 0
        self._refusals_logged_next = float("-inf")
        self._descriptors = descriptor_budget().connections

    async def serve(self, listeners: list[socket.socket]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._reap)
            with self._accept_scope:
                async with trio.open_nursery() as accepting:
                    for listener in listeners:
                        accepting.start_soon(self._accept, listener, nursery)
            for listener in listeners:
                listener.close()
            for connection in list(self.connections):
                connection.finish()
            self._check_idle()
            nursery.cancel_scope.deadline = trio.current_time() + DRAIN_SECONDS
            await self._idle.wait()
            nursery.cancel_scope.cancel()

    def stop(self) -> None:
        """Stop accepting connections, and begin to drain; may be called from any task.

        Requests that arrive later are not served, because the broker may not be able to finish
        them.
        """
        self._broker.node.is_stopping = True
        self._accept_scope.cancel()
        for connection in list(self.connections):
            connection.finish()
        for partition in self._broker.partitions.values():
            partition.wake()

    async def _accept(self, listener: socket.socket, nursery: trio.Nursery) -> None:
        while True:
            await trio.lowlevel.wait_readable(listener)
            try:
                for _ in range(_ACCEPTED_AT_ONCE_MAX):
                    client, address = listener.accept()
                    self._take(client, str(address[0]), address[1], nursery)
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno in _OUT_OF_DESCRIPTORS:
                    logger.error("cannot accept a connection: %s", error)
                    await trio.sleep(_ACCEPT_PAUSE_SECONDS)

    def _take(self, client: socket.socket, host: str, port: int, nursery: trio.Nursery) -> None:
        config = self._broker.config
        if len(self.connections) >= min(
            self._broker.settings.integer("max.connections"), self._descriptors
        ) or self._per_address[host] >= self._broker.settings.integer("max.connections.per.ip"):
            self._refuse(client, host)
            return
        client.setblocking(False)
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if (size := config.socket_send_buffer_bytes) > 0:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
            if (size := config.socket_receive_buffer_bytes) > 0:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
        except OSError:  # the client has already disconnected
            client.close()
            return
        connection = self._connect(self._broker, client, "/" + host)
        connection.client.port = port
        self.connections[connection] = host
        self._per_address[host] += 1
        nursery.start_soon(self._serve, connection, host)

    def _refuse(self, client: socket.socket, host: str) -> None:
        """Close a connection that exceeds a limit; the log gets a summary now and then."""
        client.close()
        self._refused += 1
        now = self._broker.clock.monotonic()
        if now < self._refusals_logged_next:
            return
        self._refusals_logged_next = now + _REFUSAL_LOG_INTERVAL_SECONDS
        logger.warning(
            "refused %d connections, the last from %s: max.connections=%d, the limit of open "
            "files allows %d, max.connections.per.ip=%d",
            self._refused,
            host,
            self._broker.settings.integer("max.connections"),
            self._descriptors,
            self._broker.settings.integer("max.connections.per.ip"),
        )
        self._refused = 0

    async def _serve(self, connection: Connection, host: str) -> None:
        try:
            await connection.run()
        finally:
            del self.connections[connection]
            self._per_address[host] -= 1
            if not self._per_address[host]:
                del self._per_address[host]
            self._check_idle()

    def _check_idle(self) -> None:
        if self._broker.node.is_stopping and not self.connections:
            self._idle.set()

    async def _reap(self) -> None:
        """Close connections that are idle, stuck inside a frame, or abandoned during a request."""
        config = self._broker.config
        idle = config.connections_max_idle_ms / 1000
        frame_timeout = config.minikafka_frame_timeout_ms / 1000
        while True:
            await trio.sleep(_REAP_INTERVAL_SECONDS)
            now = self._broker.clock.monotonic()
            for connection in list(self.connections):
                started = connection.frame_started
                if started is not None and now - started > frame_timeout:
                    logger.warning("closing a connection that did not complete a frame in time")
                    connection.close()
                elif connection.is_serving:
                    if now - connection.last_active > _REAP_INTERVAL_SECONDS:
                        connection.end_if_client_left()
                elif 0 < idle < now - connection.last_active:
                    if connection.has_moved():
                        connection.last_active = now
                    else:
                        connection.close()


def endpoint_of(listener: socket.socket, host: str) -> Endpoint:
    """The address of a listener: the host as configured, the port as bound."""
    return Endpoint(host, listener.getsockname()[1])
