"""Making a log durable without stopping it: prepare on the event loop, run anywhere, complete.

What is synced, in this order: the batches, the indexes of closed segments, the leader epochs, the
names in the directory. Producer snapshots are not synced: a damaged one is noticed and the log is
read instead.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from minikafka.storage.cut_marker import forget_cut
from minikafka.storage.disk import Disk, DiskFile
from minikafka.storage.leader_epochs import LEADER_EPOCH_FILE_NAME
from minikafka.storage.segment import Segment

if TYPE_CHECKING:
    from minikafka.storage.log_state import LogState

SEGMENTS_PER_FLUSH_MAX: Final = 8
"""Segments of one flush: their files are open at the same time. The rest waits for the next one."""


@dataclass(frozen=True, slots=True)
class FlushWork:
    """One flush.

    Attributes:
        end_offset: Everything below it is durable once `run` returned.
        disk: Where.
        files: Files to sync.
        paths: Files to open and sync.
        directories: Directories whose names to sync.
        cut_count: The log's, when it was prepared.
        segments: The segments whose bytes these are, with their sizes when it was prepared.
    """

    end_offset: int
    cut_count: int
    disk: Disk
    files: tuple[DiskFile, ...]
    paths: tuple[str, ...]
    directories: tuple[str, ...]
    segments: tuple[tuple[Segment, int], ...]

    def run(self) -> None:
        """Sync everything; the only slow part, and the only one that any thread may run.

        Raises:
            OSError: the disk failed: call `Log.fail` with it.
        """
        for file in self.files:
            file.fsync()
        for path in self.paths:
            self.disk.open(path).fsync()
        for directory in self.directories:
            self.disk.sync_directory(directory)


def write_epochs(log: "LogState") -> None:
    """Write the leader epochs if they changed; not synced. Raises OSError."""
    epochs = log.leader_epochs
    if epochs.is_dirty:
        path = f"{log.directory}/{LEADER_EPOCH_FILE_NAME}"
        log.files.disk.replace_file(path, epochs.encode(), sync=False)
        epochs.is_dirty = False
        epochs.is_unsynced = True


def prepare_flush(log: "LogState") -> FlushWork | None:
    """What has to be synced now, oldest segments first, None when nothing has.

    Raises:
        OSError: the disk failed.
    """
    unsynced = [segment for segment in log.segments if not segment.is_synced]
    epochs = log.leader_epochs
    if not unsynced:
        log.recovery_point = log.log_end_offset
        return None  # epochs without records and names of empty files are not worth a sync
    end_offset = log.log_end_offset
    if len(unsynced) > SEGMENTS_PER_FLUSH_MAX:
        del unsynced[SEGMENTS_PER_FLUSH_MAX:]
        end_offset = unsynced[-1].next_offset
    files: list[DiskFile] = []
    for segment in unsynced:
        files.append(segment.file)
        if segment is not log.segments[-1]:
            index_file = segment.index.written_file()
            if index_file is not None:
                files.append(index_file)
    paths, directories = log.unsynced_paths, log.unsynced_directories
    if epochs.is_dirty or epochs.is_unsynced:
        write_epochs(log)
        epochs.is_unsynced = False
        paths += (f"{log.directory}/{LEADER_EPOCH_FILE_NAME}",)
        if log.directory not in directories:
            directories += (log.directory,)
    work = FlushWork(
        end_offset,
        log.cut_count,
        log.files.disk,
        tuple(files),
        paths,
        directories,
        tuple((segment, segment.size_bytes) for segment in unsynced),
    )
    log.unsynced_paths = ()
    log.unsynced_directories = ()
    log.unflushed_since_ms = -1  # what is appended while it runs counts from then
    return work


def complete_flush(log: "LogState", work: FlushWork) -> None:
    """The work ran without an error: advance the recovery point, unless the log was cut."""
    if work.cut_count != log.cut_count:
        return  # other batches may have the offsets now
    for segment, size_bytes in work.segments:
        if segment.size_bytes == size_bytes:
            segment.is_synced = True
    log.recovery_point = max(log.recovery_point, min(work.end_offset, log.log_end_offset))
    forget_cut(log)
