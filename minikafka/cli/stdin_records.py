"""Lines of stdin, and the records they become."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

import trio

from minikafka_client import ProducerRecord

from .failure import CommandFailed

LINE_SIZE_BYTES_MAX: Final = 64 * 1024 * 1024
_CHUNK_SIZE_BYTES: Final = 256 * 1024
_SHOWN_BYTES: Final = 60


class StdinLines:
    """Reads stdin in blocks of whole lines; other tasks run while it waits for more."""

    def __init__(self) -> None:
        self.bytes_read = 0
        self.size_bytes: int | None = None  # unknown for a pipe or a terminal
        self._partial: list[bytes] = []
        self._partial_size_bytes = 0
        self._is_ended = False
        self._must_wait = False
        self._descriptor: int | None = None
        # In tests, stdin has no descriptor.
        with suppress(OSError, ValueError, AttributeError):
            self._descriptor = sys.stdin.fileno()
        if self._descriptor is None:
            return
        status = os.fstat(self._descriptor)
        # epoll refuses regular files, which are always readable.
        self._must_wait = not stat.S_ISREG(status.st_mode)
        if stat.S_ISREG(status.st_mode):
            self.size_bytes = status.st_size

    async def read_lines(self) -> list[bytes] | None:
        """The next lines, at least one, without line ends; None at the end of stdin.

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
            # If the shell has closed it (`<&-`), sys.stdin is None.
            return sys.stdin.buffer.read(_CHUNK_SIZE_BYTES) if sys.stdin else b""
        if self._must_wait:
            try:
                await trio.lowlevel.wait_readable(self._descriptor)
            except PermissionError:
                self._must_wait = False  # a device that is always readable, such as /dev/null
        else:
            await trio.lowlevel.checkpoint()
        return os.read(self._descriptor, _CHUNK_SIZE_BYTES)


class LineParser:
    """Turns lines into records.

    Args:
        key_separator: the text between key and value; None for records without a key.
        null_text: a value that equals this becomes null.
        headers: added to every record.
        partition: of every record; None lets the partitioner choose.
    """

    def __init__(
        self,
        *,
        key_separator: bytes | None = None,
        null_text: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
    ) -> None:
        self._key_separator = key_separator
        self._null_text = null_text
        self._headers = tuple(headers)
        self._partition = partition
        self._line_number = 0

    def records(self, lines: Iterable[bytes]) -> list[ProducerRecord]:
        """One record for each line.

        Raises:
            CommandFailed: a line has no key separator; the message gives its number.
        """
        records: list[ProducerRecord] = []
        separator, null_text = self._key_separator, self._null_text
        for line in lines:
            self._line_number += 1
            key: bytes | None = None
            value: bytes | None = line
            if separator is not None:
                key, found, value = line.partition(separator)
                if not found:
                    raise CommandFailed(
                        f"line {self._line_number} has no key separator "
                        f"{separator.decode(errors='replace')!r}: "
                        f"{line[:_SHOWN_BYTES].decode(errors='replace')!r}; "
                        f"this line and those after it were not sent"
                    )
            if value == null_text:
                value = None
            records.append(ProducerRecord(value, key, self._headers, None, self._partition))
        return records
