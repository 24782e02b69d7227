"""An append-only file of records for the metadata log: framed, checked, synced.

One `append` is one frame, so that after a crash all of its records are there or none:

    offset size
         0    4 "mkRL"
         4    4 CRC-32C of everything after it
         8    4 size of the payload
        12    4 number of records
        16    8 index of the first record
        24    8 position of this frame in the file
        32    8 position up to which the file was known to be durable when this was written
        40      payload: msgpack of the list of records

On opening, a damaged frame is a *torn write*, and is cut off, unless an intact frame behind it was
written after it had been synced. Then the disk lost something that was acknowledged, and the file
is refused: the metadata log must not forget a vote or a decision.
"""

import logging
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from struct import Struct
from typing import Final, cast

from minikafka.protocol.crc import crc32c, extend_crc32c
from minikafka.storage.checked_file import pack, unpack
from minikafka.storage.disk import Disk, DiskFile
from minikafka.storage.errors import StorageError

logger = logging.getLogger(__name__)

FRAME_SIZE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Largest frame that is written or believed."""

_MAGIC: Final = b"mkRL"
_HEADER: Final = Struct(">4sIIIQQQ")
_CHECKED_AT: Final = 8
_SEARCH_CHUNK_SIZE_BYTES: Final = 1024 * 1024


class DamagedRecordLog(StorageError):
    """Records that had been synced are damaged."""


class RecordLog:
    """A file of records, each known by its index.

    Attributes:
        first_index: Index of the first record in the file.
        next_index: Index of the next record.
        may_have_lost: The file was new when it was opened, or its end was cut: synced records may
            have been lost.
        is_usable: False after a failure that leaves it unknown what is in the file: it has to be
            reopened.
    """

    __slots__ = (
        "_disk",
        "_file",
        "_frame_positions",
        "_frame_starts",
        "_size_bytes",
        "_synced_size_bytes",
        "first_index",
        "is_usable",
        "may_have_lost",
        "next_index",
        "path",
    )

    def __init__(self, disk: Disk, path: str, file: DiskFile) -> None:
        """Use `open`."""
        self._disk: Final = disk
        self.path: Final = path
        self._file = file
        self.first_index = 0
        self.next_index = 0
        self.may_have_lost = False
        self.is_usable = True
        self._size_bytes = 0
        self._synced_size_bytes = 0
        self._frame_starts = array("Q")  # index of the first record of each frame
        self._frame_positions = array("Q")

    @classmethod
    def open(cls, disk: Disk, path: str) -> "RecordLog":
        """Open or create a record log; a torn tail is cut off.

        Raises:
            DamagedRecordLog: records that had been synced are damaged.
            OSError: the disk failed.
        """
        disk.remove(path + ".tmp")
        is_new = not disk.exists(path)
        log = cls(disk, path, disk.open(path, create=True))
        log.may_have_lost = is_new
        if is_new:
            disk.sync_directory(path.rpartition("/")[0])
        log._recover()
        return log

    def _recover(self) -> None:
        size_bytes = self._file.size()
        position = 0
        while position < size_bytes:
            frame = self._read_frame(position, size_bytes)
            if frame is None or (self._frame_starts and frame[0] != self.next_index):
                self._cut_torn_tail(position, size_bytes)
                break
            first_index, count, end = frame
            if not self._frame_starts:
                self.first_index = first_index
            self._note_frame(first_index, count, position)
            position = end
        self._size_bytes = position
        if position:
            # It may only be in the page cache, and its readers will act on it.
            self._file.fsync()
            self._synced_size_bytes = position

    def _note_frame(self, first_index: int, count: int, position: int) -> None:
        self._frame_starts.append(first_index)
        self._frame_positions.append(position)
        self.next_index = first_index + count

    def _read_frame(self, position: int, size_bytes: int) -> tuple[int, int, int] | None:
        """(first index, count, end) of an intact frame, None when there is none."""
        header = self._file.pread(position, _HEADER.size)
        if len(header) < _HEADER.size:
            return None
        magic, crc, length, count, first_index, own_position, _ = _HEADER.unpack(header)
        end = position + _HEADER.size + length
        if magic != _MAGIC or own_position != position or end > size_bytes:
            return None
        if length > FRAME_SIZE_BYTES_MAX:
            return None
        payload = self._file.pread(position + _HEADER.size, length)
        if extend_crc32c(crc32c(header, _CHECKED_AT), payload) != crc:
            return None
        return first_index, count, end

    def _cut_torn_tail(self, position: int, size_bytes: int) -> None:
        """Cut at `position`, unless something behind it proves that it had been synced."""
        for later in self._find_magic(position + 1, size_bytes):
            if self._read_frame(later, size_bytes) is None:
                continue
            header = self._file.pread(later, _HEADER.size)
            if _HEADER.unpack(header)[6] > position:
                raise DamagedRecordLog(
                    f"{self.path}: the frame at position {position} is damaged, and it had been "
                    f"synced before the intact one at {later} was written; restore the file from "
                    f"a copy, or move it away and see what can be recovered without it"
                )
        rest = self._file.pread(position, min(size_bytes - position, FRAME_SIZE_BYTES_MAX))
        kept_path = f"{self.path}.cut-at-{position}"
        self._disk.replace_file(kept_path, rest, sync=True)
        logger.error(
            "%s: cutting the last %d bytes, a torn write (they are in %s); the log continues at "
            "index %d",
            self.path,
            size_bytes - position,
            kept_path,
            self.next_index,
        )
        self._file.truncate(position)
        self._file.fsync()
        self.may_have_lost = True

    def _find_magic(self, position: int, size_bytes: int) -> Iterator[int]:
        while position < size_bytes:
            chunk = self._file.pread(position, _SEARCH_CHUNK_SIZE_BYTES + len(_MAGIC) - 1)
            found = chunk.find(_MAGIC)
            while found >= 0:
                yield position + found
                found = chunk.find(_MAGIC, found + 1)
            position += _SEARCH_CHUNK_SIZE_BYTES

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    # --- writing -----------------------------------------------------------------------------

    def append(self, records: Sequence[bytes], *, sync: bool = True) -> int:
        """Append records, all or none; any thread, one call at a time.

        Args:
            records: Their payloads.
            sync: Make them durable before returning.

        Returns:
            Index of the first of them.

        Raises:
            ValueError: no records, or more than a frame holds.
            OSError: the disk failed. If `is_usable` is still set, nothing was appended, and the
                next append may work: a full disk may have room again.
        """
        first_index = self.next_index
        frame = self._encode(records, first_index, self._size_bytes, self._synced_size_bytes)
        try:
            self._file.pwritev([frame], self._size_bytes)
        except OSError:
            self._undo_write(sync)
            raise
        if sync:
            self.is_usable = False
            self._file.fsync()
            self.is_usable = True
        self._note_frame(first_index, len(records), self._size_bytes)
        self._size_bytes += len(frame)
        if sync:
            self._synced_size_bytes = self._size_bytes
        return first_index

    def _undo_write(self, sync: bool) -> None:
        """Cut off what a failed write may have left."""
        self.is_usable = False
        self._file.truncate(self._size_bytes)
        if sync:
            self._file.fsync()
        self.is_usable = True

    @staticmethod
    def _encode(
        records: Sequence[bytes], first_index: int, position: int, synced_position: int
    ) -> bytes:
        payload = pack(list(records))
        if not records or len(payload) > FRAME_SIZE_BYTES_MAX:
            raise ValueError(
                f"{len(records)} records of {len(payload)} bytes together; one append takes at "
                f"least one record and at most {FRAME_SIZE_BYTES_MAX} bytes"
            )
        count = len(records)
        fields = (len(payload), count, first_index, position, synced_position)
        crc = extend_crc32c(crc32c(_HEADER.pack(_MAGIC, 0, *fields), _CHECKED_AT), payload)
        return _HEADER.pack(_MAGIC, crc, *fields) + payload

    def sync(self) -> None:
        """Make everything durable; any thread. Raises OSError."""
        size_bytes = self._size_bytes
        self._file.fsync()
        self._synced_size_bytes = max(self._synced_size_bytes, size_bytes)

    def truncate_to(self, index: int) -> None:
        """Remove the records from `index` on; durable on return.

        A power failure in the middle leaves all records or those below `index`, never fewer.

        Raises:
            ValueError: `index` is below the first record or past the end; or it lies inside the
                records of one append, and those below it do not fit into a frame.
            OSError: the disk failed.
        """
        if not self.first_index <= index <= self.next_index:
            raise ValueError(
                f"index {index} is outside the records {self.first_index} to {self.next_index}"
            )
        frame_count = bisect_left(self._frame_starts, index)
        if index == self.next_index:
            self.sync()
            return
        if index not in self._frame_starts[frame_count : frame_count + 1]:
            self._keep_below(index)
            return
        self._size_bytes = self._frame_positions[frame_count]
        self.next_index = index
        del self._frame_starts[frame_count:], self._frame_positions[frame_count:]
        self._file.truncate(self._size_bytes)
        self._file.fsync()
        self._synced_size_bytes = self._size_bytes

    def _keep_below(self, index: int) -> None:
        """Cut inside a frame: it cannot be shortened in place, so everything is rewritten."""
        kept = list(islice(self.records(), index - self.first_index))
        self.replace(kept, first_index=self.first_index)

    def replace(self, records: Sequence[bytes], *, first_index: int = 0) -> None:
        """Replace everything with `records`, atomically and durably: a snapshot.

        Args:
            records: The new content, at least one record.
            first_index: Index of the first of them.

        Raises:
            ValueError: no records, or more than a frame holds.
            OSError: the disk failed; the old or the new content is there.
        """
        frame = self._encode(records, first_index, 0, 0)
        self.is_usable = False
        try:
            self._disk.replace_file(self.path, frame, sync=True)
        finally:
            self._reopen()  # the old or the new content is there, and both are valid
        self._synced_size_bytes = self._size_bytes

    def _reopen(self) -> None:
        self._file.close()
        self._file = self._disk.open(self.path)
        self.first_index = self.next_index = self._synced_size_bytes = 0
        self._frame_starts = array("Q")
        self._frame_positions = array("Q")
        self._recover()
        self._disk.sync_directory(self.path.rpartition("/")[0])
        self.is_usable = True

    # --- reading -----------------------------------------------------------------------------

    def records(self, from_index: int = 0) -> Iterator[bytes]:
        """Every record from `from_index` on.

        Raises:
            DamagedRecordLog: the file was changed by someone else.
            OSError: the disk failed.
        """
        first_frame = max(0, bisect_right(self._frame_starts, from_index) - 1)
        for frame in range(first_frame, len(self._frame_starts)):
            records = self._records_at(self._frame_positions[frame])
            yield from records[max(0, from_index - self._frame_starts[frame]) :]

    def _records_at(self, position: int) -> list[bytes]:
        frame = self._read_frame(position, self._file.size())
        if frame is None:
            raise DamagedRecordLog(f"{self.path}: the frame at position {position} is damaged")
        payload = self._file.pread(position + _HEADER.size, frame[2] - position - _HEADER.size)
        return cast("list[bytes]", unpack(payload))

    def close(self) -> None:
        self._file.close()
