"""Compaction (cleanup.policy=compact): at least the last record of each key stays.

`Log.plan_compaction` chooses closed segments, `CompactionPlan.run` writes new ones (any thread),
`Log.complete_compaction` swaps them in. `run` touches nothing that the event loop changes: its
sources are closed segments that were synced, and the `.cleaned` files are its own.

Promises:

- Offsets never change; a record that stays is the same record.
- Only segments below the high watermark (KAFKA-13194) and the recovery point are touched, and
  records younger than min.compaction.lag.ms are not.
- A tombstone stays for delete.retention.ms after everything older with its key went (KIP-534).
- A producer's newest batch leaves at least its header, so deduplication survives.
- Transaction markers stay, and their keys do not count as keys (KAFKA-14055). Records of aborted
  transactions go, and hide no older ones; open transactions are not touched.
- A crash at any point leaves the old segments or the new ones: the rename to `.swap`, made
  durable, is the commit, and recovery finishes what follows it.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from minikafka.protocol.records.batch import BatchHeader, parse_batch_header
from minikafka.protocol.records.builder import encode_retained_records
from minikafka.protocol.records.errors import CorruptBatchError
from minikafka.protocol.records.record import Record, decode_records
from minikafka.storage.disk import Buffer, Disk, DiskFile, FileCache
from minikafka.storage.errors import StorageError
from minikafka.storage.file_names import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    offset_name,
    range_name,
)
from minikafka.storage.index import (
    NO_TIMESTAMPS,
    RELATIVE_OFFSET_MAX,
    IndexEntry,
    SparseIndex,
    TimestampEntry,
)
from minikafka.storage.log_config import LogConfig
from minikafka.storage.recovery import finish_swap
from minikafka.storage.scan import walk_intact
from minikafka.storage.segment import Segment
from minikafka.storage.transactions import AbortedRanges

logger = logging.getLogger(__name__)

KEYS_MAX: Final = 500_000
"""Keys in one pass: about 100 MB. More keys mean more passes, not more memory."""

_LITERAL_SIZE_BYTES_MAX: Final = 16
_DIGEST_SIZE_BYTES: Final = 20  # longer than any literal, so the two cannot be mixed up
_OPEN_FILES: Final = 4  # of the worker: source, output and its indexes


@dataclass(frozen=True, slots=True)
class Source:
    """A closed segment to compact."""

    path: str
    base_offset: int
    next_offset: int
    size_bytes: int


@dataclass(slots=True)
class Cleaned:
    """One new segment.

    Attributes:
        base_offset: First offset of the first source.
        next_offset: Where the segment after the last source begins.
    """

    base_offset: int
    next_offset: int
    path: str
    index: SparseIndex
    size_bytes: int = 0


class CompactionCancelled(StorageError):
    """The compaction was cancelled."""


class OffsetMap:
    """Key -> offset of its newest record, from a contiguous range of offsets.

    Attributes:
        end_offset: Every record below it, from where the map begins, is in the map.
    """

    __slots__ = ("_keys_max", "_offsets", "end_offset")

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self._offsets: dict[bytes, int] = {}
        self._keys_max: Final = keys_max
        self.end_offset = 0

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        """No more keys fit."""
        return len(self._offsets) >= self._keys_max

    def put(self, key: bytes, offset: int) -> None:
        """A record with this key is at `offset`, which is above all earlier ones."""
        self._offsets[_short(key)] = offset

    def newest(self, key: bytes) -> int:
        """Offset of the key's newest record, -1 when it is not in the map."""
        return self._offsets.get(_short(key), -1)


def _short(key: bytes) -> bytes:
    """A short key itself, or the digest of a long one (160 bits: there will be no collision)."""
    if len(key) <= _LITERAL_SIZE_BYTES_MAX:
        return key
    return blake2b(key, digest_size=_DIGEST_SIZE_BYTES).digest()


@dataclass(slots=True)
class CompactionPlan:
    """One compaction of one log.

    Attributes:
        segments: The segments to replace, as they were when it was planned.
        groups: The sources of each new segment.
        last_offsets_of_producers: For each producer id, where its newest batch ends: that batch's
            header is kept, or its sequence would be forgotten.
        aborted: Batches whose records are removed, and hide no others.
        cleaned: The new segments, once `run` has returned.
        end_offset: Everything below it is compacted, once `run` has returned.
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
    _files: FileCache = field(init=False)
    _newest: OffsetMap = field(init=False)

    def cancel(self) -> None:
        """Make `run` end soon; any thread. Its files are removed when the log is opened."""
        self.is_cancelled = True

    def run(self) -> None:
        """Write the new segments; any thread, once.

        Raises:
            CompactionCancelled: `cancel` was called; nothing has changed.
            DamagedSegment: a segment holds damaged bytes; nothing has changed.
            OSError: the disk failed; nothing has changed.
        """
        self._files = FileCache(self.disk, _OPEN_FILES)
        self._newest = OffsetMap(self.keys_max)
        try:
            self._map_keys()
            for group in self.groups:
                stem = f"{self.directory}/{offset_name(group[0].base_offset)}"
                cleaned = Cleaned(
                    group[0].base_offset,
                    group[-1].next_offset,
                    f"{stem}{LOG_SUFFIX}{CLEANED_SUFFIX}",
                    SparseIndex(self._files, stem, CLEANED_SUFFIX),
                )
                self._write(group, cleaned)
                self.cleaned.append(cleaned)
            self.end_offset = self._newest.end_offset
        finally:
            del self._files, self._newest  # the plan lives longer than they need to

    def _batches(self, source: Source) -> Iterator[tuple[DiskFile, int, BatchHeader]]:
        """The file, position and header of each batch, until the compaction is cancelled."""
        file = self._files.open(source.path)
        for position, header in walk_intact(file, 0, source.size_bytes, source.base_offset):
            if self.is_cancelled:
                raise CompactionCancelled(f"{source.path}: compaction cancelled")
            yield file, position, header

    def _map_keys(self) -> None:
        """Find the newest offset of each key in the dirty segments.

        If there are too many keys, the map ends early, but after at least one batch.
        """
        newest = self._newest
        newest.end_offset = self.first_dirty_offset
        for source in [source for group in self.groups for source in group]:
            if source.next_offset <= self.first_dirty_offset:
                continue
            for file, position, header in self._batches(source):
                if header.last_offset < self.first_dirty_offset:
                    continue
                if newest.is_full:
                    return
                # A marker's key does not count (KAFKA-14055).
                if not header.is_control and not self.aborted.covers(header):
                    for record in _decode(file, position, header) or ():
                        if record.key is not None:
                            newest.put(record.key, record.offset)
                newest.end_offset = header.next_offset
            newest.end_offset = source.next_offset

    def _write(self, sources: list[Source], cleaned: Cleaned) -> None:
        """Write one segment from several and sync it."""
        disk = self.disk
        disk.remove(cleaned.path)
        cleaned.index.clear()
        writer = disk.open(cleaned.path, create=True)
        indexed_position = 0
        largest = NO_TIMESTAMPS
        for batch in self._remaining(sources):
            position = cleaned.size_bytes
            header = parse_batch_header(batch)
            relative_offset = header.last_offset - cleaned.base_offset
            if header.max_timestamp > largest.timestamp:
                largest = TimestampEntry(header.max_timestamp, relative_offset)
            if position - indexed_position >= self.config.index_interval_bytes:
                cleaned.index.add(IndexEntry(relative_offset, position), largest)
                indexed_position = position
            writer.pwritev([batch], position)
            cleaned.size_bytes += len(batch)
        cleaned.index.close(largest)
        for path in cleaned.index.written_paths():
            self._files.open(path).fsync()
        writer.fsync()

    def _remaining(self, sources: list[Source]) -> Iterator[Buffer]:
        for source in sources:
            for file, position, header in self._batches(source):
                batch = self._clean(file, position, header)
                if batch is not None:
                    yield batch

    def _clean(self, file: DiskFile, position: int, header: BatchHeader) -> Buffer | None:
        """What is left of a batch; None for nothing."""
        if header.is_control or header.base_offset >= self._newest.end_offset:
            return file.pread(position, header.size_bytes)
        records = _decode(file, position, header)
        if records is None:
            return file.pread(position, header.size_bytes)
        horizon_ms = header.base_timestamp if header.has_delete_horizon else None
        retained = (
            []
            if self.aborted.covers(header)
            else [record for record in records if self._is_retained(record, horizon_ms)]
        )
        if not retained:
            is_last = self.last_offsets_of_producers.get(header.producer_id) == header.last_offset
            return encode_retained_records(header, ()) if is_last else None
        if horizon_ms is None and any(record.value is None for record in retained):
            # KIP-534: the clock for a tombstone starts when everything older has been removed.
            horizon_ms = self.now_ms + self.config.delete_retention_ms
        elif len(retained) == len(records):
            return file.pread(position, header.size_bytes)
        return encode_retained_records(header, retained, delete_horizon_ms=horizon_ms)

    def _is_retained(self, record: Record, horizon_ms: int | None) -> bool:
        if record.key is None:  # from before the topic was compacted
            return False
        if record.offset < self._newest.newest(record.key):
            return False
        return record.value is not None or horizon_ms is None or self.now_ms < horizon_ms

    def swap_in(self, files: FileCache, now_ms: int) -> list[Segment]:
        """Replace the old segments' files with the new ones; returns the new segments.

        Raises:
            OSError: the disk failed; recovery finishes what was committed.
        """
        disk = self.disk
        names: list[str] = []
        for cleaned in self.cleaned:
            name = range_name(cleaned.base_offset, cleaned.next_offset) + SWAP_SUFFIX
            disk.rename(cleaned.path, f"{self.directory}/{name}")
            names.append(name)
        disk.sync_directory(self.directory)  # committed
        existing = disk.list_directory(self.directory)
        replaced: list[Segment] = []
        for cleaned, name in zip(self.cleaned, names, strict=True):
            finish_swap(files, self.directory, name, existing)
            segment = Segment(files, self.directory, cleaned.base_offset, now_ms=now_ms)
            for path, target in zip(cleaned.index.paths, segment.index.paths, strict=True):
                if disk.exists(path):
                    disk.rename(path, target)
            segment.adopt(cleaned.size_bytes)
            segment.next_offset = cleaned.next_offset
            replaced.append(segment)
        logger.info(
            "%s: compacted offsets %d to %d from %d to %d bytes",
            self.directory,
            self.segments[0].base_offset,
            self.end_offset - 1,
            sum(segment.size_bytes for segment in self.segments),
            sum(segment.size_bytes for segment in replaced),
        )
        return replaced

    def discard(self) -> None:
        """Remove the new segments. Raises OSError."""
        for cleaned in self.cleaned:
            self.disk.remove(cleaned.path)
            cleaned.index.clear()


def dirty_groups(
    segments: list[Segment], config: LogConfig, first_dirty_offset: int, now_ms: int
) -> list[list[Source]]:
    """The sources of each new segment; none when there is too little to gain.

    Neighbours that fit into segment.bytes together become one.
    """
    dirty = [segment for segment in segments if segment.next_offset > first_dirty_offset]
    dirty_bytes = sum(segment.size_bytes for segment in dirty)
    if not dirty_bytes:
        return []
    ratio = dirty_bytes / sum(segment.size_bytes for segment in segments)
    is_due = dirty[0].age_ms(now_ms, now_ms) > config.max_compaction_lag_ms
    if ratio < config.min_cleanable_dirty_ratio and not is_due:
        return []
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


def _decode(file: DiskFile, position: int, header: BatchHeader) -> list[Record] | None:
    """Records of an intact batch; None when its producer sent nonsense, which is kept."""
    try:
        return decode_records(file.pread(position, header.size_bytes))
    except CorruptBatchError:
        return None
