"""The sparse indexes of one segment, in Kafka's formats: kafka-dump-log reads them.

About every index.interval.bytes of log a batch gets an entry in both files:

    <offset>.index       offset size
                              0    4 last offset of the batch minus that of the segment
                              4    4 position of the batch in the segment's file

    <offset>.timeindex   offset size
                              0    8 largest timestamp of that batch and all before it
                              8    4 last offset of the first batch that has it, minus that of
                                     the segment; such an entry is left out unless the timestamp
                                     is larger than that of the entry before it

When a segment is closed, its largest timestamp gets an entry, too. The first interval has none: a
small segment has no index files at all. Otherwise it has both, so one without the other is damage,
or comes from a version that had one file for both. Kafka makes the files of its active segment as
large as they may grow and cuts them later; these grow.

Nothing in them protects an entry from damage. So an entry is only a claim, and `Segment` believes
it once it has found the batch that it names; then an index that lost entries costs only time.

The newest entries are kept in memory (packed, a few hundred bytes) and written together; older ones
are searched on disk, so that an idle index takes no memory.
"""

import logging
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from minikafka.protocol.crc import crc32c
from minikafka.storage.disk import DiskFile, FileCache
from minikafka.storage.errors import StorageError
from minikafka.storage.file_names import INDEX_SUFFIX, TEMPORARY_SUFFIX, TIME_INDEX_SUFFIX

logger = logging.getLogger(__name__)

OFFSET_ENTRY: Final = Struct(">iI")
TIMESTAMP_ENTRY: Final = Struct(">qi")
RELATIVE_OFFSET_MAX: Final = 2**31 - 1
"""Largest relative offset: also what last_offset_delta of a batch can say."""

_TAIL_ENTRIES_MAX: Final = 64
_BLOCK_ENTRIES: Final = 340  # one block of a search on disk: a page or less
_NO_TIMESTAMP: Final = -1

# Minikafka 0.1 had one index, whose entries had 20 bytes: 16 and their CRC.
_EARLIER_ENTRY: Final = Struct(">IIqI")
_EARLIER_CHECKED_SIZE_BYTES: Final = 16

# The rising columns: how to read one out of an entry.
_OFFSET: Final = (Struct(">i"), 0)
_POSITION: Final = (Struct(">I"), 4)
_TIMESTAMP: Final = (Struct(">q"), 0)
_TIMESTAMP_OFFSET: Final = (Struct(">i"), 8)
_Column = tuple[Struct, int]


class IndexEntry(NamedTuple):
    """Where the batch begins that ends with an offset."""

    relative_offset: int
    position: int


class TimestampEntry(NamedTuple):
    """A batch whose largest timestamp is larger than any before it."""

    timestamp: int
    relative_offset: int


SEGMENT_START: Final = IndexEntry(-1, 0)
NO_TIMESTAMPS: Final = TimestampEntry(_NO_TIMESTAMP, -1)


class DamagedIndex(StorageError):
    """An index is not what was written: rebuild it."""


class _EntryFile:
    """Entries of one size, the newest in memory; the file is opened when it is first needed."""

    __slots__ = ("_count_on_disk", "_entry", "_files", "_tail", "path")

    def __init__(self, files: FileCache, path: str, entry: Struct) -> None:
        self._files: Final = files
        self.path: Final = path
        self._entry: Final = entry
        self._count_on_disk = -1  # not looked yet
        self._tail: bytearray | None = None

    @property
    def entry_size_bytes(self) -> int:
        return self._entry.size

    @property
    def count(self) -> int:
        count = self._count_on_disk
        if count < 0:
            count = self.count_on_disk()
        return count + len(self._tail) // self._entry.size if self._tail else count

    def count_on_disk(self) -> int:
        if self._count_on_disk < 0:
            exists = self._files.disk.exists(self.path)
            size_bytes = self.file().size() if exists else 0
            self._count_on_disk = size_bytes // self._entry.size
        return self._count_on_disk

    def file(self) -> DiskFile:
        return self._files.open(self.path, create=True)

    def add(self, entry: tuple[int, int]) -> int:
        """Add an entry in memory; returns how many have to be written."""
        tail = self._tail
        if tail is None:
            tail = self._tail = bytearray()
        tail += self._entry.pack(*entry)
        return len(tail) // self._entry.size

    def write_tail(self) -> None:
        """Write the entries that are only in memory. Raises OSError; they stay in memory then."""
        count = self.count_on_disk()
        file = self.file()  # which may have to be created, for no entries
        if self._tail:
            file.pwritev([self._tail], count * self._entry.size)
            self._count_on_disk = count + len(self._tail) // self._entry.size
            self._tail = None

    def discard_tail(self) -> None:
        self._tail = None

    def at_or_below(self, column: _Column, bound: int) -> tuple[int, int] | None:
        """The last entry with a value <= bound in a column that rises."""
        tail = self._tail
        if tail:
            count = self._at_or_below_in(tail, column, bound)
            if count:
                return self._decode(tail, count - 1)
        count = self.count_on_disk()
        if not count:
            return None
        size = self._entry.size
        # The block whose first entry is the last one at or below the bound.
        low, high = 0, (count + _BLOCK_ENTRIES - 1) // _BLOCK_ENTRIES
        while high - low > 1:
            middle = (low + high) // 2
            first = self._pread(middle * _BLOCK_ENTRIES * size, size)
            if self._at_or_below_in(first, column, bound):
                low = middle
            else:
                high = middle
        entries_in_block = min(_BLOCK_ENTRIES, count - low * _BLOCK_ENTRIES)
        block = self._pread(low * _BLOCK_ENTRIES * size, entries_in_block * size)
        found = self._at_or_below_in(block, column, bound)
        return self._decode(block, found - 1) if found else None

    def last(self) -> tuple[int, int] | None:
        """The newest entry."""
        size = self._entry.size
        if self._tail:
            return self._decode(self._tail, len(self._tail) // size - 1)
        count = self.count_on_disk()
        return self._decode(self._pread((count - 1) * size, size), 0) if count else None

    def entries(self) -> Iterator[tuple[int, int]]:
        """Every entry, in order. Raises OSError."""
        count = self.count_on_disk()
        size = self._entry.size
        for first in range(0, count, _BLOCK_ENTRIES):
            content = self._pread(first * size, min(_BLOCK_ENTRIES, count - first) * size)
            for index in range(len(content) // size):
                yield self._decode(content, index)
        for index in range(len(self._tail or b"") // size):
            yield self._decode(self._tail or b"", index)

    def _at_or_below_in(self, buffer: bytes | bytearray, column: _Column, bound: int) -> int:
        """How many entries of `buffer` have a value <= bound."""
        unpack_from = column[0].unpack_from
        field_offset = column[1]
        size = self._entry.size
        low, high = 0, len(buffer) // size
        while low < high:
            middle = (low + high) // 2
            if unpack_from(buffer, middle * size + field_offset)[0] <= bound:
                low = middle + 1
            else:
                high = middle
        return low

    def _pread(self, position: int, size_bytes: int) -> bytes:
        content = self.file().pread(position, size_bytes)
        if len(content) != size_bytes:
            raise DamagedIndex(f"{self.path}: ends before position {position + size_bytes}")
        return content

    def _decode(self, buffer: bytes | bytearray, index: int) -> tuple[int, int]:
        first, second = self._entry.unpack_from(buffer, index * self._entry.size)
        return first, second

    def truncate(self, column: _Column, bound: int) -> None:
        """Drop the entries with a value above the bound in a column that rises."""
        size = self._entry.size
        tail = self._tail
        if tail:
            del tail[self._at_or_below_in(tail, column, bound) * size :]
            if tail:
                return
            self._tail = None
        count = self.count_on_disk()
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            if self._at_or_below_in(self._pread(middle * size, size), column, bound):
                low = middle + 1
            else:
                high = middle
        if low < count:
            self.file().truncate(low * size)
            self._count_on_disk = low

    def move_to(self, other: "_EntryFile") -> None:
        """Give all entries to an index of another name, which loses its own; this one is empty."""
        disk = self._files.disk
        self._files.forget(self.path)
        other.clear()
        if disk.exists(self.path):
            disk.rename(self.path, other.path)
            other._count_on_disk = -1
        other._tail, self._tail = self._tail, None
        self._count_on_disk = 0

    def clear(self) -> None:
        """Drop all entries, and the file. Raises OSError."""
        self._tail = None
        self._files.forget(self.path)
        self._files.disk.remove(self.path)
        self._count_on_disk = 0


class SparseIndex:
    """Both indexes of one segment."""

    __slots__ = ("_files", "_last_timestamp", "_offsets", "_stem", "_times")

    def __init__(self, files: FileCache, stem: str, suffix: str = "") -> None:
        """Describe the indexes; nothing is read.

        Args:
            files: Open files.
            stem: Path of the segment, without `.log`.
            suffix: What the names end with while they are not in use.
        """
        self._files: Final = files
        self._stem: Final = stem
        self._offsets: Final = _EntryFile(files, f"{stem}{INDEX_SUFFIX}{suffix}", OFFSET_ENTRY)
        self._times: Final = _EntryFile(
            files, f"{stem}{TIME_INDEX_SUFFIX}{suffix}", TIMESTAMP_ENTRY
        )
        self._last_timestamp: int | None = None  # of the newest entry; None: not looked yet

    @property
    def path(self) -> str:
        """Path of the offset index, for messages."""
        return self._offsets.path

    @property
    def paths(self) -> tuple[str, str]:
        return self._offsets.path, self._times.path

    @property
    def entry_count(self) -> int:
        """Entries of the offset index."""
        return self._offsets.count

    def is_full(self, size_bytes_max: int) -> bool:
        """Whether another entry may make a file larger than segment.index.bytes.

        It is asked before every append, and takes every entry for one with a larger timestamp.
        """
        return self._offsets.count >= size_bytes_max // TIMESTAMP_ENTRY.size

    def add(self, entry: IndexEntry, largest: TimestampEntry) -> None:
        """Add an entry that is larger in every column than the last one.

        A disk error here loses entries, not records: it is logged, and searching gets slower.

        Args:
            entry: The batch.
            largest: The largest timestamp so far, this batch included.
        """
        self._add_timestamp(largest)
        if self._offsets.add(entry) >= _TAIL_ENTRIES_MAX:
            try:
                self.write_tail()
            except OSError as error:
                logger.warning("%s: entries not written, reads get slower: %s", self.path, error)
                self.discard_tail()

    def _add_timestamp(self, largest: TimestampEntry) -> None:
        last = self._last_timestamp
        if last is None:
            last = self.last_timestamp().timestamp
        if largest.timestamp > last:
            self._times.add(largest)
            last = largest.timestamp
        self._last_timestamp = last

    def close(self, largest: TimestampEntry | None) -> None:
        """The segment gets no more batches: write everything; its largest timestamp, if known, too.

        Raises:
            OSError: the disk failed; the entries stay in memory.
        """
        if self._offsets.count:
            if largest is not None:
                self._add_timestamp(largest)
            self.write_tail()

    def write_tail(self) -> None:
        """Write the entries that are only in memory.

        Timestamps first: an entry of the offset index says that they are complete so far.

        Raises:
            OSError: the disk failed; the entries stay in memory.
        """
        if self._offsets.count:
            self._times.write_tail()
            self._offsets.write_tail()

    def lookup_offset(self, relative_offset: int) -> IndexEntry:
        """Last entry at or below an offset, or the segment's start.

        Raises:
            DamagedIndex: the file is shorter than it was.
            OSError: the disk failed.
        """
        return _entry(self._offsets.at_or_below(_OFFSET, relative_offset))

    def lookup_position(self, position: int) -> IndexEntry:
        """Last entry at or below a position, or the segment's start. Raises like lookup_offset."""
        return _entry(self._offsets.at_or_below(_POSITION, position))

    def lookup_timestamp(self, timestamp: int) -> TimestampEntry:
        """Last entry at or below a timestamp; every batch before that one has only smaller ones.

        Raises like lookup_offset.
        """
        return _timestamp_entry(self._times.at_or_below(_TIMESTAMP, timestamp))

    def last_entry(self) -> IndexEntry:
        """The newest entry, or the segment's start. Raises like lookup_offset."""
        return _entry(self._offsets.last())

    def last_timestamp(self) -> TimestampEntry:
        """The largest timestamp up to the newest entry. Raises like lookup_offset."""
        return _timestamp_entry(self._times.last())

    def entries(self) -> Iterator[IndexEntry]:
        """Every entry of the offset index, in order. Raises like lookup_offset."""
        return map(IndexEntry._make, self._offsets.entries())

    def timestamps(self) -> Iterator[TimestampEntry]:
        """Every entry of the time index, in order. Raises like lookup_offset."""
        return map(TimestampEntry._make, self._times.entries())

    def truncate(self, position: int, relative_offset: int) -> None:
        """Drop what is said about the batch with this position and base offset, and all after it.

        Raises like lookup_offset.
        """
        self._last_timestamp = None
        self._times.truncate(_TIMESTAMP_OFFSET, relative_offset - 1)
        self._offsets.truncate(_POSITION, position - 1)

    def set_aside(self) -> "SparseIndex":
        """Start an empty index; the old one is returned as an index with a temporary name.

        Raises:
            OSError: the disk failed.
        """
        old = SparseIndex(self._files, self._stem, TEMPORARY_SUFFIX)
        self._last_timestamp = None
        self._offsets.move_to(old._offsets)
        self._times.move_to(old._times)
        return old

    def take_back(self, old: "SparseIndex") -> None:
        """Undo `set_aside`: the new index could not be built.

        Raises:
            OSError: the disk failed.
        """
        self._last_timestamp = None
        old._offsets.move_to(self._offsets)
        old._times.move_to(self._times)

    def clear(self) -> None:
        """Drop all entries, and the files.

        Raises:
            OSError: the disk failed.
        """
        self._last_timestamp = None
        self._offsets.clear()
        self._times.clear()

    def discard_tail(self) -> None:
        """Forget the entries that are only in memory: the segment is being deleted."""
        self._last_timestamp = None
        self._offsets.discard_tail()
        self._times.discard_tail()

    def written_paths(self) -> tuple[str, ...]:
        """The files to sync; none when nothing was written. Raises OSError."""
        return self.paths if self._offsets.count_on_disk() else ()

    def is_of_earlier_version(self) -> bool:
        """Whether minikafka 0.1 wrote the file. Raises OSError."""
        path = self._offsets.path
        size_bytes = self._files.disk.file_size(path) if self._files.disk.exists(path) else 0
        if not size_bytes or size_bytes % _EARLIER_ENTRY.size:
            return False
        first = self._offsets.file().pread(0, _EARLIER_ENTRY.size)
        crc: int = _EARLIER_ENTRY.unpack(first)[-1]
        return crc32c(first, 0, _EARLIER_CHECKED_SIZE_BYTES) == crc

    def flaw(self) -> str:
        """Why the files of an earlier process are of no use, "" if nothing speaks against them.

        Only what can be seen without the segment; `Segment` checks each entry that it uses.

        Raises:
            OSError: the disk failed.
        """
        for part in (self._offsets, self._times):
            if not self._files.disk.exists(part.path):
                return f"{part.path} is missing"
            if self._files.disk.file_size(part.path) % part.entry_size_bytes:
                return f"the last entry of {part.path} is incomplete"
        return ""


def _entry(found: tuple[int, int] | None) -> IndexEntry:
    return SEGMENT_START if found is None else IndexEntry._make(found)


def _timestamp_entry(found: tuple[int, int] | None) -> TimestampEntry:
    return NO_TIMESTAMPS if found is None else TimestampEntry._make(found)
