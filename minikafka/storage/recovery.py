"""Opening a partition's directory: tidy up, trust what was synced, salvage the rest.

In this order; each step can be repeated after a crash in the middle of it:

1. Leftovers: `.deleted`, `.cleaned`, `.tmp` and `.rewrite` files are removed, and indexes without a
   segment. A `.swap` file means that a compaction was committed: its swap is finished.
2. Segments that end at or below the recovery point were synced: they are trusted (and every batch
   is checked when it is first read), unless they are empty, which only compaction can have done.
   The last one is trusted if its batches end exactly at the end of its file, at or below the
   recovery point. After a clean stop their sizes are known as well: `Log.open` lowers the recovery
   point to the first segment that is not as it was left. After any other stop the indexes of the
   last segment, and of one that ends at the recovery point, are rebuilt from batch headers: they
   are synced only when the segment has been closed. So are those of an earlier format.
3. Every other segment is scanned batch by batch, see `salvage`, and its index is rebuilt.
4. Leader epochs come from their file and from the batches after it.
"""

import logging
from collections.abc import Iterable
from typing import Final

from minikafka.storage.aborted_index import AbortedIndexes
from minikafka.storage.checked_file import CHECKED_FILE_SIZE_BYTES_MAX, DamagedFile
from minikafka.storage.disk import FileCache
from minikafka.storage.file_names import (
    CLEANED_SUFFIX,
    CUT_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    QUARANTINE_SUFFIX,
    REWRITE_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_name,
    split_name,
)
from minikafka.storage.leader_epochs import LEADER_EPOCH_FILE_NAME, LeaderEpochCache
from minikafka.storage.log_config import LogConfig
from minikafka.storage.producer_snapshots import ProducerSnapshots
from minikafka.storage.repair import QuarantinedRange, repair_segment
from minikafka.storage.scan import DamagedSegment, walk_headers
from minikafka.storage.segment import Segment

logger = logging.getLogger(__name__)

_LOOKUP_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX)
_LEFTOVERS: Final = (DELETED_SUFFIX, CLEANED_SUFFIX, REWRITE_SUFFIX, TEMPORARY_SUFFIX)


class RecoveredDirectory:
    """What a partition's directory holds, after `recover`.

    Attributes:
        segments: At least one, in order.
        leader_epochs: The epoch cache.
        snapshots: The producer snapshots.
        aborted_indexes: The transaction indexes.
        quarantined: Offsets whose damaged batches were set aside, now or earlier.
        cut_offset: The log was cut here after it had been synced further, and what follows may not
            be synced; None if it was not.
        is_changed: Names were created, renamed or removed: the directory needs a sync.
    """

    def __init__(self, files: FileCache, directory: str, config: LogConfig) -> None:
        self.segments: list[Segment] = []
        self.leader_epochs = LeaderEpochCache()
        self.snapshots: Final = ProducerSnapshots(files.disk, directory)
        self.aborted_indexes: Final = AbortedIndexes(files, directory)
        self.quarantined: list[QuarantinedRange] = []
        self.cut_offset: int | None = None
        self.is_changed = False
        self._files: Final = files
        self._directory: Final = directory
        self._config: Final = config
        # What the epoch file says, None when it is lost. Every epoch is in it, because it is
        # written before any batch of a new epoch.
        self._known_epochs: LeaderEpochCache | None = None

    def recover(
        self,
        *,
        now_ms: int,
        recovery_point: int,
        log_start_offset: int,
        first_dirty_offset: int,
        was_clean: bool,
    ) -> None:
        """Open what is there, and create a first segment if there is none.

        Args:
            now_ms: The clock.
            recovery_point: Everything below this offset was synced.
            log_start_offset: Where an empty log begins.
            first_dirty_offset: Everything below it may have been compacted.
            was_clean: The last process closed the log, and so its indexes.

        Raises:
            StorageError: what is there cannot be made sense of.
            OSError: the disk failed.
        """
        disk = self._files.disk
        names = disk.list_directory(self._directory)
        if self._tidy(names):
            self.is_changed = True
            names = disk.list_directory(self._directory)
        base_offsets = self._take_names(names)
        if self.cut_offset is not None:
            recovery_point = min(recovery_point, self.cut_offset)
        if LEADER_EPOCH_FILE_NAME in names:
            self._load_epochs()
        indexed = {name.partition(".")[0] for name in names if name.endswith(_LOOKUP_SUFFIXES)}
        for base_offset, next_base in zip(base_offsets, [*base_offsets[1:], None], strict=False):
            segment = Segment(self._files, self._directory, base_offset, now_ms=now_ms)
            segment.adopt(disk.file_size(segment.path))
            self.segments.append(segment)
            gaps_allowed = self._config.cleanup_compact or base_offset < first_dirty_offset
            is_plausible = segment.size_bytes > 0 or gaps_allowed
            if next_base is not None and next_base <= recovery_point and is_plausible:
                segment.next_offset = next_base
                is_synced = was_clean or next_base < recovery_point
                self._check_index(segment, indexed, is_synced=is_synced)
            elif next_base is not None or not self._is_synced_to_its_end(
                segment, recovery_point, indexed, was_clean=was_clean
            ):
                self.quarantined += repair_segment(
                    self._files,
                    self._directory,
                    segment,
                    next_base=next_base,
                    epochs=self.leader_epochs,
                    known_epochs=self._known_epochs,
                    gaps_allowed=gaps_allowed,
                    index_interval_bytes=self._config.index_interval_bytes,
                )
        self.quarantined = sorted(set(self.quarantined))
        if not self.segments:
            self.segments.append(
                Segment.create(self._files, self._directory, log_start_offset, now_ms=now_ms)
            )
            self.is_changed = True
        end_offset = self.segments[-1].next_offset
        self._complete_epochs(log_start_offset, end_offset)
        if self.snapshots.keep(0, end_offset):  # before other batches get those offsets
            disk.sync_directory(self._directory)

    def _is_synced_to_its_end(
        self, segment: Segment, recovery_point: int, indexed: set[str], *, was_clean: bool
    ) -> bool:
        """Whether the last segment's batches end at the end of its file and were all synced."""
        if not segment.size_bytes:
            if offset_name(segment.base_offset) in indexed:
                segment.index.clear()  # the log was cut
            return True
        if segment.base_offset >= recovery_point:
            return False
        try:
            self._check_index(segment, indexed, is_synced=was_clean)
            next_offset = segment.find_end()
        except DamagedSegment:
            return False
        if next_offset != recovery_point:
            return False
        segment.next_offset = next_offset
        return True

    def _check_index(self, segment: Segment, indexed: set[str], *, is_synced: bool) -> None:
        """Rebuild the indexes of a trusted segment unless they can be trusted, too.

        Raises:
            DamagedSegment, OSError: the segment cannot be read.
        """
        has_index = offset_name(segment.base_offset) in indexed
        if has_index and segment.index.is_of_earlier_version():
            logger.info("%s: replacing the index, which an earlier version wrote", segment.path)
            is_synced = False
        elif has_index and (flaw := segment.index.flaw()):
            logger.warning("%s: rebuilding the index: %s", segment.path, flaw)
            is_synced = False
        if not is_synced:
            segment.rebuild_index(self._config.index_interval_bytes)
            self.is_changed = True

    def _tidy(self, names: list[str]) -> bool:
        """Remove leftovers and finish committed swaps; returns whether names changed."""
        is_changed = False
        stems = {name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)}
        for name in names:
            offsets, suffix = split_name(name)
            if suffix == SWAP_SUFFIX and len(offsets) == 2:
                finish_swap(self._files, self._directory, name, names)
                stems.add(offset_name(offsets[0]))
                is_changed = True
        for name in names:
            is_orphan = name.endswith(INDEX_SUFFIXES) and name.partition(".")[0] not in stems
            if name.endswith(_LEFTOVERS) or is_orphan:
                path = f"{self._directory}/{name}"
                if is_orphan:
                    logger.warning("%s: removing an index without its segment", path)
                self._files.disk.remove(path)
                is_changed = True
        return is_changed

    def _take_names(self, names: list[str]) -> list[int]:
        """Note what the names of the files say; returns where segments begin."""
        base_offsets: list[int] = []
        for name in names:
            offsets, suffix = split_name(name)
            if suffix == LOG_SUFFIX and len(offsets) == 1:
                base_offsets.append(offsets[0])
            elif suffix == SNAPSHOT_SUFFIX and len(offsets) == 1:
                self.snapshots.offsets.append(offsets[0])
            elif suffix == TRANSACTION_INDEX_SUFFIX and len(offsets) == 1:
                self.aborted_indexes.base_offsets.add(offsets[0])
            elif suffix in (LOG_SUFFIX, SNAPSHOT_SUFFIX):
                logger.warning(
                    "%s/%s is not a file of this log: ignoring it", self._directory, name
                )
            elif suffix == QUARANTINE_SUFFIX and len(offsets) == 2:
                self.quarantined.append(QuarantinedRange(*offsets))
            elif suffix == CUT_SUFFIX and len(offsets) == 1 and self.cut_offset is None:
                self.cut_offset = offsets[0]  # names are sorted: it is the lowest
        return base_offsets

    def _load_epochs(self) -> None:
        path = f"{self._directory}/{LEADER_EPOCH_FILE_NAME}"
        try:
            content = self._files.disk.read_file(path, size_bytes_max=CHECKED_FILE_SIZE_BYTES_MAX)
            self._known_epochs = LeaderEpochCache.decode(content, path=path)
        except DamagedFile as error:
            logger.warning("taking the leader epochs from the batches: %s", error)
            return
        self.leader_epochs = LeaderEpochCache(list(self._known_epochs.entries))

    def _complete_epochs(self, log_start_offset: int, end_offset: int) -> None:
        """Take what the file does not say from the batches; cut the epochs where the log ends."""
        known = self._known_epochs
        if known is None:
            self.leader_epochs = self._epochs_of_batches(0)
        self.leader_epochs.truncate_from_end(end_offset)
        entries = self.leader_epochs.entries
        first_known = entries[0][1] if entries else end_offset
        if known is not None and log_start_offset < first_known:
            # The file may be newer than the checkpoint with the log start offset: then it has
            # forgotten epochs of records that come back now.
            found = self._epochs_of_batches(log_start_offset, first_known)
            self.leader_epochs.prepend(found)
        known_entries = known.entries if known is not None else []
        self.leader_epochs.is_dirty = self.leader_epochs.entries != known_entries
        self.leader_epochs.is_unsynced = known is not None  # the last process may not have synced

    def _epochs_of_batches(self, first: int, end: int | None = None) -> LeaderEpochCache:
        """The epochs of the batches with offsets in [first, end)."""
        epochs = LeaderEpochCache()
        for segment in self.segments:
            if segment.next_offset <= first:
                continue
            for _, header in walk_headers(segment.file, 0, segment.size_bytes):
                if end is not None and header.base_offset >= end:
                    return epochs
                epoch = header.partition_leader_epoch
                if epoch > epochs.latest_epoch and header.next_offset > first:
                    epochs.assign(epoch, header.base_offset)
        return epochs


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
    (first, following), _ = split_name(swap_name)
    target = f"{directory}/{offset_name(first)}{LOG_SUFFIX}"
    for name in names:
        offsets, suffix = split_name(name)
        if suffix in (LOG_SUFFIX, *INDEX_SUFFIXES) and len(offsets) == 1:
            path = f"{directory}/{name}"
            # The first .log is replaced by the rename below, so that it is never missing.
            if first <= offsets[0] < following and path != target:
                files.forget(path)
                files.disk.remove(path)
    files.disk.rename(f"{directory}/{swap_name}", target)
    files.forget(target)
