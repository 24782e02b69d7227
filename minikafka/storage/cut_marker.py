"""The mark that a truncation leaves for the next recovery.

A checkpoint says that everything below its recovery point was synced and everything below its high
watermark was committed, and recovery believes it. After a cut, other batches take those offsets,
and neither is true of them; but the checkpoint keeps saying so until the next one is written, and
one with the old values may be on its way in another thread. So a cut below anything that a
checkpoint may claim leaves an empty file `<offset>.cut` in the partition's directory, durable
together with the cut. It is removed once the log is synced as far as was claimed. If a crash brings
it back, some batches are checked needlessly.
"""

from typing import Final

from minikafka.storage.disk import Disk
from minikafka.storage.file_names import CUT_SUFFIX, offset_name


class CutMarker:
    """The `.cut` file of one log.

    Attributes:
        offset: Checkpoints are not to be believed from here on; None without a file.
        claimed_end: A checkpoint may claim everything below this to be durable or committed.
    """

    __slots__ = ("_directory", "_disk", "claimed_end", "offset")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk: Final = disk
        self._directory: Final = directory
        self.offset: int | None = None
        self.claimed_end = 0

    def leave(self, end_offset: int, claimed_end: int) -> None:
        """Note that the log was cut at `end_offset`; the caller syncs the directory.

        Args:
            end_offset: Where the log ends now.
            claimed_end: The higher of recovery point and high watermark before the cut.

        Raises:
            OSError: the disk failed.
        """
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

    def remove_if_synced(self, recovery_point: int) -> None:
        """Remove the file if everything that a checkpoint may claim is synced. Raises OSError."""
        if self.offset is not None and recovery_point >= self.claimed_end:
            self._disk.remove(self._path(self.offset))
            self.offset = None

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset_name(offset)}{CUT_SUFFIX}"
