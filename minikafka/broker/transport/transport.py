"""Bytes in and out of one connection: the only place that touches a socket after it is connected.

`NodeStream` is a connection to another node, `Transport` one to a client.
`SocketTransport` is a plain TCP socket, over which file slices leave with sendfile and never become
Python objects; `TrioSocketTransport` is for sockets that only trio knows, as simulated networks
have them (`trio.socket.set_custom_socket_factory`).

Real sockets are plain non-blocking ones with trio's `wait_readable`/`wait_writable`: a write that
fits into the socket's buffer costs one system call and no trip through the scheduler.

To a peer on the same machine slices are copied, a megabyte at a time, through one buffer of the
thread. sendfile hands over single pages there, and TCP works for each of them: 40 MB take 30 ms of
processor time with it, and 18 with a copy that stays in the processor's cache.
"""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Sequence
from typing import Any, Protocol

import trio

from ...storage.disk import DiskFile, FileSlice

RECEIVE_SIZE_BYTES = 65_536
SENDFILE_SIZE_BYTES_MIN = 32_768
"""A smaller slice is read and sent with its neighbours: one system call instead of three."""

_READ_SIZE_BYTES_MAX = 256 * 1024
"""Bytes of slices in memory before what is there is sent: the client may be slow, or never read."""

_BUFFERS_PER_CALL_MAX = 512
_SENDFILE_SIZE_BYTES_MAX = 1 << 30
_COPIED_SIZE_BYTES_MIN = 16 * 1024
_COPIED_SIZE_BYTES_MAX = 1 << 20
_MSG_MORE = getattr(socket, "MSG_MORE", 0)


class _Thread(threading.local):
    """What all transports of a thread share.

    Nothing stays in the buffer between two calls: what a socket did not take is read again.
    """

    def __init__(self) -> None:
        self.buffer: memoryview | None = None

    def read(self, source: int, position: int, size_bytes: int) -> memoryview:
        """The next bytes of a file, as far as the buffer goes; empty at the end of the file.

        Raises:
            OSError: the disk failed.
        """
        buffer = self.buffer
        if buffer is None:
            buffer = self.buffer = memoryview(bytearray(_COPIED_SIZE_BYTES_MAX))
        count = os.preadv(source, [buffer[:size_bytes]], position)
        return buffer[:count]


_thread = _Thread()


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
        return self.size_bytes

    def read(self) -> bytes:
        """The bytes, for a transport that cannot sendfile.

        Raises:
            OSError: the disk failed, or the file was truncated meanwhile.
        """
        return FileSlice(self.file, self.position, self.size_bytes).read()


class ConnectionLostError(Exception):
    """The other side is gone (closed, reset, unreachable), or the connection was closed here."""


class Stream(Protocol):
    """One connection's bytes."""

    async def receive(self) -> bytes:
        """Wait for bytes; returns some, or ``b""`` at the end of the stream."""
        ...

    async def receive_into(self, view: memoryview) -> int:
        """Fill some of a buffer; returns how many bytes, 0 at the end of the stream."""
        ...

    async def send(self, parts: Sequence[Any]) -> None:
        """Send buffers and `FilePayload` objects in order.

        Raises:
            ConnectionLostError: the other side is gone, or a slice's file is shorter than promised.
        """
        ...

    def close(self) -> None:
        """Close at once; wakes the tasks that wait in the other methods."""
        ...


class NodeStream(Stream, Protocol):
    """A connection to another node."""

    def send_now(self, parts: list[Any]) -> list[Any]:
        """Send buffers and `FilePayload` objects without waiting; returns what is left of them.

        Not while `send` is running. A lost connection swallows everything; its reader finds out.
        """
        ...


class Transport(Stream, Protocol):
    """A client's connection."""

    peer: str
    """The client's address, as Kafka shows it: ``/127.0.0.1``."""

    @property
    def moves(self) -> int:
        """How many times the client took a part of an answer that did not fit into its buffers."""
        ...

    def send_now(self, parts: list[Any]) -> list[Any]:
        """Send buffers without waiting; otherwise as `NodeStream.send_now`."""
        ...

    def has_peer_left(self) -> bool:
        """True when the next `receive` would return the end of the stream; never waits."""
        ...


class SocketTransport:
    """`Transport` over a non-blocking stdlib TCP socket.

    Attributes:
        is_local: the other end is on this machine, so slices of files are copied.
    """

    __slots__ = ("_socket", "is_local", "moves", "peer")

    def __init__(self, plain: socket.socket, peer: str = "") -> None:
        self._socket = plain
        self.peer = peer
        self.moves = 0
        self.is_local = _ends_here(plain)

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
        run = parts
        while run:
            head = run[:_BUFFERS_PER_CALL_MAX]
            try:
                sent = self._socket.sendmsg(head)
            except BlockingIOError:
                return run
            except OSError:
                return []
            run = rest_of(run, sent)
        return run

    async def send(self, parts: Sequence[Any]) -> None:
        try:
            run: list[Any] = []
            read_bytes = 0
            for part in parts:
                if len(run) >= _BUFFERS_PER_CALL_MAX:
                    await self._send_buffers(run, _MSG_MORE)
                    run, read_bytes = [], 0
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
            run = rest_of(run, sent)

    async def _send_file(self, part: FilePayload) -> None:
        position, remaining = part.position, part.size_bytes
        at_once = _COPIED_SIZE_BYTES_MAX if self.is_local else _SENDFILE_SIZE_BYTES_MAX
        while remaining:
            wanted = min(remaining, at_once)
            try:
                sent = self._send_some(part.file, position, wanted)
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._descriptor())
                self.moves += 1
                continue
            if sent == 0:
                raise OSError(errno.EIO, f"{part.file.path} ended {remaining} bytes early")
            position += sent
            remaining -= sent
            if self.is_local:
                # What does not leave was read for nothing, so a slow client is offered less.
                at_once = min(_COPIED_SIZE_BYTES_MAX, max(_COPIED_SIZE_BYTES_MIN, 2 * sent))
                if sent < wanted:
                    await trio.lowlevel.wait_writable(self._descriptor())
                    self.moves += 1

    def _send_some(self, file: DiskFile, position: int, size_bytes: int) -> int:
        """Send as much of a file as the socket takes now; 0 where the file has ended.

        Raises:
            BlockingIOError: it takes nothing.
            OSError: the disk failed, or the connection is lost.
        """
        source = file.fileno()
        assert source is not None
        if not self.is_local:
            return os.sendfile(self._socket.fileno(), source, position, size_bytes)
        content = _thread.read(source, position, size_bytes)
        return self._socket.send(content) if content else 0

    def has_peer_left(self) -> bool:
        """Look at the socket without taking anything from it."""
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


class SocketNodeStream(SocketTransport):
    """`NodeStream` over a socket: file slices leave at once, too, as far as there is room."""

    __slots__ = ()

    def send_now(self, parts: list[Any]) -> list[Any]:
        number = size_bytes = 0
        for part in parts:
            if type(part) is FilePayload or number == _BUFFERS_PER_CALL_MAX:
                break
            number += 1
            size_bytes += len(part)
        try:
            if number:
                sent = self._socket.sendmsg(parts[:number] if number < len(parts) else parts)
                if sent < size_bytes:
                    return rest_of(parts, sent)
            while number < len(parts) and type(parts[number]) is FilePayload:
                if not self._send_file_now(parts[number]):
                    break
                number += 1
        except BlockingIOError:
            pass
        except OSError:
            return []
        return parts[number:]

    def _send_file_now(self, part: FilePayload) -> bool:
        """Send some of a file; returns whether that was all.

        A file that is shorter than promised is left to `send`, which says so.
        """
        if part.file.fileno() is None:
            return False
        at_once = _COPIED_SIZE_BYTES_MAX if self.is_local else _SENDFILE_SIZE_BYTES_MAX
        while part.size_bytes:
            wanted = min(part.size_bytes, at_once)
            sent = self._send_some(part.file, part.position, wanted)
            part.position += sent
            part.size_bytes -= sent
            if sent < wanted:
                return False
        return True


def _ends_here(plain: socket.socket) -> bool:
    """Whether both ends of a connection have the same address."""
    try:
        here, there = plain.getsockname(), plain.getpeername()
    except OSError:  # the other end is gone
        return False
    return bool(here[:1] == there[:1])


def rest_of(run: list[Any], sent: int) -> list[Any]:
    """What is left of buffers after ``sent`` bytes of them went out."""
    for number, part in enumerate(run):
        if sent < len(part):
            return [memoryview(part)[sent:], *run[number + 1 :]] if sent else run[number:]
        sent -= len(part)
    return []


class TrioSocketTransport:
    """`NodeStream` over a socket that only trio knows."""

    __slots__ = ("_socket",)

    def __init__(self, connected: trio.socket.SocketType) -> None:
        self._socket = connected

    async def receive(self) -> bytes:
        try:
            return await self._socket.recv(RECEIVE_SIZE_BYTES)
        except (OSError, trio.ClosedResourceError) as error:
            raise ConnectionLostError(str(error)) from None

    async def receive_into(self, view: memoryview) -> int:
        try:
            chunk = await self._socket.recv(len(view))
        except (OSError, trio.ClosedResourceError) as error:
            raise ConnectionLostError(str(error)) from None
        view[: len(chunk)] = chunk
        return len(chunk)

    def send_now(self, parts: list[Any]) -> list[Any]:
        """Leave everything to `send`."""
        return parts

    async def send(self, parts: Sequence[Any]) -> None:
        try:
            for part in parts:
                content = part.read() if type(part) is FilePayload else part
                with memoryview(content) as rest:
                    position = 0
                    while position < len(rest):
                        position += await self._socket.send(rest[position:])
        except (OSError, trio.ClosedResourceError) as error:
            raise ConnectionLostError(str(error)) from None

    def close(self) -> None:
        self._socket.close()
