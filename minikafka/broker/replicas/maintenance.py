"""Background work: retention, compaction, syncs, checkpoints, removals, recovery.

What changes a log's state runs on the event loop, a few logs at a time between checkpoints; what
only works on files (fsync, writing compacted segments, removing directories) runs in a worker
thread.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import trio

from ...storage.errors import LogError
from ...storage.log_directory import LogDirectory
from ...storage.scan import DamagedSegment
from ..settings.effective import EffectiveSettings
from ..settings.node import Node
from ..system.clock import Clock
from ..system.workers import RunInThread
from .checkpointer import Checkpointer
from .flusher import Flusher
from .index import PartitionKey
from .manager import ReplicaManager
from .partition import Partition

if TYPE_CHECKING:
    from ...storage.compaction import CompactionPlan

logger = logging.getLogger(__name__)

_LOGS_PER_CHECKPOINT = 16
_REMOVAL_INTERVAL_SECONDS = 5.0
_REPAIR_INTERVAL_SECONDS = 2.0
_REOPEN_FREE_BYTES_MIN = 8 * 1024 * 1024


class Maintenance:
    """Looks after the logs of a broker."""

    def __init__(
        self,
        node: Node,
        settings: EffectiveSettings,
        directory: LogDirectory,
        replicas: ReplicaManager,
        *,
        flusher: Flusher,
        checkpointer: Checkpointer,
        clock: Clock,
        run_in_thread: RunInThread,
    ) -> None:
        self._node = node
        self._settings = settings
        self._directory = directory
        self._replicas = replicas
        self._partitions = replicas.index.partitions
        self._flusher = flusher
        self._checkpointer = checkpointer
        self._clock = clock
        self._run_in_thread = run_in_thread
        self._compacting = trio.Lock()

    async def clean_now(self) -> None:
        """Apply retention and compact, without waiting until that is due."""
        await self._apply_retention()
        await self._compact()

    async def run(self) -> None:
        """Run all background work until cancelled."""
        config = self._settings.config
        periodic = [
            (config.log_retention_check_interval_ms / 1000, self._apply_retention),
            (config.log_flush_scheduler_interval_ms / 1000, self._flush_due),
            (config.log_flush_offset_checkpoint_interval_ms / 1000, self._checkpointer.write),
            (_REMOVAL_INTERVAL_SECONDS, self._remove_deleted),
            (_REPAIR_INTERVAL_SECONDS, self.repair_damaged),
            (config.minikafka_log_reopen_interval_ms / 1000, self.reopen_offline),
        ]
        async with trio.open_nursery() as nursery:
            for seconds, work in periodic:
                nursery.start_soon(_every, seconds, work)
            if self._node.is_clustered:
                nursery.start_soon(self._checkpoint_high_watermarks)
            if config.log_cleaner_enable:
                nursery.start_soon(self._clean)

    async def _each_partition(self, work: Callable[[Partition], None]) -> None:
        for number, partition in enumerate(list(self._partitions.values())):
            if partition.log.is_offline is None:
                try:
                    work(partition)
                except LogError as error:
                    logger.error("%r: %s", partition, error)
            if number % _LOGS_PER_CHECKPOINT == 0:
                await trio.lowlevel.checkpoint()

    # --- retention and removal -----------------------------------------------------------------

    async def _apply_retention(self) -> None:
        now_ms = self._clock.wall_ms()

        def work(partition: Partition) -> None:
            partition.log.apply_retention(now_ms)
            partition.log.delete_pending_files(now_ms)

        await self._each_partition(work)

    async def _remove_deleted(self) -> None:
        await self._run_in_thread(self._directory.delete_pending, abandon_on_cancel=True)

    # --- syncs and checkpoints -----------------------------------------------------------------

    async def _flush_due(self) -> None:
        now_ms = self._clock.wall_ms()
        due: list[Partition] = []

        def work(partition: Partition) -> None:
            if partition.log.flush_is_due(now_ms):
                due.append(partition)

        await self._each_partition(work)
        for partition in due:
            try:
                await self._flusher.make_durable(partition, partition.log.log_end_offset)
            except LogError as error:
                logger.error("%r: %s", partition, error)

    async def _checkpoint_high_watermarks(self) -> None:
        """Write checkpoints when a high watermark has moved; a start reads them."""
        before = 0

        async def work() -> None:
            nonlocal before
            now = sum(partition.log.high_watermark for partition in self._partitions.values())
            if now != before:
                before = now
                await self._checkpointer.write()

        interval_ms = self._settings.config.replica_high_watermark_checkpoint_interval_ms
        await _every(interval_ms / 1000, work)

    # --- compaction ----------------------------------------------------------------------------

    async def _clean(self) -> None:
        """Compact, rest for log.cleaner.backoff.ms, and so on; a new value counts for this rest."""
        while True:
            begin = trio.current_time()
            is_over = False
            while not is_over:
                end = begin + self._settings.integer("log.cleaner.backoff.ms") / 1000
                with trio.move_on_at(end) as rest:
                    await self._replicas.settings_changed.park()
                is_over = rest.cancelled_caught
            await _attempt(self._compact)

    async def _compact(self) -> None:
        """Compact every log that is worth it, one after the other."""
        async with self._compacting:
            await self._compact_each()

    async def _compact_each(self) -> None:
        is_changed = False
        for number, partition in enumerate(list(self._partitions.values())):
            if number % _LOGS_PER_CHECKPOINT == 0:
                await trio.lowlevel.checkpoint()
            log = partition.log
            if not log.config.cleanup_compact or log.is_offline is not None:
                continue
            try:
                plan = log.plan_compaction(self._clock.wall_ms())
                if plan is not None:
                    await self._carry_out(plan)
                    is_changed |= log.complete_compaction(plan, self._clock.wall_ms())
            except (LogError, OSError) as error:
                if isinstance(error, DamagedSegment) and log.is_offline is None:
                    log.fail(error)  # so that it is repaired
                logger.error("compaction of %r failed: %s", partition, error)
        if is_changed:
            # Otherwise a restart would take the gaps for damage if the topic's policy has changed.
            await self._checkpointer.write()

    async def _carry_out(self, plan: CompactionPlan) -> None:
        """Write compacted segments in a worker thread; a stop does not wait for it."""
        try:
            await self._run_in_thread(plan.run, abandon_on_cancel=True)
        except trio.Cancelled:
            plan.cancel()
            raise

    # --- recovery ------------------------------------------------------------------------------

    async def repair_damaged(self) -> None:
        """Recover partitions in which damaged bytes were found: these are set aside.

        The disk works, so there is nothing to wait for.
        """
        await self._reopen(
            [
                key
                for key, log in self._directory.logs.items()
                if isinstance(log.is_offline, DamagedSegment)
            ]
        )

    async def reopen_offline(self) -> None:
        """Try to recover partitions whose disk failed; a full disk may have room again.

        Recovery checks what is on the disk as it does at a start, so only intact records come back;
        a partition that fails again stays offline. Logs that could not be made are made now.
        """
        directory = self._directory
        if directory.statistics().free_bytes < _REOPEN_FREE_BYTES_MIN:
            return
        await self._reopen(
            [
                key
                for key in directory.topic_ids
                if key in directory.offline
                or (key in directory.logs and directory.logs[key].is_offline is not None)
            ]
        )
        await self._replicas.open_missing()

    async def _reopen(self, offline: list[PartitionKey]) -> None:
        for topic, number in offline:
            try:
                await self._replicas.reopen(topic, number)
            except (LogError, OSError) as error:
                logger.error("%s-%d stays offline: %s", topic, number, error)
            else:
                logger.warning("%s-%d is back online", topic, number)


async def _every(seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    while True:
        await trio.sleep(seconds)
        await _attempt(work)


async def _attempt(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except (OSError, LogError) as error:
        logger.error("background work failed: %s", error)
