"""The producer snapshots of one log: files that save reading the whole log to know its producers.

`snapshot_file` has their format.

A snapshot is written when a segment is closed. It is not synced (except before retention removes
the batches that it came from): a damaged one is noticed, and the log is read instead.

Aborted transactions stay as long as their records, so most snapshots have only those aborted since
the snapshot before, whose offset they name. A synced one has all of them, and so has the first one
that a process writes, and every sixteenth: then what is read when a log is opened has a bound.
"""

import logging
from collections.abc import Iterable
from typing import Final

from minikafka.storage.checked_file import CHECKED_FILE_SIZE_BYTES_MAX, DamagedFile
from minikafka.storage.disk import Disk
from minikafka.storage.file_names import SNAPSHOT_SUFFIX, offset_name
from minikafka.storage.markers import read_marker
from minikafka.storage.producer_state import ProducerStateManager
from minikafka.storage.scan import walk_headers
from minikafka.storage.segment import Segment

logger = logging.getLogger(__name__)


PARTIAL_SNAPSHOTS_MAX: Final = 15
"""Snapshots in a row that continue the ones before them."""


class ProducerSnapshots:
    """The `.snapshot` files in a partition's directory.

    Attributes:
        offsets: The offset of each, in the order they were written.
    """

    __slots__ = ("_directory", "_disk", "_partial_count", "_previous", "offsets")

    def __init__(self, disk: Disk, directory: str, offsets: Iterable[int] = ()) -> None:
        self._disk: Final = disk
        self._directory: Final = directory
        self.offsets = list(offsets)
        self._previous: int | None = None  # the last one that this process wrote
        self._partial_count = 0

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset_name(offset)}{SNAPSHOT_SUFFIX}"

    def write(self, producers: ProducerStateManager, offset: int, *, sync: bool = False) -> None:
        """Write the producers as of `offset`; one that exists is only rewritten to be synced.

        Raises:
            OSError: the disk failed.
        """
        is_new = offset not in self.offsets
        if is_new or sync:
            previous = self._previous
            is_whole = (
                sync
                or previous is None
                or self._partial_count >= PARTIAL_SNAPSHOTS_MAX
                or not producers.transactions.aborted
            )
            content = producers.encode(offset, None if is_whole else previous)
            self._disk.replace_file(self._path(offset), content, sync=sync)
            self._previous = offset
            self._partial_count = 0 if is_whole else self._partial_count + 1
        if is_new:
            self.offsets.append(offset)

    def keep(self, lowest: int, highest: int) -> bool:
        """Remove all snapshots but those from `lowest` to `highest`; returns whether any was.

        Raises:
            OSError: the disk failed.
        """
        stale = [offset for offset in self.offsets if not lowest <= offset <= highest]
        for offset in stale:
            self._disk.remove(self._path(offset))
            self.offsets.remove(offset)
        if self._previous in stale:
            self._previous = None
        return bool(stale)

    def restore(
        self, producers: ProducerStateManager, segments: list[Segment], *, now_ms: int
    ) -> None:
        """Rebuild the producers as of the end of the log.

        From the newest snapshot that can be used, and from the batches after it.

        Raises:
            DamagedSegment, OSError: the log cannot be read.
        """
        producers.clear()
        offset = self._load_newest(producers, segments, now_ms)
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
                    producers.update(header, header.base_offset, now_ms=now_ms, marker=marker)

    def _load_newest(
        self, producers: ProducerStateManager, segments: list[Segment], now_ms: int
    ) -> int:
        """Load a snapshot; returns its offset, or where the log starts if there is none to use."""
        start_offset, end_offset = segments[0].base_offset, segments[-1].next_offset
        for offset in reversed(self.offsets):
            if start_offset <= offset <= end_offset:
                try:
                    self._load(producers, offset, start_offset, now_ms)
                except (DamagedFile, FileNotFoundError) as error:
                    logger.warning("reading producers from the log instead: %s", error)
                    producers.clear()
                    continue
                return offset
        return start_offset

    def _load(
        self, producers: ProducerStateManager, offset: int, start_offset: int, now_ms: int
    ) -> None:
        path = self._path(offset)
        content = self._disk.read_file(path, size_bytes_max=CHECKED_FILE_SIZE_BYTES_MAX)
        earlier = producers.load(content, offset=offset, path=path, now_ms=now_ms)
        while earlier is not None and earlier > start_offset:
            path = self._path(earlier)
            content = self._disk.read_file(path, size_bytes_max=CHECKED_FILE_SIZE_BYTES_MAX)
            earlier = producers.load_earlier_aborted(content, offset=earlier, path=path)
