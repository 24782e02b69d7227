"""Group commit: many acknowledgements wait for one fsync.

The first caller that needs a log durable syncs it in a worker thread. Callers that arrive meanwhile
wait for that round and, if it did not cover their offset, one of them starts the next. So under
load a round covers everything that arrived during the previous one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import trio

from ...storage.errors import StorageError
from ...storage.log import Log
from ..system.workers import RunInThread, run_in_worker_thread
from .partition import Partition

logger = logging.getLogger(__name__)

_FLUSHES_AT_ONCE = 16


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
        log.complete_flush(work)

    async def flush_all(self, logs: Iterable[Log], seconds: float) -> None:
        """Sync logs before they are closed, several at once, for at most some seconds."""
        left = iter([log for log in logs if log.is_offline is None])

        async def flush_some() -> None:
            for log in left:
                try:
                    await self.sync(log, log.log_end_offset, is_last=True)
                except StorageError as error:
                    logger.error("%s", error)

        with trio.move_on_after(seconds):
            async with trio.open_nursery() as nursery:
                for _ in range(_FLUSHES_AT_ONCE):
                    nursery.start_soon(flush_some)
