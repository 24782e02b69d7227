"""The slow half of compaction: read closed segments, write what remains of them.

Runs in a worker thread and touches nothing that the event loop changes: the source files are closed
segments that were synced, and the `.cleaned` files are its own.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from minikafka.protocol.records.batch import BatchHeader
from minikafka.protocol.records.compaction import encode_retained_records
from minikafka.protocol.records.errors import CorruptBatchError
from minikafka.protocol.records.record import Record, decode_records
from minikafka.storage.disk import Buffer, DiskFile, FileCache
from minikafka.storage.errors import StorageError
from minikafka.storage.index import IndexEntry, SparseIndex
from minikafka.storage.offset_map import OffsetMap
from minikafka.storage.scan import walk_intact
from minikafka.storage.transactions import AbortedRanges


@dataclass(frozen=True, slots=True)
class Source:
    """A closed segment to compact.

    Attributes:
        path: Its `.log` file.
        base_offset: Its first offset.
        next_offset: Where the next segment begins.
        size_bytes: Its size.
    """

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
        path: The file that was written.
        index_path: Its index.
        size_bytes: Its size.
        max_timestamp: Largest timestamp in it.
    """

    base_offset: int
    next_offset: int
    path: str
    index_path: str
    size_bytes: int = 0
    max_timestamp: int = -1


class CompactionCancelled(StorageError):
    """The new segments are not wanted any more."""


def build_offset_map(
    files: FileCache,
    sources: list[Source],
    first_dirty_offset: int,
    keys_max: int,
    is_cancelled: Callable[[], bool],
    aborted: AbortedRanges,
) -> OffsetMap:
    """Newest offsets of the keys in the dirty part.

    Args:
        files: Open files of this thread.
        sources: Segments in order.
        first_dirty_offset: Records below it were compacted before.
        keys_max: How many keys fit.
        is_cancelled: Asked before each batch.
        aborted: Batches whose records hide no others.

    Returns:
        A map that ends early, but after at least one batch, when there are too many keys.

    Raises:
        CompactionCancelled: on request.
        DamagedSegment, OSError: a segment cannot be read.
    """
    offset_map = OffsetMap(keys_max)
    offset_map.end_offset = first_dirty_offset
    for source in sources:
        if source.next_offset <= first_dirty_offset:
            continue
        file = files.open(source.path)
        for position, header in walk_intact(file, 0, source.size_bytes, source.base_offset):
            if is_cancelled():
                raise CompactionCancelled(f"{source.path}: compaction cancelled")
            if header.last_offset < first_dirty_offset:
                continue
            if offset_map.is_full:
                return offset_map
            # A marker's key is no key (KAFKA-14055).
            if not header.is_control and not aborted.covers(header):
                for record in _decode(file, position, header) or ():
                    if record.key is not None:
                        offset_map.put(record.key, record.offset)
            offset_map.end_offset = header.next_offset
        offset_map.end_offset = source.next_offset
    return offset_map


def _decode(file: DiskFile, position: int, header: BatchHeader) -> list[Record] | None:
    """Records of an intact batch; None when its producer sent nonsense, which then stays."""
    try:
        return decode_records(file.pread(position, header.size_bytes))
    except CorruptBatchError:
        return None


class Cleaner:
    """Writes the segments of one compaction."""

    def __init__(
        self,
        files: FileCache,
        offset_map: OffsetMap,
        *,
        now_ms: int,
        delete_retention_ms: int,
        index_interval_bytes: int,
        last_offsets_of_producers: dict[int, int],
        is_cancelled: Callable[[], bool],
        aborted: AbortedRanges,
    ) -> None:
        """Prepare.

        Args:
            files: Open files of this thread.
            offset_map: Newest offset of each key.
            now_ms: The clock when the compaction was planned.
            delete_retention_ms: delete.retention.ms.
            index_interval_bytes: index.interval.bytes.
            last_offsets_of_producers: For each producer id, where its newest batch ends: that
                batch's header is kept, or its sequence would be forgotten.
            is_cancelled: Asked before each batch.
            aborted: Batches of which nothing is kept.
        """
        self._files: Final = files
        self._aborted: Final = aborted
        self._offset_map: Final = offset_map
        self._now_ms: Final = now_ms
        self._delete_retention_ms: Final = delete_retention_ms
        self._index_interval_bytes: Final = index_interval_bytes
        self._last_offsets: Final = last_offsets_of_producers
        self._is_cancelled: Final = is_cancelled

    def write(self, sources: list[Source], cleaned: Cleaned) -> None:
        """Write one segment from several and sync it.

        Raises:
            CompactionCancelled: on request.
            DamagedSegment, OSError: a source cannot be read, or the disk failed.
        """
        disk = self._files.disk
        disk.remove(cleaned.path)
        disk.remove(cleaned.index_path)
        writer = disk.open(cleaned.path, create=True)
        index = SparseIndex(self._files, cleaned.index_path)
        indexed_position = 0
        for header, batch in self._remaining(sources):
            position = cleaned.size_bytes
            if position - indexed_position >= self._index_interval_bytes:
                relative_offset = header.base_offset - cleaned.base_offset
                index.add(IndexEntry(relative_offset, position, cleaned.max_timestamp))
                indexed_position = position
            writer.pwritev([batch], position)
            cleaned.size_bytes += len(batch)
            cleaned.max_timestamp = max(cleaned.max_timestamp, header.max_timestamp)
        index.write_tail()
        index_file = index.written_file()
        if index_file is not None:
            index_file.fsync()
        writer.fsync()

    def _remaining(self, sources: list[Source]) -> Iterator[tuple[BatchHeader, Buffer]]:
        for source in sources:
            file = self._files.open(source.path)
            for position, header in walk_intact(file, 0, source.size_bytes, source.base_offset):
                if self._is_cancelled():
                    raise CompactionCancelled(f"{source.path}: compaction cancelled")
                batch = self._clean(file, position, header)
                if batch is not None:
                    yield header, batch

    def _clean(self, file: DiskFile, position: int, header: BatchHeader) -> Buffer | None:
        """What remains of a batch; None when nothing does."""
        if header.is_control or header.base_offset >= self._offset_map.end_offset:
            return file.pread(position, header.size_bytes)
        records = _decode(file, position, header)
        if records is None:
            return file.pread(position, header.size_bytes)
        horizon_ms = header.base_timestamp if header.has_delete_horizon else None
        retained = (
            []
            if self._aborted.covers(header)
            else [record for record in records if self._is_retained(record, horizon_ms)]
        )
        if not retained:
            is_last = self._last_offsets.get(header.producer_id) == header.last_offset
            return encode_retained_records(header, ()) if is_last else None
        if horizon_ms is None and any(record.value is None for record in retained):
            # KIP-534: the clock for tombstones begins when everything older than them is gone.
            horizon_ms = self._now_ms + self._delete_retention_ms
        elif len(retained) == len(records):
            return file.pread(position, header.size_bytes)
        return encode_retained_records(header, retained, delete_horizon_ms=horizon_ms)

    def _is_retained(self, record: Record, horizon_ms: int | None) -> bool:
        if record.key is None:  # from before the topic was compacted: no reader can want it
            return False
        if record.offset < self._offset_map.newest(record.key):
            return False
        return record.value is not None or horizon_ms is None or self._now_ms < horizon_ms
