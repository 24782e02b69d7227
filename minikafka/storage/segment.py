"""One segment of a log: a `.log` file of whole batches and its sparse indexes.

A segment knows where its batches end (`size_bytes`, `next_offset`) and never looks at bytes past
that: an append that failed half-way left nothing behind. Only the last segment of a log is written
to. The file is opened through the `FileCache` each time it is needed.

The indexes are hints that are checked before they are believed: an entry has to name a batch that
is there, or both are rebuilt from the batch headers.

Bytes that this process wrote or recovered were checked then. Bytes that an earlier process left are
checked when they are first read, so damage on disk is never served, and every later read goes
straight from the file to the socket.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from minikafka.protocol.records.batch import BATCH_HEADER_SIZE_BYTES, BatchHeader, crc_is_valid
from minikafka.protocol.records.errors import CorruptBatchError
from minikafka.protocol.records.record import Record, decode_records
from minikafka.storage.disk import Buffer, DiskFile, FileCache, FileSlice
from minikafka.storage.file_names import LOG_SUFFIX, offset_name
from minikafka.storage.index import (
    RELATIVE_OFFSET_MAX,
    DamagedIndex,
    IndexEntry,
    SparseIndex,
    TimestampEntry,
)
from minikafka.storage.leader_epochs import LeaderEpochCache
from minikafka.storage.scan import DamagedSegment, verify, walk_headers

logger = logging.getLogger(__name__)

NO_TIMESTAMP: Final = -1

INDEX_INTERVAL_BYTES: Final = 4096
"""Interval of an index that is rebuilt where the topic's settings are not at hand."""

REMEMBERED_POSITIONS_MAX: Final = 32
"""Readers per segment whose next position is remembered instead of searched for."""

CHECKED_AT_ONCE_SIZE_BYTES: Final = 1024 * 1024
"""A read of bytes that have not been checked yet ends here: small batches take 30 ms per MiB."""

VERIFIED_RANGES_MAX: Final = 16
"""Ranges remembered per segment: readers at more places than this check some bytes again."""

_UNINDEXED_SIZE_BYTES_MAX: Final = 64 * 1024  # a larger segment without any entry lost its index

_start_of = itemgetter(0)


class LogRead(NamedTuple):
    """Whole batches from one segment.

    Attributes:
        records: The bytes, or None when there is no batch between the offset and the bound (or the
            first one is larger than the limit and `minimum_one_batch` was not asked for).
        base_offset: Base offset of the first batch, at or below the offset asked for; without
            records the offset asked for.
        next_offset: Where the next read continues; the offset asked for without records.
    """

    records: FileSlice | None
    base_offset: int
    next_offset: int


class TimestampOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int


class VerifiedRanges:
    """Bytes of a segment that this process knows to be intact: disjoint [start, end), rising."""

    __slots__ = ("ranges",)

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []

    def covers(self, start: int, end: int) -> bool:
        """Whether [start, end) is known to be intact."""
        index = bisect_right(self.ranges, start, key=_start_of)
        return index > 0 and self.ranges[index - 1][1] >= end

    def add(self, start: int, end: int) -> None:
        if start >= end:
            return
        kept: list[tuple[int, int]] = []
        for range_start, range_end in self.ranges:
            if range_end < start or range_start > end:
                kept.append((range_start, range_end))
            else:
                start, end = min(start, range_start), max(end, range_end)
        kept.append((start, end))
        if len(kept) > VERIFIED_RANGES_MAX:
            kept.remove(min(kept, key=lambda candidate: candidate[1] - candidate[0]))
        kept.sort()
        self.ranges = kept

    def cut(self, end: int) -> None:
        """The file was truncated to `end` bytes."""
        self.ranges = [
            (range_start, min(range_end, end))
            for range_start, range_end in self.ranges
            if range_start < end
        ]


class Segment:
    """A range of offsets in one file.

    Attributes:
        base_offset: Offset the file is named after; no record in it has a smaller one.
        next_offset: Offset after its last batch, or where the next segment begins.
        size_bytes: Bytes of whole batches in the file.
        first_timestamp: Largest timestamp of its first batch, from which segment.ms counts; -1
            when there is none, None when it has not been read yet.
        created_ms: When this process created or opened it, from which segment.ms counts when the
            first batch has no timestamp.
        is_synced: Everything in it is durable.
    """

    __slots__ = (
        "_files",
        "_index_is_complete",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_positions",
        "_verified",
        "_verified_from",
        "base_offset",
        "created_ms",
        "first_timestamp",
        "index",
        "indexed_position",
        "is_synced",
        "next_offset",
        "path",
        "size_bytes",
    )

    def __init__(
        self,
        files: FileCache,
        directory: str,
        base_offset: int,
        *,
        now_ms: int,
    ) -> None:
        """Describe a segment; nothing is read."""
        stem = f"{directory}/{offset_name(base_offset)}"
        self._files: Final = files
        self.base_offset: Final = base_offset
        self.next_offset = base_offset
        self.size_bytes = 0
        self.path: Final = stem + LOG_SUFFIX
        self.index: Final = SparseIndex(files, stem)
        self.first_timestamp: int | None = -1
        self.created_ms = now_ms
        self.is_synced = True
        self._max_timestamp: int | None = -1
        self._max_timestamp_offset = base_offset  # last offset of the first batch that has it
        self.indexed_position = 0  # of the last index entry
        self._index_is_complete = True  # this process indexed every batch, or has scanned them
        self._positions: dict[int, int] | None = None
        self._verified_from = 0  # from here on this process wrote or checked it
        self._verified: VerifiedRanges | None = None

    @classmethod
    def create(
        cls, files: FileCache, directory: str, base_offset: int, *, now_ms: int
    ) -> "Segment":
        """Make an empty segment; a leftover file of that name is emptied.

        Raises:
            OSError: the disk failed.
        """
        segment = cls(files, directory, base_offset, now_ms=now_ms)
        file = files.open(segment.path, create=True)
        if file.size():
            file.truncate(0)
        segment.index.clear()
        return segment

    def adopt(self, size_bytes: int) -> None:
        """Adopt a synced file of an earlier process; its bytes are checked when first read."""
        self.size_bytes = size_bytes
        self.is_synced = True
        self.first_timestamp = None if size_bytes else -1
        self._max_timestamp = None if size_bytes else -1
        self._index_is_complete = size_bytes <= _UNINDEXED_SIZE_BYTES_MAX
        self._verified_from = size_bytes

    @property
    def file(self) -> DiskFile:
        """The open `.log` file. Raises OSError."""
        return self._files.open(self.path)

    def age_ms(self, timestamp: int, now_ms: int) -> int:
        """Its age, for segment.ms.

        Kafka measures from the first batch's timestamp to that of the batch about to be appended
        (`timestamp`), so that replaying old records rolls as often as the first time; without
        timestamps it uses the clock.

        Raises:
            DamagedSegment, OSError: the first batch cannot be read.
        """
        if self.first_timestamp is None:
            _, header = next(walk_headers(self.file, 0, self.size_bytes))
            self.first_timestamp = header.max_timestamp
        if self.first_timestamp >= 0 and timestamp >= 0:
            return timestamp - self.first_timestamp
        return now_ms - self.created_ms

    # --- appending ---------------------------------------------------------------------------

    def append(
        self,
        buffers: Sequence[Buffer],
        size_bytes: int,
        batches: Sequence[BatchHeader],
        *,
        index_interval_bytes: int,
    ) -> None:
        """Write batches after the last one.

        Args:
            buffers: Their bytes, to be written as they are.
            size_bytes: How many bytes.
            batches: Their headers; offsets and timestamps as written.
            index_interval_bytes: index.interval.bytes.

        Raises:
            OSError: the disk failed; the segment is as it was, but the file may be longer.
        """
        self._files.open(self.path).pwritev(buffers, self.size_bytes)
        self.note_batches(self.size_bytes, batches, index_interval_bytes)
        self.size_bytes += size_bytes
        self.next_offset = batches[-1].next_offset
        self.is_synced = False

    def note_batches(
        self, position: int, batches: Sequence[BatchHeader], index_interval_bytes: int
    ) -> None:
        """Index the last batches in the file, which begin at `position`."""
        max_timestamp = -1 if self._max_timestamp is None else self._max_timestamp
        for header in batches:
            if header.max_timestamp > max_timestamp:
                max_timestamp = header.max_timestamp
                self._max_timestamp_offset = header.base_offset + header.last_offset_delta
            if position == 0:
                self.first_timestamp = header.max_timestamp
            elif position - self.indexed_position >= index_interval_bytes:
                entry = IndexEntry(header.last_offset - self.base_offset, position)
                self.index.add(entry, self._largest(max_timestamp))
                self.indexed_position = position
            position += header.size_bytes
        self._max_timestamp = max_timestamp

    def _largest(self, max_timestamp: int) -> TimestampEntry:
        return TimestampEntry(max_timestamp, self._max_timestamp_offset - self.base_offset)

    def close_index(self) -> None:
        """Write the indexes to their end: no batch follows, or the broker stops. Raises OSError.

        The next flush syncs them, even if all batches have been synced before.
        """
        known = self._max_timestamp
        self.index.close(None if known is None else self._largest(known))
        if self.index.entry_count:
            self.is_synced = False

    # --- reading -----------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        *,
        upper_bound_offset: int,
        size_bytes_max: int,
        minimum_one_batch: bool,
        epochs: LeaderEpochCache,
    ) -> LogRead | None:
        """Whole batches, beginning with the one that contains `offset` (or the next after it).

        Args:
            offset: Where to begin.
            upper_bound_offset: No batch that reaches this offset is returned.
            size_bytes_max: Limit, except for the first batch with `minimum_one_batch`.
            minimum_one_batch: Return the first batch even if it is larger than the limit.
            epochs: The log's leader epochs, to check batches with.

        Returns:
            None when the segment has no batch at or after `offset`.

        Raises:
            DamagedSegment: the bytes are not what was written.
            OSError: the disk failed.
        """
        if self._positions is not None and upper_bound_offset >= self.next_offset:
            # A reader at the end of the log gets everything from where the last read ended.
            start = self._positions.get(offset, -1)
            size_bytes = self.size_bytes - start
            if start >= self._verified_from and 0 < size_bytes <= size_bytes_max:
                self._remember(self.next_offset, self.size_bytes)
                tail = FileSlice(self.file, start, size_bytes)
                return LogRead(tail, offset, self.next_offset)
        found = self.find(offset)
        if found is None:
            return None
        start, first = found
        end, end_offset = self.size_bytes, self.next_offset
        if upper_bound_offset < end_offset:
            bound = self.find(upper_bound_offset)
            if bound is not None:
                end, end_offset = bound[0], bound[1].base_offset
                self._remember(end_offset, end)
            else:  # compaction left nothing at the end of this segment
                end_offset = upper_bound_offset
        limit = start + size_bytes_max
        if start < self._verified_from and not self._is_verified(start, min(end, limit)):
            limit = min(limit, start + CHECKED_AT_ONCE_SIZE_BYTES)
        if end > limit:
            end, end_offset = self._end_within(start, limit)
            if end == start and (minimum_one_batch or first.size_bytes <= size_bytes_max):
                end, end_offset = start + first.size_bytes, first.next_offset
        if end <= start:
            return LogRead(None, offset, offset)
        self._remember(end_offset, end)
        file = self.file
        if start < self._verified_from:
            self._verify(file, start, end, first.base_offset, end_offset, epochs)
        return LogRead(FileSlice(file, start, end - start), first.base_offset, end_offset)

    def _end_within(self, start: int, limit: int) -> tuple[int, int]:
        """Where the first batch that ends after `limit` begins, and its base offset."""
        entry = self._checked_entry(lambda: self.index.lookup_position(limit))
        from_position = max(entry.position, start)
        first_beyond = (
            (position, header.base_offset)
            for position, header in walk_headers(self.file, from_position, self.size_bytes)
            if position + header.size_bytes > limit
        )
        return next(first_beyond)

    def _remember(self, offset: int, position: int) -> None:
        positions = self._positions
        if positions is None:
            positions = self._positions = {}
        elif len(positions) >= REMEMBERED_POSITIONS_MAX:
            del positions[next(iter(positions))]
        positions[offset] = position

    def _is_verified(self, start: int, end: int) -> bool:
        return self._verified is not None and self._verified.covers(start, end)

    def _verify(
        self,
        file: DiskFile,
        start: int,
        end: int,
        offset_min: int,
        end_offset: int,
        epochs: LeaderEpochCache,
    ) -> None:
        """Check a slice that this process has not checked yet."""
        if self._verified is None:
            self._verified = VerifiedRanges()
        if not self._is_verified(start, end):
            verify(file, start, end, offset_min=offset_min, end_offset=end_offset, epochs=epochs)
            self._verified.add(start, end)

    # --- timestamps --------------------------------------------------------------------------

    def max_timestamp(self) -> int:
        """Largest timestamp in the segment, -1 when no batch has one.

        Raises:
            DamagedSegment, OSError: it cannot be read.
        """
        largest = self._max_timestamp
        return self._read_tail()[1] if largest is None else largest

    def last_written_ms(self) -> int:
        """Its age for retention: the largest timestamp, or without any when the file was written.

        Raises:
            DamagedSegment, OSError: see `max_timestamp`.
        """
        largest = self.max_timestamp()
        return largest if largest >= 0 else self.file.modified_ms()

    def first_record_at(self, timestamp: int, start_offset: int) -> TimestampOffset | None:
        """First record with a timestamp >= the given one and an offset >= `start_offset`.

        Index and batch headers narrow the search down to one batch; only that one is decoded.

        Raises:
            DamagedSegment, OSError: see `walk_headers`.
        """
        from_offset = start_offset
        while (found := self._find_timestamp(timestamp, from_offset)) is not None:
            record = self._first_record_of(*found, timestamp, start_offset)
            if record is not None:
                return record
            from_offset = found[1].next_offset
        return None

    def _first_record_of(
        self, position: int, header: BatchHeader, timestamp: int, start_offset: int
    ) -> TimestampOffset | None:
        epoch = header.partition_leader_epoch
        if header.has_log_append_time and header.base_offset >= start_offset:
            return TimestampOffset(header.max_timestamp, header.base_offset, epoch)
        records = self._decode(position, header)
        if records is None:  # the header is all that is known
            return TimestampOffset(
                header.max_timestamp, max(header.base_offset, start_offset), epoch
            )
        for record in records:
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return TimestampOffset(record.timestamp, record.offset, epoch)
        return None

    def max_timestamp_from(self, start_offset: int) -> int:
        """Largest timestamp of the records from an offset in the middle of the segment on.

        Raises:
            DamagedSegment, OSError: see `walk_headers`.
        """
        largest = NO_TIMESTAMP
        found = self.find(start_offset)
        if found is None:
            return largest
        for position, header in walk_headers(self.file, found[0], self.size_bytes):
            records = None
            if header.base_offset < start_offset and not header.has_log_append_time:
                records = self._decode(position, header)
            if records is None:
                largest = max(largest, header.max_timestamp)
            else:
                left = (record.timestamp for record in records if record.offset >= start_offset)
                largest = max(largest, *left)
        return largest

    def _decode(self, position: int, header: BatchHeader) -> list[Record] | None:
        """Records of a batch; None when its producer sent nonsense: the disk is fine then."""
        batch = self.file.pread(position, header.size_bytes)
        if len(batch) < header.size_bytes or not crc_is_valid(batch, 0, header):
            raise DamagedSegment(
                f"{self.path}: the batch at {position} (base offset {header.base_offset}, "
                f"{header.size_bytes} bytes) has a wrong CRC",
                self.path,
                position,
            )
        try:
            return decode_records(batch)
        except CorruptBatchError:
            return None

    def _find_timestamp(self, timestamp: int, from_offset: int) -> tuple[int, BatchHeader] | None:
        """First batch with a timestamp >= the given one that ends at or after an offset.

        Raises:
            DamagedSegment, OSError: see `walk_headers`.
        """
        entry = self._checked_timestamp(lambda: self.index.lookup_timestamp(timestamp))
        start = self._position_of(entry)
        for position, header in walk_headers(self.file, start, self.size_bytes):
            if header.max_timestamp >= timestamp and header.last_offset >= from_offset:
                return position, header
        return None

    # --- finding -----------------------------------------------------------------------------

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Position and header of the batch that contains `offset`, or the first one after it.

        Returns:
            None when every batch ends before `offset`.

        Raises:
            DamagedSegment, OSError: see `walk_headers`.
        """
        position = self._positions.get(offset) if self._positions is not None else None
        if position is not None:
            offset_min = offset
        else:
            relative_offset = offset - self.base_offset
            entry = self._checked_entry(lambda: self.index.lookup_offset(relative_offset))
            position = entry.position
            offset_min = self.base_offset
        batches = walk_headers(self.file, position, self.size_bytes, offset_min)
        for batch_position, header in batches:
            if header.last_offset < offset:
                continue
            if header.base_offset > offset:
                next(batches, None)  # a gap; or a damaged offset, which the next batch contradicts
            if header.next_offset > self.next_offset:
                raise DamagedSegment(
                    f"{self.path}: the batch at {batch_position} says offsets "
                    f"{header.base_offset} to {header.last_offset}, but the segment ends at "
                    f"{self.next_offset}",
                    self.path,
                    batch_position,
                )
            return batch_position, header
        return None

    def _checked_entry(self, lookup: Callable[[], IndexEntry]) -> IndexEntry:
        """An index entry that has been checked; a damaged index is rebuilt."""
        try:
            entry = lookup()
            if entry.position:
                if self._points_at_its_batch(entry):
                    return entry
                last_offset = self.base_offset + entry.relative_offset
                reason = f"no batch with last offset {last_offset} at {entry.position}"
            elif self._index_is_complete or not self._index_is_missing():
                return entry
            else:
                reason = "it is missing"
        except DamagedIndex as error:
            reason = str(error)
        self._rebuild_damaged(reason)
        return lookup()

    def _checked_timestamp(self, lookup: Callable[[], TimestampEntry]) -> TimestampEntry:
        """An entry of the time index that has been checked; a damaged index is rebuilt."""
        try:
            entry = lookup()
            if entry.timestamp == NO_TIMESTAMP or self._names_its_batch(entry):
                return entry
            last_offset = self.base_offset + entry.relative_offset
            reason = f"no batch with last offset {last_offset} and timestamp {entry.timestamp}"
        except DamagedIndex as error:
            reason = str(error)
        self._rebuild_damaged(reason)
        return lookup()

    def _names_its_batch(self, entry: TimestampEntry) -> bool:
        last_offset = self.base_offset + entry.relative_offset
        try:
            for _, header in walk_headers(self.file, self._position_of(entry), self.size_bytes):
                if header.last_offset >= last_offset:
                    is_there = header.last_offset == last_offset
                    return is_there and header.max_timestamp == entry.timestamp
        except DamagedSegment:
            pass
        return False

    def _position_of(self, entry: TimestampEntry) -> int:
        """Where the batch of a checked entry begins, or a little before it."""
        if entry.timestamp == NO_TIMESTAMP:
            return 0
        return self._checked_entry(lambda: self.index.lookup_offset(entry.relative_offset)).position

    def _rebuild_damaged(self, reason: str) -> None:
        logger.warning("%s: rebuilding the index: %s", self.path, reason)
        self.rebuild_index()

    def _index_is_missing(self) -> bool:
        """Whether a segment of an earlier process lacks a due entry. Scans it once."""
        self._index_is_complete = True
        if self.index.entry_count:
            return False
        headers = walk_headers(self.file, 0, self.size_bytes)
        return any(position >= INDEX_INTERVAL_BYTES for position, _ in headers)

    def _points_at_its_batch(self, entry: IndexEntry) -> bool:
        if entry.position + BATCH_HEADER_SIZE_BYTES > self.size_bytes:
            return False
        try:
            _, header = next(walk_headers(self.file, entry.position, self.size_bytes))
        except DamagedSegment:
            return False
        return header.last_offset == self.base_offset + entry.relative_offset

    def find_end(self) -> int:
        """Offset after the last batch, read from the file.

        Raises:
            DamagedSegment: batches do not end exactly at the end of the file.
            OSError: the disk failed.
        """
        return self._read_tail()[0]

    def _read_tail(self) -> tuple[int, int]:
        """The offset after the last batch, and the largest timestamp, which is remembered.

        From the indexes and the batches after their last entry.
        """
        entry = self._checked_entry(self.index.last_entry)
        largest = self._checked_timestamp(self.index.last_timestamp)
        next_offset = self.base_offset
        for position, header in walk_headers(self.file, entry.position, self.size_bytes):
            next_offset = header.next_offset
            if header.max_timestamp > largest.timestamp:
                if position and position == entry.position:
                    self._rebuild_damaged("its timestamps end before its offsets")
                    return self._read_tail()
                relative_offset = header.last_offset - self.base_offset
                largest = TimestampEntry(header.max_timestamp, relative_offset)
        self.indexed_position = entry.position
        self._max_timestamp = largest.timestamp
        self._max_timestamp_offset = self.base_offset + max(largest.relative_offset, 0)
        return next_offset, largest.timestamp

    # --- truncation --------------------------------------------------------------------------

    def truncate(self, offset: int) -> None:
        """Cut the batch that contains `offset` and everything after it; durable on return.

        Raises:
            DamagedSegment, OSError: see `walk_headers`.
        """
        found = self.find(offset)
        if found is None:  # everything after the last batch was compacted away
            self.next_offset = self.find_end()
            return
        position, header = found
        file = self.file
        file.truncate(position)
        file.fsync()
        self.size_bytes = position
        self._positions = None
        if not position:
            self.first_timestamp = -1
        self._max_timestamp = None if position else -1
        self._verified_from = min(self._verified_from, position)
        if self._verified is not None:
            self._verified.cut(position)
        try:
            self.index.truncate(position, header.base_offset - self.base_offset)
            self.indexed_position = self.index.last_entry().position
        except DamagedIndex as error:
            self._rebuild_damaged(str(error))
        self.next_offset = self.find_end()

    def discard_past_end(self) -> None:
        """Cut off, durably, what a failed append may have left past the end. Raises OSError."""
        file = self.file
        if file.size() > self.size_bytes:
            file.truncate(self.size_bytes)
            file.fsync()  # or a power failure might bring it back

    # --- rebuilding --------------------------------------------------------------------------

    def rebuild_index(self, index_interval_bytes: int = INDEX_INTERVAL_BYTES) -> None:
        """Rebuild the index from the batch headers.

        Raises:
            DamagedSegment, OSError: see `walk_headers`, or a batch's offset is too high for this
                segment; the index is unchanged, because recovery needs it to find intact batches
                behind the damage.
        """
        old = self.index.set_aside()
        self.begin_rebuild()
        try:
            for position, header in walk_headers(self.file, 0, self.size_bytes, self.base_offset):
                if header.last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
                    raise DamagedSegment(
                        f"{self.path}: the batch at {position} says offsets {header.base_offset} "
                        f"to {header.last_offset}, too high for this segment",
                        self.path,
                        position,
                    )
                self.note_batches(position, (header,), index_interval_bytes)
        except DamagedSegment:
            self.index.take_back(old)
            raise
        old.clear()
        self._write_rebuilt_index()

    def _write_rebuilt_index(self) -> None:
        try:
            self.close_index()
        except OSError as error:
            logger.warning("%s: the rebuilt index stays in memory: %s", self.path, error)

    def begin_rebuild(self) -> None:
        """Forget index and timestamps; the caller indexes every batch again. Raises OSError."""
        self.index.clear()
        self._index_is_complete = True
        self.indexed_position = 0
        self._max_timestamp = -1
        self._max_timestamp_offset = self.base_offset

    def finish_rebuild(
        self, size_bytes: int, next_offset: int, index_interval_bytes: int, *, again: bool
    ) -> None:
        """Every byte has just been checked, and intact batches end at `size_bytes`.

        Args:
            size_bytes: Size of the file now.
            next_offset: Offset after the last batch.
            index_interval_bytes: index.interval.bytes.
            again: The file was rewritten, so positions have changed.

        Raises:
            OSError: the disk failed.
        """
        self.size_bytes = size_bytes
        self.next_offset = next_offset
        self.is_synced = not size_bytes
        self._verified_from = 0
        if again:
            self.rebuild_index(index_interval_bytes)
        else:
            self._write_rebuilt_index()
        if not size_bytes:
            self.first_timestamp = -1
