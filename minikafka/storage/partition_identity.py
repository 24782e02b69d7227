"""Whose directory it is, when a directory does not say so any more."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from minikafka.storage.checkpoints import LogIdentity, read_identity, write_identity
from minikafka.storage.disk import Disk
from minikafka.storage.errors import StorageError
from minikafka.storage.segment_file import LOG_SUFFIX

if TYPE_CHECKING:
    from minikafka.storage.log_directory import LogDirectory

logger = logging.getLogger(__name__)


def recover_identity(
    disk: Disk, directory: str, key: tuple[str, int], topic_id: bytes | None
) -> LogIdentity | None:
    """Read whose directory it is; one without records that does not say so is removed.

    Args:
        disk: Where it is.
        directory: The partition's directory.
        key: Topic and partition, from its name.
        topic_id: What the metadata says, None when it does not know the partition.

    Returns:
        None when the directory was removed.

    Raises:
        StorageError: it has records, and nobody knows whose.
        OSError: the disk failed.
    """
    try:
        return read_identity(disk, directory)
    except StorageError as error:
        if topic_id is not None:
            logger.error("taking topic id %s for it: %s", topic_id.hex(), error)
            identity = LogIdentity(*key, topic_id)
            write_identity(disk, directory, identity)
            return identity
        for name in disk.list_directory(directory):
            if name.endswith(LOG_SUFFIX) and disk.file_size(f"{directory}/{name}"):
                raise
        logger.warning("%s: removing a partition that was never finished", directory)
        disk.remove_directory(directory)
        return None


def claim_partition(directory: LogDirectory, key: tuple[str, int], topic_id: bytes) -> None:
    """Say whose a partition is whose directory does not: `reopen_log` can recover it then.

    For an offline partition that the metadata did not know when the directory was opened (a node
    of a cluster learns the end of the metadata only later). One that has its identity, or
    another's, stays as it is; so does one that cannot be written to.
    """
    if key in directory.topic_ids or key not in directory.offline:
        return
    path = f"{directory.path}/{key[0]}-{key[1]}"
    try:
        identity = recover_identity(directory.disk, path, key, topic_id)
    except (OSError, StorageError) as error:
        logger.error("partition %s-%d stays offline: %s", *key, error)
        return
    if identity is not None and (identity.topic, identity.partition) == key:
        directory.topic_ids[key] = identity.topic_id
