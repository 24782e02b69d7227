"""Where things are in a segment: by offset, by position, by timestamp.

The index is a hint that is checked before it is believed: an entry has to point at the batch it
names, or the index is made anew from the batch headers.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from minikafka.protocol.records.batch import BATCH_HEADER_SIZE_BYTES, BatchHeader
from minikafka.storage.disk import DiskFile, FileCache
from minikafka.storage.index import INDEX_SUFFIX, DamagedIndex, IndexEntry, SparseIndex
from minikafka.storage.scan import DamagedSegment, walk_headers
from minikafka.storage.verified import VerifiedRanges

logger = logging.getLogger(__name__)

LOG_SUFFIX: Final = ".log"
INDEX_INTERVAL_BYTES: Final = 4096
"""Interval of an index that is rebuilt where the topic's settings are not at hand."""

_UNINDEXED_SIZE_BYTES_MAX: Final = 64 * 1024  # a larger segment without any entry lost its index


def offset_name(offset: int) -> str:
    """How Kafka names files: the offset in 20 digits, so that names sort as offsets do."""
    return f"{offset:020d}"


class SegmentFile:
    """A range of offsets in one file.

    Attributes:
        base_offset: Offset the file is named after; no record in it has a smaller one.
        next_offset: Offset after its last batch, or where the next segment begins.
        size_bytes: Bytes of whole batches in the file.
        path: The `.log` file.
        index: Its sparse index.
        first_timestamp: Largest timestamp of its first batch, -1 when there is none: segment.ms
            counts from it; None when it was not read yet.
        created_ms: When this process created or opened it: segment.ms counts from it when the
            first batch has no timestamp.
        is_synced: Everything in it is durable.
    """

    __slots__ = (
        "_files",
        "_index_is_complete",
        "_indexed_position",
        "_max_timestamp",
        "_positions",
        "_verified",
        "_verified_from",
        "base_offset",
        "created_ms",
        "first_timestamp",
        "index",
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
        """Describe a segment; nothing is read.

        Args:
            files: Open files.
            directory: The partition's directory.
            base_offset: Its first offset.
            now_ms: The clock.
        """
        stem = f"{directory}/{offset_name(base_offset)}"
        self._files: Final = files
        self.base_offset: Final = base_offset
        self.next_offset = base_offset
        self.size_bytes = 0
        self.path: Final = stem + LOG_SUFFIX
        self.index: Final = SparseIndex(files, stem + INDEX_SUFFIX)
        self.first_timestamp: int | None = -1
        self.created_ms = now_ms
        self.is_synced = True
        self._max_timestamp: int | None = -1
        self._indexed_position = 0  # of the last index entry
        self._index_is_complete = True  # this process noted every batch, or looked it through
        self._positions: dict[int, int] | None = None
        self._verified_from = 0  # from here on this process wrote or checked it
        self._verified: VerifiedRanges | None = None

    def adopt(self, size_bytes: int) -> None:
        """Take over a synced file of an earlier process; its bytes are checked when read first."""
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

    def note_batches(
        self, position: int, batches: Sequence[BatchHeader], index_interval_bytes: int
    ) -> None:
        """Index batches that are in the file from `position` on; they come after all others."""
        max_timestamp = -1 if self._max_timestamp is None else self._max_timestamp
        for header in batches:
            if position == 0:
                self.first_timestamp = header.max_timestamp
            elif position - self._indexed_position >= index_interval_bytes:
                relative_offset = header.base_offset - self.base_offset
                self.index.add(IndexEntry(relative_offset, position, max_timestamp))
                self._indexed_position = position
            if header.max_timestamp > max_timestamp:
                max_timestamp = header.max_timestamp
            position += header.size_bytes
        self._max_timestamp = max_timestamp

    def age_ms(self, timestamp: int, now_ms: int) -> int:
        """How long ago it was begun, for segment.ms.

        Kafka measures from the first batch's timestamp to that of the batch about to be appended
        (`timestamp`), so that replaying old records rolls as often as the first time did; without
        timestamps by the clock.

        Raises:
            DamagedSegment, OSError: the first batch has to be read, and cannot.
        """
        if self.first_timestamp is None:
            _, header = next(walk_headers(self.file, 0, self.size_bytes))
            self.first_timestamp = header.max_timestamp
        if self.first_timestamp >= 0 and timestamp >= 0:
            return timestamp - self.first_timestamp
        return now_ms - self.created_ms

    # --- finding -----------------------------------------------------------------------------

    def max_timestamp(self) -> int:
        """Largest timestamp in the segment, -1 when no batch has one.

        Raises:
            DamagedSegment, OSError: it has to be read, and cannot.
        """
        if self._max_timestamp is None:
            entry = self._checked_entry(self.index.last_entry)
            largest = entry.max_timestamp_before
            for _, header in walk_headers(self.file, entry.position, self.size_bytes):
                largest = max(largest, header.max_timestamp)
            self._max_timestamp = largest
        return self._max_timestamp

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
            offset_min = self.base_offset + entry.relative_offset
        batches = walk_headers(self.file, position, self.size_bytes, offset_min)
        for batch_position, header in batches:
            if header.last_offset < offset:
                continue
            if header.base_offset > offset:
                next(batches, None)  # a gap, or a damaged offset: then the next one contradicts it
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

    def find_timestamp(self, timestamp: int, from_offset: int) -> tuple[int, BatchHeader] | None:
        """First batch with a timestamp >= the given one that ends at or after an offset.

        Raises:
            DamagedSegment, OSError: see `walk_headers`.
        """
        entry = self._checked_entry(lambda: self.index.lookup_timestamp(timestamp))
        for position, header in walk_headers(self.file, entry.position, self.size_bytes):
            if header.max_timestamp >= timestamp and header.last_offset >= from_offset:
                return position, header
        return None

    def _checked_entry(self, lookup: Callable[[], IndexEntry]) -> IndexEntry:
        """An index entry that points at the batch it names; a damaged index is rebuilt."""
        try:
            entry = lookup()
            if entry.position:
                if self._points_at_its_batch(entry):
                    return entry
                reason = (
                    f"no batch with relative offset {entry.relative_offset} at {entry.position}"
                )
            elif self._index_is_complete or not self._index_is_missing():
                return entry
            else:
                reason = "it is missing"
        except DamagedIndex as error:
            reason = str(error)
        logger.warning("%s: rebuilding the index: %s", self.path, reason)
        self.rebuild_index()
        return lookup()

    def _index_is_missing(self) -> bool:
        """Whether a segment of an earlier process has no entry though one is due. Looks once."""
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
        return header.base_offset == self.base_offset + entry.relative_offset

    def rebuild_index(self, index_interval_bytes: int = INDEX_INTERVAL_BYTES) -> None:
        """Make the index anew from the batch headers.

        Raises:
            DamagedSegment, OSError: see `walk_headers`; the index is as it was, because recovery
                needs it to find intact batches behind the damage.
        """
        old = self.index.set_aside()
        self.begin_rebuild()
        try:
            for position, header in walk_headers(self.file, 0, self.size_bytes):
                self.note_batches(position, (header,), index_interval_bytes)
        except DamagedSegment:
            self.index.take_back(old)
            raise
        old.clear()

    def begin_rebuild(self) -> None:
        """Forget index and timestamps; the caller notes every batch again. Raises OSError."""
        self.index.clear()
        self._index_is_complete = True
        self._indexed_position = 0
        self._max_timestamp = -1

    def finish_rebuild(
        self, size_bytes: int, next_offset: int, index_interval_bytes: int, *, again: bool
    ) -> None:
        """Every byte was just checked, and intact batches end at `size_bytes`.

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
        if not size_bytes:
            self.first_timestamp = -1

    def find_end(self) -> int:
        """Offset after the last batch, read from the file.

        Raises:
            DamagedSegment: batches do not end exactly at the end of the file.
            OSError: the disk failed.
        """
        entry = self._checked_entry(self.index.last_entry)
        self._indexed_position = entry.position
        largest = entry.max_timestamp_before
        next_offset = self.base_offset
        for _, header in walk_headers(self.file, entry.position, self.size_bytes):
            next_offset = header.next_offset
            largest = max(largest, header.max_timestamp)
        self._max_timestamp = largest
        return next_offset
