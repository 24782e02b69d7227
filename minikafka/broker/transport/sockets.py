"""Connections between nodes: made and accepted with trio's own socket functions.

So a simulated network can stand in (`trio.socket.set_custom_socket_factory`).
"""

from __future__ import annotations

import socket
import sys

import trio

from .transport import ConnectionLostError, NodeStream, SocketNodeStream, TrioSocketTransport

UNACKNOWLEDGED_SECONDS_MAX = 6.0
"""A connection over which nothing gets through for so long is given up."""


def stream_of(connected: trio.socket.SocketType) -> NodeStream:
    """The stream of a connected socket, which is taken out of trio's wrapper if it is a real one.

    Raises:
        ConnectionLostError: the connection has ended already.
    """
    try:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if sys.platform == "linux":
            wait_ms = int(UNACKNOWLEDGED_SECONDS_MAX * 1000)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, wait_ms)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 3)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
        if connected.fileno() < 0:
            return TrioSocketTransport(connected)
        plain = socket.socket(fileno=connected.detach())
    except OSError as error:
        connected.close()
        raise ConnectionLostError(str(error)) from None
    plain.setblocking(False)
    return SocketNodeStream(plain)


async def connect(host: str, port: int) -> NodeStream:
    """Connect to an address; all that the name stands for are tried, one after the other.

    Raises:
        OSError: no connection (`ConnectionRefusedError`: the machine says that no process listens
            there).
    """
    addresses = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in addresses:
        connecting = trio.socket.socket(family, kind, protocol)
        try:
            await connecting.connect(address)
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
