"""Prints the records of a consumer to stdout, and commits the ones that are written."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Final, Protocol

import trio

from minikafka_client import ConsumerRecord, KafkaError, TopicPartition

from .output import cannot_write, note
from .record_filter import RecordFilter
from .record_format import RecordFormat

_RECORDS_PER_WRITE_MAX: Final = 1_000
_COMMIT_INTERVAL_S: Final = 1.0
_ABANDON_PATIENCE_S: Final = 0.5


class NothingLeftError(Exception):
    """A source has given everything that it will ever have."""


class Source(Protocol):
    """A consumer, as far as a printer needs one."""

    async def poll(
        self, max_records: int = 500, timeout_ms: float | None = None
    ) -> list[ConsumerRecord]: ...

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None: ...


class RecordPrinter:
    """One run of ``consume``.

    Args:
        render: a record's bytes.
        max_records: stop after this many; None for no limit.
        timeout_s: stop when no record has arrived for this long; None for no limit.
        commits: whether the consumer is in a group.
        is_shown: which records to print; the others count as read and not as printed.

    Attributes:
        consumer: to be set before `run`.
        printed: how many records were written to stdout.
        reader_is_gone: whether the reader of our stdout has left.
    """

    consumer: Source

    def __init__(
        self,
        render: RecordFormat,
        *,
        max_records: int | None,
        timeout_s: float | None,
        commits: bool,
        is_shown: RecordFilter | None = None,
    ) -> None:
        self.printed = 0
        self.reader_is_gone = False
        self._render = render
        self._max_records = max_records
        self._timeout_s = inf if timeout_s is None else timeout_s
        self._commits = commits
        self._is_shown = is_shown
        self._stdout = _Stdout()
        self._written: dict[TopicPartition, int] = {}
        self._next_commit = 0.0

    async def run(self) -> None:
        """Print until a limit is reached or the reader leaves.

        Raises:
            KafkaError: the consumer failed.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_reader, nursery.cancel_scope)
            try:
                await self._print_records()
            except BrokenPipeError:
                self.reader_is_gone = True
            nursery.cancel_scope.cancel()

    async def _watch_reader(self, running: trio.CancelScope) -> None:
        await self._stdout.reader_left()
        self.reader_is_gone = True
        running.cancel()

    async def _print_records(self) -> None:
        idle_from = trio.current_time()
        while self._max_records is None or self.printed < self._max_records:
            most = _RECORDS_PER_WRITE_MAX
            if self._max_records is not None:
                most = min(most, self._max_records - self.printed)
            try:
                records = await self.consumer.poll(most, self._patience_ms(idle_from))
            except NothingLeftError:
                return
            if records:
                await self._print(records)
                idle_from = trio.current_time()
                continue
            await self.commit()
            if trio.current_time() - idle_from >= self._timeout_s:
                return

    def _patience_ms(self, idle_from: float) -> float | None:
        """How long the next poll may wait: not for long, while written records need a commit."""
        patience_s = max(0.0, idle_from + self._timeout_s - trio.current_time())
        if self._written:
            patience_s = min(patience_s, _COMMIT_INTERVAL_S)
        return None if patience_s == inf else patience_s * 1000

    async def _print(self, records: Sequence[ConsumerRecord]) -> None:
        shown = records if self._is_shown is None else list(filter(self._is_shown, records))
        await self._stdout.write(b"".join(map(self._render, shown)))
        self.printed += len(shown)
        if self._commits:
            for record in records:
                self._written[TopicPartition(record.topic, record.partition)] = record.offset + 1
            if trio.current_time() >= self._next_commit:
                await self.commit()

    async def commit(self) -> None:
        """Commit what was written since the last commit; a failure is only worth a note.

        Records whose commit failed are printed again by the next member: at least once.
        """
        written = dict(self._written)
        if not written:
            return
        try:
            await self.consumer.commit(written)
        except KafkaError as error:
            note(f"the offsets of the last records were not committed: {error}")
        # Not reached when cancelled: then the offsets are committed again at the end.
        for partition, offset in written.items():
            if self._written.get(partition) == offset:
                del self._written[partition]
        self._next_commit = trio.current_time() + _COMMIT_INTERVAL_S

    async def commit_before_rebalance(self, partitions: Sequence[TopicPartition]) -> None:
        """Commit while we still own the partitions."""
        del partitions
        await self.commit()


class _Write:
    """One write, made in a thread of its own."""

    def __init__(self, descriptor: int, content: bytes) -> None:
        self.is_complete = False
        self.is_over = trio.Event()
        self._descriptor = descriptor
        self._content = content
        self._token = trio.lowlevel.current_trio_token()

    def run(self) -> None:
        try:
            rest = memoryview(self._content)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            self.is_complete = True
        finally:
            # trio has finished if the write was abandoned because the reader did not read.
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self.is_over.set)


class _Stdout:
    """Writes to stdout without the interpreter's buffer.

    A slow reader does not hold up heartbeats, and a reader that has left is noticed.
    """

    def __init__(self) -> None:
        self._descriptor: int | None = None
        # In tests, stdout has no descriptor.
        with suppress(OSError, ValueError, AttributeError):
            self._descriptor = sys.stdout.fileno()

    async def write(self, content: bytes) -> None:
        """Write everything; if cancelled, a part of it may have been written, but not all.

        Raises:
            BrokenPipeError: the reader has left.
            CommandFailed: stdout refuses the write (a full disk).
        """
        if self._descriptor is None:
            await trio.lowlevel.checkpoint()
            # If the shell has closed it (`>&-`), sys.stdout is None.
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
            # Unless the reader does not read, the write ends shortly and counts as written. The
            # caller is cancelled at its next checkpoint instead.
            with trio.move_on_after(_ABANDON_PATIENCE_S, shield=True):
                await write.is_over.wait()
            if not write.is_complete:
                raise

    async def reader_left(self) -> None:
        """Return when the reader of the pipe has left; never, if stdout is not a pipe."""
        if self._descriptor is not None and stat.S_ISFIFO(os.fstat(self._descriptor).st_mode):
            # The write end of a pipe only polls as readable on the error that it has no reader.
            with suppress(OSError):
                await trio.lowlevel.wait_readable(self._descriptor)
                return
        await trio.sleep_forever()
