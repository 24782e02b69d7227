"""Sockets between nodes.

Connections are made with trio's own socket functions, so that a simulated network can stand in
(`trio.socket.set_custom_socket_factory`). A real socket is then taken out of trio's wrapper: what
fits into its buffer is sent without a trip through the scheduler, and file slices leave with
sendfile.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections import deque
from typing import Any, Protocol

import trio

from ..transport import FilePayload

RECEIVE_SIZE_BYTES = 65_536
UNACKNOWLEDGED_SECONDS_MAX = 6.0
"""A connection over which nothing gets through for so long is given up, and made anew."""
_BUFFERS_PER_CALL_MAX = 256
_SENDFILE_SIZE_BYTES_MAX = 1 << 24


class WireLostError(Exception):
    """The connection is gone."""


class Wire(Protocol):
    """One connection's bytes; one reader, one writer."""

    async def receive(self) -> bytes:
        """Wait for bytes; ``b""`` at the end of the stream."""
        ...

    async def receive_into(self, view: memoryview) -> int:
        """Fill some of a buffer; 0 at the end of the stream."""
        ...

    def send_some(self, parts: deque[Any]) -> None:
        """Send what can be sent without waiting, and remove it from the front of ``parts``."""
        ...

    async def send_all(self, parts: deque[Any]) -> None:
        """Send until ``parts`` is empty, also what is added meanwhile."""
        ...

    def close(self) -> None:
        """Close at once; wakes whoever waits."""
        ...


class SocketWire:
    """`Wire` over a real, non-blocking socket."""

    __slots__ = ("_socket",)

    def __init__(self, plain: socket.socket) -> None:
        self._socket = plain

    def _descriptor(self) -> int:
        descriptor = self._socket.fileno()
        if descriptor < 0:
            raise WireLostError("the connection was closed here")
        return descriptor

    async def receive(self) -> bytes:
        """Wait until bytes are there (always a checkpoint), then take up to 64 KiB."""
        while True:
            try:
                await trio.lowlevel.wait_readable(self._descriptor())
                return self._socket.recv(RECEIVE_SIZE_BYTES)
            except BlockingIOError:
                continue
            except (OSError, trio.ClosedResourceError) as error:
                raise WireLostError(str(error)) from None

    async def receive_into(self, view: memoryview) -> int:
        """Take what is there; waits only when there is nothing."""
        while True:
            try:
                return self._socket.recv_into(view)
            except BlockingIOError:
                pass
            except OSError as error:
                raise WireLostError(str(error)) from None
            try:
                await trio.lowlevel.wait_readable(self._descriptor())
            except (OSError, trio.ClosedResourceError) as error:
                raise WireLostError(str(error)) from None

    def send_some(self, parts: deque[Any]) -> None:
        """Send until the socket's buffer is full.

        Raises:
            WireLostError: the connection is gone, or a slice's file is shorter than promised.
        """
        try:
            while parts:
                if type(parts[0]) is FilePayload:
                    self._send_file(parts)
                else:
                    self._send_buffers(parts)
        except BlockingIOError:
            pass
        except OSError as error:
            raise WireLostError(str(error)) from None

    def _send_buffers(self, parts: deque[Any]) -> None:
        run: list[Any] = []
        for part in parts:
            if type(part) is FilePayload or len(run) == _BUFFERS_PER_CALL_MAX:
                break
            run.append(part)
        sent = self._socket.sendmsg(run)
        for part in run:
            if sent < len(part):
                if sent:
                    parts[0] = memoryview(part)[sent:]
                return
            sent -= len(part)
            parts.popleft()

    def _send_file(self, parts: deque[Any]) -> None:
        part: FilePayload = parts[0]
        source = part.file.fileno()
        if source is None:  # a file in memory
            parts[0] = part.read()
            return
        wanted = min(part.size_bytes, _SENDFILE_SIZE_BYTES_MAX)
        sent = os.sendfile(self._descriptor(), source, part.position, wanted)
        if sent == 0:
            raise OSError(errno.EIO, f"{part.file.path} ended {part.size_bytes} bytes early")
        part.position += sent
        part.size_bytes -= sent
        if not part.size_bytes:
            parts.popleft()

    async def send_all(self, parts: deque[Any]) -> None:
        """Send everything, waiting for room."""
        while True:
            self.send_some(parts)
            if not parts:
                return
            try:
                await trio.lowlevel.wait_writable(self._descriptor())
            except (OSError, trio.ClosedResourceError) as error:
                raise WireLostError(str(error)) from None

    def close(self) -> None:
        """Close the socket and wake its waiters."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


class SimulatedWire:
    """`Wire` over a socket that is none of the operating system's."""

    __slots__ = ("_socket",)

    def __init__(self, simulated: trio.socket.SocketType) -> None:
        self._socket = simulated

    async def receive(self) -> bytes:
        """Wait for bytes."""
        try:
            return await self._socket.recv(RECEIVE_SIZE_BYTES)
        except (OSError, trio.ClosedResourceError) as error:
            raise WireLostError(str(error)) from None

    async def receive_into(self, view: memoryview) -> int:
        """Wait for bytes."""
        try:
            chunk = await self._socket.recv(len(view))
        except (OSError, trio.ClosedResourceError) as error:
            raise WireLostError(str(error)) from None
        view[: len(chunk)] = chunk
        return len(chunk)

    def send_some(self, parts: deque[Any]) -> None:
        """Leave everything to `send_all`."""

    async def send_all(self, parts: deque[Any]) -> None:
        """Send everything."""
        try:
            while parts:
                part = parts[0]
                content = part.read() if type(part) is FilePayload else part
                with memoryview(content) as rest:
                    position = 0
                    while position < len(rest):
                        position += await self._socket.send(rest[position:])
                if parts:  # not when it was closed meanwhile
                    parts.popleft()
        except (OSError, trio.ClosedResourceError) as error:
            raise WireLostError(str(error)) from None

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def wire_of(connected: trio.socket.SocketType) -> Wire:
    """The wire of a connected socket."""
    try:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if sys.platform == "linux":
            wait_ms = int(UNACKNOWLEDGED_SECONDS_MAX * 1000)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, wait_ms)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 3)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
        if connected.fileno() < 0:
            return SimulatedWire(connected)
        plain = socket.socket(fileno=connected.detach())
    except OSError as error:
        connected.close()
        raise WireLostError(str(error)) from None
    plain.setblocking(False)
    return SocketWire(plain)


async def connect(host: str, port: int) -> Wire:
    """Connect to an address; all that the name stands for are tried, one after the other.

    Raises:
        OSError: nobody answers there (`ConnectionRefusedError`: the machine says that no process
            listens).
    """
    addresses = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in addresses:
        connecting = trio.socket.socket(family, kind, protocol)
        try:
            await connecting.connect(address)
            return wire_of(connecting)
        except OSError as error:
            failure = error
            connecting.close()
        except WireLostError as error:
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
