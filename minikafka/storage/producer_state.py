"""What a partition remembers about its idempotent and transactional producers (KIP-98).

Per producer id: its epoch, and sequence and offset ranges of its last five batches. A batch that
is among the five is a retry: it is acknowledged with its original offset and not written again. A
batch that does not follow the last one is refused, because records in between are missing.

`check` decides before the write, `update` remembers after it, so a failed write changes nothing
(KAFKA-6683).

Known gaps, the same as Kafka's:

- A producer id that is not remembered (never seen, expired after `producer.id.expiration.ms`, or
  evicted by `PRODUCERS_MAX` newer ones) may begin with any sequence: refusing would stop a healthy
  producer after an idle day. A retry that arrives that late is therefore not recognised.
- A retry older than the last five batches gets OUT_OF_ORDER_SEQUENCE_NUMBER.

Expiry counts from the last append by this broker's clock, not from the timestamps in the batch, so
records with old timestamps do not expire their producer; a restart restarts the clock.
"""

import logging
from typing import Final, NamedTuple, cast

from minikafka.protocol.records.batch import SEQUENCE_MAX, BatchHeader
from minikafka.protocol.records.control import TransactionMarker
from minikafka.storage.checked_file import DamagedFile, Plain, decode_checked, encode_checked
from minikafka.storage.errors import (
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from minikafka.storage.snapshot_file import SnapshotProducer, decode_snapshot, encode_snapshot
from minikafka.storage.transactions import TransactionState

logger = logging.getLogger(__name__)

BATCHES_REMEMBERED: Final = 5
"""As many as an idempotent Kafka producer may have in flight."""

PRODUCERS_MAX: Final = 100_000
"""Producers remembered per partition; then the one idle for longest is forgotten."""

_KIND: Final = "producer-snapshot"
_SNAPSHOT_FIELDS: Final = 3
_PARTIAL_SNAPSHOT_FIELDS: Final = 4
_NO_TRANSACTION: Final = -1
EPOCH_PER_TRANSACTION: Final = 2
"""First transaction version in which every transaction ends with a greater epoch (KIP-890)."""


class ActiveProducer(NamedTuple):
    """One producer of a partition, for DescribeProducers (KIP-664)."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_transaction_start_offset: int


class AppendedBatch(NamedTuple):
    """One batch of a producer that is in the log."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


_NO_BATCH: Final = AppendedBatch(-1, -1, -1, -1, -1)


class ProducerEntry:
    """State of one producer id.

    Attributes:
        producer_epoch: The newest epoch that wrote here.
        batches: Its last batches in that epoch, oldest first, at most BATCHES_REMEMBERED.
        last_append_ms: When it last wrote, by this broker's clock.
        coordinator_epoch: Epoch of the last transaction marker's coordinator, -1 without one.
        is_only_marked: Only markers of this epoch are known: batches before them may have been
            deleted, so the next sequence is unknown (KAFKA-7298).
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "is_only_marked",
        "last_append_ms",
        "producer_epoch",
    )

    def __init__(self, producer_epoch: int, last_append_ms: int) -> None:
        self.producer_epoch = producer_epoch
        self.batches: list[AppendedBatch] = []
        self.last_append_ms = last_append_ms
        self.coordinator_epoch = -1
        self.is_only_marked = False


class ProducerStateManager:
    """All producers of one partition, the one idle for longest first.

    Attributes:
        transactions: Their open and aborted transactions.
    """

    __slots__ = ("_producers", "_producers_max", "transactions")

    def __init__(self, producers_max: int = PRODUCERS_MAX) -> None:
        self._producers: dict[int, ProducerEntry] = {}
        self._producers_max: Final = producers_max
        self.transactions: Final = TransactionState()

    def __len__(self) -> int:
        return len(self._producers)

    def check(
        self, header: BatchHeader, *, now_ms: int, expiration_ms: int
    ) -> AppendedBatch | None:
        """Whether a batch with a producer id may be appended.

        Returns:
            None when it is new; the batch in the log that it repeats when it is a retry.

        Raises:
            InvalidProducerEpoch: a newer epoch of this producer id has written.
            OutOfOrderSequence: it does not follow the last batch of its producer.
        """
        entry = self._producers.get(header.producer_id)
        if entry is None:
            return None
        if self._is_expired(entry, header.producer_id, now_ms, expiration_ms):
            return None
        epoch = header.producer_epoch
        if epoch < entry.producer_epoch:
            raise InvalidProducerEpoch(
                f"producer {header.producer_id}: epoch {epoch} is fenced by epoch "
                f"{entry.producer_epoch}; another instance has taken over"
            )
        sequence = header.base_sequence
        if epoch > entry.producer_epoch or not entry.batches:
            is_known = epoch > entry.producer_epoch or not entry.is_only_marked
            if sequence != 0 and is_known:
                raise OutOfOrderSequence(
                    f"producer {header.producer_id}: epoch {epoch} is new, so its first sequence "
                    f"must be 0, not {sequence}"
                )
            return None
        last = entry.batches[-1]
        if sequence == (last.last_sequence + 1) & SEQUENCE_MAX:
            return None
        last_sequence = header.last_sequence
        for batch in entry.batches:
            if batch.base_sequence == sequence and batch.last_sequence == last_sequence:
                return batch
        raise OutOfOrderSequence(
            f"producer {header.producer_id} epoch {epoch}: sequence {sequence} does not follow "
            f"{last.last_sequence} and is not among its last {len(entry.batches)} batches"
        )

    def _is_expired(
        self, entry: ProducerEntry, producer_id: int, now_ms: int, expiration_ms: int
    ) -> bool:
        """Whether a producer counts as forgotten; not while it has a transaction open."""
        return (
            now_ms - entry.last_append_ms >= expiration_ms
            and self.transactions.open_of(producer_id) is None
        )

    def check_transaction(self, header: BatchHeader) -> None:
        """Check that a batch fits its producer's transaction.

        Raises:
            InvalidTransactionState: it does not.
            OutOfOrderSequence: an earlier batch still waits for the coordinator (KAFKA-14920).
        """
        producer_id, epoch = header.producer_id, header.producer_epoch
        open_ = self.transactions.open_of(producer_id)
        if open_ is None:
            if header.is_transactional:
                self._check_first_of_transaction(header)
        elif open_.producer_epoch != epoch:
            raise InvalidTransactionState(
                f"producer {producer_id} epoch {epoch}: its transaction of epoch "
                f"{open_.producer_epoch} has not ended here yet"
            )
        elif not header.is_transactional:
            raise InvalidTransactionState(
                f"producer {producer_id} has a transaction open here and sent a batch outside it"
            )

    def _check_first_of_transaction(self, header: BatchHeader) -> None:
        producer_id, epoch = header.producer_id, header.producer_epoch
        verification = self.transactions.confirmed(producer_id, epoch)
        if verification is None:
            raise InvalidTransactionState(
                f"producer {producer_id} epoch {epoch}: its coordinator has not confirmed that "
                "this partition is in its transaction"
            )
        entry = self._producers.get(producer_id)
        first, sequence = verification.first_sequence, header.base_sequence
        if (entry is None or not entry.batches) and 0 <= first < sequence:
            # Nothing else would reveal the gap: an unknown producer may begin anywhere.
            raise OutOfOrderSequence(
                f"producer {producer_id} epoch {epoch}: sequence {sequence} arrived before "
                f"{first}, which waits for the transaction's coordinator"
            )

    def check_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        transaction_version: int,
    ) -> bool:
        """Whether a transaction marker may be appended; False when it is in the log already.

        Raises:
            TransactionCoordinatorFenced: a newer coordinator has written a marker.
            InvalidProducerEpoch: the marker ends an earlier transaction than the one that is open
                (KIP-1228: with transaction version 2 every transaction ends with a greater epoch).
        """
        entry = self._producers.get(producer_id)
        if entry is None:
            return True
        if coordinator_epoch < entry.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"producer {producer_id}: a marker of coordinator epoch {coordinator_epoch}, but "
                f"one of epoch {entry.coordinator_epoch} has been written"
            )
        if transaction_version >= EPOCH_PER_TRANSACTION:
            is_open = self.transactions.open_of(producer_id) is not None
            if producer_epoch == entry.producer_epoch and not is_open:
                return False
            is_fenced = producer_epoch <= entry.producer_epoch
        else:
            is_fenced = producer_epoch < entry.producer_epoch
        if is_fenced:
            raise InvalidProducerEpoch(
                f"producer {producer_id}: a marker of epoch {producer_epoch}, but epoch "
                f"{entry.producer_epoch} has written"
            )
        return True

    def update(
        self,
        header: BatchHeader,
        base_offset: int,
        *,
        now_ms: int,
        marker: TransactionMarker | None = None,
    ) -> None:
        """Remember a batch with a producer id that is in the log at `base_offset`.

        Also used to rebuild the state from the log, so it accepts gaps: compaction, retention or a
        forgotten producer may have left them.

        Args:
            header: The batch.
            base_offset: Where it is.
            now_ms: The clock.
            marker: From a control batch; None for other batches.
        """
        producers = self._producers
        producer_id = header.producer_id
        entry = producers.pop(producer_id, None)
        if entry is None:
            entry = ProducerEntry(header.producer_epoch, now_ms)
            entry.is_only_marked = marker is not None
        elif header.producer_epoch != entry.producer_epoch:
            entry.producer_epoch = header.producer_epoch
            entry.batches = []
            entry.is_only_marked = False
        entry.last_append_ms = now_ms
        producers[producer_id] = entry  # at the end again: the dict is ordered by last append
        if marker is not None:
            entry.coordinator_epoch = max(entry.coordinator_epoch, marker.coordinator_epoch)
            self.transactions.end(
                producer_id, header.producer_epoch, marker.control_type, base_offset
            )
        elif header.is_transactional and not header.is_control:
            self.transactions.wrote(producer_id, header.producer_epoch, base_offset)
        if len(producers) > self._producers_max:
            self._forget_oldest()
        if header.base_sequence < 0:
            return  # a marker, or offsets that a group coordinator wrote in the transaction
        entry.is_only_marked = False
        batches = entry.batches
        if batches and (batches[-1].last_sequence + 1) & SEQUENCE_MAX != header.base_sequence:
            batches.clear()  # after a gap older batches say nothing about what is a retry
        elif len(batches) >= BATCHES_REMEMBERED:
            del batches[0]
        batches.append(
            AppendedBatch(
                header.base_sequence,
                header.last_sequence,
                base_offset,
                base_offset + header.last_offset_delta,
                header.max_timestamp,
            )
        )

    def _forget_oldest(self) -> None:
        """Forget the producer that was idle for longest, of those without an open transaction."""
        for producer_id in self._producers:
            if self.transactions.open_of(producer_id) is None:
                logger.warning(
                    "more than %d producers: forgetting producer %d, idle for longest",
                    self._producers_max,
                    producer_id,
                )
                del self._producers[producer_id]
                return

    def last_offsets(self) -> dict[int, int]:
        """For each producer id, the last offset of its newest batch."""
        return {
            producer_id: entry.batches[-1].last_offset
            for producer_id, entry in self._producers.items()
            if entry.batches
        }

    def expire(self, *, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that have not written for `expiration_ms`; returns how many."""
        producers = self._producers
        expired: list[int] = []
        for producer_id, entry in producers.items():
            if now_ms - entry.last_append_ms < expiration_ms:
                break  # ordered by last append
            if self.transactions.open_of(producer_id) is None:
                expired.append(producer_id)
        for producer_id in expired:
            del producers[producer_id]
        return len(expired)

    def clear(self) -> None:
        self._producers.clear()
        self.transactions.clear()

    def active_producers(self) -> list[ActiveProducer]:
        """For DescribeProducers."""
        return [
            ActiveProducer(
                producer_id,
                entry.producer_epoch,
                entry.batches[-1].last_sequence if entry.batches else -1,
                entry.batches[-1].timestamp if entry.batches else -1,
                entry.coordinator_epoch,
                self._transaction_start(producer_id),
            )
            for producer_id, entry in self._producers.items()
        ]

    def epochs_of(self, producer_id: int) -> tuple[int, int] | None:
        """A producer's epoch and that of its last marker's coordinator; None if it is unknown."""
        entry = self._producers.get(producer_id)
        return None if entry is None else (entry.producer_epoch, entry.coordinator_epoch)

    def _transaction_start(self, producer_id: int) -> int:
        open_ = self.transactions.open_of(producer_id)
        return _NO_TRANSACTION if open_ is None else open_.first_offset

    def encode(self, offset: int, aborted_from: int | None = None) -> bytes:
        """A snapshot of the state as of `offset` (exclusive).

        Args:
            offset: Of the snapshot.
            aborted_from: Leave out the transactions that were aborted before this one, which is
                the offset of another snapshot; None for all of them.
        """
        producers: list[Plain] = [
            [
                producer_id,
                entry.producer_epoch,
                entry.coordinator_epoch,
                None if entry.is_only_marked else entry.batches,
            ]
            for producer_id, entry in self._producers.items()
        ]
        fields: list[Plain] = [offset, producers, self.transactions.encode(aborted_from or 0)]
        if aborted_from is not None:
            fields.append(aborted_from)
        kafkas = (self._as_kafka_stores(*item) for item in self._producers.items())
        return encode_snapshot(kafkas, encode_checked(_KIND, fields))

    def _as_kafka_stores(self, producer_id: int, entry: ProducerEntry) -> SnapshotProducer:
        last = entry.batches[-1] if entry.batches else _NO_BATCH
        return SnapshotProducer(
            producer_id,
            entry.producer_epoch,
            last.last_sequence,
            last.last_offset,
            last.last_offset - last.base_offset,
            last.timestamp,
            entry.coordinator_epoch,
            self._transaction_start(producer_id),
        )

    def load(self, content: bytes, *, offset: int, path: str, now_ms: int) -> int | None:
        """Replace the state with a snapshot that must be of `offset`.

        Returns:
            The offset of the snapshot that has the transactions aborted before (see
            `load_earlier_aborted`); None when this one has all of them.

        Raises:
            DamagedFile: torn, changed, or of another offset; the state is unchanged.
        """
        value, aborted_from = _decode(content, offset, path)
        producers: dict[int, ProducerEntry] = {}
        for producer_id, epoch, coordinator_epoch, batches in cast(
            "list[tuple[int, int, int, list[list[int]] | None]]", value[1]
        ):
            entry = ProducerEntry(epoch, now_ms)
            entry.is_only_marked = batches is None
            entry.coordinator_epoch = coordinator_epoch
            entry.batches = [AppendedBatch._make(batch) for batch in batches or ()]
            producers[producer_id] = entry
        self._producers = producers
        self.transactions.load(value[2])
        return aborted_from

    def load_earlier_aborted(self, content: bytes, *, offset: int, path: str) -> int | None:
        """Add the aborted transactions of an earlier snapshot; see `load`.

        Raises:
            DamagedFile: as in `load`.
        """
        value, aborted_from = _decode(content, offset, path)
        self.transactions.load_earlier(value[2])
        return aborted_from


def _decode(content: bytes, offset: int, path: str) -> tuple[list[object], int | None]:
    """The fields of a snapshot, and the offset of the one that it continues."""
    _, whole_state = decode_snapshot(content)
    value = cast("list[object]", decode_checked(_KIND, whole_state, path=path))
    if len(value) not in (_SNAPSHOT_FIELDS, _PARTIAL_SNAPSHOT_FIELDS) or value[0] != offset:
        raise DamagedFile(f"{path}: this is a snapshot as of offset {value[0]}")
    aborted_from = value[3] if len(value) == _PARTIAL_SNAPSHOT_FIELDS else None
    return value, cast("int | None", aborted_from)
