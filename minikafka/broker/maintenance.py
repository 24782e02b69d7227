"""Work that goes on in the background: retention, compaction, syncs, checkpoints, removals.

What touches a log's state runs on the event loop, a few logs at a time between checkpoints; what
only touches files (fsync, writing compacted segments, removing directories) runs in a worker
thread.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import trio

from ..storage.compaction import CompactionPlan
from ..storage.errors import LogError
from ..storage.scan import DamagedSegment
from .partition import Partition

if TYPE_CHECKING:
    from .broker import Broker

logger = logging.getLogger(__name__)

_LOGS_PER_CHECKPOINT = 16
_REMOVAL_INTERVAL_SECONDS = 5.0
_REPAIR_INTERVAL_SECONDS = 2.0
_REOPEN_FREE_BYTES_MIN = 8 * 1024 * 1024


async def run_maintenance(broker: Broker) -> None:
    """Run all background work until cancelled."""
    config = broker.config
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            _every, config.log_retention_check_interval_ms / 1000, _apply_retention, broker
        )
        nursery.start_soon(
            _every, config.log_flush_scheduler_interval_ms / 1000, _flush_due, broker
        )
        nursery.start_soon(
            _every, config.log_flush_offset_checkpoint_interval_ms / 1000, _checkpoint, broker
        )
        if broker.topology.is_clustered:
            nursery.start_soon(_checkpoint_high_watermarks, broker)
        nursery.start_soon(_every, _REMOVAL_INTERVAL_SECONDS, _remove_deleted, broker)
        nursery.start_soon(_every, _REPAIR_INTERVAL_SECONDS, repair_damaged, broker)
        nursery.start_soon(
            _every, config.minikafka_log_reopen_interval_ms / 1000, reopen_offline, broker
        )
        if config.log_cleaner_enable:
            nursery.start_soon(_clean, broker)


async def _every(seconds: float, work: Callable[[Broker], Awaitable[None]], broker: Broker) -> None:
    while True:
        await trio.sleep(seconds)
        await _try(work, broker)


async def _try(work: Callable[[Broker], Awaitable[None]], broker: Broker) -> None:
    try:
        await work(broker)
    except (OSError, LogError) as error:
        logger.error("background work failed: %s", error)


async def _clean(broker: Broker) -> None:
    """Compact, rest for log.cleaner.backoff.ms, and so on; a change of it counts for this rest."""
    while True:
        begin = trio.current_time()
        is_over = False
        while not is_over:
            end = begin + broker.effective_int("log.cleaner.backoff.ms") / 1000
            with trio.move_on_at(end) as rest:
                await broker.settings_changed.park()
            is_over = rest.cancelled_caught
        await _try(_compact, broker)


async def _each_partition(broker: Broker, work: Callable[[Partition], None]) -> None:
    for number, partition in enumerate(list(broker.partitions.values())):
        if partition.log.is_offline is None:
            try:
                work(partition)
            except LogError as error:
                logger.error("%s-%d: %s", partition.topic.name, partition.index, error)
        if number % _LOGS_PER_CHECKPOINT == 0:
            await trio.lowlevel.checkpoint()


async def _apply_retention(broker: Broker) -> None:
    now_ms = broker.clock.wall_ms()

    def work(partition: Partition) -> None:
        partition.log.apply_retention(now_ms)
        partition.log.delete_pending_files(now_ms)

    await _each_partition(broker, work)


async def _flush_due(broker: Broker) -> None:
    now_ms = broker.clock.wall_ms()
    due: list[Partition] = []

    def work(partition: Partition) -> None:
        if partition.log.flush_is_due(now_ms):
            due.append(partition)

    await _each_partition(broker, work)
    for partition in due:
        try:
            await broker.make_durable(partition, partition.log.log_end_offset)
        except LogError as error:
            logger.error("%s-%d: %s", partition.topic.name, partition.index, error)


async def _checkpoint(broker: Broker) -> None:
    await broker.checkpointer.write()


async def _checkpoint_high_watermarks(broker: Broker) -> None:
    """Write checkpoints when some high watermark moved: a broker that starts begins with it."""
    seconds = broker.config.replica_high_watermark_checkpoint_interval_ms / 1000
    before = 0

    async def work(broker: Broker) -> None:
        nonlocal before
        now = sum(partition.log.high_watermark for partition in broker.partitions.values())
        if now != before:
            before = now
            await broker.checkpointer.write()

    await _every(seconds, work, broker)


async def _remove_deleted(broker: Broker) -> None:
    await broker.run_in_thread(broker.directory.delete_pending, abandon_on_cancel=True)


async def _compact(broker: Broker) -> None:
    """Compact one log after another, as long as some log is worth it."""
    is_changed = False
    for number, partition in enumerate(list(broker.partitions.values())):
        if number % _LOGS_PER_CHECKPOINT == 0:
            await trio.lowlevel.checkpoint()
        log = partition.log
        if not log.config.cleanup_compact or log.is_offline is not None:
            continue
        try:
            plan = log.plan_compaction(broker.clock.wall_ms())
            if plan is not None:
                await _run(broker, plan)
                is_changed |= log.complete_compaction(plan, broker.clock.wall_ms())
        except (LogError, OSError) as error:
            if isinstance(error, DamagedSegment) and log.is_offline is None:
                log.fail(error)  # so that it is repaired
            logger.error(
                "compaction of %s-%d failed: %s", partition.topic.name, partition.index, error
            )
    if is_changed:
        # Or a restart would take the gaps for damage, where the topic's policy has changed since.
        await broker.checkpointer.write()


async def _run(broker: Broker, plan: CompactionPlan) -> None:
    """Write compacted segments in a worker thread; a stop does not wait for it."""
    try:
        await broker.run_in_thread(plan.run, abandon_on_cancel=True)
    except trio.Cancelled:
        plan.cancel()
        raise


async def repair_damaged(broker: Broker) -> None:
    """Recover partitions in which damaged bytes were found: they are set aside, the rest is served.

    The disk works, so there is nothing to wait for.
    """
    await _reopen(
        broker,
        [
            key
            for key, log in broker.directory.logs.items()
            if isinstance(log.is_offline, DamagedSegment)
        ],
    )


async def reopen_offline(broker: Broker) -> None:
    """Try to recover partitions whose disk failed; a full disk may have room again.

    Recovery checks what is on the disk as it does at a start, so nothing comes back that is not
    intact; a partition that fails again stays offline. Logs that could not be made are made now.
    """
    directory = broker.directory
    if directory.statistics().free_bytes < _REOPEN_FREE_BYTES_MIN:
        return
    await _reopen(
        broker,
        [
            key
            for key in directory.topic_ids
            if key in directory.offline
            or (key in directory.logs and directory.logs[key].is_offline is not None)
        ],
    )
    await broker.replicas.open_missing()


async def _reopen(broker: Broker, offline: list[tuple[str, int]]) -> None:
    for topic, number in offline:
        try:
            await broker.replicas.reopen(topic, number)
        except (LogError, OSError) as error:
            logger.error("%s-%d stays offline: %s", topic, number, error)
        else:
            logger.warning("%s-%d is back online", topic, number)
