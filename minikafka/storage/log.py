"""One partition's log: everything that can be done with it.

What an append survives: the end of the process at once (the bytes are in the page cache), a power
failure after the next flush. With flush.messages=1 the broker flushes before it acknowledges.

All methods belong to one thread (the event loop), except where they say otherwise. The state and
its invariants are in `log_state`; the work is done by one module per concern.
"""

from bisect import bisect_right
from operator import attrgetter

from minikafka.protocol.records.control import ControlType
from minikafka.storage import append, compaction, flushing, retention, timestamps, truncation
from minikafka.storage.disk import Buffer
from minikafka.storage.errors import OffsetOutOfRange, StorageError
from minikafka.storage.index import RELATIVE_OFFSET_MAX
from minikafka.storage.log_state import LogState
from minikafka.storage.repair import empty_batch, keep_quarantined
from minikafka.storage.results import (
    AppendResult,
    EpochEndOffset,
    LogRead,
    QuarantinedRange,
    TimestampOffset,
)
from minikafka.storage.transactions import AbortedTransaction, Verification

_base_offset_of = attrgetter("base_offset")


class Log(LogState):
    """A partition's log; made by `Log.open`."""

    __slots__ = ()

    # --- appending ---------------------------------------------------------------------------

    def append_as_leader(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        now_ms: int,
        from_client: bool = True,
        request_version: int = 9,
    ) -> AppendResult:
        """Validate batches, give them offsets and write them: all or nothing.

        Args:
            records: Whole batches; from a client exactly one.
            leader_epoch: The epoch this broker leads the partition in.
            now_ms: The clock.
            from_client: Apply the rules for clients, see `validation`.
            request_version: Version of the Produce request.

        Raises:
            LogError: the batch is refused; nothing has changed.
            StorageError: the disk failed; nothing was acknowledged and the log is offline.
        """
        return append.append_as_leader(
            self, records, leader_epoch, now_ms, from_client, request_version
        )

    def verify_transaction(
        self, producer_id: int, producer_epoch: int, base_sequence: int = -1
    ) -> Verification | None:
        """Begin a transaction's first append here: ask its coordinator, and note its answer.

        Args:
            producer_id: Whose it is.
            producer_epoch: Likewise.
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
            producer_id: Whose it is.
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
        return append.append_marker(
            self,
            control_type,
            producer_id,
            producer_epoch,
            coordinator_epoch,
            transaction_version,
            leader_epoch,
            now_ms,
        )

    def append_as_follower(self, records: Buffer, *, now_ms: int) -> AppendResult:
        """Append what the leader's log holds, offsets and epochs as they are.

        Args:
            records: Whole batches.
            now_ms: The clock.

        Raises:
            CorruptMessage: not whole, intact batches.
            UnexpectedAppendOffset: they do not continue this log.
            StorageError: the disk failed; the log is offline.
        """
        return append.append_as_follower(self, records, now_ms)

    def skip_lost(self, *, leader_epoch: int, now_ms: int) -> int:
        """Put an empty batch where the end of the log was lost, for the only replica to call.

        A cut tail, or a power failure before a sync: consumers may have read those offsets, and
        new records must not get them a second time. (A replica with a leader fetches them again.)

        Returns:
            How many offsets were skipped.

        Raises:
            StorageError: the disk failed; the log is offline.
        """
        first_offset = self.log_end_offset
        epoch = max(leader_epoch, self.leader_epochs.latest_epoch, 0)
        while self.log_end_offset < self.expected_end_offset:
            count = min(self.expected_end_offset - self.log_end_offset, RELATIVE_OFFSET_MAX)
            append.append_as_follower(self, empty_batch(self.log_end_offset, count, epoch), now_ms)
        skipped = self.log_end_offset - first_offset
        if skipped > 0:
            lost = QuarantinedRange(first_offset, self.log_end_offset)
            self.quarantined = (*self.quarantined, lost)
        return skipped

    def accept_damage(self) -> None:
        """Live without what recovery set aside: nothing is `quarantined` any more.

        For a replica that leads; a follower cuts there instead, and fetches it again.

        Raises:
            StorageError: the disk failed; the log is offline.
        """
        if self.quarantined:
            self.guarded_change(keep_quarantined, self.files, self.directory, self.quarantined)
            self.quarantined = ()

    def roll(self, now_ms: int) -> None:
        """Close the active segment, unless it is empty, and begin another.

        Raises:
            StorageError: the disk failed; the log is offline.
        """
        if self.segments[-1].size_bytes:
            self.guarded(append.roll, self, self.log_end_offset, now_ms)

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

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """First record whose timestamp is >= `timestamp`, None when there is none.

        Raises:
            StorageError: the disk failed or the bytes are damaged; the log is offline.
        """
        return self.guarded(timestamps.offset_for_timestamp, self, timestamp)

    def max_timestamp(self) -> TimestampOffset | None:
        """First record with the largest timestamp (KIP-734), None in an empty log.

        Raises:
            StorageError: the disk failed or the bytes are damaged; the log is offline.
        """
        return self.guarded(timestamps.max_timestamp, self)

    def aborted_transactions(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions with records in [first_offset, end_offset), for read_committed."""
        return self.producer_state.transactions.aborted_between(first_offset, end_offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        """Answer OffsetForLeaderEpoch."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    # --- cutting -----------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> int:
        """Remove every batch that reaches `offset` or more; durable on return.

        Returns:
            The new log end offset: smaller than `offset` if a batch contained it.

        Raises:
            StorageError: the disk failed; the log is offline.
        """
        return self.guarded_change(truncation.truncate_to, self, offset)

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int) -> None:
        """Remove everything; the log is empty and begins at `offset`; durable on return.

        Raises:
            StorageError: the disk failed; the log is offline.
        """
        self.guarded_change(truncation.truncate_fully_and_start_at, self, offset, now_ms)

    def advance_log_start_offset(self, offset: int) -> int:
        """Make records below `offset` unreadable (DeleteRecords); retention removes them.

        It survives a crash once the data directory's checkpoint is written.

        Returns:
            The log start offset, which never goes back.

        Raises:
            OffsetOutOfRange: `offset` is above the high watermark.
            StorageError: the log is offline.
        """
        return self.guarded(truncation.advance_log_start_offset, self, offset)

    def apply_retention(self, now_ms: int) -> int:
        """Delete old segments, see `retention`; returns how many.

        Raises:
            StorageError: the disk failed; the log is offline.
        """
        return self.guarded(retention.apply_retention, self, now_ms)

    def delete_pending_files(self, now_ms: int) -> int:
        """Remove `.deleted` files that are older than file.delete.delay.ms; returns how many.

        Raises:
            StorageError: the disk failed; the log is offline.
        """
        return self.guarded(retention.delete_pending_files, self, now_ms)

    # --- compacting --------------------------------------------------------------------------

    def plan_compaction(self, now_ms: int) -> compaction.CompactionPlan | None:
        """Closed segments worth compacting, None when there are none.

        `run` the plan in a worker thread: it reads files that nobody changes. Then
        `complete_compaction`.

        Raises:
            StorageError: the disk failed; the log is offline.
        """
        return self.guarded(compaction.plan_compaction, self, now_ms)

    def complete_compaction(self, plan: compaction.CompactionPlan, now_ms: int) -> bool:
        """Swap the compacted segments in, unless the log was cut meanwhile; returns whether.

        Raises:
            StorageError: the disk failed; the log is offline.
        """
        return self.guarded_change(compaction.complete_compaction, self, plan, now_ms)

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
                self.unflushed_since_ms >= 0
                and now_ms - self.unflushed_since_ms >= self.config.flush_ms
            )
        )

    def prepare_flush(self) -> flushing.FlushWork | None:
        """What to sync, None when everything is: run it in a worker thread, then complete_flush.

        A log with many unsynced segments takes several of these until its recovery point is at
        the end.

        Raises:
            StorageError: the disk failed; the log is offline.
        """
        return self.guarded(flushing.prepare_flush, self)

    def complete_flush(self, work: flushing.FlushWork) -> None:
        """The work ran without an error: everything below its end offset is durable."""
        flushing.complete_flush(self, work)

    def flush(self) -> None:
        """Sync everything: prepare, run and complete as often as it takes.

        Raises:
            StorageError: the disk failed; the log is offline.
        """
        while (work := self.prepare_flush()) is not None:
            self.guarded_change(work.run)
            self.complete_flush(work)

    def close(self, *, clean: bool = True) -> None:
        """Let go of the log; with `clean` sync it and leave a snapshot, so that it opens fast.

        Raises:
            StorageError: the disk failed.
        """
        if clean and self.is_offline is None:
            self.guarded_change(self._write_rest)
            self.flush()
        self.is_offline = self.is_offline or StorageError(f"{self.directory} is closed")

    def _write_rest(self) -> None:
        self.segments[-1].index.write_tail()
        flushing.write_epochs(self)
        if self.log_end_offset > self.log_start_offset:
            append.write_snapshot(self, self.log_end_offset)
