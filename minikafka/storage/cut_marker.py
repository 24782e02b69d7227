"""What a cut says to the next recovery: from here on nothing is known to be synced, or committed.

A checkpoint says that everything below its recovery point was synced, and that everything below its
high watermark was committed; and recovery believes it. After a cut other batches take those
offsets, of which neither is true; but the checkpoint goes on saying so until the next one is
written, and one with the old value may be on its way in another thread. So a cut below anything
that a checkpoint may claim leaves an empty file `<offset>.cut` in the partition's directory,
durable together with the cut. It goes when the log is synced as far as was claimed. If a crash
brings it back, some batches are checked that need not be.
"""

from typing import TYPE_CHECKING, Final

from minikafka.storage.segment_file import offset_name

if TYPE_CHECKING:
    from minikafka.storage.log_state import LogState

CUT_SUFFIX: Final = ".cut"


def remember_cut(log: "LogState", end_offset: int) -> None:
    """Leave a marker, before recovery point and high watermark are lowered.

    The caller syncs the directory.

    Raises:
        OSError: the disk failed.
    """
    claimed_end = max(log.claimed_end, log.recovery_point, log.high_watermark)
    if end_offset < claimed_end:
        log.claimed_end = claimed_end
        older = log.cut_offset
        if older is None or end_offset < older:
            log.files.disk.open(_path(log, end_offset), create=True).close()
            log.cut_offset = end_offset
            if older is not None:
                log.files.disk.remove(_path(log, older))


def forget_cut(log: "LogState") -> None:
    """Remove the marker when nothing that a checkpoint may claim is unsynced.

    Raises:
        OSError: the disk failed.
    """
    if log.cut_offset is not None and log.recovery_point >= log.claimed_end:
        log.files.disk.remove(_path(log, log.cut_offset))
        log.cut_offset = None


def _path(log: "LogState", offset: int) -> str:
    return f"{log.directory}/{offset_name(offset)}{CUT_SUFFIX}"
