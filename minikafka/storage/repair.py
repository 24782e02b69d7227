"""The repair of a segment: damaged bytes are set aside, only intact batches are left.

`salvage` decides what is damaged. Every step here can be repeated after a crash in the middle of
it, and nothing is removed before its copy is durable.
"""

import logging
from collections.abc import Iterable
from typing import Final, NamedTuple

from minikafka.protocol.records.assembly import assemble_batch
from minikafka.storage.disk import FileCache
from minikafka.storage.errors import StorageError
from minikafka.storage.file_names import (
    QUARANTINE_SUFFIX,
    REWRITE_SUFFIX,
    offset_name,
    range_name,
)
from minikafka.storage.leader_epochs import LeaderEpochCache
from minikafka.storage.salvage import SegmentScan
from minikafka.storage.segment import Segment

logger = logging.getLogger(__name__)

TAIL_QUARANTINE_PART: Final = "-tail"
KEPT_QUARANTINE_PART: Final = "-kept"

_COPY_SIZE_BYTES: Final = 1024 * 1024
_TAIL_QUARANTINES_MAX: Final = 1000


class QuarantinedRange(NamedTuple):
    """Offsets whose batch recovery found damaged and set aside: [first_offset, next_offset)."""

    first_offset: int
    next_offset: int


def repair_segment(
    files: FileCache,
    directory: str,
    segment: Segment,
    *,
    next_base: int | None,
    epochs: LeaderEpochCache,
    known_epochs: LeaderEpochCache | None,
    gaps_allowed: bool,
    index_interval_bytes: int,
) -> list[QuarantinedRange]:
    """Check every batch of a segment and leave only intact ones in it.

    Args:
        files: Open files.
        directory: The partition's directory.
        segment: The segment, as large as its file.
        next_base: Where the next segment begins, None when there is none.
        epochs: Epochs up to this segment; those of its batches are added.
        known_epochs: What the epoch file says, None when it is lost.
        gaps_allowed: The segment may have been compacted, so offsets may be missing.
        index_interval_bytes: index.interval.bytes.

    Returns:
        Offsets lost in the middle; their bytes are in quarantine files.

    Raises:
        OSError: the disk failed.
        StorageError: there are too many quarantine files already.
    """
    size_bytes = segment.size_bytes
    file = segment.file
    hints = segment.index.set_aside()
    scan = SegmentScan(
        file,
        hints,
        base_offset=segment.base_offset,
        size_bytes=size_bytes,
        offset_limit=next_base,
        last_epoch=epochs.epoch_for(segment.base_offset - 1),
        gaps_allowed=gaps_allowed,
        known_epochs=known_epochs,
    )
    # The batches count: after a power failure the epoch file may be older than they are.
    epochs.truncate_from_end(segment.base_offset)
    segment.begin_rebuild()
    for position, header in scan.batches():
        segment.note_batches(position, (header,), index_interval_bytes)
        if header.partition_leader_epoch > epochs.latest_epoch:
            epochs.assign(header.partition_leader_epoch, scan.epoch_start(position, header))
    hints.clear()
    is_short = next_base is not None and scan.next_offset < next_base
    if next_base is not None and is_short and (scan.cut_reason or not gaps_allowed):
        scan.give_up_rest(next_base)
    elif scan.cut_reason:
        _report_cut(files, directory, segment, scan, size_bytes)
    quarantined: list[QuarantinedRange] = []
    if scan.holes:
        quarantined = _fill_holes(files, directory, segment, scan)
    elif scan.end < size_bytes:
        file.truncate(scan.end)
        file.fsync()  # or a power failure brings the damage back
    segment.finish_rebuild(scan.end, scan.next_offset, index_interval_bytes, again=bool(scan.holes))
    if next_base is not None:
        segment.next_offset = next_base
    return quarantined


def _report_cut(
    files: FileCache, directory: str, segment: Segment, scan: SegmentScan, size_bytes: int
) -> None:
    if scan.is_torn:
        logger.warning(
            "%s; cutting the last %d bytes, a torn write; the log continues at offset %d",
            scan.cut_reason,
            size_bytes - scan.end,
            scan.next_offset,
        )
        return
    for number in range(_TAIL_QUARANTINES_MAX):
        name = f"{offset_name(scan.next_offset)}{TAIL_QUARANTINE_PART}{number}"
        path = f"{directory}/{name}{QUARANTINE_SUFFIX}"
        if not files.disk.exists(path):
            _copy(files, segment.path, path, [(scan.end, size_bytes)])
            files.disk.sync_directory(directory)
            logger.error(
                "%s; nothing intact follows; %d bytes set aside in %s; the log continues at "
                "offset %d",
                scan.cut_reason,
                size_bytes - scan.end,
                path,
                scan.next_offset,
            )
            return
    raise StorageError(f"{directory}: {_TAIL_QUARANTINES_MAX} quarantine files; remove some")


def _fill_holes(
    files: FileCache, directory: str, segment: Segment, scan: SegmentScan
) -> list[QuarantinedRange]:
    """Set damaged bytes aside and put empty batches in their place."""
    disk = files.disk
    rewrite_path = segment.path + REWRITE_SUFFIX
    pieces: list[tuple[int, int] | bytes] = []
    quarantined: list[QuarantinedRange] = []
    position = 0
    for hole in scan.holes:
        quarantined.append(QuarantinedRange(hole.first_offset, hole.next_offset))
        path = quarantine_path(directory, quarantined[-1])
        _copy(files, segment.path, path, [(hole.position, hole.end)])
        logger.error(
            "%s: offsets %d to %d are damaged and can no longer be read; their %d bytes are in %s",
            segment.path,
            hole.first_offset,
            hole.next_offset - 1,
            hole.end - hole.position,
            path,
        )
        filler = empty_batch(
            hole.first_offset, hole.next_offset - hole.first_offset, hole.leader_epoch
        )
        pieces += [(position, hole.position), filler]
        position = hole.end
    pieces.append((position, scan.end))
    scan.end = _copy(files, segment.path, rewrite_path, pieces)
    disk.sync_directory(directory)  # the quarantine files, before their originals go
    files.forget(segment.path)
    disk.rename(rewrite_path, segment.path)
    disk.sync_directory(directory)
    return quarantined


def quarantine_path(directory: str, lost: QuarantinedRange) -> str:
    """Where the damaged bytes of these offsets are."""
    return f"{directory}/{range_name(*lost)}{QUARANTINE_SUFFIX}"


def keep_quarantined(files: FileCache, directory: str, damaged: Iterable[QuarantinedRange]) -> None:
    """Rename quarantine files so that recovery no longer reports them; durable on return.

    Raises:
        OSError: the disk failed.
    """
    for lost in damaged:
        path = quarantine_path(directory, lost)
        if files.disk.exists(path):
            kept = f"{path.removesuffix(QUARANTINE_SUFFIX)}{KEPT_QUARANTINE_PART}"
            files.disk.rename(path, f"{kept}{QUARANTINE_SUFFIX}")
    files.disk.sync_directory(directory)


def empty_batch(base_offset: int, count: int, leader_epoch: int) -> bytes:
    """A batch without records that takes the place of `count` offsets."""
    return bytes(
        assemble_batch(
            b"",
            record_count=0,
            last_offset_delta=count - 1,
            base_timestamp=-1,
            max_timestamp=-1,
            base_offset=base_offset,
            partition_leader_epoch=leader_epoch,
        )
    )


def _copy(
    files: FileCache, source: str, target: str, pieces: Iterable[tuple[int, int] | bytes]
) -> int:
    """Write ranges of `source` and literal bytes to a new file and sync it; returns its size."""
    files.disk.remove(target)
    reader = files.disk.open(source)
    writer = files.disk.open(target, create=True)
    written = 0
    for piece in pieces:
        if isinstance(piece, bytes):
            writer.pwritev([piece], written)
            written += len(piece)
            continue
        for position in range(piece[0], piece[1], _COPY_SIZE_BYTES):
            content = reader.pread(position, min(_COPY_SIZE_BYTES, piece[1] - position))
            writer.pwritev([content], written)
            written += len(content)
    writer.fsync()
    return written
