"""Frames over one connection, for either side.

Whoever has something to say puts it here; it leaves at once when the connection takes it, and is
sent by the link's writer otherwise. So a caller that is cancelled never leaves half a frame behind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import trio

from ...storage.disk import FileSlice
from ..frame_buffer import larger_buffer
from ..transport import SENDFILE_SIZE_BYTES_MIN, FilePayload
from .frames import (
    FRAME_SIZE_BYTES_MAX,
    HEAD,
    HELLO_SIZE_BYTES_MAX,
    Frame,
    FrameKind,
    check_head,
    decode_frame,
    encode_frame,
)
from .wire import Wire, WireLostError

QUEUE_SIZE_BYTES_MAX = 32 * 1024 * 1024
"""Bytes that may wait to be sent over one connection; then requests wait, and messages are lost."""


class RpcError(Exception):
    """A request to another node has no answer."""


class RpcLostError(RpcError):
    """There is no connection, or it ended before the answer came: nobody knows what happened."""


class RpcUnreachableError(RpcLostError):
    """There is no connection, and none could be made: the request was not sent."""


class RpcTimeoutError(RpcError):
    """No answer came in time: nobody knows what happened."""


class RpcBusyError(RpcError):
    """Too many requests wait for answers from that node already."""


class RpcRemoteError(RpcError):
    """The other node says that it cannot; ``kind`` is a short name to tell cases apart."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


class RpcFailure(Exception):
    """Raised by a handler: the asking side gets an `RpcRemoteError` with the same words."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


class Link:
    """One connection.

    Attributes:
        is_closed: nothing more can be put.
        frame_size_bytes_max: the largest frame that is received; small until the hello was judged.
        is_inside_frame: a frame has begun and is not complete.
    """

    __slots__ = (
        "_chunk",
        "_position",
        "_queue",
        "_queued_bytes",
        "_room",
        "_wake",
        "_wire",
        "frame_size_bytes_max",
        "is_closed",
        "is_inside_frame",
    )

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._queue: deque[Any] = deque()
        self._queued_bytes = 0
        self._chunk = b""
        self._position = 0
        self._wake: trio.Event | None = None
        self._room: trio.Event | None = None
        self.is_closed = False
        self.is_inside_frame = False
        self.frame_size_bytes_max = HELLO_SIZE_BYTES_MAX

    def trust(self) -> None:
        """Take large frames from now on: the other side said who it is."""
        self.frame_size_bytes_max = FRAME_SIZE_BYTES_MAX

    # --- sending -------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """True as long as not too much waits to be sent."""
        return self._queued_bytes <= QUEUE_SIZE_BYTES_MAX

    async def room(self) -> None:
        """Wait until more may be put; does not wait when it may.

        Raises:
            WireLostError: the connection ended.
        """
        while not self.has_room:
            if self._room is None:
                self._room = trio.Event()
            await self._room.wait()
        if self.is_closed:
            raise WireLostError("the connection was closed")

    def put(
        self, kind: FrameKind, number: int, name: str, fields: Any, attachments: Sequence[Any] = ()
    ) -> None:
        """Send a frame, now or as soon as the connection takes it.

        Raises:
            ValueError: it is too large.
            OSError: a slice of a file cannot be read.
            WireLostError: the connection ended.
        """
        parts = [_sendable(one) for one in attachments] if attachments else attachments
        beginning = encode_frame(kind, number, name, fields, parts)
        if self.is_closed:
            raise WireLostError("the connection was closed")
        queue = self._queue
        is_idle = not queue
        queue.append(beginning)
        for part in parts:
            if len(part):
                queue.append(part)
        if is_idle:
            try:
                self._wire.send_some(queue)
            except WireLostError:
                self.close()
                raise
            if not queue:
                return
        self._queued_bytes += len(beginning) + sum(map(len, parts))
        if self._wake is not None:
            self._wake.set()

    async def flush(self) -> None:
        """Send what is queued, while no writer runs.

        Raises:
            WireLostError: the connection ended.
        """
        if self._queue:
            await self._wire.send_all(self._queue)
        self._queued_bytes = 0

    async def run_writer(self) -> None:
        """Send what could not leave at once, until cancelled.

        Raises:
            WireLostError: the connection ended.
        """
        while True:
            if self._queue:
                await self._wire.send_all(self._queue)
            self._queued_bytes = 0
            if self._room is not None:
                self._room.set()
                self._room = None
            if not self._queue:
                self._wake = trio.Event()
                await self._wake.wait()
                self._wake = None

    # --- receiving -----------------------------------------------------------------------------

    async def receive(self) -> Frame | None:
        """The next frame; None when the other side closed the connection between two.

        Raises:
            RpcProtocolError: what comes is no frame.
            WireLostError: the connection ended.
        """
        while True:
            chunk, position = self._chunk, self._position
            present = len(chunk) - position
            if present >= HEAD.size:
                size, header_size = HEAD.unpack_from(chunk, position)
                check_head(size, header_size, self.frame_size_bytes_max)
                start, end = position + HEAD.size, position + 4 + size
                if end <= len(chunk):
                    self._position = end
                    return decode_frame(memoryview(chunk)[start:end], header_size)
                if present >= self._larger_than_chunks:
                    self._chunk, self._position = b"", 0
                    return await self._receive_large(
                        memoryview(chunk)[start:], size - 4, header_size
                    )
            self.is_inside_frame = present > 0
            more = await self._wire.receive()
            if not more:
                if present:
                    raise WireLostError("the connection ended inside a frame")
                return None
            self._chunk = chunk[position:] + more if present else more
            self._position = 0
            self.is_inside_frame = False

    _larger_than_chunks = 32 * 1024
    """What waits for the rest of a frame; with fewer bytes it waits for another chunk."""

    async def _receive_large(self, beginning: memoryview, size: int, header_size: int) -> Frame:
        self.is_inside_frame = True
        filled = len(beginning)
        buffer = larger_buffer(beginning, size)
        while filled < size:
            if filled == len(buffer):
                buffer = larger_buffer(buffer, size)
            with memoryview(buffer) as view:
                count = await self._wire.receive_into(view[filled:])
            if not count:
                raise WireLostError("the connection ended inside a frame")
            filled += count
        self.is_inside_frame = False
        return decode_frame(memoryview(buffer), header_size)

    def close(self) -> None:
        """Close at once."""
        if not self.is_closed:
            self.is_closed = True
            self._queue.clear()
            self._queued_bytes = 0
            if self._room is not None:
                self._room.set()
            self._wire.close()


def _sendable(attachment: Any) -> Any:
    """Small slices are read now: a disk that fails is an error then, and no lost connection."""
    if type(attachment) is FileSlice:
        attachment = FilePayload(attachment)
    if type(attachment) is FilePayload and len(attachment) < SENDFILE_SIZE_BYTES_MIN:
        return attachment.read()
    return attachment
