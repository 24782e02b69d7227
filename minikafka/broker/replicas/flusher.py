"""Group commit: many acknowledgements wait for one fsync.

The first caller that needs a log durable syncs it in a worker thread. Callers that arrive meanwhile
wait for that round and, if it did not cover their offset, one of them starts the next. So under
load a round covers everything that arrived during the previous one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import trio

from ...storage.disk import Disk
from ...storage.errors import StorageError
from ...storage.log import FlushWork, Log
from ..system.workers import RunInThread, run_in_worker_thread
from .partition import Partition

logger = logging.getLogger(__name__)

_FLUSHES_AT_ONCE = 16
_FILES_PER_TURN = 16
"""Files that one worker thread syncs in a row before a stop: each turn costs as much as a sync."""
_WRITE_BACK_LOGS_MIN = 64
"""Logs to sync from which on it is faster to let the system write back everything first."""
_WRITE_BACK_SHARE = 0.5
"""Of the time for the last flush: other programs may have written a lot to the same disk."""


class Flusher:
    """Syncs logs in worker threads, one round at a time for each log."""

    def __init__(self, run_in_thread: RunInThread = run_in_worker_thread) -> None:
        self._run_in_thread = run_in_thread
        self._rounds: dict[Log, trio.Event] = {}

    async def make_durable(self, partition: Partition, offset: int) -> None:
        """Sync everything below ``offset``; only then may consumers see it, if the topic says so.

        Raises:
            StorageError: the disk failed; the log is offline now.
        """
        await self.sync(partition.log, offset)
        partition.synced()

    async def sync(self, log: Log, offset: int, *, is_last: bool = False) -> None:
        """Return when everything below ``offset`` is on the disk.

        A sync that was begun is always completed, because its outcome decides about the whole log,
        unless it is the last one before the log is closed.

        Raises:
            StorageError: the disk failed; the log is offline now.
        """
        while log.recovery_point < offset:
            if log.is_offline is not None:
                raise log.is_offline
            running = self._rounds.get(log)
            if running is not None:
                await running.wait()
                continue
            running = self._rounds[log] = trio.Event()
            try:
                with trio.CancelScope(shield=not is_last):
                    await self._sync(log, is_last)
            finally:
                del self._rounds[log]
                running.set()

    async def _sync(self, log: Log, is_last: bool) -> None:
        work = log.prepare_flush()
        if work is None:
            return
        try:
            await self._run_in_thread(work.run, abandon_on_cancel=is_last)
        except OSError as error:
            raise log.fail(error) from error
        except trio.Cancelled:
            log.drop_flush(work)
            raise
        log.complete_flush(work)

    async def flush_all(self, disk: Disk, logs: Iterable[Log], seconds: float) -> None:
        """Sync the logs of a disk before they are closed, for at most some seconds."""
        unsynced = [
            log
            for log in logs
            if log.is_offline is None and log.recovery_point < log.log_end_offset
        ]
        left = iter(unsynced)

        async def flush_some() -> None:
            while turn := self._next_turn(left):
                await self._sync_turn(turn)

        with trio.move_on_after(seconds):
            if len(unsynced) >= _WRITE_BACK_LOGS_MIN:
                with trio.move_on_after(seconds * _WRITE_BACK_SHARE):
                    await self._write_back(disk, unsynced[0].directory)
            async with trio.open_nursery() as nursery:
                for _ in range(_FLUSHES_AT_ONCE):
                    nursery.start_soon(flush_some)

    async def _write_back(self, disk: Disk, path: str) -> None:
        try:
            await self._run_in_thread(partial(disk.write_back, path), abandon_on_cancel=True)
        except OSError as error:
            logger.warning("%s", error)  # the logs are synced one by one, and say what it means

    def _next_turn(self, logs: Iterator[Log]) -> list[Log]:
        """Logs whose next flush has about as many files as one worker thread is given."""
        turn: list[Log] = []
        files = 0
        for log in logs:
            turn.append(log)
            files += log.unsynced_count
            if files >= _FILES_PER_TURN:
                break
        return turn

    async def _sync_turn(self, logs: list[Log]) -> None:
        """Sync several logs in one worker thread; each fails on its own."""
        works: list[tuple[Log, FlushWork]] = []
        for log in logs:
            work = None if log in self._rounds else _last_work(log)
            if work is not None:
                works.append((log, work))
        running = trio.Event()
        self._rounds |= {log: running for log, _ in works}
        run: Callable[[], list[OSError | None]] = partial(_run_all, works)
        try:
            failures = await self._run_in_thread(run, abandon_on_cancel=True)
        except trio.Cancelled:
            for log, work in works:
                log.drop_flush(work)
            raise
        finally:
            for log, _ in works:
                del self._rounds[log]
            running.set()
        for (log, work), failure in zip(works, failures, strict=True):
            if failure is None:
                log.complete_flush(work)
            else:
                log.fail(failure)
        for log in logs:  # one round may not be enough, or another one was running
            if log.is_offline is None:
                await self._sync_last(log)

    async def _sync_last(self, log: Log) -> None:
        try:
            await self.sync(log, log.log_end_offset, is_last=True)
        except StorageError as error:
            logger.error("%s", error)


def _last_work(log: Log) -> FlushWork | None:
    try:
        return log.prepare_flush()
    except StorageError as error:
        logger.error("%s", error)
        return None


def _run_all(works: list[tuple[Log, FlushWork]]) -> list[OSError | None]:
    """Run all of them in this thread; returns how each failed.

    They have all been prepared, so one sync of the directory that they have in common is enough.
    """
    failures: list[OSError | None] = []
    synced: set[str] = set()
    for _, work in works:
        try:
            work.run(synced)
            failures.append(None)
        except OSError as error:
            failures.append(error)
    return failures
