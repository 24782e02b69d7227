"""A data directory: its lock, its owner, its partitions and their checkpoints.

    .lock                                held while a broker runs; contains its process id
    meta                                 cluster id, node id, format version
    clean-shutdown                       the last broker closed every log, see `clean_stop`
    segment-sizes                        how large every segment was then
    recovery-point-offset-checkpoint     and three more, see `checkpoints`
    <topic>-<partition>/                 one log, see `file_names`
    <topic>-<partition>.<hex>-delete/    deleted, waiting for `delete_pending`
    <topic>-<partition>.<hex>-stray/     set aside by `set_aside_log`, and never used again

Appending a record touches nothing here. A partition that cannot be opened is listed in `offline`,
and its files are left as they are; the others open.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from minikafka.storage.checkpoints import (
    Checkpoint,
    CheckpointWork,
    PartitionKey,
    read_checkpoint,
)
from minikafka.storage.clean_stop import SegmentSizes, take_clean_stop, write_clean_stop
from minikafka.storage.cut_marker import CutToSupersede
from minikafka.storage.directory_meta import check_meta
from minikafka.storage.disk import OPEN_FILES_MAX, Disk, DiskLock, FileCache
from minikafka.storage.errors import StorageError
from minikafka.storage.log import Log
from minikafka.storage.log_config import LogConfig
from minikafka.storage.partition_identity import (
    PARTITION_METADATA_FILE_NAME,
    LogIdentity,
    recover_identity,
    write_identity,
)

logger = logging.getLogger(__name__)

LOCK_FILE_NAME: Final = ".lock"
_DELETE_SUFFIX: Final = "-delete"
_STRAY_SUFFIX: Final = "-stray"
_TOPIC_IN_DELETED_NAME_MAX: Final = 180  # a name has at most 255 bytes

DELETED_PARTITIONS_MAX: Final = 10_000
"""Deleted partitions remembered, in case one of them is created again soon."""

LogKey = tuple[str, int]
"""Topic and partition."""


class DirectoryStatistics(NamedTuple):
    size_bytes_by_partition: dict[LogKey, int]
    free_bytes: int


class LogDirectory:
    """A locked data directory and its logs.

    Attributes:
        cluster_id: The cluster it belongs to.
        files: Open files, shared by all logs.
        logs: The open logs; some may have gone offline since.
        topic_ids: Topic id of each partition in `logs` or `offline`.
        offline: Partitions that could not be opened, and why.
        was_clean_shutdown: The last broker here closed its logs, and all segments are as it left
            them (for KIP-966).
    """

    __slots__ = (
        "_checkpoints",
        "_deleted",
        "_kept_offsets",
        "_lock",
        "_pending_deletes",
        "_segment_sizes",
        "cluster_id",
        "disk",
        "files",
        "logs",
        "offline",
        "path",
        "topic_ids",
        "was_clean_shutdown",
    )

    def __init__(
        self, disk: Disk, path: str, cluster_id: str, lock: DiskLock, open_files_max: int
    ) -> None:
        """Use `open`."""
        self.disk: Final = disk
        self.path: Final = path
        self.cluster_id: Final = cluster_id
        self.files: Final = FileCache(disk, open_files_max)
        self.logs: dict[LogKey, Log] = {}
        self.topic_ids: dict[LogKey, bytes] = {}
        self.offline: dict[LogKey, StorageError] = {}
        self.was_clean_shutdown = False
        self._checkpoints: dict[Checkpoint, dict[PartitionKey, int]] = {}
        self._segment_sizes: Mapping[PartitionKey, SegmentSizes] = {}
        self._kept_offsets: dict[Checkpoint, dict[PartitionKey, int]] = {}
        # Deleted partitions that may still be in a checkpoint file, oldest first.
        self._deleted: dict[PartitionKey, None] = {}
        self._lock: Final = lock
        self._pending_deletes: list[str] = []

    @classmethod
    def open(
        cls,
        disk: Disk,
        path: str,
        *,
        node_id: int,
        new_cluster_id: str,
        cluster_id: str | None = None,
        open_files_max: int = OPEN_FILES_MAX,
    ) -> "LogDirectory":
        """Make the directory if it is missing, lock it, and check its owner.

        Args:
            disk: The disk.
            path: The data directory, without a slash at the end.
            node_id: This broker.
            new_cluster_id: Cluster id for a new directory.
            cluster_id: The cluster it must belong to, None for any.
            open_files_max: Most files to keep open.

        Raises:
            DirectoryLocked: another process holds it.
            WrongDataDirectory: it belongs to another cluster or node, or is of a newer format.
            OSError: the disk failed.
        """
        disk.make_directory(path)
        lock = disk.lock(f"{path}/{LOCK_FILE_NAME}")
        try:
            owner = check_meta(disk, path, node_id, cluster_id, new_cluster_id)
            directory = cls(disk, path, owner, lock, open_files_max)
            sizes = take_clean_stop(disk, path)
            directory.was_clean_shutdown = sizes is not None
            directory._segment_sizes = sizes or {}
        except BaseException:
            lock.release()
            raise
        return directory

    def open_all(
        self,
        config_for: Callable[[str], LogConfig],
        *,
        now_ms: int,
        topic_id_for: Callable[[str, int], bytes | None] = lambda _topic, _partition: None,
    ) -> None:
        """Open every log; any thread, before the directory is used.

        Args:
            config_for: Settings of a topic.
            now_ms: The clock.
            topic_id_for: The topic id that a partition should have, for a directory without
                `partition.metadata`; None when there should be no such partition.

        Raises:
            OSError: the directory itself cannot be read.
        """
        for kind in Checkpoint:
            self._checkpoints[kind] = read_checkpoint(self.disk, self.path, kind)
        for name in self.disk.list_directory(self.path):
            if name.endswith(_DELETE_SUFFIX):
                self._pending_deletes.append(f"{self.path}/{name}")
                continue
            topic, dash, partition = name.rpartition("-")
            if dash and topic and partition.isdecimal():
                key = (topic, int(partition))
                self._open_one(key, config_for(topic), now_ms, topic_id_for(*key))
        offline = {(self.topic_ids[key], key[1]) for key in self.offline if key in self.topic_ids}
        self._kept_offsets = {
            kind: {key: offset for key, offset in offsets.items() if key in offline}
            for kind, offsets in self._checkpoints.items()
        }
        there = {(topic_id, key[1]) for key, topic_id in self.topic_ids.items()}
        for offsets in self._checkpoints.values():
            self._deleted |= dict.fromkeys(offsets.keys() - there)
        self._checkpoints = {}
        self._segment_sizes = {}

    def _open_one(
        self, key: LogKey, config: LogConfig, now_ms: int, topic_id: bytes | None
    ) -> None:
        directory = self._directory_of(key)
        try:
            identity = recover_identity(self.disk, directory, key, topic_id)
            if identity is None:
                return
            if (identity.topic, identity.partition) != key:
                raise StorageError(
                    f"{directory} holds {identity.topic}-{identity.partition}; rename it back"
                )
            self.topic_ids[key] = identity.topic_id
            self._open_log(key, config, now_ms)
        except (OSError, StorageError) as error:
            logger.error("partition %s-%d is offline: %s", *key, error)
            self.offline[key] = (
                error if isinstance(error, StorageError) else StorageError(str(error))
            )

    def _open_log(self, key: LogKey, config: LogConfig, now_ms: int) -> Log:
        partition_key = (self.topic_ids[key], key[1])

        def checkpoint(kind: Checkpoint) -> int:
            return self._checkpoints.get(kind, {}).get(partition_key, 0)

        log = Log.open(
            self.files,
            self._directory_of(key),
            config,
            now_ms=now_ms,
            recovery_point=checkpoint(Checkpoint.RECOVERY_POINT),
            log_start_offset=checkpoint(Checkpoint.LOG_START_OFFSET),
            high_watermark=checkpoint(Checkpoint.HIGH_WATERMARK),
            first_dirty_offset=checkpoint(Checkpoint.CLEANER_OFFSET),
            segment_sizes=self._segment_sizes.get(partition_key),
        )
        if not log.is_as_left:
            self.was_clean_shutdown = False
        if not log.recovery_point:  # perhaps nothing here has ever been synced
            directory = self._directory_of(key)
            log.unsynced_paths = (f"{directory}/{PARTITION_METADATA_FILE_NAME}",)
            log.unsynced_directories = (directory, self.path)
        self.logs[key] = log
        self.offline.pop(key, None)
        return log

    def _directory_of(self, key: LogKey) -> str:
        return f"{self.path}/{key[0]}-{key[1]}"

    def claim_offline(self, topic: str, partition: int, topic_id: bytes) -> None:
        """Give an offline partition the identity that its directory lacks, so it can be reopened.

        For a partition that the metadata did not know when the directory was opened (a node of a
        cluster learns the end of the metadata only later). One that has an identity, its own or
        another's, stays as it is; so does one that cannot be written to.
        """
        key = (topic, partition)
        if key in self.topic_ids or key not in self.offline:
            return
        try:
            identity = recover_identity(self.disk, self._directory_of(key), key, topic_id)
        except (OSError, StorageError) as error:
            logger.error("partition %s-%d stays offline: %s", *key, error)
            return
        if identity is not None and (identity.topic, identity.partition) == key:
            self.topic_ids[key] = identity.topic_id

    def create_log(
        self, topic: str, topic_id: bytes, partition: int, config: LogConfig, *, now_ms: int
    ) -> Log:
        """Create a partition, or return it if it exists with the same topic id.

        Nothing is synced: a half-made partition that a power failure leaves without records is
        removed when the directory is opened.

        Raises:
            StorageError: it exists with another topic id, is offline, or the disk failed.
        """
        key = (topic, partition)
        if self.topic_ids.get(key, topic_id) != topic_id:
            raise StorageError(
                f"{self._directory_of(key)} holds another topic of that name, with id "
                f"{self.topic_ids[key].hex()}; delete that one first"
            )
        if key in self.offline:
            raise self.offline[key]
        log = self.logs.get(key)
        if log is not None:
            return log
        directory = self._directory_of(key)
        try:
            if (topic_id, partition) in self._deleted:
                # What the checkpoints say about the old log is not true of the new one.
                self.prepare_checkpoint(sync=True).run()  # its markers stay: another may be running
                del self._deleted[topic_id, partition]
            self.disk.make_directory(directory)
            write_identity(self.disk, directory, LogIdentity(topic, partition, topic_id))
            self.topic_ids[key] = topic_id
            log = self._open_log(key, config, now_ms)
        except OSError as error:
            self.topic_ids.pop(key, None)
            raise StorageError(f"{directory} cannot be created: {error}") from error
        return log

    def delete_log(self, topic: str, partition: int, *, unique_suffix: str) -> None:
        """Remove a partition; `delete_pending` removes its files.

        Args:
            topic: Its topic.
            partition: Its number.
            unique_suffix: Makes the directory's new name unique, for example 32 random hex digits.

        Raises:
            KeyError: there is no such partition.
            StorageError: the disk failed; the partition is offline.
        """
        self._pending_deletes.append(
            self._take_out((topic, partition), f"{unique_suffix}{_DELETE_SUFFIX}")
        )

    def set_aside_log(self, topic: str, partition: int, *, unique_suffix: str) -> str:
        """Remove a partition but keep its files; returns the directory they are in.

        Raises: see `delete_log`.
        """
        return self._take_out((topic, partition), f"{unique_suffix}{_STRAY_SUFFIX}")

    def _take_out(self, key: LogKey, suffix: str) -> str:
        """Forget a partition and rename its directory; returns the new path."""
        topic, partition = key
        directory = self._directory_of(key)
        if key not in self.topic_ids and key not in self.offline:
            raise KeyError(f"no partition {topic}-{partition} in {self.path}")
        log = self.logs.pop(key, None)
        if log is not None:
            log.close(clean=False)
        path = f"{self.path}/{topic[:_TOPIC_IN_DELETED_NAME_MAX]}-{partition}.{suffix}"
        try:
            # By name: scanning all open files would make deleting many logs quadratic.
            for file_name in self.disk.list_directory(directory):
                self.files.forget(f"{directory}/{file_name}")
            self.disk.rename(directory, path)
        except OSError as error:
            self.offline[key] = StorageError(f"{directory} cannot be renamed: {error}")
            raise self.offline[key] from error
        topic_id = self.topic_ids.pop(key, b"")
        for offsets in self._kept_offsets.values():
            offsets.pop((topic_id, partition), None)
        self.offline.pop(key, None)
        self._deleted[topic_id, partition] = None
        if len(self._deleted) > DELETED_PARTITIONS_MAX:
            del self._deleted[next(iter(self._deleted))]
        return path

    def delete_pending(self) -> int:
        """Remove the files of deleted partitions; any thread, one at a time.

        Returns:
            How many partitions.

        Raises:
            OSError: the disk failed; what could not be removed stays pending.
        """
        pending = list(self._pending_deletes)
        failures: list[OSError] = []
        if pending:
            self.disk.sync_directory(self.path)  # or a power failure undoes the renames
        for path in pending:
            try:
                self.disk.remove_directory(path)
                self._pending_deletes.remove(path)
            except OSError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return len(pending)

    def reopen_log(self, topic: str, partition: int, config: LogConfig, *, now_ms: int) -> Log:
        """Recover an offline partition from what is on disk; any thread.

        Segments are checked from the recovery point on, or from the damaged segment if that is
        lower.

        Raises:
            KeyError: there is no such partition.
            StorageError, OSError: it cannot be opened.
        """
        key = (topic, partition)
        if key not in self.topic_ids:
            raise KeyError(f"no partition {topic}-{partition} in {self.path}")
        old = self.logs.get(key)
        self.files.forget_directory(self._directory_of(key))
        if old is not None:
            old.close(clean=False)
            partition_key = (self.topic_ids[key], partition)
            self._checkpoints = {
                kind: {partition_key: offset} for kind, offset in _offsets_of(old).items()
            }
        else:
            self._checkpoints = self._kept_offsets
        try:
            log = self._open_log(key, config, now_ms)
        finally:
            self._checkpoints = {}
        for offsets in self._kept_offsets.values():
            offsets.pop((self.topic_ids[key], partition), None)
        return log

    def prepare_checkpoint(self, *, sync: bool = False) -> CheckpointWork:
        """The offsets of all logs, to be written every few seconds.

        `run` it in any thread, and then `complete` it, one after the other.

        With `sync` after DeleteRecords, or a crash may undo its effect.
        """
        offsets: dict[Checkpoint, list[tuple[bytes, int, int]]] = {
            kind: [(*key, offset) for key, offset in self._kept_offsets.get(kind, {}).items()]
            for kind in Checkpoint
        }
        cuts: list[CutToSupersede] = []
        for key, log in list(self.logs.items()):  # another thread may be reopening one
            cut = log.cut_to_supersede()
            if cut is not None:
                cuts.append(cut)
            topic_id = self.topic_ids[key]
            for kind, offset in _offsets_of(log).items():
                offsets[kind].append((topic_id, key[1], offset))
        return CheckpointWork(self.disk, self.path, offsets, sync, cuts)

    def write_checkpoint(self, *, sync: bool = False) -> None:
        """Prepare, run and complete a checkpoint, where nothing else writes one. Raises OSError."""
        work = self.prepare_checkpoint(sync=sync)
        work.run()
        for _ in work.complete():
            pass

    def statistics(self) -> DirectoryStatistics:
        """For DescribeLogDirs. Raises OSError."""
        return DirectoryStatistics(
            {key: log.size_bytes for key, log in list(self.logs.items())},
            self.disk.free_bytes(self.path),
        )

    def close(self, *, clean: bool = True, may_go_on: Callable[[], bool] = lambda: True) -> None:
        """Close every log, write the checkpoints and, if all went well, the clean marker; unlock.

        Any thread.

        Args:
            clean: Sync every log. Without it, files are just released, as if the process had been
                killed.
            may_go_on: Asked before each log; False ends the closing early. Then there is no clean
                marker, and the next start checks the logs that were left; nothing is lost.

        Raises:
            OSError: the disk failed.
        """
        try:
            if clean:
                is_clean = not self.offline
                for key, log in self.logs.items():
                    is_clean = is_clean and log.is_offline is None
                    if not may_go_on():
                        logger.warning("%s: out of time, not every log was closed", self.path)
                        is_clean = False
                        break
                    try:
                        log.close()
                    except StorageError as error:
                        logger.error("%s-%d was not closed cleanly: %s", *key, error)
                        is_clean = False
                self.write_checkpoint(sync=True)
                if is_clean:
                    sizes = {
                        (self.topic_ids[key], key[1]): log.segment_sizes()
                        for key, log in self.logs.items()
                    }
                    write_clean_stop(self.disk, self.path, sizes)
        finally:
            self.files.make_room()
            self._lock.release()


def _offsets_of(log: Log) -> dict[Checkpoint, int]:
    return {
        Checkpoint.RECOVERY_POINT: log.recovery_point,
        Checkpoint.LOG_START_OFFSET: log.log_start_offset,
        Checkpoint.HIGH_WATERMARK: log.high_watermark,
        Checkpoint.CLEANER_OFFSET: log.first_dirty_offset,
    }
