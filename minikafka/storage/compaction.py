"""Compaction (cleanup.policy=compact): at least the last record of each key stays.

Three steps, so that the event loop never waits: `plan_compaction` chooses closed segments (loop),
`CompactionPlan.run` writes new ones (any thread), `complete_compaction` swaps them in (loop).

Promises:

- Offsets never change; a record that stays is the same record.
- Only segments below the high watermark (KAFKA-13194) and the recovery point are touched, and
  records younger than min.compaction.lag.ms are not.
- A tombstone stays for delete.retention.ms after everything older with its key is gone (KIP-534).
- A producer's newest batch leaves at least its header, so deduplication survives.
- Transaction markers stay, and their keys are no keys (KAFKA-14055). Records of aborted
  transactions go, and hide no older ones; open transactions are not touched.
- A crash at any point leaves the old segments or the new ones: the rename to `.swap`, made
  durable, is the commit, and recovery finishes what follows it.
"""

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from minikafka.storage.cleaner import Cleaned, Cleaner, Source, build_offset_map
from minikafka.storage.disk import Disk, FileCache
from minikafka.storage.index import RELATIVE_OFFSET_MAX
from minikafka.storage.log_config import LogConfig
from minikafka.storage.offset_map import KEYS_MAX
from minikafka.storage.recovery import CLEANED_SUFFIX, SWAP_SUFFIX, finish_swap
from minikafka.storage.segment import Segment
from minikafka.storage.segment_file import offset_name
from minikafka.storage.transactions import AbortedRanges

if TYPE_CHECKING:
    from minikafka.storage.log_state import LogState

logger = logging.getLogger(__name__)

_OPEN_FILES: Final = 4  # of the worker: source, output and its index


@dataclass(slots=True)
class CompactionPlan:
    """One compaction of one log.

    Attributes:
        segments: What is replaced, as they were when it was planned.
        groups: The sources of each new segment.
        cleaned: The new segments, once `run` returned.
        end_offset: Everything below it is compacted, once `run` returned.
        is_cancelled: The new segments are not wanted any more.
    """

    disk: Disk
    directory: str
    config: LogConfig
    now_ms: int
    cut_count: int
    first_dirty_offset: int
    last_offsets_of_producers: dict[int, int]
    aborted: AbortedRanges
    segments: list[Segment]
    groups: list[list[Source]]
    keys_max: int = KEYS_MAX
    cleaned: list[Cleaned] = field(default_factory=list[Cleaned])
    end_offset: int = 0
    is_cancelled: bool = False

    def cancel(self) -> None:
        """Let `run` end soon; from any thread. Its files are removed when the log is opened."""
        self.is_cancelled = True

    def run(self) -> None:
        """Write the new segments; any thread, once.

        Raises:
            CompactionCancelled: somebody called `cancel`; nothing has changed.
            DamagedSegment: a segment holds damaged bytes; nothing has changed.
            OSError: the disk failed; nothing has changed.
        """
        files = FileCache(self.disk, _OPEN_FILES)
        sources = [source for group in self.groups for source in group]
        offset_map = build_offset_map(
            files,
            sources,
            self.first_dirty_offset,
            self.keys_max,
            lambda: self.is_cancelled,
            self.aborted,
        )
        cleaner = Cleaner(
            files,
            offset_map,
            now_ms=self.now_ms,
            delete_retention_ms=self.config.delete_retention_ms,
            index_interval_bytes=self.config.index_interval_bytes,
            last_offsets_of_producers=self.last_offsets_of_producers,
            is_cancelled=lambda: self.is_cancelled,
            aborted=self.aborted,
        )
        for group in self.groups:
            stem = f"{self.directory}/{offset_name(group[0].base_offset)}"
            cleaned = Cleaned(
                group[0].base_offset,
                group[-1].next_offset,
                f"{stem}.log{CLEANED_SUFFIX}",
                f"{stem}.index{CLEANED_SUFFIX}",
            )
            cleaner.write(group, cleaned)
            self.cleaned.append(cleaned)
        self.end_offset = offset_map.end_offset


def plan_compaction(log: "LogState", now_ms: int) -> CompactionPlan | None:
    """See `Log.plan_compaction`."""
    config = log.config
    first_dirty_offset = max(log.first_dirty_offset, log.segments[0].base_offset)
    segments = _cleanable(log, config, first_dirty_offset, now_ms)
    dirty = [segment for segment in segments if segment.next_offset > first_dirty_offset]
    dirty_bytes = sum(segment.size_bytes for segment in dirty)
    if not dirty_bytes:
        return None
    ratio = dirty_bytes / sum(segment.size_bytes for segment in segments)
    is_due = dirty[0].age_ms(now_ms, now_ms) > config.max_compaction_lag_ms
    if ratio < config.min_cleanable_dirty_ratio and not is_due:
        return None
    return CompactionPlan(
        disk=log.files.disk,
        directory=log.directory,
        config=config,
        now_ms=now_ms,
        cut_count=log.cut_count,
        first_dirty_offset=first_dirty_offset,
        last_offsets_of_producers=log.producer_state.last_offsets(),
        aborted=AbortedRanges(log.producer_state.transactions.aborted),
        segments=segments,
        groups=_group(segments, config),
    )


def _cleanable(
    log: "LogState", config: LogConfig, first_dirty_offset: int, now_ms: int
) -> list[Segment]:
    """Closed segments from the first on, as far as compaction may go."""
    end_offset = min(log.last_stable_offset, log.recovery_point)
    cleanable: list[Segment] = []
    for segment in log.segments[:-1]:
        if segment.next_offset > end_offset or not segment.is_synced:
            break
        if (
            config.min_compaction_lag_ms > 0
            and segment.next_offset > first_dirty_offset
            and now_ms - segment.max_timestamp() < config.min_compaction_lag_ms
        ):
            break
        cleanable.append(segment)
    return cleanable


def _group(segments: list[Segment], config: LogConfig) -> list[list[Source]]:
    """Which segments become one: neighbours that fit together into segment.bytes."""
    groups: list[list[Source]] = []
    group_bytes = 0
    for segment in segments:
        source = Source(segment.path, segment.base_offset, segment.next_offset, segment.size_bytes)
        fits = (
            groups
            and group_bytes + source.size_bytes <= config.segment_bytes
            and source.next_offset - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
        )
        if fits:
            groups[-1].append(source)
            group_bytes += source.size_bytes
        else:
            groups.append([source])
            group_bytes = source.size_bytes
    return groups


def complete_compaction(log: "LogState", plan: CompactionPlan, now_ms: int) -> bool:
    """See `Log.complete_compaction`."""
    disk = log.files.disk
    count = len(plan.segments)
    is_overtaken = plan.cut_count != log.cut_count or log.segments[:count] != plan.segments
    if is_overtaken or not plan.end_offset:
        # Retention or a truncation was faster; what is old and half-gone needs no compaction.
        for cleaned in plan.cleaned:
            disk.remove(cleaned.path)
            disk.remove(cleaned.index_path)
        logger.info("%s: a compaction was overtaken and is dropped", log.directory)
        return False
    swap_names: list[str] = []
    for cleaned in plan.cleaned:
        name = f"{offset_name(cleaned.base_offset)}-{offset_name(cleaned.next_offset)}{SWAP_SUFFIX}"
        disk.rename(cleaned.path, f"{log.directory}/{name}")
        swap_names.append(name)
    disk.sync_directory(log.directory)  # committed
    names = disk.list_directory(log.directory)
    replaced: list[Segment] = []
    for cleaned, name in zip(plan.cleaned, swap_names, strict=True):
        finish_swap(log.files, log.directory, name, names)
        segment = Segment(log.files, log.directory, cleaned.base_offset, now_ms=now_ms)
        if disk.exists(cleaned.index_path):
            disk.rename(cleaned.index_path, segment.index.path)
        segment.adopt(cleaned.size_bytes)
        segment.next_offset = cleaned.next_offset
        replaced.append(segment)
    before_bytes = sum(segment.size_bytes for segment in plan.segments)
    log.segments[:count] = replaced
    log.first_dirty_offset = plan.end_offset
    # Of transactions that were aborted below it no record is left to be left out.
    log.producer_state.transactions.truncate_from_start(plan.end_offset)
    if log.directory not in log.unsynced_directories:
        log.unsynced_directories += (log.directory,)
    logger.info(
        "%s: compacted offsets %d to %d from %d to %d bytes",
        log.directory,
        plan.segments[0].base_offset,
        plan.end_offset - 1,
        before_bytes,
        sum(segment.size_bytes for segment in replaced),
    )
    return True
