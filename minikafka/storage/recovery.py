"""Opening a partition's directory: tidy up, trust what was synced, salvage the rest.

Order, each step safe to repeat after a crash in the middle of it:

1. Leftovers: `.deleted`, `.cleaned`, `.tmp` and `.rewrite` files are removed, an index without its
   segment too; a `.swap` file means that a compaction was committed, and its swap is finished.
2. Segments that end at or below the recovery point were synced: they are trusted (and every batch
   is checked when it is read first). The last one is trusted if its batches end exactly at the end
   of its file, at or below the recovery point.
3. Every other segment is scanned batch by batch, see `salvage`; its index is made anew.
4. Leader epochs and producer state come from their files and from the batches after those.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from minikafka.storage.checked_file import CHECKED_FILE_SIZE_BYTES_MAX, DamagedFile
from minikafka.storage.disk import FileCache
from minikafka.storage.index import INDEX_SUFFIX
from minikafka.storage.leader_epochs import LEADER_EPOCH_FILE_NAME, LeaderEpochCache
from minikafka.storage.log_config import LogConfig
from minikafka.storage.markers import read_marker
from minikafka.storage.producer_state import ProducerStateManager
from minikafka.storage.repair import (
    REWRITE_SUFFIX,
    repair_segment,
)
from minikafka.storage.results import QuarantinedRange
from minikafka.storage.scan import DamagedSegment, walk_headers
from minikafka.storage.segment import Segment
from minikafka.storage.segment_file import LOG_SUFFIX, offset_name

logger = logging.getLogger(__name__)

DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
SNAPSHOT_SUFFIX: Final = ".snapshot"
TEMPORARY_SUFFIX: Final = ".tmp"

_OFFSET_DIGITS: Final = len(offset_name(0))


@dataclass(slots=True)
class Recovered:
    """What a directory holds.

    Attributes:
        segments: At least one, in order.
        leader_epochs: The epoch cache.
        quarantined: Offsets whose damaged batches were set aside, now or earlier.
        snapshot_offsets: Producer snapshots there are, rising.
        known_epochs: What the epoch file says, None when it is lost. Every epoch is in it, because
            it is written before any batch of a new epoch.
        cut_offset: The log was cut here after it had been synced further, and what follows may not
            be synced; None if it was not.
        is_changed: Names were created, renamed or removed: the directory needs a sync.
    """

    segments: list[Segment]
    leader_epochs: LeaderEpochCache
    quarantined: list[QuarantinedRange] = field(default_factory=list[QuarantinedRange])
    snapshot_offsets: list[int] = field(default_factory=list[int])
    known_epochs: LeaderEpochCache | None = None
    cut_offset: int | None = None
    is_changed: bool = False


def recover(
    files: FileCache,
    directory: str,
    config: LogConfig,
    *,
    now_ms: int,
    recovery_point: int,
    log_start_offset: int,
    first_dirty_offset: int,
) -> Recovered:
    """Open what is in a partition's directory, creating a first segment if there is none.

    Args:
        files: Open files.
        directory: An existing directory.
        config: The topic's settings.
        now_ms: The clock.
        recovery_point: Everything below this offset was synced.
        log_start_offset: Where an empty log begins.
        first_dirty_offset: Everything below it may have been compacted.

    Raises:
        StorageError: what is there cannot be made sense of.
        OSError: the disk failed.
    """
    names = files.disk.list_directory(directory)
    tidied = _tidy(files, directory, names)
    if tidied:
        names = files.disk.list_directory(directory)
    recovered = Recovered([], LeaderEpochCache(), is_changed=tidied)
    bases = _take_names(directory, names, recovered)
    if recovered.cut_offset is not None:
        recovery_point = min(recovery_point, recovered.cut_offset)
    if LEADER_EPOCH_FILE_NAME in names:
        _load_epochs(files, directory, recovered)
    for index, base_offset in enumerate(bases):
        next_base = bases[index + 1] if index + 1 < len(bases) else None
        segment = Segment(files, directory, base_offset, now_ms=now_ms)
        segment.adopt(files.disk.file_size(segment.path))
        recovered.segments.append(segment)
        if next_base is not None and next_base <= recovery_point:
            segment.next_offset = next_base
        elif next_base is not None or not _is_synced_to_its_end(segment, recovery_point):
            recovered.quarantined += repair_segment(
                files,
                directory,
                segment,
                next_base=next_base,
                epochs=recovered.leader_epochs,
                known_epochs=recovered.known_epochs,
                gaps_allowed=config.cleanup_compact or base_offset < first_dirty_offset,
                index_interval_bytes=config.index_interval_bytes,
            )
    recovered.quarantined = sorted(set(recovered.quarantined))
    if not recovered.segments:
        recovered.segments.append(Segment.create(files, directory, log_start_offset, now_ms=now_ms))
        recovered.is_changed = True
    if recovered.known_epochs is None:
        _rebuild_epochs(recovered)
    end_offset = recovered.segments[-1].next_offset
    recovered.leader_epochs.truncate_from_end(end_offset)
    known_entries = recovered.known_epochs.entries if recovered.known_epochs is not None else []
    recovered.leader_epochs.is_dirty = recovered.leader_epochs.entries != known_entries
    recovered.leader_epochs.is_unsynced = (
        recovered.known_epochs is not None
    )  # the last process may not have come to it
    _drop_late_snapshots(files, directory, recovered, end_offset)
    return recovered


def _take_names(directory: str, names: list[str], recovered: Recovered) -> list[int]:
    """Note what the names of the files say; returns where segments begin."""
    bases: list[int] = []
    for name in names:
        stem, dot, suffix = name.rpartition(".")
        match dot + suffix, offsets_in(stem):
            case ".log", (base_offset,):
                bases.append(base_offset)
            case ".snapshot", (offset,):
                recovered.snapshot_offsets.append(offset)
            case ".quarantine", (first_offset, next_offset):
                recovered.quarantined.append(QuarantinedRange(first_offset, next_offset))
            case ".cut", (offset,):
                if recovered.cut_offset is None or offset < recovered.cut_offset:
                    recovered.cut_offset = offset
            case ((".log" | ".snapshot"), _):
                logger.warning("%s/%s is not a file of this log: ignoring it", directory, name)
            case _:
                pass
    return bases


def _drop_late_snapshots(
    files: FileCache, directory: str, recovered: Recovered, end_offset: int
) -> None:
    """Remove snapshots of batches that are gone, before other batches get their offsets."""
    late = [offset for offset in recovered.snapshot_offsets if offset > end_offset]
    for offset in late:
        files.disk.remove(snapshot_path(directory, offset))
        recovered.snapshot_offsets.remove(offset)
    if late:
        files.disk.sync_directory(directory)


def offsets_in(stem: str) -> tuple[int, ...]:
    """The offsets a file is named after, as `offset_name` writes them; () for any other name."""
    parts = stem.split("-")
    if all(len(part) == _OFFSET_DIGITS and part.isascii() and part.isdigit() for part in parts):
        return tuple(map(int, parts))
    return ()


def _tidy(files: FileCache, directory: str, names: list[str]) -> bool:
    """Remove leftovers and finish committed swaps; returns whether names changed."""
    disk = files.disk
    is_changed = False
    log_stems = {name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)}
    swaps = [
        name
        for name in names
        if name.endswith(SWAP_SUFFIX) and len(offsets_in(name.removesuffix(SWAP_SUFFIX))) == 2
    ]
    for name in swaps:
        finish_swap(files, directory, name, names)
        log_stems.add(name[: len(offset_name(0))])
        is_changed = True
    leftovers = (DELETED_SUFFIX, CLEANED_SUFFIX, REWRITE_SUFFIX, TEMPORARY_SUFFIX)
    for name in names:
        is_orphan = name.endswith(INDEX_SUFFIX) and name.removesuffix(INDEX_SUFFIX) not in log_stems
        if name.endswith(leftovers) or is_orphan:
            if is_orphan:
                logger.warning("%s/%s: removing an index without its segment", directory, name)
            disk.remove(f"{directory}/{name}")
            is_changed = True
    return is_changed


def finish_swap(files: FileCache, directory: str, swap_name: str, names: Iterable[str]) -> None:
    """Replace segments by their compacted copy.

    Args:
        files: Open files.
        directory: The partition's directory.
        swap_name: `<base offset>-<next offset>.swap`; it stands for all segments that begin in
            that range.
        names: Names in the directory.

    Raises:
        OSError: the disk failed; to be repeated.
    """
    first, following = offsets_in(swap_name.removesuffix(SWAP_SUFFIX))
    target = f"{directory}/{offset_name(first)}{LOG_SUFFIX}"
    for name in names:
        stem, dot, suffix = name.rpartition(".")
        offsets = offsets_in(stem)
        if dot + suffix in (LOG_SUFFIX, INDEX_SUFFIX) and len(offsets) == 1:
            path = f"{directory}/{name}"
            # The first .log is replaced by the rename below, so that it is never missing.
            if first <= offsets[0] < following and path != target:
                files.forget(path)
                files.disk.remove(path)
    files.disk.rename(f"{directory}/{swap_name}", target)
    files.forget(target)


def _load_epochs(files: FileCache, directory: str, recovered: Recovered) -> None:
    path = f"{directory}/{LEADER_EPOCH_FILE_NAME}"
    try:
        content = files.disk.read_file(path, size_bytes_max=CHECKED_FILE_SIZE_BYTES_MAX)
        recovered.known_epochs = LeaderEpochCache.decode(content, path=path)
    except DamagedFile as error:
        logger.warning("taking the leader epochs from the batches: %s", error)
        return
    recovered.leader_epochs = LeaderEpochCache(list(recovered.known_epochs.entries))


def _rebuild_epochs(recovered: Recovered) -> None:
    epochs = LeaderEpochCache()
    for segment in recovered.segments:
        if segment.size_bytes:
            for _, header in walk_headers(segment.file, 0, segment.size_bytes):
                if header.partition_leader_epoch > epochs.latest_epoch:
                    epochs.assign(header.partition_leader_epoch, header.base_offset)
    recovered.leader_epochs = epochs


def _is_synced_to_its_end(segment: Segment, recovery_point: int) -> bool:
    """Whether the last segment's batches end at the end of its file and were all synced."""
    if not segment.size_bytes:
        return True
    if segment.base_offset >= recovery_point:
        return False
    try:
        next_offset = segment.find_end()
    except DamagedSegment:
        return False
    if next_offset != recovery_point:
        return False
    segment.next_offset = next_offset
    return True


def restore_producers(
    files: FileCache,
    directory: str,
    producer_state: ProducerStateManager,
    segments: list[Segment],
    snapshot_offsets: list[int],
    *,
    end_offset: int,
    now_ms: int,
) -> None:
    """Rebuild producer state as of `end_offset` from the newest usable snapshot and the log.

    Raises:
        DamagedSegment, OSError: the log cannot be read.
    """
    producer_state.clear()
    offset = segments[0].base_offset
    for snapshot_offset in reversed(snapshot_offsets):
        if offset <= snapshot_offset <= end_offset:
            path = snapshot_path(directory, snapshot_offset)
            try:
                content = files.disk.read_file(path, size_bytes_max=CHECKED_FILE_SIZE_BYTES_MAX)
                producer_state.load(content, offset=snapshot_offset, path=path, now_ms=now_ms)
            except (DamagedFile, FileNotFoundError) as error:
                logger.warning("reading producers from the log instead: %s", error)
                continue
            offset = snapshot_offset
            break
    for segment in segments:
        if segment.next_offset <= offset or not segment.size_bytes:
            continue
        found = segment.find(max(offset, segment.base_offset))
        if found is None:
            continue
        for position, header in walk_headers(segment.file, found[0], segment.size_bytes):
            if header.producer_id >= 0 and header.base_offset >= offset:
                marker = None
                if header.is_control:
                    marker = read_marker(segment.file.pread(position, header.size_bytes))
                producer_state.update(header, header.base_offset, now_ms=now_ms, marker=marker)


def snapshot_path(directory: str, offset: int) -> str:
    """File of the producer snapshot as of `offset`."""
    return f"{directory}/{offset_name(offset)}{SNAPSHOT_SUFFIX}"
