"""Connections between nodes: made and accepted with trio's own socket functions.

So a simulated network can stand in (`trio.socket.set_custom_socket_factory`).
"""

from __future__ import annotations

import socket
import ssl
import sys
from collections.abc import Callable

import trio

from ..system.workers import run_in_worker_thread
from .tls import TlsTransport
from .transport import ConnectionLostError, NodeStream, SocketNodeStream, TrioSocketTransport

UNACKNOWLEDGED_SECONDS_MAX = 6.0
"""A connection over which nothing gets through for so long is given up."""


def stream_of(connected: trio.socket.SocketType) -> NodeStream:
    """The stream of a connected socket, which is taken out of trio's wrapper if it is a real one.

    Raises:
        ConnectionLostError: the connection has ended already.
    """
    plain = _taken_out(connected)
    return TrioSocketTransport(connected) if plain is None else SocketNodeStream(plain)


async def tls_stream_of(
    connected: trio.socket.SocketType, context: ssl.SSLContext, *, is_client: bool
) -> NodeStream:
    """The encrypted stream of a connected socket.

    Raises:
        ConnectionLostError: the connection has ended.
        TlsHandshakeError: the two sides do not agree, or do not trust each other.
    """
    plain = _taken_out(connected)
    if plain is None:
        connected.close()
        raise ConnectionLostError("a simulated network has no TLS")
    stream = TlsTransport(plain, context, is_client=is_client)
    try:
        await stream.handshake(run_in_worker_thread)
    except BaseException:
        stream.close()
        raise
    return stream


def _taken_out(connected: trio.socket.SocketType) -> socket.socket | None:
    """The socket in trio's wrapper; None if only trio knows it."""
    try:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if sys.platform == "linux":
            wait_ms = int(UNACKNOWLEDGED_SECONDS_MAX * 1000)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, wait_ms)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 3)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
        if connected.fileno() < 0:
            return None
        plain = socket.socket(fileno=connected.detach())
    except OSError as error:
        connected.close()
        raise ConnectionLostError(str(error)) from None
    plain.setblocking(False)
    return plain


async def connect(
    host: str, port: int, *, context: Callable[[], ssl.SSLContext] | None = None
) -> NodeStream:
    """Connect to an address; all that the name stands for are tried, one after the other.

    With a context the connection is encrypted.

    Raises:
        OSError: no connection (`ConnectionRefusedError`: the machine says that no process listens
            there).
        TlsHandshakeError: the two sides do not agree, or do not trust each other.
    """
    addresses = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in addresses:
        connecting = trio.socket.socket(family, kind, protocol)
        try:
            await connecting.connect(address)
            if context is not None:
                return await tls_stream_of(connecting, context(), is_client=True)
            return stream_of(connecting)
        except OSError as error:
            failure = error
            connecting.close()
        except ConnectionLostError as error:
            failure = OSError(str(error))
        except BaseException:
            connecting.close()
            raise
    raise failure


async def listen(host: str, port: int, backlog: int = 128) -> trio.socket.SocketType:
    """Open the internal listener; port 0 picks a free one.

    Raises:
        OSError: the address is in use or not this machine's.
    """
    found = await trio.socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, kind, protocol, _, address = found[0]
    listener = trio.socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        await listener.bind(address)
        listener.listen(backlog)
    except BaseException:
        listener.close()
        raise
    return listener
