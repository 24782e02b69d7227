"""Cuts a stream of bytes into frames, without knowing where the bytes come from.

The owner receives into `FrameBuffer.space()` and says how many bytes came. Small frames are copied
out of one reused buffer, several of them per system call; a frame that does not fit there gets
memory of its own size, is received into it directly, and is handed on without a copy.
"""

from __future__ import annotations

from struct import Struct

from minikafka_client.errors import UnreadableResponseError

_SIZE = Struct(">i")
RECEIVE_SIZE_BYTES = 64 * 1024


class FrameBuffer:
    """Where a connection's bytes go; a frame above ``frame_size_bytes_max`` gets no memory."""

    def __init__(self, frame_size_bytes_max: int) -> None:
        self._size_max = frame_size_bytes_max
        self._small = bytearray(RECEIVE_SIZE_BYTES)
        self._small_view = memoryview(self._small)
        self._end = 0  # received and not yet cut: _small[:_end]
        self._large: memoryview | None = None
        self._large_end = 0

    def space(self) -> memoryview:
        """Where the next bytes belong; never empty."""
        if self._large is not None:
            return self._large[self._large_end :]
        return self._small_view[self._end :]

    def received(self, size_bytes: int) -> list[memoryview]:
        """Accept bytes that were received into `space()`; returns the complete frames.

        Frames come without their size prefix.

        Raises:
            UnreadableResponseError: a frame announces a negative size or one above the limit.
        """
        if self._large is not None:
            self._large_end += size_bytes
            if self._large_end < len(self._large):
                return []
            frames = [self._large]
            self._large = None
            return frames
        return self._cut(self._end + size_bytes)

    def _cut(self, end: int) -> list[memoryview]:
        frames: list[memoryview] = []
        small = self._small_view
        start = 0
        while end - start >= 4:
            (size,) = _SIZE.unpack_from(small, start)
            if not 0 <= size <= self._size_max:
                raise UnreadableResponseError(
                    f"a response announces {size} bytes, but response_size_bytes_max is "
                    f"{self._size_max}; raise it if the peer really is a Kafka broker"
                )
            stop = start + 4 + size
            if stop > end:
                if size + 4 > RECEIVE_SIZE_BYTES:
                    self._begin_large(small[start + 4 : end], size)
                    start = end
                break
            frames.append(memoryview(bytes(small[start + 4 : stop])))
            start = stop
        rest = end - start
        if start and rest:
            # Through bytes: source and destination may overlap.
            small[:rest] = bytes(small[start:end])
        self._end = rest
        return frames

    def _begin_large(self, head: memoryview, size_bytes: int) -> None:
        self._large = memoryview(bytearray(size_bytes))
        self._large[: len(head)] = head
        self._large_end = len(head)
