"""What a log knows, how it is opened, and how it goes offline; `log` adds what it can do.

Invariants:

- log_start_offset <= high_watermark <= log_end_offset, and recovery_point <= log_end_offset.
- Segments are contiguous: each ends where the next begins; the last one takes the appends.
- Offsets, producer state, epochs and index change only after the bytes of an append are written.
- After a failed write, read or sync the log is offline: every call raises its `is_offline` error
  until it is opened anew, which recovers it from what is on disk (KAFKA-10778).
"""

import logging
from collections.abc import Callable
from typing import Final, ParamSpec, Self, TypeVar

from minikafka.storage.cut_marker import forget_cut
from minikafka.storage.disk import OUT_OF_DESCRIPTORS, FileCache
from minikafka.storage.errors import StorageError
from minikafka.storage.flushing import write_epochs
from minikafka.storage.leader_epochs import LeaderEpochCache
from minikafka.storage.log_config import LogConfig
from minikafka.storage.producer_state import ProducerStateManager
from minikafka.storage.recovery import recover, restore_producers
from minikafka.storage.results import QuarantinedRange
from minikafka.storage.scan import DamagedSegment
from minikafka.storage.segment import Segment
from minikafka.storage.truncation import truncate_fully_and_start_at

logger = logging.getLogger(__name__)

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class LogState:
    """The state of a partition's log.

    Attributes:
        files: Open files, shared with other logs.
        directory: The partition's directory.
        config: The topic's settings; assign new ones to change them.
        segments: In order, at least one.
        log_start_offset: First offset that can be read.
        log_end_offset: Offset of the next record.
        recovery_point: Everything below it is durable.
        expected_end_offset: Where the log ended at least, by its checkpoints: if it ends before,
            records are lost that may have been read (see `Log.skip_lost`).
        leader_epochs: Which epoch began where.
        producer_state: Idempotent producers.
        quarantined: Offsets whose damaged batches recovery set aside, until the log is cut there
            or they are given up with `Log.accept_damage`.
        is_offline: Why the log cannot be used, None when it can.
        first_dirty_offset: Everything below it has been compacted.
        snapshot_offsets: Producer snapshots there are on disk.
        pending_deletes: When to remove which `.deleted` file: (milliseconds, path).
        unsynced_directories: Directories whose names the next flush has to sync.
        unsynced_paths: Further files that it has to sync.
        claimed_end: A checkpoint may claim this much to be durable or committed, see `cut_marker`.
        cut_offset: Where that ceases to be true, None if it is.
        cut_count: How often the end was cut: work that was planned before a cut is void.
        unflushed_since_ms: When the oldest unsynced append was made, -1 when there is none.
    """

    __slots__ = (
        "_high_watermark",
        "claimed_end",
        "config",
        "cut_count",
        "cut_offset",
        "directory",
        "expected_end_offset",
        "files",
        "first_dirty_offset",
        "is_offline",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "pending_deletes",
        "producer_state",
        "quarantined",
        "recovery_point",
        "segments",
        "snapshot_offsets",
        "unflushed_since_ms",
        "unsynced_directories",
        "unsynced_paths",
    )

    def __init__(self, files: FileCache, directory: str, config: LogConfig) -> None:
        """Use `open`."""
        self.files: Final = files
        self.directory: Final = directory
        self.config = config
        self.segments: list[Segment] = []
        self.log_start_offset = 0
        self.log_end_offset = 0
        self._high_watermark = 0
        self.recovery_point = 0
        self.expected_end_offset = 0
        self.first_dirty_offset = 0
        self.leader_epochs = LeaderEpochCache()
        self.producer_state: Final = ProducerStateManager()
        self.snapshot_offsets: list[int] = []
        self.quarantined: tuple[QuarantinedRange, ...] = ()
        self.is_offline: StorageError | None = None
        self.pending_deletes: tuple[tuple[int, str], ...] = ()
        self.unsynced_directories: tuple[str, ...] = ()
        self.unsynced_paths: tuple[str, ...] = ()
        self.unflushed_since_ms = -1
        self.cut_count = 0
        self.claimed_end = 0
        self.cut_offset: int | None = None

    @classmethod
    def open(
        cls,
        files: FileCache,
        directory: str,
        config: LogConfig,
        *,
        now_ms: int,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        high_watermark: int = 0,
        first_dirty_offset: int = 0,
    ) -> Self:
        """Open a partition's directory and recover what an unclean stop left; any thread.

        Args:
            files: Open files.
            directory: An existing directory, possibly empty.
            config: The topic's settings.
            now_ms: The clock.
            recovery_point: Checkpoint: everything below it was synced.
            log_start_offset: Checkpoint: nothing below it is to be read.
            high_watermark: Checkpoint.
            first_dirty_offset: Checkpoint: everything below it has been compacted.

        Raises:
            StorageError: the directory holds something that cannot be made sense of.
            OSError: the disk failed.
        """
        log = cls(files, directory, config)
        log.recovery_point = recovery_point
        log.claimed_end = max(recovery_point, high_watermark)
        log.log_start_offset = log_start_offset
        log.first_dirty_offset = first_dirty_offset
        while True:
            try:
                log._recover(now_ms)
                break
            except DamagedSegment as damage:
                # A segment that was trusted: check it, too, and all after it.
                damaged_offset = log._segment_start(damage)
                if damaged_offset >= log.recovery_point:
                    raise
                logger.error(
                    "%s: checking the segment at %d: %s", directory, damaged_offset, damage
                )
                log.recovery_point = damaged_offset
        if all(segment.is_synced for segment in log.segments):
            log.recovery_point = log.log_end_offset
        if log.cut_offset is not None:
            recovery_point = min(recovery_point, log.cut_offset)
            high_watermark = min(high_watermark, log.cut_offset)
            forget_cut(log)
        log.expected_end_offset = max(recovery_point, high_watermark)
        log.high_watermark = high_watermark
        return log

    def _recover(self, now_ms: int) -> None:
        """Take over what is in the directory."""
        files, directory = self.files, self.directory
        recovered = recover(
            files,
            directory,
            self.config,
            now_ms=now_ms,
            recovery_point=self.recovery_point,
            log_start_offset=self.log_start_offset,
            first_dirty_offset=self.first_dirty_offset,
        )
        self.cut_offset = recovered.cut_offset
        if recovered.cut_offset is not None:
            self.recovery_point = min(self.recovery_point, recovered.cut_offset)
        self.segments = recovered.segments
        self.leader_epochs = recovered.leader_epochs
        self.quarantined = tuple(recovered.quarantined)
        self.snapshot_offsets = recovered.snapshot_offsets
        if recovered.is_changed or not all(segment.is_synced for segment in self.segments):
            # An earlier process may have created files and not lived to sync their names.
            self.unsynced_directories = (directory,)
        self.log_end_offset = self.segments[-1].next_offset
        if self.log_start_offset > self.log_end_offset:
            logger.warning(
                "%s: the log ends at offset %d but starts at %d; beginning anew there",
                directory,
                self.log_end_offset,
                self.log_start_offset,
            )
            truncate_fully_and_start_at(self, self.log_start_offset, now_ms)
            return
        self.log_start_offset = max(self.log_start_offset, self.segments[0].base_offset)
        self.recovery_point = min(self.recovery_point, self.log_end_offset)
        write_epochs(self)  # if recovery found others than the file says
        self.leader_epochs.truncate_from_start(self.log_start_offset)
        restore_producers(
            files,
            directory,
            self.producer_state,
            self.segments,
            self.snapshot_offsets,
            end_offset=self.log_end_offset,
            now_ms=now_ms,
        )

    # --- what it knows -----------------------------------------------------------------------

    @property
    def high_watermark(self) -> int:
        """First offset that consumers must not see; assigning clamps it into the log."""
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        self._high_watermark = max(self.log_start_offset, min(offset, self.log_end_offset))

    @property
    def last_stable_offset(self) -> int:
        """First offset that read_committed must not see.

        The high watermark as long as there are no transactions, see `transactions`. Not below the
        start of the log: records of an open transaction may be deleted, and who would begin to read
        where nothing is any more would be sent back there again and again.
        """
        stable = self.producer_state.transactions.last_stable_offset(self._high_watermark)
        return max(stable, self.log_start_offset)

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def active_segment(self) -> Segment:
        """The one that takes appends."""
        return self.segments[-1]

    # --- failing -----------------------------------------------------------------------------

    def fail(self, error: OSError | StorageError) -> StorageError:
        """Take the log offline: the disk did not do what it was asked, or lied about it.

        Also for the shell, when `FlushWork.run` failed in a worker thread: after a failed fsync
        nobody knows what is on disk, so trying again would prove nothing.

        Returns:
            The error to raise; the first one, when there was one before.
        """
        if self.is_offline is None:
            if isinstance(error, DamagedSegment):
                # The next open checks every batch from here on and sets the damaged ones aside.
                self.recovery_point = min(self.recovery_point, self._segment_start(error))
            if isinstance(error, StorageError):
                self.is_offline = error
            else:
                self.is_offline = StorageError(
                    f"{self.directory}: the disk failed, the partition is offline: {error}"
                )
            logger.error("%s is offline: %s", self.directory, error)
        return self.is_offline

    def _segment_start(self, damage: DamagedSegment) -> int:
        for segment in self.segments:
            if segment.path == damage.path:
                return segment.base_offset
        return 0

    def guarded(
        self,
        function: Callable[Parameters, Result],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Result:
        """Call a function that opens its files before it changes anything.

        Raises:
            StorageError: the disk failed and the log is offline, since now or before; or too many
                files are open.
        """
        if self.is_offline is not None:
            raise self.is_offline
        try:
            return function(*args, **kwargs)
        except (OSError, StorageError) as error:
            raise self.refuse(error) from error

    def guarded_change(
        self,
        function: Callable[Parameters, Result],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Result:
        """Call a function that must not stop half-way; any disk error takes the log offline.

        Raises:
            StorageError: the log is offline, since now or before.
        """
        if self.is_offline is not None:
            raise self.is_offline
        try:
            return function(*args, **kwargs)
        except (OSError, StorageError) as error:
            raise self.fail(error) from error

    def refuse(self, error: OSError | StorageError) -> StorageError:
        """What a call raises that has changed nothing: see `fail`.

        That too many files are open says nothing about the disk: the log stays online.
        """
        if isinstance(error, OSError) and error.errno in OUT_OF_DESCRIPTORS:
            logger.error("%s: %s; raise the limit of open files", self.directory, error)
            return StorageError(f"{self.directory}: {error}; raise the limit of open files")
        return self.fail(error)
