"""Reads the log for a share-partition: whole batches as a slice of a file, and what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...coordinator.share.share_partition import LogBatch
from ...protocol.records import BatchHeader
from ...storage.disk import FileSlice
from ...storage.log import Log
from ...storage.scan import DamagedSegment, walk_headers
from ...storage.transactions import AbortedTransaction

_RECORDS_READ_MAX = 100_000
"""Offsets whose headers are read at once, so that a turn stays short."""


class Found(NamedTuple):
    """What the log has for a share-partition.

    Attributes:
        records: whole batches; None if the log has none there.
        batches: their offsets.
        positions: where each of them begins in ``records``; one more for the end.
    """

    records: FileSlice | None
    batches: tuple[LogBatch, ...]
    positions: tuple[int, ...]

    def cut(self, first_offset: int, last_offset: int) -> FileSlice:
        """The batches that have these offsets, and those in between."""
        assert self.records is not None
        begin, end = 0, len(self.batches)
        while begin < end - 1 and self.batches[begin].last_offset < first_offset:
            begin += 1
        while end > begin + 1 and self.batches[end - 1].first_offset > last_offset:
            end -= 1
        start = self.positions[begin]
        return FileSlice(
            self.records.file, self.records.position + start, self.positions[end] - start
        )


def read_batches(
    log: Log, offset: int, *, size_bytes_max: int, records_max: int, is_committed: bool
) -> Found | None:
    """What the log has from an offset on; None if there is nothing that members may see yet.

    Args:
        log: of the partition.
        offset: where to begin.
        size_bytes_max: the first batch may be larger.
        records_max: how many are wanted; the last batch may have more.
        is_committed: only what belongs to no open transaction, and aborted batches have no records.

    Raises:
        LogError: the offset is outside the log, or the disk failed.
    """
    bound = log.last_stable_offset if is_committed else log.high_watermark
    if offset >= bound:
        return None
    read = log.read(offset, size_bytes_max=size_bytes_max, upper_bound_offset=bound)
    if read.records is None:
        return Found(None, (LogBatch(offset, bound - 1, has_records=False),), (0, 0))
    found = read.records
    aborted = log.aborted_transactions(offset, read.next_offset) if is_committed else ()
    batches: list[LogBatch] = []
    positions = [0]
    count = 0
    end = found.position + found.size_bytes
    try:
        for position, header in walk_headers(found.file, found.position, end):
            has_records = _has_records(header, aborted)
            batches.append(LogBatch(header.base_offset, header.last_offset, has_records))
            positions.append(position - found.position + header.size_bytes)
            count += header.last_offset - max(header.base_offset, offset) + 1
            if count >= min(records_max, _RECORDS_READ_MAX):
                break
    except (DamagedSegment, OSError) as error:
        raise log.refuse(error) from error
    return Found(found, tuple(batches), tuple(positions))


def _has_records(header: BatchHeader, aborted: Sequence[AbortedTransaction]) -> bool:
    if header.is_control or not header.record_count:
        return False
    return not (
        header.is_transactional
        and any(
            one.producer_id == header.producer_id
            and one.first_offset <= header.base_offset <= one.last_offset
            for one in aborted
        )
    )
