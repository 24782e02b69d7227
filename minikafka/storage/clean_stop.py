"""What a clean stop leaves: the sizes of all segments, and a marker that says they are final.

After a clean stop nothing is scanned, so a segment that was emptied, cut or removed in the meantime
would go unnoticed: nothing in the files that are left says that there was more. The marker names
the CRC of the sizes, so that those of an earlier stop are not taken for the last ones.
"""

import logging
from collections.abc import Mapping
from typing import Final, cast

from minikafka.protocol.crc import crc32c
from minikafka.storage.checked_file import (
    CHECKED_FILE_SIZE_BYTES_MAX,
    DamagedFile,
    Plain,
    decode_checked,
    encode_checked,
)
from minikafka.storage.checkpoints import PartitionKey
from minikafka.storage.disk import Disk

logger = logging.getLogger(__name__)

CLEAN_SHUTDOWN_FILE_NAME: Final = "clean-shutdown"
SEGMENT_SIZES_FILE_NAME: Final = "segment-sizes"
_MARKER_SIZE_BYTES_MAX: Final = 100

SegmentSizes = Mapping[int, int]
"""The size in bytes of each segment of a log, by base offset."""


def write_clean_stop(disk: Disk, path: str, sizes: Mapping[PartitionKey, SegmentSizes]) -> None:
    """Note in a data directory that every log was closed; durable on return. Raises OSError."""
    value: list[Plain] = [
        [*key, [number for segment in segments.items() for number in segment]]
        for key, segments in sizes.items()
    ]
    content = encode_checked(SEGMENT_SIZES_FILE_NAME, value)
    disk.replace_file(f"{path}/{SEGMENT_SIZES_FILE_NAME}", content, sync=True)
    disk.replace_file(f"{path}/{CLEAN_SHUTDOWN_FILE_NAME}", _marker(content), sync=True)


def _marker(sizes: bytes) -> bytes:
    return b"clean, CRC of %s: %08x\n" % (SEGMENT_SIZES_FILE_NAME.encode(), crc32c(sizes))


def take_clean_stop(disk: Disk, path: str) -> Mapping[PartitionKey, SegmentSizes] | None:
    """Remove the marker of a data directory, which counts once, and return the sizes.

    Returns:
        None after an unclean stop. Nothing is known about a partition that is not in it; that of
        an earlier version is empty.

    Raises:
        OSError: the disk failed.
    """
    marker_path = f"{path}/{CLEAN_SHUTDOWN_FILE_NAME}"
    if not disk.exists(marker_path):
        return None
    marker = disk.read_file(marker_path, size_bytes_max=_MARKER_SIZE_BYTES_MAX)
    disk.remove(marker_path)
    sizes_path = f"{path}/{SEGMENT_SIZES_FILE_NAME}"
    if not disk.exists(sizes_path):
        return {}
    content = disk.read_file(sizes_path, size_bytes_max=CHECKED_FILE_SIZE_BYTES_MAX)
    try:
        value = decode_checked(SEGMENT_SIZES_FILE_NAME, content, path=sizes_path)
        if marker != _marker(content):
            raise DamagedFile(f"{sizes_path} is not of the last clean stop")
    except DamagedFile as error:
        logger.warning("the sizes of segments cannot be checked: %s", error)
        return {}
    return {
        (topic_id, partition): dict(zip(numbers[::2], numbers[1::2], strict=True))
        for topic_id, partition, numbers in cast("list[tuple[bytes, int, list[int]]]", value)
    }
