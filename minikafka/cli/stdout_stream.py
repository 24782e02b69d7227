"""Bytes to stdout: a slow reader does not stop heartbeats, and one that has left is noticed."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from typing import Final

import trio

from .failure import cannot_write

_ABANDON_PATIENCE_S: Final = 0.5


class _Write:
    """One write, in a thread of its own; `is_complete` when everything has gone out."""

    def __init__(self, descriptor: int, content: bytes) -> None:
        self.is_complete = False
        self.is_over = trio.Event()
        self._descriptor = descriptor
        self._content = content
        self._token = trio.lowlevel.current_trio_token()

    def run(self) -> None:
        """Write; in the thread."""
        try:
            rest = memoryview(self._content)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            self.is_complete = True
        finally:
            # Nobody listens any more if the program was stopped while the reader did not read.
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self.is_over.set)


class StdoutStream:
    """Writes to stdout without the interpreter's buffer."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        # A test's stdout has no descriptor.
        with suppress(OSError, ValueError, AttributeError):
            self._descriptor = sys.stdout.fileno()

    async def write(self, content: bytes) -> None:
        """Write everything; cancelled, a part may have been written, but not all of it.

        Raises:
            BrokenPipeError: the reader is gone.
            CommandFailed: what stdout is redirected to cannot take it (a full disk).
        """
        if self._descriptor is None:
            await trio.lowlevel.checkpoint()
            # Closed from the start (`>&-`), stdout is None.
            if sys.stdout:
                sys.stdout.buffer.write(content)
            return
        write = _Write(self._descriptor, content)
        try:
            await trio.to_thread.run_sync(write.run, abandon_on_cancel=True)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise cannot_write(error) from None
        except trio.Cancelled:
            # Only a reader that does not read makes this last; else let the write be counted. The
            # cancellation comes again at the caller's next checkpoint.
            with trio.move_on_after(_ABANDON_PATIENCE_S, shield=True):
                await write.is_over.wait()
            if not write.is_complete:
                raise

    async def reader_left(self) -> None:
        """Return when the reader of the pipe is gone; never, if stdout is no pipe."""
        if self._descriptor is not None and stat.S_ISFIFO(os.fstat(self._descriptor).st_mode):
            # A pipe's writing end becomes "readable" only by the error that nobody reads it.
            with suppress(OSError):
                await trio.lowlevel.wait_readable(self._descriptor)
                return
        await trio.sleep_forever()
