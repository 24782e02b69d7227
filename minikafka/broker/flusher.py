"""Group commit: many acknowledgements wait for one fsync.

The first who needs a log durable syncs it in a worker thread; whoever comes meanwhile waits for
that round and, when it did not cover their offset, one of them leads the next. So under load a
round covers everything that arrived during the one before.
"""

from __future__ import annotations

import trio

from ..storage.log import Log
from .workers import RunInThread, run_in_worker_thread


class Flusher:
    """Syncs logs in worker threads, one round at a time for each log."""

    def __init__(self, run_in_thread: RunInThread = run_in_worker_thread) -> None:
        self._run_in_thread = run_in_thread
        self._rounds: dict[Log, trio.Event] = {}

    async def make_durable(self, log: Log, offset: int) -> None:
        """Return when everything below ``offset`` is on the disk.

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
                await self._sync(log)
            finally:
                del self._rounds[log]
                running.set()

    async def _sync(self, log: Log) -> None:
        work = log.prepare_flush()
        if work is None:
            return
        # A sync that was begun is always completed: its outcome decides about the whole log.
        with trio.CancelScope(shield=True):
            try:
                await self._run_in_thread(work.run)
            except OSError as error:
                raise log.fail(error) from error
            log.complete_flush(work)
