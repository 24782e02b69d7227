"""The sparse index of one segment: one small entry per index.interval.bytes of log.

One file serves offsets, positions and timestamps, because all three rise together. An entry stands
for a batch and says where it begins and what the largest timestamp *before* it is:

    offset size
         0    4 relative_offset            base offset of the batch minus that of the segment
         4    4 position                   of the batch in the segment's file
         8    8 max_timestamp_before       largest timestamp of all batches before it, -1 for none
        16    4 CRC-32C of the 16 bytes before

Every lookup ends on one entry whose CRC is checked, so an index that lost entries costs only time;
the reader then compares the batch header found there with the entry. The first interval has no
entry: a small segment has no index file at all.

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

logger = logging.getLogger(__name__)

ENTRY_SIZE_BYTES: Final = 20
RELATIVE_OFFSET_MAX: Final = 2**31 - 1
"""Largest relative offset: also what last_offset_delta of a batch can say."""

_ENTRY: Final = Struct(">IIqI")
_ENTRY_BODY: Final = Struct(">IIq")
_TAIL_ENTRIES_MAX: Final = 64
_BLOCK_ENTRIES: Final = 204  # one block of a search on disk: just under a page
_BLOCK_SIZE_BYTES: Final = _BLOCK_ENTRIES * ENTRY_SIZE_BYTES

# The three rising columns: how to read one out of an entry.
_RELATIVE_OFFSET: Final = (Struct(">I"), 0)
_POSITION: Final = (Struct(">I"), 4)
_TIMESTAMP: Final = (Struct(">q"), 8)
_Column = tuple[Struct, int]


class IndexEntry(NamedTuple):
    """Where a batch begins; (0, 0, -1) is the beginning of the segment."""

    relative_offset: int
    position: int
    max_timestamp_before: int


SEGMENT_START: Final = IndexEntry(0, 0, -1)


class DamagedIndex(StorageError):
    """An index entry has a wrong CRC: rebuild the index."""


def _entries_at_or_below(buffer: bytes | bytearray, column: _Column, bound: int) -> int:
    """How many entries of `buffer` have a value <= bound in a column that rises."""
    unpack_from = column[0].unpack_from
    field_offset = column[1]
    low, high = 0, len(buffer) // ENTRY_SIZE_BYTES
    while low < high:
        middle = (low + high) // 2
        if unpack_from(buffer, middle * ENTRY_SIZE_BYTES + field_offset)[0] <= bound:
            low = middle + 1
        else:
            high = middle
    return low


class SparseIndex:
    """Index of one segment; the file is opened when it is first needed."""

    __slots__ = ("_count_on_disk", "_files", "_tail", "path")

    def __init__(self, files: FileCache, path: str) -> None:
        self._files: Final = files
        self.path = path
        self._count_on_disk = -1  # not looked yet
        self._tail: bytearray | None = None

    def _disk_count(self) -> int:
        if self._count_on_disk < 0:
            disk = self._files.disk
            size_bytes = self._file().size() if disk.exists(self.path) else 0
            self._count_on_disk = size_bytes // ENTRY_SIZE_BYTES
        return self._count_on_disk

    def _file(self) -> DiskFile:
        return self._files.open(self.path, create=True)

    @property
    def entry_count(self) -> int:
        return self._disk_count() + len(self._tail or b"") // ENTRY_SIZE_BYTES

    def add(self, entry: IndexEntry) -> None:
        """Add an entry that is larger in every column than the last one.

        A disk error here loses entries, not records: it is logged, and searching gets slower.
        """
        tail = self._tail
        if tail is None:
            tail = self._tail = bytearray()
        body = _ENTRY_BODY.pack(*entry)
        tail += body
        tail += crc32c(body).to_bytes(4, "big")
        if len(tail) >= _TAIL_ENTRIES_MAX * ENTRY_SIZE_BYTES:
            try:
                self.write_tail()
            except OSError as error:
                logger.warning("%s: entries not written, reads get slower: %s", self.path, error)
                self._tail = None

    def write_tail(self) -> None:
        """Write the entries that are only in memory.

        Raises:
            OSError: the disk failed; the entries stay in memory.
        """
        if not self._tail:
            return
        count = self._disk_count()
        self._file().pwritev([self._tail], count * ENTRY_SIZE_BYTES)
        self._count_on_disk = count + len(self._tail) // ENTRY_SIZE_BYTES
        self._tail = None

    def lookup_offset(self, relative_offset: int) -> IndexEntry:
        """Last entry at or below an offset, or the segment's start.

        Raises:
            DamagedIndex: that entry has a wrong CRC.
            OSError: the disk failed.
        """
        return self._lookup(_RELATIVE_OFFSET, relative_offset)

    def lookup_position(self, position: int) -> IndexEntry:
        """Last entry at or below a position, or the segment's start. Raises like lookup_offset."""
        return self._lookup(_POSITION, position)

    def lookup_timestamp(self, timestamp: int) -> IndexEntry:
        """Last entry with only smaller timestamps before it. Raises like lookup_offset."""
        return self._lookup(_TIMESTAMP, timestamp - 1)

    def last_entry(self) -> IndexEntry:
        """The newest entry, or the segment's start. Raises like lookup_offset."""
        return self._lookup(_POSITION, 2**32)

    def entries(self) -> Iterator[IndexEntry]:
        """Every entry that has a correct CRC, in order; for recovery and for dumps.

        Raises:
            OSError: the disk failed.
        """
        count = self._disk_count()
        for first in range(0, count, _BLOCK_ENTRIES):
            size_bytes = min(_BLOCK_ENTRIES, count - first) * ENTRY_SIZE_BYTES
            yield from self._intact(self._file().pread(first * ENTRY_SIZE_BYTES, size_bytes))
        yield from self._intact(self._tail or b"")

    def _intact(self, buffer: bytes | bytearray) -> Iterator[IndexEntry]:
        for index in range(len(buffer) // ENTRY_SIZE_BYTES):
            try:
                entry = self._decode(buffer, index)
            except DamagedIndex:
                continue
            yield entry

    def _lookup(self, column: _Column, bound: int) -> IndexEntry:
        tail = self._tail
        if tail:
            count = _entries_at_or_below(tail, column, bound)
            if count:
                return self._decode(tail, count - 1)
        count = self._disk_count()
        if not count:
            return SEGMENT_START
        file = self._file()
        # The block whose first entry is the last one at or below the bound.
        low, high = 0, (count + _BLOCK_ENTRIES - 1) // _BLOCK_ENTRIES
        while high - low > 1:
            middle = (low + high) // 2
            first = self._pread(file, middle * _BLOCK_SIZE_BYTES, ENTRY_SIZE_BYTES)
            if _entries_at_or_below(first, column, bound):
                low = middle
            else:
                high = middle
        entries_in_block = min(_BLOCK_ENTRIES, count - low * _BLOCK_ENTRIES)
        block = self._pread(file, low * _BLOCK_SIZE_BYTES, entries_in_block * ENTRY_SIZE_BYTES)
        found = _entries_at_or_below(block, column, bound)
        return self._decode(block, found - 1) if found else SEGMENT_START

    def _pread(self, file: DiskFile, position: int, size_bytes: int) -> bytes:
        content = file.pread(position, size_bytes)
        if len(content) != size_bytes:
            raise DamagedIndex(f"{self.path}: ends before position {position + size_bytes}")
        return content

    def _decode(self, buffer: bytes | bytearray, index: int) -> IndexEntry:
        start = index * ENTRY_SIZE_BYTES
        relative_offset, position, max_timestamp_before, crc = _ENTRY.unpack_from(buffer, start)
        if crc32c(buffer, start, start + _ENTRY_BODY.size) != crc:
            raise DamagedIndex(f"{self.path}: an entry's CRC does not match")
        return IndexEntry(relative_offset, position, max_timestamp_before)

    def truncate(self, position: int) -> None:
        """Drop entries of batches that begin at `position` or later.

        Raises:
            DamagedIndex: an entry has a wrong CRC.
            OSError: the disk failed.
        """
        tail = self._tail
        if tail:
            del tail[_entries_at_or_below(tail, _POSITION, position - 1) * ENTRY_SIZE_BYTES :]
            if tail:
                return
            self._tail = None
        count = self._disk_count()
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            entry = self._pread(self._file(), middle * ENTRY_SIZE_BYTES, ENTRY_SIZE_BYTES)
            if self._decode(entry, 0).position < position:
                low = middle + 1
            else:
                high = middle
        if low < count:
            self._file().truncate(low * ENTRY_SIZE_BYTES)
            self._count_on_disk = low

    def set_aside(self) -> "SparseIndex":
        """Start an empty index; the old one is returned as an index with a temporary name.

        Raises:
            OSError: the disk failed.
        """
        old = SparseIndex(self._files, self.path + ".tmp")
        self._files.forget(self.path)
        old._tail, self._tail = self._tail, None
        if self._files.disk.exists(self.path):
            self._files.disk.rename(self.path, old.path)
        else:
            old._count_on_disk = 0
        self._count_on_disk = 0
        return old

    def take_back(self, old: "SparseIndex") -> None:
        """Undo `set_aside`: the new index could not be built.

        Raises:
            OSError: the disk failed.
        """
        self.clear()
        self._files.forget(old.path)
        if self._files.disk.exists(old.path):
            self._files.disk.rename(old.path, self.path)
            self._count_on_disk = -1
        self._tail = old._tail

    def clear(self) -> None:
        """Drop all entries, and the file.

        Raises:
            OSError: the disk failed.
        """
        self._tail = None
        self._files.forget(self.path)
        self._files.disk.remove(self.path)
        self._count_on_disk = 0

    def discard_tail(self) -> None:
        """Forget the entries that are only in memory: the segment is being deleted."""
        self._tail = None

    def written_file(self) -> DiskFile | None:
        """The file to sync; None when nothing was written. Raises OSError."""
        return self._file() if self._disk_count() else None
