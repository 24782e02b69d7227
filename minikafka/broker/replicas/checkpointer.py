"""Checkpoints of all logs, written by one task at a time.

Callers at the same time share a round. A round that began before a caller's change does not cover
it, so that caller waits for the next.
"""

from __future__ import annotations

import trio

from ...storage.log_directory import LogDirectory
from ..system.workers import RunInThread, run_in_worker_thread


class Checkpointer:
    """Writes a data directory's checkpoint files in worker threads."""

    def __init__(
        self, directory: LogDirectory, run_in_thread: RunInThread = run_in_worker_thread
    ) -> None:
        self._directory = directory
        self._run_in_thread = run_in_thread
        self._lock = trio.Lock()
        self._wanted = 0
        self._written = 0

    async def write(self) -> None:
        """Return when the checkpoints hold what the logs know now (they are not synced).

        Raises:
            OSError: the disk failed; the old checkpoints are there.
        """
        self._wanted += 1
        mine = self._wanted
        async with self._lock:
            if self._written >= mine:
                return
            covered = self._wanted
            work = self._directory.prepare_checkpoint()
            with trio.CancelScope(shield=True):
                await self._run_in_thread(work.run)
            self._written = covered
            for _ in work.complete():
                await trio.lowlevel.checkpoint()  # after an election there may be thousands
