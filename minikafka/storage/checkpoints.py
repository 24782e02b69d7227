"""Offsets of all partitions in one small file per kind, and what a partition directory is.

A partition is named by its topic *id* here, so that a checkpoint of a deleted topic says nothing
about one that was created under the same name.
"""

import logging
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, cast

from minikafka.storage.checked_file import (
    CHECKED_FILE_SIZE_BYTES_MAX,
    DamagedFile,
    Plain,
    decode_checked,
    encode_checked,
)
from minikafka.storage.disk import Disk

logger = logging.getLogger(__name__)

PARTITION_METADATA_FILE_NAME: Final = "partition.metadata"
_PARTITION_KIND: Final = "partition"


class Checkpoint(StrEnum):
    """The kinds of checkpoint, by file name (Kafka's names)."""

    RECOVERY_POINT = "recovery-point-offset-checkpoint"
    LOG_START_OFFSET = "log-start-offset-checkpoint"
    HIGH_WATERMARK = "replication-offset-checkpoint"
    CLEANER_OFFSET = "cleaner-offset-checkpoint"


PartitionKey = tuple[bytes, int]
"""Topic id and partition."""


class LogIdentity(NamedTuple):
    """Which partition a directory holds."""

    topic: str
    partition: int
    topic_id: bytes


def read_checkpoint(disk: Disk, directory: str, kind: Checkpoint) -> dict[PartitionKey, int]:
    """Offsets of a checkpoint file; none when it is missing or damaged.

    Without recovery points every batch is checked, without log start offsets the segments say
    where a log begins, without high watermarks replication finds them again: nothing is lost.

    Raises:
        OSError: the disk failed.
    """
    path = f"{directory}/{kind}"
    if not disk.exists(path):
        return {}
    try:
        content = disk.read_file(path, size_bytes_max=CHECKED_FILE_SIZE_BYTES_MAX)
        value = decode_checked(kind, content, path=path)
    except DamagedFile as error:
        logger.warning("going on without this checkpoint: %s", error)
        return {}
    entries = cast("list[tuple[bytes, int, int]]", value)
    return {(topic_id, partition): offset for topic_id, partition, offset in entries}


@dataclass(frozen=True, slots=True)
class CheckpointWork:
    """Checkpoints to write: made on the event loop, `run` in any thread.

    Attributes:
        disk: Where.
        directory: The data directory.
        offsets: For each kind, (topic id, partition, offset).
        sync: Make them durable.
    """

    disk: Disk
    directory: str
    offsets: dict[Checkpoint, list[tuple[bytes, int, int]]]
    sync: bool

    def run(self) -> None:
        """Write the files. Raises OSError."""
        for kind, entries in self.offsets.items():
            value: list[Plain] = [list(entry) for entry in entries]
            self.disk.replace_file(
                f"{self.directory}/{kind}", encode_checked(kind, value), sync=self.sync
            )


def write_identity(disk: Disk, directory: str, identity: LogIdentity) -> None:
    """Write which partition a directory holds. Raises OSError."""
    path = f"{directory}/{PARTITION_METADATA_FILE_NAME}"
    disk.replace_file(path, encode_checked(_PARTITION_KIND, list(identity)), sync=False)


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
    value = cast("list[object]", decode_checked(_PARTITION_KIND, content, path=path))
    topic, partition, topic_id = value
    return LogIdentity(cast("str", topic), cast("int", partition), cast("bytes", topic_id))
