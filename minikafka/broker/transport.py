"""Bytes in and out of one connection: the only place that touches a client's socket.

`Transport` is what a connection needs; `SocketTransport` is a plain TCP socket, over which file
slices leave with sendfile and never become Python objects. (A TLS transport and a simulated one
implement the same few methods.)

Sockets are plain non-blocking ones with trio's `wait_readable`/`wait_writable`: a write that fits
into the socket's buffer costs one system call and no trip through the scheduler.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from typing import Any, Protocol

import trio

from ..storage.disk import DiskFile, FileSlice

RECEIVE_SIZE_BYTES = 65_536
SENDFILE_SIZE_BYTES_MIN = 32_768
"""A smaller slice is read and sent with its neighbours: one system call instead of three."""

_READ_SIZE_BYTES_MAX = 256 * 1024
"""Bytes of slices in memory before what is there is sent: the client may be slow, or never read."""

_BUFFERS_PER_CALL_MAX = 512
_SENDFILE_SIZE_BYTES_MAX = 1 << 30
_MSG_MORE = getattr(socket, "MSG_MORE", 0)


class FilePayload:
    """Records in a file, as a message field: `len` is their size, and `SocketTransport` sends them.

    The file stays open as long as this object lives.
    """

    __slots__ = ("file", "position", "size_bytes")

    def __init__(self, file_slice: FileSlice) -> None:
        self.file: DiskFile = file_slice.file
        self.position = file_slice.position
        self.size_bytes = file_slice.size_bytes

    def __len__(self) -> int:
        """Size in bytes."""
        return self.size_bytes

    def read(self) -> bytes:
        """The bytes, for a transport that cannot sendfile.

        Raises:
            OSError: the disk failed, or the file was truncated meanwhile.
        """
        return FileSlice(self.file, self.position, self.size_bytes).read()


class ConnectionLostError(Exception):
    """The other side is gone (closed, reset, unreachable)."""


class Transport(Protocol):
    """One connection's bytes."""

    peer: str
    """The client's address, as Kafka shows it: ``/127.0.0.1``."""

    moves: int
    """How many times the client took a part of an answer that did not fit into its buffers."""

    async def receive(self) -> bytes:
        """Wait for bytes; returns some, or ``b""`` at the end of the stream."""
        ...

    async def receive_into(self, view: memoryview) -> int:
        """Fill some of a buffer; returns how many bytes, 0 at the end of the stream."""
        ...

    def send_now(self, parts: list[Any]) -> list[Any]:
        """Send buffers without waiting; returns what is left of them.

        Nobody may be in `send` meanwhile. A connection that is gone takes everything; its task
        finds out.
        """
        ...

    async def send(self, parts: Sequence[Any]) -> None:
        """Send buffers and `FilePayload` objects in order.

        Raises:
            ConnectionLostError: the client is gone, or a slice's file is shorter than promised.
        """
        ...

    def has_peer_left(self) -> bool:
        """True when the next `receive` would tell the end of the stream; never waits."""
        ...

    def close(self) -> None:
        """Close at once; wakes whoever waits in the other methods."""
        ...


class SocketTransport:
    """`Transport` over a non-blocking stdlib TCP socket."""

    __slots__ = ("_socket", "moves", "peer")

    def __init__(self, plain: socket.socket, peer: str) -> None:
        self._socket = plain
        self.peer = peer
        self.moves = 0

    def _descriptor(self) -> int:
        """What to wait for. All closed sockets have -1, and trio would take them for one."""
        descriptor = self._socket.fileno()
        if descriptor < 0:
            raise ConnectionLostError("the connection was closed here")
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
                raise ConnectionLostError(str(error)) from None

    async def receive_into(self, view: memoryview) -> int:
        """Take what is there; waits only when there is nothing."""
        while True:
            try:
                return self._socket.recv_into(view)
            except BlockingIOError:
                pass
            except OSError as error:
                raise ConnectionLostError(str(error)) from None
            try:
                await trio.lowlevel.wait_readable(self._descriptor())
            except (OSError, trio.ClosedResourceError) as error:
                raise ConnectionLostError(str(error)) from None

    def send_now(self, parts: list[Any]) -> list[Any]:
        """Send what fits into the socket's buffer; see `Transport.send_now`."""
        run = parts
        while run:
            head = run[:_BUFFERS_PER_CALL_MAX]
            try:
                sent = self._socket.sendmsg(head)
            except BlockingIOError:
                return run
            except OSError:
                return []
            run = _rest(run, sent)
        return run

    async def send(self, parts: Sequence[Any]) -> None:
        """Send everything; see `Transport.send`."""
        try:
            run: list[Any] = []
            read_bytes = 0
            for part in parts:
                if type(part) is not FilePayload:
                    run.append(part)
                elif len(part) < SENDFILE_SIZE_BYTES_MIN or part.file.fileno() is None:
                    if read_bytes > _READ_SIZE_BYTES_MAX:
                        await self._send_buffers(run, _MSG_MORE)
                        run, read_bytes = [], 0
                    run.append(part.read())
                    read_bytes += len(part)
                else:
                    await self._send_buffers(run, _MSG_MORE)
                    run, read_bytes = [], 0
                    await self._send_file(part)
            await self._send_buffers(run, 0)
        except (OSError, trio.ClosedResourceError) as error:
            raise ConnectionLostError(str(error)) from None

    async def _send_buffers(self, run: list[Any], flags: int) -> None:
        while run:
            head = run[:_BUFFERS_PER_CALL_MAX]
            try:
                sent = self._socket.sendmsg(head, (), flags)
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._descriptor())
                self.moves += 1
                continue
            if len(head) == len(run) and sent == sum(map(len, head)):
                return
            run = _rest(run, sent)

    async def _send_file(self, part: FilePayload) -> None:
        source = part.file.fileno()
        assert source is not None
        position, remaining = part.position, part.size_bytes
        target = self._socket.fileno()
        while remaining:
            try:
                sent = os.sendfile(
                    target, source, position, min(remaining, _SENDFILE_SIZE_BYTES_MAX)
                )
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._descriptor())
                self.moves += 1
                target = self._socket.fileno()
                continue
            if sent == 0:
                raise OSError(errno.EIO, f"{part.file.path} ended {remaining} bytes early")
            position += sent
            remaining -= sent

    def has_peer_left(self) -> bool:
        """Look at the socket without taking anything from it."""
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """Close the socket and wake its waiters."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


def _rest(run: list[Any], sent: int) -> list[Any]:
    """What is left of buffers after ``sent`` bytes of them went out."""
    for number, part in enumerate(run):
        if sent < len(part):
            return [memoryview(part)[sent:], *run[number + 1 :]] if sent else run[number:]
        sent -= len(part)
    return []
