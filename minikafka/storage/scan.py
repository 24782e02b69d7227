"""Walking over the batches of a segment file.

`walk_headers` trusts the bytes and reads only headers (to find a position); `walk_intact` checks
every CRC (in recovery, and before serving bytes that this process has not seen). Both raise
`DamagedSegment` at the first position where no batch begins; the caller decides what to do.
"""

from collections.abc import Iterator
from typing import Final

from minikafka.protocol.crc import extend_crc32c
from minikafka.protocol.records.batch import (
    BATCH_HEADER_SIZE_BYTES,
    BatchHeader,
    crc_is_valid,
    parse_batch_header,
)
from minikafka.protocol.records.errors import CorruptBatchError
from minikafka.storage.disk import DiskFile
from minikafka.storage.errors import StorageError
from minikafka.storage.leader_epochs import LeaderEpochCache

_HEADERS_CHUNK_SIZE_BYTES: Final = 8 * 1024
_INTACT_CHUNK_SIZE_BYTES: Final = 512 * 1024
_CRC_START: Final = 21  # the CRC covers everything from attributes on


class DamagedSegment(StorageError):
    """A segment holds something other than an intact batch where one should begin.

    Attributes:
        is_torn: The file ends before the batch does, as after a torn write.
    """

    def __init__(self, message: str, path: str, position: int, *, is_torn: bool = False) -> None:
        super().__init__(message)
        self.path = path
        self.position = position
        self.is_torn = is_torn


def walk_headers(
    file: DiskFile, position: int, end: int, offset_min: int = 0
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of the batches in [position, end), in order.

    Args:
        file: A segment's file.
        position: Where a batch begins.
        end: Where the last one ends.
        offset_min: The first batch has this base offset or a higher one.

    Raises:
        DamagedSegment: no batch header where one should be, a batch that extends past `end`, or
            decreasing offsets.
        OSError: the disk failed.
    """
    return _walk(file, position, end, offset_min, _HEADERS_CHUNK_SIZE_BYTES, check_crc=False)


def walk_intact(
    file: DiskFile, position: int, end: int, offset_min: int = 0
) -> Iterator[tuple[int, BatchHeader]]:
    """Like `walk_headers`; also raises DamagedSegment for a batch with a wrong CRC."""
    return _walk(file, position, end, offset_min, _INTACT_CHUNK_SIZE_BYTES, check_crc=True)


def verify(
    file: DiskFile,
    position: int,
    end: int,
    *,
    offset_min: int,
    end_offset: int,
    epochs: LeaderEpochCache,
) -> None:
    """Check every batch in [position, end), which begins and ends at batches.

    Args:
        file: A segment's file.
        position: Where a batch begins.
        end: Where the last one ends.
        offset_min: The first batch has this base offset or a higher one.
        end_offset: The last batch ends below this offset.
        epochs: What each batch's leader epoch should be.

    Raises:
        DamagedSegment: not an intact batch, or one that does not belong there.
        OSError: the disk failed.
    """
    for batch_position, header in walk_intact(file, position, end, offset_min):
        epoch = epochs.epoch_for(header.last_offset)
        if header.next_offset > end_offset or (
            header.partition_leader_epoch != epoch and header.record_count
        ):
            raise DamagedSegment(
                f"{file.path}: the batch at {batch_position} says offsets {header.base_offset} to "
                f"{header.last_offset} and leader epoch {header.partition_leader_epoch}; the next "
                f"one begins at offset {end_offset} or before, and the epoch there is {epoch}",
                file.path,
                batch_position,
            )


def _walk(
    file: DiskFile,
    position: int,
    end: int,
    offset_min: int,
    chunk_size_bytes: int,
    *,
    check_crc: bool,
) -> Iterator[tuple[int, BatchHeader]]:
    chunk = b""
    chunk_start = position
    while position < end:
        in_chunk = position - chunk_start
        if in_chunk + BATCH_HEADER_SIZE_BYTES > len(chunk):
            chunk_start, in_chunk = position, 0
            chunk = file.pread(position, min(chunk_size_bytes, end - position))
        try:
            header = parse_batch_header(chunk, in_chunk)
        except CorruptBatchError as error:
            raise DamagedSegment(
                f"{file.path}: no batch begins at {position} of {end} bytes: {error}",
                file.path,
                position,
                is_torn=end - position < BATCH_HEADER_SIZE_BYTES,
            ) from error
        size_bytes = header.size_bytes
        if position + size_bytes > end:
            raise DamagedSegment(
                f"{file.path}: the batch at {position} has {size_bytes} bytes, but the log ends "
                f"at {end}",
                file.path,
                position,
                is_torn=True,
            )
        if header.base_offset < offset_min or header.last_offset_delta < 0:
            raise DamagedSegment(
                f"{file.path}: the batch at {position} says offsets {header.base_offset} to "
                f"{header.last_offset}, but {offset_min} is the lowest possible there",
                file.path,
                position,
            )
        if check_crc:
            if in_chunk + size_bytes > len(chunk) and size_bytes <= chunk_size_bytes:
                chunk_start, in_chunk = position, 0
                chunk = file.pread(position, min(chunk_size_bytes, end - position))
            if in_chunk + size_bytes <= len(chunk):
                is_valid = crc_is_valid(chunk, in_chunk, header)
            else:
                is_valid = batch_crc(file, position, size_bytes) == header.crc
            if not is_valid:
                raise DamagedSegment(
                    f"{file.path}: the batch at {position} (base offset {header.base_offset}, "
                    f"{size_bytes} bytes) has a wrong CRC",
                    file.path,
                    position,
                )
        yield position, header
        offset_min = header.next_offset
        position += size_bytes


def batch_crc(file: DiskFile, position: int, size_bytes: int) -> int:
    """CRC-32C of a batch in a file, read in pieces. Raises OSError."""
    crc = 0
    end = position + size_bytes
    position += _CRC_START
    while position < end:
        piece = file.pread(position, min(_INTACT_CHUNK_SIZE_BYTES, end - position))
        if not piece:
            break  # the file shrank: the CRC will not match
        crc = extend_crc32c(crc, piece)
        position += len(piece)
    return crc
