"""The mark that a truncation leaves for the next recovery.

A checkpoint says that everything below its recovery point was synced, that everything below its
high watermark was committed, where the log starts, and how far it is compacted; recovery believes
it. After a cut, other batches take those offsets, and none of it is true of them; but the
checkpoint keeps saying so until the next one is written, and one with the old values may be on its
way in another thread. So a cut below anything that a checkpoint may claim leaves an empty file
`<offset>.cut` in the partition's directory, durable together with the cut. It is removed, again
durably, when a checkpoint of after the cut is durable: syncing the log is not enough, because the
old start of the log, high watermark and compacted part would be believed again.

A crash between the two distrusts what is true. Then some batches are checked needlessly, and the
high watermark is lower than before until replication finds it again: it can be below markers that
producer snapshots know to be settled.
"""

from typing import Final, NamedTuple

from minikafka.storage.disk import Disk
from minikafka.storage.file_names import CUT_SUFFIX, offset_name


class CutMarker:
    """The `.cut` file of one log.

    Attributes:
        offset: Checkpoints are not to be believed from here on; None without a file.
        claimed_end: A checkpoint may claim everything below this to be durable or committed.
        cut_count: How often the log was cut, with or without a file.
    """

    __slots__ = ("_directory", "_disk", "claimed_end", "cut_count", "offset")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk: Final = disk
        self._directory: Final = directory
        self.offset: int | None = None
        self.claimed_end = 0
        self.cut_count = 0

    def leave(self, end_offset: int, claimed_end: int) -> None:
        """Note that the log was cut at `end_offset`; the caller syncs the directory.

        Args:
            end_offset: Where the log ends now.
            claimed_end: The higher of recovery point and high watermark before the cut.

        Raises:
            OSError: the disk failed.
        """
        self.cut_count += 1
        claimed_end = max(self.claimed_end, claimed_end)
        if end_offset >= claimed_end:
            return
        self.claimed_end = claimed_end
        older = self.offset
        if older is None or end_offset < older:
            self._disk.open(self._path(end_offset), create=True).close()
            self.offset = end_offset
            if older is not None:
                self._disk.remove(self._path(older))

    def remove(self, superseded: "CutToSupersede") -> None:
        """A checkpoint is durable that was prepared when `superseded` was: remove the file.

        Not if the log has been cut since: the checkpoint may claim what that cut took away.

        Raises:
            OSError: the disk failed; the file counts as there.
        """
        if self.offset is None or superseded.cut_count != self.cut_count:
            return
        self._disk.remove(self._path(self.offset))
        self._disk.sync_directory(self._directory)
        self.offset = None
        self.claimed_end = superseded.claimed_end

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset_name(offset)}{CUT_SUFFIX}"


class CutToSupersede(NamedTuple):
    """A log whose marker a checkpoint makes superfluous.

    Attributes:
        marker: Of the log.
        cut_count: Its count when the checkpoint was prepared.
        claimed_end: The higher of recovery point and high watermark in the checkpoint.
    """

    marker: CutMarker
    cut_count: int
    claimed_end: int
