"""Listens, accepts connections within limits, closes idle ones, and stops cleanly.

On shutdown no new connections are accepted. Requests that are being served get `DRAIN_SECONDS` to
finish (long polls answer immediately with what they have), then connections are closed.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable, Sequence
from typing import NamedTuple

import trio

from ...security.protocols import SecurityProtocol
from ..broker import Broker
from ..security.tls import TlsError, TlsOfListener
from ..settings.listeners import PLAINTEXT_LISTENER, Listener
from ..settings.node import Endpoint
from ..system.descriptors import descriptor_budget
from ..system.summaries import Summaries
from ..transport.tls import NotTlsError, TlsHandshakeError, TlsTransport
from ..transport.transport import ConnectionLostError, SocketTransport, Transport
from .connection import Connection
from .limits import ConnectionLimits, CreationRate

logger = logging.getLogger(__name__)

DRAIN_SECONDS = 2.0
_REAP_INTERVAL_SECONDS = 1.0
_RELOAD_INTERVAL_SECONDS = 1.0
_ACCEPT_PAUSE_SECONDS = 0.1
_ACCEPTED_AT_ONCE_MAX = 32
_HELD_MAX = 1000
_HANDSHAKES_AT_ONCE = 2
"""Handshakes compute for milliseconds, in threads; more at once would slow the event loop down."""
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


Address = tuple[str, int] | tuple[str, int, int, int]


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


class BoundListener(NamedTuple):
    """A listener that can be connected to.

    Attributes:
        socket: listens.
        listener: as configured.
        tls: for an encrypted one.
    """

    socket: socket.socket
    listener: Listener = PLAINTEXT_LISTENER
    tls: TlsOfListener | None = None


Connect = Callable[[Broker, Transport], Connection]
"""Makes a connection of the broker and a client's transport."""


class Server:
    """Serves a broker on listening sockets; ``connections`` has the client's address of each."""

    def __init__(self, broker: Broker, connect: Connect = Connection) -> None:
        self._broker = broker
        self._connect = connect
        self.connections: dict[Connection, str] = {}
        self._limits = ConnectionLimits(broker.settings, descriptor_budget().connections)
        self._rate = CreationRate(broker.settings, broker.clock, None)
        self._summaries = Summaries(logger, broker.clock)
        self._handshakes = trio.Semaphore(_HANDSHAKES_AT_ONCE)
        self._accept_scope = trio.CancelScope()
        self._idle = trio.Event()
        self._held = 0

    async def serve(self, listeners: Sequence[BoundListener]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._reap)
            encrypted = [one.tls for one in listeners if one.tls is not None]
            if encrypted:
                nursery.start_soon(self._reload, encrypted)
            with self._accept_scope:
                async with trio.open_nursery() as accepting:
                    for listener in listeners:
                        accepting.start_soon(self._accept, listener, nursery)
            for listener in listeners:
                listener.socket.close()
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

    async def _accept(self, bound: BoundListener, nursery: trio.Nursery) -> None:
        rate = CreationRate(self._broker.settings, self._broker.clock, bound.listener)
        while True:
            await trio.lowlevel.wait_readable(bound.socket)
            try:
                for _ in range(_ACCEPTED_AT_ONCE_MAX):
                    client, address = bound.socket.accept()
                    self._take(bound, client, address, nursery)
                    delay = max(self._rate.delay(), rate.delay())
                    if delay:  # the others wait in the backlog
                        await trio.sleep(delay)
                        break
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno in _OUT_OF_DESCRIPTORS:
                    logger.error("cannot accept a connection: %s", error)
                    await trio.sleep(_ACCEPT_PAUSE_SECONDS)

    def _take(
        self, bound: BoundListener, client: socket.socket, address: Address, nursery: trio.Nursery
    ) -> None:
        config, host = self._broker.config, str(address[0])
        quotas = self._broker.client_quotas
        if quotas is not None and (delay := quotas.connection_delay(host)):
            nursery.start_soon(self._close_later, client, delay)
            return
        exceeded = self._limits.take(bound.listener, host)
        if exceeded is not None:
            client.close()
            self._summaries.warn(exceeded, f"refused a connection from {host}: {exceeded}")
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
            self._limits.give_back(bound.listener, host)
            return
        peer = "/" + host
        encrypted = None if bound.tls is None else TlsTransport(client, bound.tls.context, peer)
        connection = self._connect(self._broker, encrypted or SocketTransport(client, peer))
        connection.log_stranger = self._log_stranger
        connection.client.port = address[1]
        connection.client.listener = bound.listener
        if bound.listener.protocol is not SecurityProtocol.PLAINTEXT:
            patience = config.minikafka_login_timeout_ms / 1000
            connection.client.begin_login(self._broker.clock.monotonic() + patience)
        self.connections[connection] = host
        nursery.start_soon(self._serve, connection, bound, encrypted, host)

    async def _close_later(self, client: socket.socket, delay: float) -> None:
        """Hold a connection above its address's quota, so that the client tries again later.

        Like Kafka, nothing is read from it (KIP-612). Only so many are held.
        """
        try:
            if self._held < _HELD_MAX:
                self._held += 1
                try:
                    await trio.sleep(delay)
                finally:
                    self._held -= 1
        finally:
            client.close()

    def _log_stranger(self, peer: str, problem: str) -> None:
        self._summaries.warn(problem, f"closing connection from {peer}: {problem}")

    async def _serve(
        self,
        connection: Connection,
        bound: BoundListener,
        encrypted: TlsTransport | None,
        host: str,
    ) -> None:
        try:
            if encrypted is None or await self._greet(connection, bound, encrypted):
                await connection.run()
        finally:
            connection.close()
            del self.connections[connection]
            self._limits.give_back(bound.listener, host)
            self._check_idle()

    async def _greet(
        self, connection: Connection, bound: BoundListener, transport: TlsTransport
    ) -> bool:
        """Make an encrypted connection, and find out who it is; returns whether that worked.

        A client that takes too long is closed by `_reap`.
        """
        assert bound.tls is not None
        try:
            await transport.handshake(self._handshake_step)
            if not bound.listener.protocol.is_sasl:
                who = bound.tls.principal_of(transport.peer_certificate)
                connection.client.log_in(who)
        except ConnectionLostError:
            return False
        except NotTlsError as error:
            problem = (
                f"listener {bound.listener.name} is {bound.listener.protocol.value}; {error}; set "
                f"the client's security.protocol={bound.listener.protocol.value}"
            )
            kind = f"plain {bound.listener.name}"
            self._summaries.warn(kind, f"closing connection from {transport.peer}: {problem}")
            return False
        except (TlsHandshakeError, TlsError) as error:
            self._log_stranger(transport.peer, f"TLS on listener {bound.listener.name}: {error}")
            return False
        return True

    async def _handshake_step(self, step: Callable[[], None]) -> None:
        async with self._handshakes:
            await self._broker.run_in_thread(step)

    async def _reload(self, encrypted: Sequence[TlsOfListener]) -> None:
        """Read certificates again when their files change."""
        while True:
            await trio.sleep(_RELOAD_INTERVAL_SECONDS)
            for one in encrypted:
                reload = one.change()
                if reload is not None:
                    await self._broker.run_in_thread(reload)

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
                if now > connection.client.login_deadline:
                    name = connection.client.listener.name
                    self._summaries.warn(
                        f"login {name}",
                        f"closing connection from {self.connections[connection]}: it took longer "
                        f"than minikafka.login.timeout.ms for TLS or to log in on {name}",
                    )
                    connection.close()
                elif started is not None and now - started > frame_timeout:
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
