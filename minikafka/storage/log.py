"""One partition's log.

What an append survives: the end of the process immediately (the bytes are in the page cache), a
power failure after the next flush. With flush.messages=1 the broker flushes before it acknowledges.

Invariants:

- log_start_offset <= high_watermark <= log_end_offset, and recovery_point <= log_end_offset.
- Segments are contiguous: each ends where the next begins; the last one takes the appends.
- Offsets, producer state, epochs and index change only after the bytes of an append are written.
  So a write that fails leaves the log as it was (KAFKA-6683), and its file is cut back to what was
  acknowledged.
- After a failed write, read or sync the log is offline: every call raises its `is_offline` error
  until it is opened again, which recovers it from what is on disk (KAFKA-10778).
- A truncation is durable before it returns. If the log came back as it was before, a follower would
  keep records that its leader does not have.

All methods belong to one thread (the event loop), except where they say otherwise. Slow work is
done in three steps, so that the event loop never waits: plan or prepare on the loop, `run` in any
thread, complete on the loop.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from operator import attrgetter
from typing import TYPE_CHECKING, Concatenate, Final, NamedTuple, ParamSpec, Self, TypeVar

from minikafka.data_class import DataClass
from minikafka.protocol.records.batch import (
    BATCH_HEADER_SIZE_BYTES,
    CHECKED_OFFSET,
    BatchHeader,
    rewrite_header,
)
from minikafka.protocol.records.control import (
    ControlType,
    TransactionMarker,
    encode_control_batch,
)
from minikafka.storage.aborted_index import AbortedIndexes
from minikafka.storage.clean_stop import SegmentSizes
from minikafka.storage.cut_marker import CutMarker, CutToSupersede
from minikafka.storage.disk import OUT_OF_DESCRIPTORS, Buffer, Disk, DiskFile, FileCache
from minikafka.storage.errors import (
    FencedLeaderEpoch,
    InvalidRecord,
    OffsetOutOfRange,
    RecordListTooLarge,
    StorageError,
    UnexpectedAppendOffset,
)
from minikafka.storage.file_names import DELETED_SUFFIX, LOG_SUFFIX, offset_name
from minikafka.storage.index import RELATIVE_OFFSET_MAX
from minikafka.storage.leader_epochs import (
    LEADER_EPOCH_FILE_NAME,
    EpochEndOffset,
    LeaderEpochCache,
)
from minikafka.storage.log_config import LogConfig
from minikafka.storage.markers import read_marker
from minikafka.storage.producer_snapshots import ProducerSnapshots
from minikafka.storage.producer_state import ProducerStateManager
from minikafka.storage.recovery import RecoveredDirectory
from minikafka.storage.repair import (
    QuarantinedRange,
    empty_batch,
    keep_quarantined,
    quarantine_path,
)
from minikafka.storage.scan import DamagedSegment
from minikafka.storage.segment import NO_TIMESTAMP, LogRead, Segment, TimestampOffset
from minikafka.storage.transactions import AbortedRanges, AbortedTransaction, Verification
from minikafka.storage.validation import (
    Inspection,
    split_batches,
    validate_batch,
    validate_client_batch,
)

if TYPE_CHECKING:
    from minikafka.storage.compaction import CompactionPlan

logger = logging.getLogger(__name__)

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

SEGMENTS_PER_FLUSH_MAX: Final = 8
"""Segments of one flush: their files are open at the same time. The rest waits for the next one."""

_base_offset_of = attrgetter("base_offset")


class AppendResult(NamedTuple):
    """Where an append went.

    Attributes:
        base_offset: Offset of the first record; of the original, for a duplicate.
        last_offset: Offset of the last record.
        log_append_time_ms: The timestamp every record got, or -1 with CreateTime.
        log_start_offset: The log's start at that moment.
        is_duplicate: Nothing was written: the producer sent these records before.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    is_duplicate: bool = False


class FlushWork(DataClass):
    """One flush: the batches, the indexes of closed segments, the leader epochs, the names.

    Attributes:
        end_offset: Everything below it is durable once `run` returned.
        cut_count: The log's, when it was prepared.
        disk: The disk.
        files: Files to sync.
        index_paths: Indexes to open and sync, one after the other; one that was removed meanwhile
            needs no sync.
        paths: Files to open and sync.
        directories: Directories whose names to sync.
        segments: The segments to be synced, with their sizes when it was prepared.
    """

    end_offset: int
    cut_count: int
    disk: Disk
    files: tuple[DiskFile, ...]
    index_paths: tuple[str, ...]
    paths: tuple[str, ...]
    directories: tuple[str, ...]
    segments: tuple[tuple[Segment, int], ...]

    def run(self, synced: set[str] | None = None) -> None:
        """Sync everything; the only slow part, and the only one that any thread may run.

        Args:
            synced: Directories that were synced after this was prepared, by works of other logs;
                this one's are added.

        Raises:
            OSError: the disk failed: call `Log.fail` with it.
        """
        for file in self.files:
            file.fsync()
        for path in self.index_paths:
            with suppress(FileNotFoundError):
                self.disk.open(path).fsync()
        for path in self.paths:
            self.disk.open(path).fsync()
        for directory in self.directories:
            if synced is None or directory not in synced:
                self.disk.sync_directory(directory)
        if synced is not None:
            synced.update(self.directories)


def _guarded(
    method: Callable[Concatenate[Log, Parameters], Result],
) -> Callable[Concatenate[Log, Parameters], Result]:
    """For a method that opens its files before it changes anything.

    A disk error takes the log offline, but running out of file descriptors does not. Guarded
    methods must not call each other, or the outer one would take that for a disk error, too.
    """

    @wraps(method)
    def guarded(self: Log, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        if self.is_offline is not None:
            raise self.is_offline
        try:
            return method(self, *args, **kwargs)
        except (OSError, StorageError) as error:
            raise self.refuse(error) from error

    return guarded


def _all_or_offline(
    method: Callable[Concatenate[Log, Parameters], Result],
) -> Callable[Concatenate[Log, Parameters], Result]:
    """For a method that must not stop half-way: any disk error takes the log offline."""

    @wraps(method)
    def guarded(self: Log, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        if self.is_offline is not None:
            raise self.is_offline
        try:
            return method(self, *args, **kwargs)
        except (OSError, StorageError) as error:
            raise self.fail(error) from error

    return guarded


class Log:
    """A partition's log; made by `Log.open`.

    Attributes:
        files: Open files, shared with other logs.
        directory: The partition's directory.
        config: The topic's settings; assign new ones to change them.
        segments: In order, at least one.
        log_start_offset: First offset that can be read.
        log_end_offset: Offset of the next record.
        recovery_point: Everything below it is durable.
        expected_end_offset: Where the log ended at least, by its checkpoints: if it ends before
            that, records are lost that may have been read (see `skip_lost`).
        quarantined: Offsets whose damaged batches recovery set aside, until the log is cut there
            or the loss is accepted with `accept_damage`.
        is_as_left: Its segments are as the last clean stop left them, as far as that is known.
        is_offline: Why the log cannot be used, None when it can.
        first_dirty_offset: Everything below it has been compacted.
        unsynced_directories: Directories whose names the next flush has to sync.
        unsynced_paths: Further files that it has to sync.
        cut_count: How often the end was cut: work that was planned before a cut is void.
    """

    __slots__ = (
        "_aborted_indexes",
        "_high_watermark",
        "_is_closing",
        "_pending_deletes",
        "_snapshots",
        "_unflushed_since_ms",
        "config",
        "cut_count",
        "cut_marker",
        "directory",
        "expected_end_offset",
        "files",
        "first_dirty_offset",
        "is_as_left",
        "is_offline",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "producer_state",
        "quarantined",
        "recovery_point",
        "segments",
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
        self.cut_marker: Final = CutMarker(files.disk, directory)
        self._snapshots = ProducerSnapshots(files.disk, directory)
        self._aborted_indexes = AbortedIndexes(files, directory)
        self.quarantined: tuple[QuarantinedRange, ...] = ()
        self.is_as_left = True
        self.is_offline: StorageError | None = None
        self._pending_deletes: list[tuple[int, str]] = []  # when (ms), and which `.deleted` file
        self.unsynced_directories: tuple[str, ...] = ()
        self.unsynced_paths: tuple[str, ...] = ()
        self._unflushed_since_ms = -1  # when the oldest unsynced append was made
        self.cut_count = 0
        self._is_closing = False

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
        segment_sizes: SegmentSizes | None = None,
    ) -> Self:
        """Open a partition's directory and recover what an unclean stop left; any thread.

        Args:
            files: Open files.
            directory: An existing directory, possibly empty.
            config: The topic's settings.
            now_ms: The clock.
            recovery_point: Checkpoint: everything below it was synced.
            log_start_offset: Checkpoint: nothing below it may be read.
            high_watermark: Checkpoint.
            first_dirty_offset: Checkpoint: everything below it has been compacted.
            segment_sizes: What a clean stop left, None when nothing is known. Segments are checked
                from the first one on that differs, as after an unclean stop.

        Raises:
            StorageError: the directory holds something that cannot be made sense of.
            OSError: the disk failed.
        """
        log = cls(files, directory, config)
        log.recovery_point = recovery_point
        log.cut_marker.claimed_end = max(recovery_point, high_watermark)
        log.log_start_offset = log_start_offset
        log.first_dirty_offset = first_dirty_offset
        if segment_sizes is not None:
            log._compare_sizes(segment_sizes)
        while True:
            try:
                log._recover(now_ms, was_clean=segment_sizes is not None and log.is_as_left)
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
        cut_offset = log.cut_marker.offset
        if cut_offset is not None:
            recovery_point = min(recovery_point, cut_offset)
            high_watermark = min(high_watermark, cut_offset)
        log.expected_end_offset = max(recovery_point, high_watermark)
        log.high_watermark = high_watermark
        return log

    def _compare_sizes(self, sizes: SegmentSizes) -> None:
        """Distrust every segment from the first one on that is not as the clean stop left it."""
        disk = self.files.disk
        names = frozenset(disk.list_directory(self.directory))
        for base_offset, size_bytes in sizes.items():
            name = f"{offset_name(base_offset)}{LOG_SUFFIX}"
            path = f"{self.directory}/{name}"
            if name not in names:
                found = "is missing"
            elif (found_bytes := disk.file_size(path)) != size_bytes:
                found = f"has {found_bytes} bytes"
            else:
                continue
            logger.error(
                "%s %s, but it had %d bytes when the broker was stopped; checking the log from "
                "offset %d on: what is missing can only be read from other replicas",
                path,
                found,
                size_bytes,
                base_offset,
            )
            self.is_as_left = False
            self.recovery_point = min(self.recovery_point, base_offset)

    def segment_sizes(self) -> dict[int, int]:
        """The size of each segment, by base offset, for the next `open` after a clean stop."""
        return {segment.base_offset: segment.size_bytes for segment in self.segments}

    def _recover(self, now_ms: int, *, was_clean: bool) -> None:
        """Take over what is in the directory."""
        recovered = RecoveredDirectory(self.files, self.directory, self.config)
        recovered.recover(
            now_ms=now_ms,
            recovery_point=self.recovery_point,
            log_start_offset=self.log_start_offset,
            first_dirty_offset=self.first_dirty_offset,
            was_clean=was_clean,
        )
        self.cut_marker.offset = recovered.cut_offset
        self.segments = recovered.segments
        if recovered.cut_offset is not None:
            self._distrust_checkpoints(recovered.cut_offset)
        self.leader_epochs = recovered.leader_epochs
        self.quarantined = tuple(recovered.quarantined)
        self._snapshots = recovered.snapshots
        self._aborted_indexes = recovered.aborted_indexes
        if recovered.is_changed or not all(segment.is_synced for segment in self.segments):
            # An earlier process may have created files and died before it synced their names.
            self.unsynced_directories = (self.directory,)
        self.log_end_offset = self.segments[-1].next_offset
        if self.log_start_offset > self.log_end_offset:
            logger.warning(
                "%s: the log ends at offset %d but starts at %d; starting an empty one there",
                self.directory,
                self.log_end_offset,
                self.log_start_offset,
            )
            self._start_empty_at(self.log_start_offset, now_ms)
            return
        self.log_start_offset = max(self.log_start_offset, self.segments[0].base_offset)
        self.recovery_point = min(self.recovery_point, self.log_end_offset)
        self._write_epochs()  # if recovery found others than the file says
        self.leader_epochs.truncate_from_start(self.log_start_offset)
        self._restore_producers(now_ms)
        self._restore_aborted_indexes(self.segments)

    def cut_to_supersede(self) -> CutToSupersede | None:
        """What a checkpoint that is prepared now makes superfluous once it is durable."""
        marker = self.cut_marker
        if marker.offset is None:
            return None
        claimed_end = max(self.recovery_point, self._high_watermark)
        return CutToSupersede(marker, marker.cut_count, claimed_end)

    def _distrust_checkpoints(self, cut_offset: int) -> None:
        """What they claim from the cut on is true of batches that are gone, see `CutMarker`."""
        self.recovery_point = min(self.recovery_point, cut_offset)
        self.first_dirty_offset = min(self.first_dirty_offset, cut_offset)
        first_offset = self.segments[0].base_offset
        if first_offset >= cut_offset:
            # It was emptied, perhaps to begin below its old start: nothing here was deleted then.
            self.log_start_offset = min(self.log_start_offset, first_offset)

    def _restore_producers(self, now_ms: int) -> None:
        self._snapshots.restore(self.producer_state, self.segments, now_ms=now_ms)
        # The aborted transactions of an older snapshot may have been deleted or compacted away.
        gone = self._aborted_forgotten_before()
        self.producer_state.transactions.truncate_from_start(gone)

    def _aborted_forgotten_before(self) -> int:
        return max(self.log_start_offset, self.first_dirty_offset)

    def _restore_aborted_indexes(self, segments: list[Segment]) -> None:
        aborted = self.producer_state.transactions.aborted
        self._aborted_indexes.restore(segments, aborted, self._aborted_forgotten_before())

    # --- offsets and sizes -------------------------------------------------------------------

    @property
    def high_watermark(self) -> int:
        """First offset that consumers must not see; assigning clamps it into the log."""
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        if offset > self.log_end_offset:  # not min() and max(): every append comes here
            offset = self.log_end_offset
        if offset < self.log_start_offset:
            offset = self.log_start_offset
        self._high_watermark = offset
        self.producer_state.transactions.settle(offset)

    @property
    def last_stable_offset(self) -> int:
        """First offset that read_committed must not see.

        The high watermark as long as there are no transactions, see `transactions`. Not below the
        start of the log: records of an open transaction may be deleted, and a consumer that started
        below would be sent back there again and again.
        """
        stable = self.producer_state.transactions.last_stable_offset(self._high_watermark)
        return max(stable, self.log_start_offset)

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def unsynced_count(self) -> int:
        """How many segments one flush has to sync."""
        count = sum(not segment.is_synced for segment in self.segments)
        return min(count, SEGMENTS_PER_FLUSH_MAX)

    # --- failing -----------------------------------------------------------------------------

    def fail(self, error: OSError | StorageError) -> StorageError:
        """Take the log offline: the disk did not do what it was asked, or lied about it.

        Also for the shell, when `FlushWork.run` failed in a worker thread: after a failed fsync it
        is unknown what is on disk, so trying again would prove nothing.

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

    def refuse(self, error: OSError | StorageError) -> StorageError:
        """The error to raise for a call that has changed nothing.

        That too many files are open says nothing about the disk: the log stays online.
        """
        if isinstance(error, OSError) and error.errno in OUT_OF_DESCRIPTORS:
            logger.error("%s: %s; raise the limit of open files", self.directory, error)
            return StorageError(f"{self.directory}: {error}; raise the limit of open files")
        return self.fail(error)

    def _segment_start(self, damage: DamagedSegment) -> int:
        for segment in self.segments:
            if segment.path == damage.path:
                return segment.base_offset
        return 0

    # --- appending ---------------------------------------------------------------------------

    def append_as_leader(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        now_ms: int,
        from_client: bool = True,
        request_version: int = 9,
        inspection: Inspection = Inspection.HERE,
    ) -> AppendResult:
        """Validate batches, assign their offsets and write them: all or nothing.

        Args:
            records: Whole batches; from a client exactly one.
            leader_epoch: The epoch this broker leads the partition in.
            now_ms: The clock.
            from_client: Apply the rules for clients, see `validation`.
            request_version: Version of the Produce request.
            inspection: Where the records themselves are validated, if they have to be.

        Raises:
            LogError: the batch is refused; nothing has changed.
            RecordsUnread: the records have to be validated elsewhere; nothing has changed.
            StorageError: the disk failed; nothing was acknowledged and the log is offline.
        """
        if self.is_offline is not None:
            raise self.is_offline
        if leader_epoch < self.leader_epochs.latest_epoch:
            raise FencedLeaderEpoch(
                f"{self.directory}: an append as leader of epoch {leader_epoch}, but epoch "
                f"{self.leader_epochs.latest_epoch} has begun"
            )
        config = self.config
        if from_client:
            header = validate_client_batch(
                records,
                config,
                now_ms=now_ms,
                request_version=request_version,
                inspection=inspection,
            )
            batches = [(0, header)]
            is_of_producer = header.producer_id >= 0
        else:
            batches = split_batches(records)
            for _, header in batches:
                validate_batch(header)
            is_of_producer = True
        size_bytes = len(records)
        if size_bytes > config.segment_bytes:
            raise RecordListTooLarge(
                f"an append of {size_bytes} bytes; segment.bytes is {config.segment_bytes}"
            )
        markers: list[TransactionMarker | None] = []
        if is_of_producer:
            duplicate = self._find_duplicate(batches, now_ms)
            if duplicate is not None:
                return duplicate
            for _, header in batches:
                if header.producer_id >= 0 and not header.is_control:
                    self.producer_state.check_transaction(header)
            markers = [
                read_marker(records, at, one) if one.is_control else None for at, one in batches
            ]
        append_time_ms = now_ms if config.message_timestamp_type == "LogAppendTime" else None
        base_offset = self.log_end_offset
        buffers, stamped = _stamp(records, batches, base_offset, leader_epoch, append_time_ms)
        self._write(buffers, size_bytes, stamped, markers, now_ms)
        time_ms = NO_TIMESTAMP if append_time_ms is None else append_time_ms
        return AppendResult(base_offset, self.log_end_offset - 1, time_ms, self.log_start_offset)

    def _find_duplicate(
        self, batches: list[tuple[int, BatchHeader]], now_ms: int
    ) -> AppendResult | None:
        """The answer to a retry; None when the batches are new."""
        config = self.config
        for _, header in batches:
            if header.producer_id < 0 or header.base_sequence < 0:
                continue  # no producer, or a coordinator that writes in its name
            duplicate = self.producer_state.check(
                header, now_ms=now_ms, expiration_ms=config.producer_id_expiration_ms
            )
            if duplicate is None:
                continue
            if len(batches) > 1:
                raise InvalidRecord("a retried batch among others in one append")
            return AppendResult(
                duplicate.base_offset,
                duplicate.last_offset,
                duplicate.timestamp if config.message_timestamp_type == "LogAppendTime" else -1,
                self.log_start_offset,
                is_duplicate=True,
            )
        return None

    def verify_transaction(
        self, producer_id: int, producer_epoch: int, base_sequence: int = -1
    ) -> Verification | None:
        """Begin a transaction's first append here: ask its coordinator, and note its answer.

        Args:
            producer_id: The transaction's producer.
            producer_epoch: The epoch of the transaction.
            base_sequence: Of the batch to append; -1 if it has none.

        Returns:
            Where to note it; None when the transaction is open in this partition already (KIP-890).
        """
        transactions = self.producer_state.transactions
        return transactions.verify(producer_id, producer_epoch, base_sequence)

    def append_marker(
        self,
        control_type: ControlType,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        transaction_version: int,
        leader_epoch: int,
        now_ms: int,
    ) -> AppendResult | None:
        """End a producer's transaction in this partition.

        Args:
            control_type: Whether it is committed or aborted.
            producer_id: The transaction's producer.
            producer_epoch: Of the transaction, or with version 2 greater than it.
            coordinator_epoch: Leader epoch of the coordinator's partition.
            transaction_version: 2 if every transaction ends with a greater epoch (KIP-890).
            leader_epoch: The epoch this broker leads the partition in.
            now_ms: The clock.

        Returns:
            None when this very marker is in the log already.

        Raises:
            TransactionCoordinatorFenced: a newer coordinator has written a marker.
            InvalidProducerEpoch: a newer transaction has begun.
            StorageError: the disk failed; the log is offline.
        """
        if not self.producer_state.check_marker(
            producer_id, producer_epoch, coordinator_epoch, transaction_version
        ):
            return None
        batch = encode_control_batch(
            control_type,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=now_ms,
        )
        return self.append_as_leader(
            batch, leader_epoch=leader_epoch, now_ms=now_ms, from_client=False
        )

    def append_as_follower(self, records: Buffer, *, now_ms: int) -> AppendResult:
        """Append batches of the leader's log, offsets and epochs as they are.

        Raises:
            CorruptMessage: not whole, intact batches.
            UnexpectedAppendOffset: they do not continue this log.
            StorageError: the disk failed; the log is offline.
        """
        if self.is_offline is not None:
            raise self.is_offline
        # What a leader accepted has to be accepted, in however many batches; the fetch is bounded.
        batches = split_batches(records, batches_max=len(records))
        offset = self.log_end_offset
        epoch = self.leader_epochs.latest_epoch
        for _, header in batches:
            if header.base_offset < offset or header.last_offset_delta < 0:
                raise UnexpectedAppendOffset(
                    f"{self.directory}: batch with offsets {header.base_offset} to "
                    f"{header.last_offset} where offset {offset} is next"
                )
            if header.partition_leader_epoch < epoch:
                raise UnexpectedAppendOffset(
                    f"{self.directory}: batch at offset {header.base_offset} has leader epoch "
                    f"{header.partition_leader_epoch}, the one before it has {epoch}"
                )
            offset = header.next_offset
            epoch = header.partition_leader_epoch
        # The leader's segments may be larger than ours: then it takes several whole writes.
        view = memoryview(records)
        start = 0
        headers: list[BatchHeader] = []
        markers: list[TransactionMarker | None] = []
        for position, header in batches:
            if headers and position + header.size_bytes - start > self.config.segment_bytes:
                self._write([view[start:position]], position - start, headers, markers, now_ms)
                start, headers, markers = position, [], []
            headers.append(header)
            markers.append(read_marker(records, position, header) if header.is_control else None)
        self._write([view[start:]], len(records) - start, headers, markers, now_ms)
        base_offset = batches[0][1].base_offset
        return AppendResult(base_offset, offset - 1, -1, self.log_start_offset, is_duplicate=False)

    def _write(
        self,
        buffers: list[Buffer],
        size_bytes: int,
        batches: list[BatchHeader],
        markers: list[TransactionMarker | None],
        now_ms: int,
    ) -> None:
        """Write stamped batches, then remember what they (and the markers in them) change.

        No markers at all: no batch is a producer's.
        """
        config = self.config
        segment = self.segments[-1]
        try:
            if segment.size_bytes and _roll_is_due(segment, config, size_bytes, batches, now_ms):
                self._roll(batches[0].base_offset, now_ms)
                segment = self.segments[-1]
            epochs = self.leader_epochs
            if epochs.is_dirty or batches[-1].partition_leader_epoch > epochs.latest_epoch:
                self._persist_epochs(batches)
            segment.append(
                buffers, size_bytes, batches, index_interval_bytes=config.index_interval_bytes
            )
        except (OSError, StorageError) as error:
            try:
                segment.discard_past_end()  # so that a restart finds an intact log
            except OSError as again:
                logger.error("%s: a failed append could not be cut off: %s", self.directory, again)
            raise self.refuse(error) from error
        self.log_end_offset = batches[-1].next_offset
        if self._unflushed_since_ms < 0:
            self._unflushed_since_ms = now_ms
        if not markers:
            return
        for header, marker in zip(batches, markers, strict=True):
            if header.producer_id >= 0:
                self.producer_state.update(header, header.base_offset, now_ms=now_ms, marker=marker)
                if marker is not None:
                    self._index_aborted(segment, header.base_offset)

    def _index_aborted(self, segment: Segment, marker_offset: int) -> None:
        """Note the transaction that the marker aborted, if it aborted one."""
        aborted = self.producer_state.transactions.aborted
        if aborted and (last := aborted[-1]).last_offset == marker_offset:
            self._aborted_indexes.add(segment, last)

    def _persist_epochs(self, batches: list[BatchHeader]) -> None:
        """Write new leader epochs to their file before a batch that carries them is written.

        So recovery knows every epoch there can be, and notices a flipped bit in one. It happens
        once per epoch and is not synced.
        """
        epochs = self.leader_epochs
        if batches[-1].partition_leader_epoch > epochs.latest_epoch:
            for header in batches:
                epochs.assign(header.partition_leader_epoch, header.base_offset)
        if epochs.is_dirty:
            self._write_epochs()

    def _write_epochs(self) -> None:
        epochs = self.leader_epochs
        if epochs.is_dirty:
            path = f"{self.directory}/{LEADER_EPOCH_FILE_NAME}"
            self.files.disk.replace_file(path, epochs.encode(), sync=False)
            epochs.is_dirty = False
            epochs.is_unsynced = True

    def roll(self, now_ms: int) -> None:
        """Close the active segment, unless it is empty, and begin another.

        Raises:
            StorageError: the disk failed; the log is offline.
        """
        if self.segments[-1].size_bytes:
            self._close_active(now_ms)

    @_guarded
    def _close_active(self, now_ms: int) -> None:
        self._roll(self.log_end_offset, now_ms)

    def _roll(self, base_offset: int, now_ms: int) -> None:
        closed = self.segments[-1]
        closed.close_index()
        self._snapshots.write(self.producer_state, base_offset)
        segment = Segment.create(self.files, self.directory, base_offset, now_ms=now_ms)
        closed.next_offset = base_offset
        self.segments.append(segment)
        self._names_changed()

    def _names_changed(self) -> None:
        if self.directory not in self.unsynced_directories:
            self.unsynced_directories += (self.directory,)

    # --- lost and damaged records ------------------------------------------------------------

    def skip_lost(self, *, leader_epoch: int, now_ms: int) -> int:
        """Put an empty batch where the end of the log was lost, for the only replica to call.

        After a torn tail, or a power failure before a sync: consumers may have read those offsets,
        so new records must not get them. (A replica with a leader fetches them again.)

        Returns:
            How many offsets were skipped.

        Raises:
            StorageError: the disk failed; the log is offline.
        """
        first_offset = self.log_end_offset
        epoch = max(leader_epoch, self.leader_epochs.latest_epoch, 0)
        while self.log_end_offset < self.expected_end_offset:
            count = min(self.expected_end_offset - self.log_end_offset, RELATIVE_OFFSET_MAX)
            batch = empty_batch(self.log_end_offset, count, epoch)
            self.append_as_follower(batch, now_ms=now_ms)
        skipped = self.log_end_offset - first_offset
        if skipped > 0:
            lost = QuarantinedRange(first_offset, self.log_end_offset)
            self.quarantined = (*self.quarantined, lost)
        return skipped

    def accept_damage(self) -> None:
        """Accept the loss of what recovery set aside: `quarantined` is empty afterwards.

        For a leader; a follower cuts its log there instead and fetches the records again.

        Raises:
            StorageError: the disk failed; the log is offline.
        """
        if self.quarantined:
            self._rename_quarantined()
            self.quarantined = ()

    @_all_or_offline
    def _rename_quarantined(self) -> None:
        keep_quarantined(self.files, self.directory, self.quarantined)

    # --- reading -----------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        *,
        size_bytes_max: int,
        upper_bound_offset: int,
        minimum_one_batch: bool = True,
    ) -> LogRead:
        """Whole batches of one segment, beginning with the one that contains `offset`.

        Args:
            offset: Where to begin.
            size_bytes_max: Limit of the bytes returned.
            upper_bound_offset: High watermark, last stable offset or log end offset: no record at
                or above it is returned.
            minimum_one_batch: Return the first batch even if it is larger than the limit.

        Raises:
            OffsetOutOfRange: outside [log_start_offset, log_end_offset].
            StorageError: the disk failed or the bytes are damaged; the log is offline.
        """
        if self.is_offline is not None:
            raise self.is_offline
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(
                f"{self.directory}: offset {offset} is outside the log, which has offsets "
                f"{self.log_start_offset} to {self.log_end_offset} (exclusive)"
            )
        segments = self.segments
        index = len(segments) - 1
        if offset < segments[index].base_offset:
            index = bisect_right(segments, offset, key=_base_offset_of) - 1
        try:
            while offset < upper_bound_offset and index < len(segments):
                found = segments[index].read(
                    offset,
                    upper_bound_offset=upper_bound_offset,
                    size_bytes_max=size_bytes_max,
                    minimum_one_batch=minimum_one_batch,
                    epochs=self.leader_epochs,
                )
                if found is not None:
                    return found
                index += 1  # compaction left nothing at the end of that segment
        except (OSError, StorageError) as error:
            raise self.refuse(error) from error
        return LogRead(None, offset, offset)

    @_guarded
    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """First record whose timestamp is >= `timestamp`, None when there is none.

        Raises:
            StorageError: the disk failed or the bytes are damaged; the log is offline.
        """
        return self._first_record_at(timestamp)

    @_guarded
    def max_timestamp(self) -> TimestampOffset | None:
        """First record with the largest timestamp (KIP-734), None in an empty log.

        Raises:
            StorageError: the disk failed or the bytes are damaged; the log is offline.
        """
        start_offset = self.log_start_offset
        largest = NO_TIMESTAMP
        for segment in self.segments:
            if segment.base_offset >= start_offset:
                largest = max(largest, segment.max_timestamp())
            elif segment.next_offset > start_offset:
                largest = max(largest, segment.max_timestamp_from(start_offset))
        return self._first_record_at(largest) if largest >= 0 else None

    def _first_record_at(self, timestamp: int) -> TimestampOffset | None:
        start_offset = self.log_start_offset
        for segment in self.segments:
            if segment.next_offset > start_offset and segment.max_timestamp() >= timestamp:
                record = segment.first_record_at(timestamp, start_offset)
                if record is not None:
                    return record
        return None

    def aborted_transactions(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions with records in [first_offset, end_offset), for read_committed."""
        return self.producer_state.transactions.aborted_between(first_offset, end_offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        """The answer to OffsetForLeaderEpoch."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    # --- cutting -----------------------------------------------------------------------------

    @_all_or_offline
    def truncate_to(self, offset: int) -> int:
        """Remove every batch that reaches `offset` or more; durable on return.

        Returns:
            The new log end offset: smaller than `offset` if a batch contained it.

        Raises:
            StorageError: the disk failed; the log is offline.
        """
        if offset >= self.log_end_offset:
            # A leader that wrote nothing in its epoch left an entry its successor may not know.
            self.leader_epochs.truncate_from_end(self.log_end_offset)
            return self.log_end_offset
        now_ms = self.segments[-1].created_ms
        if offset < self.log_start_offset:
            self._start_empty_at(offset, now_ms)
            return offset
        # From the end, so that a crash in between leaves a log without a gap.
        while self.segments[-1].base_offset > offset:
            self._remove_last_segment()
        last = self.segments[-1]
        last.truncate(offset)
        if last.next_offset < self.log_start_offset:  # the cut batch reached below the start
            self._start_empty_at(self.log_start_offset, now_ms)
        else:
            self._after_cut(last.next_offset, now_ms)
        return self.log_end_offset

    @_all_or_offline
    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int) -> None:
        """Remove everything; the log is empty and begins at `offset`; durable on return.

        Raises:
            StorageError: the disk failed; the log is offline.
        """
        self._start_empty_at(offset, now_ms)

    def _start_empty_at(self, offset: int, now_ms: int) -> None:
        while self.segments:
            self._remove_last_segment()
        self.segments.append(Segment.create(self.files, self.directory, offset, now_ms=now_ms))
        self.log_start_offset = offset
        self._snapshots.keep(0, -1)
        self._forget_quarantine(-1)
        self.leader_epochs.truncate_from_start(offset)
        self._after_cut(offset, now_ms)

    def _remove_last_segment(self) -> None:
        segment = self.segments.pop()
        self.files.forget(segment.path)
        self.files.disk.remove(segment.path)
        segment.index.clear()
        self._aborted_indexes.remove(segment.base_offset)

    def _forget_quarantine(self, end_offset: int) -> None:
        """The damage above `end_offset` was cut; what a leader sends to replace it is intact."""
        for lost in self.quarantined:
            if lost.next_offset > end_offset:
                self.files.disk.remove(quarantine_path(self.directory, lost))
        self.quarantined = tuple(one for one in self.quarantined if one.next_offset <= end_offset)

    def _after_cut(self, end_offset: int, now_ms: int) -> None:
        """The log ends at `end_offset` now: nothing may remember more."""
        self.cut_count += 1
        self.log_end_offset = end_offset
        self.cut_marker.leave(end_offset, max(self.recovery_point, self._high_watermark))
        self.recovery_point = min(self.recovery_point, end_offset)
        self.first_dirty_offset = min(self.first_dirty_offset, end_offset)
        self.high_watermark = self._high_watermark  # clamped by the assignment
        self.leader_epochs.truncate_from_end(end_offset)
        self._forget_quarantine(end_offset)
        self._snapshots.keep(0, end_offset)
        self._restore_producers(now_ms)
        self._restore_aborted_indexes(self.segments[-1:])
        self.files.disk.sync_directory(self.directory)
        if all(segment.is_synced for segment in self.segments):
            self.recovery_point = end_offset

    @_guarded
    def advance_log_start_offset(self, offset: int) -> int:
        """Make records below `offset` unreadable (DeleteRecords); retention removes them.

        It survives a crash once the data directory's checkpoint is written.

        Returns:
            The log start offset, which never goes back.

        Raises:
            OffsetOutOfRange: `offset` is above the high watermark.
            StorageError: the log is offline.
        """
        if offset > self._high_watermark:
            raise OffsetOutOfRange(
                f"{self.directory}: cannot delete up to offset {offset}, the high watermark is "
                f"{self._high_watermark}"
            )
        self._start_at(offset)
        return self.log_start_offset

    def _start_at(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.high_watermark = self._high_watermark  # clamped by the assignment
            self.leader_epochs.truncate_from_start(offset)
            self.producer_state.transactions.truncate_from_start(offset)

    # --- retention ---------------------------------------------------------------------------

    @_guarded
    def apply_retention(self, now_ms: int) -> int:
        """Delete old segments: by age, by size, and those below the log start offset.

        Whole segments, the oldest first, and none that reaches past the high watermark
        (KAFKA-5634). Their files are renamed `.deleted` and removed later, the `.log` file first,
        so that a crash half-way leaves either the segment or nothing.

        Returns:
            How many segments.

        Raises:
            StorageError: the disk failed; the log is offline.
        """
        config = self.config
        self.producer_state.expire(now_ms=now_ms, expiration_ms=config.producer_id_expiration_ms)
        count = self._count_expired(now_ms)
        if not count:
            return 0
        if count == len(self.segments):
            self._roll(self.log_end_offset, now_ms)  # the active one is deleted, too
        self._keep_producers()
        for segment in self.segments[:count]:
            self._schedule_delete(segment, now_ms + config.file_delete_delay_ms)
        start_offset = self.segments[count].base_offset
        logger.info("%s: deleted %d segments below offset %d", self.directory, count, start_offset)
        del self.segments[:count]
        self._start_at(start_offset)
        self._snapshots.keep(start_offset, self.log_end_offset)
        return count

    def _count_expired(self, now_ms: int) -> int:
        """How many segments, from the oldest on, have to go."""
        config = self.config
        size_over_bytes = self.size_bytes - config.retention_bytes
        count = 0
        active = self.segments[-1]
        for segment in self.segments:
            if segment.next_offset > self._high_watermark:
                break
            if segment is active and not segment.size_bytes:
                break  # a closed one may be empty, too: compaction left nothing of it
            is_before_start = segment.next_offset <= self.log_start_offset
            is_old = (
                config.cleanup_delete
                and config.retention_ms >= 0
                and now_ms - segment.last_written_ms() > config.retention_ms
            )
            is_too_much = (
                config.cleanup_delete
                and config.retention_bytes >= 0
                and size_over_bytes >= segment.size_bytes
            )
            if not (is_before_start or is_old or is_too_much):
                break
            size_over_bytes -= segment.size_bytes
            count += 1
        return count

    def _keep_producers(self) -> None:
        """Make the producer state durable before the batches that it came from go.

        A snapshot is only of use as long as the log reaches it, so the log is synced first.
        """
        if len(self.producer_state):
            work = self._flush_work()
            if work is not None:
                work.run()
                self.complete_flush(work)
            self._snapshots.write(self.producer_state, self.log_end_offset, sync=True)

    def _schedule_delete(self, segment: Segment, due_ms: int) -> None:
        """Rename a segment's files; readers that have them open can finish."""
        disk = self.files.disk
        segment.index.discard_tail()
        self._aborted_indexes.base_offsets.discard(segment.base_offset)
        aborted_path = self._aborted_indexes.path(segment.base_offset)
        for path in (segment.path, *segment.index.paths, aborted_path):
            self.files.forget(path)
            if disk.exists(path):
                disk.rename(path, path + DELETED_SUFFIX)
                self._pending_deletes.append((due_ms, path + DELETED_SUFFIX))

    @_guarded
    def delete_pending_files(self, now_ms: int) -> int:
        """Remove `.deleted` files that are older than file.delete.delay.ms; returns how many.

        Raises:
            StorageError: the disk failed; the log is offline.
        """
        due = [path for due_ms, path in self._pending_deletes if due_ms <= now_ms]
        for path in due:
            self.files.disk.remove(path)
        self._pending_deletes = [one for one in self._pending_deletes if one[0] > now_ms]
        return len(due)

    # --- compaction --------------------------------------------------------------------------

    @_guarded
    def plan_compaction(self, now_ms: int) -> CompactionPlan | None:
        """Closed segments worth compacting, None when there are none.

        `run` the plan in a worker thread: it reads files that do not change. Then
        `complete_compaction`.

        Raises:
            StorageError: the disk failed; the log is offline.
        """
        from minikafka.storage.compaction import CompactionPlan, dirty_groups

        first_dirty_offset = max(self.first_dirty_offset, self.segments[0].base_offset)
        segments = self._cleanable(first_dirty_offset, now_ms)
        groups = dirty_groups(segments, self.config, first_dirty_offset, now_ms)
        if not groups:
            return None
        return CompactionPlan(
            disk=self.files.disk,
            directory=self.directory,
            config=self.config,
            now_ms=now_ms,
            cut_count=self.cut_count,
            first_dirty_offset=first_dirty_offset,
            last_offsets_of_producers=self.producer_state.last_offsets(),
            aborted=AbortedRanges(self.producer_state.transactions.aborted),
            segments=segments,
            groups=groups,
        )

    def _cleanable(self, first_dirty_offset: int, now_ms: int) -> list[Segment]:
        """Closed segments from the first on, as far as compaction may go."""
        lag_ms = self.config.min_compaction_lag_ms
        end_offset = min(self.last_stable_offset, self.recovery_point)
        cleanable: list[Segment] = []
        for segment in self.segments[:-1]:
            if segment.next_offset > end_offset or not segment.is_synced:
                break
            is_dirty = segment.next_offset > first_dirty_offset
            if lag_ms > 0 and is_dirty and now_ms - segment.max_timestamp() < lag_ms:
                break
            cleanable.append(segment)
        return cleanable

    @_all_or_offline
    def complete_compaction(self, plan: CompactionPlan, now_ms: int) -> bool:
        """Swap the compacted segments in, unless the log was cut meanwhile; returns whether.

        Raises:
            StorageError: the disk failed; the log is offline.
        """
        count = len(plan.segments)
        is_overtaken = plan.cut_count != self.cut_count or self.segments[:count] != plan.segments
        if is_overtaken or not plan.end_offset:
            # Retention or a truncation came first; the rest of the plan is not worth saving.
            plan.discard()
            logger.info("%s: a compaction was overtaken and is dropped", self.directory)
            return False
        replaced = plan.swap_in(self.files, now_ms)
        for segment in self.segments[:count]:
            self._aborted_indexes.remove(segment.base_offset)  # the files are gone already
        self.segments[:count] = replaced
        self.first_dirty_offset = plan.end_offset
        # No record below it is left for a consumer to filter out.
        self.producer_state.transactions.truncate_from_start(plan.end_offset)
        self._restore_aborted_indexes(replaced)
        self._names_changed()
        return True

    # --- syncing -----------------------------------------------------------------------------

    def flush_is_due(self, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms ask for a flush now, or a segment was closed.

        As in Kafka: a closed segment is synced soon, so that recovery need not read it.
        """
        unflushed = self.log_end_offset - self.recovery_point
        if unflushed <= 0:
            return False
        return (
            unflushed >= self.config.flush_messages
            or self.recovery_point < self.segments[-1].base_offset
            or (
                self._unflushed_since_ms >= 0
                and now_ms - self._unflushed_since_ms >= self.config.flush_ms
            )
        )

    @_guarded
    def prepare_flush(self) -> FlushWork | None:
        """What to sync, None when everything is: run it in a worker thread, then complete_flush.

        A log with many unsynced segments takes several of these until its recovery point is at
        the end.

        Raises:
            StorageError: the disk failed; the log is offline.
        """
        return self._flush_work()

    def _flush_work(self) -> FlushWork | None:
        unsynced = [segment for segment in self.segments if not segment.is_synced]
        epochs = self.leader_epochs
        if not unsynced:
            self.recovery_point = self.log_end_offset
            return None  # epochs without records and names of empty files are not worth a sync
        end_offset = self.log_end_offset
        if len(unsynced) > SEGMENTS_PER_FLUSH_MAX:
            del unsynced[SEGMENTS_PER_FLUSH_MAX:]
            end_offset = unsynced[-1].next_offset
        files: list[DiskFile] = []
        index_paths: list[str] = []
        for segment in unsynced:
            files.append(segment.file)
            if segment is not self.segments[-1] or self._is_closing:
                index_paths += segment.index.written_paths()
        if epochs.is_dirty or epochs.is_unsynced:
            self._write_epochs()
            epochs.is_unsynced = False
            self.unsynced_paths += (f"{self.directory}/{LEADER_EPOCH_FILE_NAME}",)
            self._names_changed()
        work = FlushWork(
            end_offset,
            self.cut_count,
            self.files.disk,
            tuple(files),
            tuple(index_paths),
            self.unsynced_paths,
            self.unsynced_directories,
            tuple((segment, segment.size_bytes) for segment in unsynced),
        )
        self.unsynced_paths = ()
        self.unsynced_directories = ()
        self._unflushed_since_ms = -1  # what is appended while it runs counts from then
        return work

    def complete_flush(self, work: FlushWork) -> None:
        """The work ran without an error: everything below its end offset is durable."""
        if work.cut_count != self.cut_count:
            return  # other batches may have the offsets now
        for segment, size_bytes in work.segments:
            if segment.size_bytes == size_bytes:
                segment.is_synced = True
        self.recovery_point = max(self.recovery_point, min(work.end_offset, self.log_end_offset))

    def drop_flush(self, work: FlushWork) -> None:
        """Nobody knows whether the work ran: the next flush has to sync the same names again."""
        self.unsynced_paths += work.paths
        self.unsynced_directories += work.directories

    def flush(self) -> None:
        """Sync everything: prepare, run and complete as often as it takes.

        Raises:
            StorageError: the disk failed; the log is offline.
        """
        while (work := self.prepare_flush()) is not None:
            self._run_flush(work)
            self.complete_flush(work)

    @_all_or_offline
    def _run_flush(self, work: FlushWork) -> None:
        work.run()

    def close(self, *, clean: bool = True) -> None:
        """Let go of the log; with `clean` sync it and leave a snapshot, so that it opens fast.

        Raises:
            StorageError: the disk failed.
        """
        if clean and self.is_offline is None:
            self._is_closing = True
            self._write_rest()
            self.flush()
        self.is_offline = self.is_offline or StorageError(f"{self.directory} is closed")

    @_all_or_offline
    def _write_rest(self) -> None:
        self.segments[-1].close_index()
        self._write_epochs()
        if self.log_end_offset > self.log_start_offset:
            self._snapshots.write(self.producer_state, self.log_end_offset)


def _stamp(
    records: Buffer,
    batches: list[tuple[int, BatchHeader]],
    offset: int,
    leader_epoch: int,
    append_time_ms: int | None,
) -> tuple[list[Buffer], list[BatchHeader]]:
    """Give batches their offsets and leader epoch; returns what to write, and their headers.

    Only headers are copied: the records are written from the memory they arrived in.
    """
    view = memoryview(records)
    if len(batches) == 1 and append_time_ms is None:  # nearly all appends
        header = batches[0][1].stamped(offset, leader_epoch)
        return [header.unchecked_part(), view[CHECKED_OFFSET:]], [header]
    buffers: list[Buffer] = []
    stamped: list[BatchHeader] = []
    for position, header in batches:
        buffers += (
            rewrite_header(
                records,
                position,
                header,
                base_offset=offset,
                partition_leader_epoch=leader_epoch,
                log_append_time_ms=append_time_ms,
            ),
            view[position + BATCH_HEADER_SIZE_BYTES : position + header.size_bytes],
        )
        written = header.stamped(offset, leader_epoch)
        if append_time_ms is not None:
            written = written._replace(max_timestamp=append_time_ms)
        stamped.append(written)
        offset = written.next_offset
    return buffers, stamped


def _roll_is_due(
    segment: Segment,
    config: LogConfig,
    size_bytes: int,
    batches: list[BatchHeader],
    now_ms: int,
) -> bool:
    """Whether `size_bytes` of batches belong in a new segment."""
    last = batches[-1]
    return (
        segment.size_bytes + size_bytes > config.segment_bytes
        or last.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
        or segment.age_ms(last.max_timestamp, now_ms) > config.segment_ms
        or (
            segment.size_bytes - segment.indexed_position >= config.index_interval_bytes
            and segment.index.is_full(config.segment_index_bytes)
        )
    )
