"""Which partition a directory holds: its `partition.metadata` file."""

import logging
from typing import Final, NamedTuple, cast

from minikafka.storage.checked_file import (
    CHECKED_FILE_SIZE_BYTES_MAX,
    DamagedFile,
    decode_checked,
    encode_checked,
)
from minikafka.storage.disk import Disk
from minikafka.storage.errors import StorageError
from minikafka.storage.file_names import LOG_SUFFIX

logger = logging.getLogger(__name__)

PARTITION_METADATA_FILE_NAME: Final = "partition.metadata"
_KIND: Final = "partition"


class LogIdentity(NamedTuple):
    """Which partition a directory holds."""

    topic: str
    partition: int
    topic_id: bytes


def write_identity(disk: Disk, directory: str, identity: LogIdentity) -> None:
    """Write which partition a directory holds. Raises OSError."""
    path = f"{directory}/{PARTITION_METADATA_FILE_NAME}"
    disk.replace_file(path, encode_checked(_KIND, list(identity)), sync=False)


def read_identity(disk: Disk, directory: str) -> LogIdentity:
    """Which partition a directory holds.

    Raises:
        DamagedFile: the file is damaged or missing.
        OSError: the disk failed.
    """
    path = f"{directory}/{PARTITION_METADATA_FILE_NAME}"
    try:
        content = disk.read_file(path, size_bytes_max=CHECKED_FILE_SIZE_BYTES_MAX)
    except FileNotFoundError:
        raise DamagedFile(f"{path} is missing: nothing says which topic this is") from None
    value = cast("list[object]", decode_checked(_KIND, content, path=path))
    topic, partition, topic_id = value
    return LogIdentity(cast("str", topic), cast("int", partition), cast("bytes", topic_id))


def recover_identity(
    disk: Disk, directory: str, key: tuple[str, int], topic_id: bytes | None
) -> LogIdentity | None:
    """Read which partition a directory holds; if it does not say, decide.

    Args:
        disk: Where it is.
        directory: The partition's directory.
        key: Topic and partition, from its name.
        topic_id: What the metadata says, None when it does not know the partition.

    Returns:
        None when the directory was removed: it had no records.

    Raises:
        StorageError: it has records, and nothing says of which partition.
        OSError: the disk failed.
    """
    try:
        return read_identity(disk, directory)
    except StorageError as error:
        if topic_id is not None:
            logger.error("assuming topic id %s: %s", topic_id.hex(), error)
            identity = LogIdentity(*key, topic_id)
            write_identity(disk, directory, identity)
            return identity
        for name in disk.list_directory(directory):
            if name.endswith(LOG_SUFFIX) and disk.file_size(f"{directory}/{name}"):
                raise
        logger.warning("%s: removing a partition that was never finished", directory)
        disk.remove_directory(directory)
        return None
