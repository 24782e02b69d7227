"""The aborted transactions of each segment, in Kafka's format: kafka-dump-log reads them.

    <offset>.txnindex    offset size
                              0    2 version, 0
                              2    8 producer id
                             10    8 first offset of the transaction
                             18    8 offset of its marker, which is in this segment
                             26    8 last stable offset after it

A segment without aborted transactions has no such file.

These files are only written, for tools. A broker has what it knows from producer snapshots and the
markers after them, because those have a CRC: a damaged entry here would show consumers records that
were aborted. A file that differs from what is known is written again when the log is opened.
"""

import logging
from collections.abc import Iterable
from struct import Struct
from typing import Final

from minikafka.storage.disk import FileCache
from minikafka.storage.file_names import TRANSACTION_INDEX_SUFFIX, offset_name
from minikafka.storage.segment import Segment
from minikafka.storage.transactions import AbortedTransaction, AbortedTransactions

logger = logging.getLogger(__name__)

ENTRY: Final = Struct(">hqqqq")
_VERSION: Final = 0
_SIZE_BYTES_MAX: Final = 2**31 - 1
"""Of a file: no segment can have as many markers."""


def encode_aborted(transactions: Iterable[AbortedTransaction]) -> bytes:
    """Content of a transaction index."""
    return b"".join([ENTRY.pack(_VERSION, *transaction) for transaction in transactions])


class AbortedIndexes:
    """The `.txnindex` files in a partition's directory.

    Attributes:
        base_offsets: Of the segments that have one.
    """

    __slots__ = ("_directory", "_files", "base_offsets")

    def __init__(self, files: FileCache, directory: str, base_offsets: Iterable[int] = ()) -> None:
        self._files: Final = files
        self._directory: Final = directory
        self.base_offsets = set(base_offsets)

    def path(self, base_offset: int) -> str:
        return f"{self._directory}/{offset_name(base_offset)}{TRANSACTION_INDEX_SUFFIX}"

    def add(self, segment: Segment, transaction: AbortedTransaction) -> None:
        """The marker of an aborted transaction was appended.

        A disk error here costs nothing but this entry, until the log is opened again.
        """
        path = self.path(segment.base_offset)
        try:
            file = self._files.open(path, create=True)
            self.base_offsets.add(segment.base_offset)
            file.pwritev([encode_aborted((transaction,))], file.size())
        except OSError as error:
            logger.warning("%s: tools will not see an aborted transaction: %s", path, error)

    def restore(
        self, segments: Iterable[Segment], aborted: AbortedTransactions, forgotten_before: int
    ) -> None:
        """Make the files of these segments agree with what is known.

        Args:
            segments: Some or all of the log's.
            aborted: Every aborted transaction whose marker is at `forgotten_before` or later.
            forgotten_before: A file may also have transactions that ended before this offset.

        Raises:
            OSError: the disk failed.
        """
        if not aborted and not self.base_offsets:
            return
        disk = self._files.disk
        for segment in segments:
            first = aborted.index_from(segment.base_offset)
            here = aborted[first : max(first, aborted.index_from(segment.next_offset))]
            is_there = segment.base_offset in self.base_offsets
            if not here and not is_there:
                continue
            path = self.path(segment.base_offset)
            expected = encode_aborted(here)
            found = b""
            if is_there:
                found = disk.read_file(path, size_bytes_max=_SIZE_BYTES_MAX)
            earlier = _earlier(found, expected)
            if earlier is not None and earlier < forgotten_before:
                continue
            logger.info("%s: writing it again, with %d transactions", path, len(here))
            self._files.forget(path)
            disk.replace_file(path, expected, sync=False)
            self.base_offsets.add(segment.base_offset)

    def remove(self, base_offset: int) -> None:
        """The segment was removed. Raises OSError."""
        if base_offset in self.base_offsets:
            self.base_offsets.discard(base_offset)
            self._files.forget(self.path(base_offset))
            self._files.disk.remove(self.path(base_offset))


def _earlier(found: bytes, expected: bytes) -> int | None:
    """The last marker of a file before the expected entries, -1 without; None if they differ."""
    size_bytes = len(found) - len(expected)
    if size_bytes < 0 or size_bytes % ENTRY.size or not found.endswith(expected):
        return None
    if not size_bytes:
        return -1
    last_offset: int = ENTRY.unpack_from(found, size_bytes - ENTRY.size)[3]
    return last_offset
