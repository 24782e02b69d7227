"""Lines from stdin, so that Ctrl-C and the network get their turn while we wait for them."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from typing import Final

import trio

from .failure import CommandFailed

LINE_SIZE_BYTES_MAX: Final = 64 * 1024 * 1024
_CHUNK_SIZE_BYTES: Final = 256 * 1024


class StdinLines:
    """Reads stdin in blocks of whole lines.

    Attributes:
        bytes_read: how much was read so far.
        size_bytes: how much there is, None when nobody knows (a pipe, a terminal).
    """

    def __init__(self) -> None:
        self.bytes_read = 0
        self.size_bytes: int | None = None
        self._partial: list[bytes] = []
        self._partial_size_bytes = 0
        self._is_ended = False
        self._must_wait = False
        self._descriptor: int | None = None
        # A test's stdin has no descriptor.
        with suppress(OSError, ValueError, AttributeError):
            self._descriptor = sys.stdin.fileno()
        if self._descriptor is None:
            return
        status = os.fstat(self._descriptor)
        # Only what can make us wait can be waited for: epoll refuses files.
        self._must_wait = not stat.S_ISREG(status.st_mode)
        if stat.S_ISREG(status.st_mode):
            self.size_bytes = status.st_size

    async def read_lines(self) -> list[bytes] | None:
        """The lines that are there, at least one, without their ends; None after the last.

        Raises:
            CommandFailed: stdin cannot be read, or a line is longer than LINE_SIZE_BYTES_MAX.
        """
        while not self._is_ended:
            try:
                chunk = await self._read_chunk()
            except OSError as error:
                raise CommandFailed(f"cannot read stdin: {error.strerror or error}") from None
            if not chunk:
                self._is_ended = True
                break
            self.bytes_read += len(chunk)
            end = chunk.rfind(b"\n")
            if end < 0:
                self._keep(chunk)
                continue
            whole = b"".join((*self._partial, chunk[:end]))
            self._partial, self._partial_size_bytes = [], 0
            if end + 1 < len(chunk):
                self._keep(chunk[end + 1 :])
            return whole.split(b"\n")
        if self._partial:
            last = b"".join(self._partial)
            self._partial = []
            return [last]
        return None

    def _keep(self, piece: bytes) -> None:
        self._partial.append(piece)
        self._partial_size_bytes += len(piece)
        if self._partial_size_bytes > LINE_SIZE_BYTES_MAX:
            raise CommandFailed(
                f"a line of stdin is longer than {LINE_SIZE_BYTES_MAX} bytes; "
                f"each line becomes one record"
            )

    async def _read_chunk(self) -> bytes:
        if self._descriptor is None:
            await trio.lowlevel.checkpoint()
            # Closed from the start (`<&-`), stdin is None.
            return sys.stdin.buffer.read(_CHUNK_SIZE_BYTES) if sys.stdin else b""
        if self._must_wait:
            try:
                await trio.lowlevel.wait_readable(self._descriptor)
            except PermissionError:
                self._must_wait = False  # a device that is always ready, such as /dev/null
        else:
            await trio.lowlevel.checkpoint()
        return os.read(self._descriptor, _CHUNK_SIZE_BYTES)
