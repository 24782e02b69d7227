"""Offsets of all partitions, in one small file per kind.

Partitions are named by topic *id*, so that the checkpoint of a deleted topic says nothing about a
new one of the same name.
"""

import logging
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import cast

from minikafka.data_class import DataClass
from minikafka.storage.checked_file import (
    CHECKED_FILE_SIZE_BYTES_MAX,
    DamagedFile,
    Plain,
    decode_checked,
    encode_checked,
)
from minikafka.storage.cut_marker import CutToSupersede
from minikafka.storage.disk import Disk

logger = logging.getLogger(__name__)


class Checkpoint(StrEnum):
    """The kinds of checkpoint, by file name (Kafka's names)."""

    RECOVERY_POINT = "recovery-point-offset-checkpoint"
    LOG_START_OFFSET = "log-start-offset-checkpoint"
    HIGH_WATERMARK = "replication-offset-checkpoint"
    CLEANER_OFFSET = "cleaner-offset-checkpoint"


PartitionKey = tuple[bytes, int]
"""Topic id and partition."""


def read_checkpoint(disk: Disk, directory: str, kind: Checkpoint) -> dict[PartitionKey, int]:
    """The offsets in a checkpoint file; empty when it is missing or damaged.

    Nothing is lost then: without recovery points every batch is checked, without log start offsets
    the segments say where a log begins, and replication finds the high watermarks again.

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
        logger.warning("continuing without this checkpoint: %s", error)
        return {}
    entries = cast("list[tuple[bytes, int, int]]", value)
    return {(topic_id, partition): offset for topic_id, partition, offset in entries}


class CheckpointWork(DataClass):
    """Checkpoints to write: made on the event loop, `run` in any thread.

    Attributes:
        offsets: For each kind, (topic id, partition, offset).
        sync: Make them durable.
        cuts: What no earlier checkpoint knows; then they are made durable in any case.
    """

    disk: Disk
    directory: str
    offsets: dict[Checkpoint, list[tuple[bytes, int, int]]]
    sync: bool
    cuts: Sequence[CutToSupersede] = ()

    def run(self) -> None:
        """Write the files. Raises OSError."""
        sync = self.sync or bool(self.cuts)
        for kind, entries in self.offsets.items():
            value: list[Plain] = [list(entry) for entry in entries]
            self.disk.replace_file(
                f"{self.directory}/{kind}", encode_checked(kind, value), sync=sync
            )

    def complete(self) -> Iterator[None]:
        """The files were written: remove the markers of cuts, one for each step of this iterator.

        On the event loop, like cuts. Each takes as long as syncing a directory.
        """
        for cut in self.cuts:
            try:
                cut.marker.remove(cut)
            except FileNotFoundError:
                pass  # the partition was deleted meanwhile
            except OSError as error:  # it stays until the next checkpoint
                logger.warning("the mark of a truncation stays for now: %s", error)
            yield
