"""Frames over one connection, for either side.

`Link.put` sends at once what the connection takes; the link's writer sends the rest. So a caller
that is cancelled never leaves half a frame behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio

from ...storage.disk import FileSlice
from ..transport.frame_buffer import larger_buffer
from ..transport.transport import (
    SENDFILE_SIZE_BYTES_MIN,
    ConnectionLostError,
    FilePayload,
    NodeStream,
)
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

QUEUE_SIZE_BYTES_MAX = 32 * 1024 * 1024
"""Bytes that may wait to be sent over one connection; then requests wait, and messages are lost."""


class Link:
    """One connection.

    Attributes:
        is_closed: nothing more can be put.
        frame_size_bytes_max: the largest frame that is received; small until the hello was judged.
        is_inside_frame: a frame has begun and is not complete.
    """

    __slots__ = (
        "_chunk",
        "_is_sending",
        "_position",
        "_queue",
        "_queued_bytes",
        "_room",
        "_stream",
        "_wake",
        "frame_size_bytes_max",
        "is_closed",
        "is_inside_frame",
    )

    def __init__(self, stream: NodeStream) -> None:
        self._stream = stream
        self._queue: list[Any] = []
        self._is_sending = False
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
        return self._queued_bytes <= QUEUE_SIZE_BYTES_MAX

    async def room(self) -> None:
        """Wait until more may be put; does not wait when it may.

        Raises:
            ConnectionLostError: the connection ended.
        """
        while not self.has_room:
            if self._room is None:
                self._room = trio.Event()
            await self._room.wait()
        if self.is_closed:
            raise ConnectionLostError("the connection was closed")

    def put(
        self, kind: FrameKind, number: int, name: str, fields: Any, attachments: Sequence[Any] = ()
    ) -> None:
        """Send a frame, now or as soon as the connection takes it.

        Raises:
            ValueError: it is too large.
            OSError: a slice of a file cannot be read.
            ConnectionLostError: the connection ended.
        """
        parts = [_sendable(one) for one in attachments] if attachments else attachments
        frame = [encode_frame(kind, number, name, fields, parts)]
        if self.is_closed:
            raise ConnectionLostError("the connection was closed")
        if parts:
            frame += [part for part in parts if len(part)]
        if not (self._queue or self._is_sending):
            frame = self._stream.send_now(frame)
            if not frame:
                return
        self._queue += frame
        self._queued_bytes += sum(map(len, frame))
        if self._wake is not None:
            self._wake.set()

    async def flush(self) -> None:
        """Send what is queued, while no writer runs.

        Raises:
            ConnectionLostError: the connection ended.
        """
        while self._queue:
            parts, self._queue = self._queue, []
            size_bytes = self._queued_bytes
            self._is_sending = True
            await self._stream.send(parts)
            self._is_sending = False
            if not self.is_closed:
                self._queued_bytes -= size_bytes
            if self._room is not None and self.has_room:
                self._room.set()
                self._room = None

    async def run_writer(self) -> None:
        """Send what did not leave at once, until cancelled.

        Raises:
            ConnectionLostError: the connection ended.
        """
        while True:
            await self.flush()
            self._wake = trio.Event()
            await self._wake.wait()
            self._wake = None

    # --- receiving -----------------------------------------------------------------------------

    async def receive(self) -> Frame | None:
        """The next frame; None when the other side closed the connection between two.

        Raises:
            RpcProtocolError: what comes is no frame.
            ConnectionLostError: the connection ended.
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
            more = await self._stream.receive()
            if not more:
                if present:
                    raise ConnectionLostError("the connection ended inside a frame")
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
                count = await self._stream.receive_into(view[filled:])
            if not count:
                raise ConnectionLostError("the connection ended inside a frame")
            filled += count
        self.is_inside_frame = False
        return decode_frame(memoryview(buffer), header_size)

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._queue.clear()
            self._queued_bytes = 0
            if self._room is not None:
                self._room.set()
            self._stream.close()


def _sendable(attachment: Any) -> Any:
    """Small slices are read now: a disk that fails is an error then, and no lost connection."""
    if type(attachment) is FileSlice:
        attachment = FilePayload(attachment)
    if type(attachment) is FilePayload and len(attachment) < SENDFILE_SIZE_BYTES_MIN:
        return attachment.read()
    return attachment
