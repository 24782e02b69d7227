"""One segment of a log: a `.log` file of whole batches and its sparse index.

A segment knows where its batches end (`size_bytes`, `next_offset`) and never looks at bytes past
that: an append that failed half-way left nothing behind. Only the last segment of a log is written
to. The file is opened through the `FileCache` each time it is needed.
"""

import logging
from collections.abc import Sequence
from typing import Final

from minikafka.protocol.records.batch import BatchHeader
from minikafka.storage.disk import Buffer, DiskFile, FileCache, FileSlice
from minikafka.storage.index import DamagedIndex
from minikafka.storage.leader_epochs import LeaderEpochCache
from minikafka.storage.results import LogRead
from minikafka.storage.scan import verify, walk_headers
from minikafka.storage.segment_file import SegmentFile
from minikafka.storage.verified import VerifiedRanges

logger = logging.getLogger(__name__)

REMEMBERED_POSITIONS_MAX: Final = 32
"""Readers per segment whose next position is remembered instead of searched."""

CHECKED_AT_ONCE_SIZE_BYTES: Final = 1024 * 1024
"""A read of bytes that nobody has checked yet ends here: small batches take 30 ms per MiB."""


class Segment(SegmentFile):
    """A range of offsets in one file; the state is described in `SegmentFile`."""

    __slots__ = ()

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
            size_bytes: How many that are.
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
            # Whoever reads along with the appends takes everything from where the last read ended.
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
        """Where the first batch that ends behind `limit` begins, and its base offset."""
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
        """Check a slice that was not checked by this process yet."""
        if self._verified is None:
            self._verified = VerifiedRanges()
        if not self._is_verified(start, end):
            verify(file, start, end, offset_min=offset_min, end_offset=end_offset, epochs=epochs)
            self._verified.add(start, end)

    # --- changing ----------------------------------------------------------------------------

    def truncate(self, offset: int) -> None:
        """Cut the batch that contains `offset` and everything after it; durable on return.

        Raises:
            DamagedSegment, OSError: see `walk_headers`.
        """
        found = self.find(offset)
        if found is None:  # what is behind the last batch was compacted away
            self.next_offset = self.find_end()
            return
        position = found[0]
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
            self.index.truncate(position)
            self._indexed_position = self.index.last_entry().position
        except DamagedIndex as error:
            logger.warning("%s: rebuilding the index: %s", self.path, error)
            self.rebuild_index()
        self.next_offset = self.find_end()

    def discard_past_end(self) -> None:
        """Cut, durably, what a failed append may have left behind `size_bytes`. Raises OSError."""
        file = self.file
        if file.size() > self.size_bytes:
            file.truncate(self.size_bytes)
            file.fsync()  # or a power failure may bring it back
