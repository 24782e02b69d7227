"""The transactions of one partition: which are open, which were aborted (KIP-98).

A transaction is *open* from its first record in this partition to its marker. After the marker it
is *ended*, but that is not certain until the marker is below the high watermark: it could still be
truncated. So the last stable offset, up to which read_committed consumers may read, is the smallest
of

- the high watermark,
- the first offset of every open transaction,
- the first offset of every ended one whose marker is not below the high watermark.

Records of aborted transactions stay in the log, and consumers filter them out: the response to a
fetch names the aborted transactions that overlap the returned batches.

A first record is only accepted from a producer whose transaction is known to its coordinator
(KIP-890): the appender takes a `Verification`, asks the coordinator, and notes that it confirmed. A
marker in between voids it, so a late record cannot open a transaction that would never end.
"""

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple, cast, overload

from minikafka.protocol.records.batch import BatchHeader
from minikafka.protocol.records.control import ControlType
from minikafka.storage.checked_file import Plain

VERIFICATIONS_MAX: Final = 10_000
"""Producers of a partition whose coordinators are being asked; then the oldest is forgotten, and
has to ask again."""

_EPOCHS_MAX: Final = 4
_NO_SEQUENCE: Final = -1

_last_offset_of = attrgetter("last_offset")


class AbortedTransaction(NamedTuple):
    """A transaction whose records are invisible with read_committed.

    Attributes:
        first_offset: Its first record here.
        last_offset: Its marker.
        last_stable_offset: First offset that was unstable after it: every transaction that was
            aborted later begins at or above it.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class AbortedTransactions(Sequence[AbortedTransaction]):
    """The aborted transactions of a partition, in the order of their markers.

    They stay as long as their records do, and there may be millions: each takes 32 bytes.
    """

    __slots__ = ("columns",)

    def __init__(self, transactions: Iterable[AbortedTransaction] = ()) -> None:
        self.columns: Final = AbortedTransactionColumns(*(array("q") for _ in range(4)))
        for transaction in transactions:
            self.append(transaction)

    def __len__(self) -> int:
        return len(self.columns.last_offset)

    @overload
    def __getitem__(self, index: int) -> AbortedTransaction: ...

    @overload
    def __getitem__(self, index: slice) -> "AbortedTransactions": ...

    def __getitem__(self, index: int | slice) -> "AbortedTransaction | AbortedTransactions":
        if isinstance(index, slice):
            return AbortedTransactions(self[at] for at in range(*index.indices(len(self))))
        return AbortedTransaction(*(column[index] for column in self.columns))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list | AbortedTransactions):
            return NotImplemented
        return list(self) == list(cast("Sequence[object]", other))

    __hash__ = None  # type: ignore[assignment]  # it can change

    def append(self, transaction: AbortedTransaction) -> None:
        for column, value in zip(self.columns, transaction, strict=True):
            column.append(value)

    def index_from(self, offset: int) -> int:
        """Index of the first whose marker is at or above an offset."""
        return bisect_left(self.columns.last_offset, offset)

    def forget_before(self, offset: int) -> None:
        """Forget those whose markers are below an offset."""
        count = self.index_from(offset)
        if count:
            for column in self.columns:
                del column[:count]


class AbortedTransactionColumns(NamedTuple):
    """The fields of `AbortedTransaction`, one array each."""

    producer_id: "array[int]"
    first_offset: "array[int]"
    last_offset: "array[int]"
    last_stable_offset: "array[int]"


class AbortedRanges:
    """Which batches of a part of the log belong to aborted transactions, for compaction."""

    __slots__ = ("_ranges",)

    def __init__(self, aborted: Iterable[AbortedTransaction] = ()) -> None:
        self._ranges: dict[int, list[AbortedTransaction]] = {}
        for transaction in aborted:
            self._ranges.setdefault(transaction.producer_id, []).append(transaction)

    def covers(self, header: BatchHeader) -> bool:
        """Whether a batch belongs to an aborted transaction."""
        ranges = self._ranges.get(header.producer_id)
        if ranges is None or not header.is_transactional or header.is_control:
            return False
        # Transactions of one producer do not overlap: the first one that ends after it, if any.
        index = bisect_left(ranges, header.base_offset, key=_last_offset_of)
        return index < len(ranges) and ranges[index].first_offset <= header.base_offset


class OpenTransaction(NamedTuple):
    """A transaction that has records here but no marker yet."""

    first_offset: int
    producer_epoch: int


class EndedTransaction(NamedTuple):
    """A transaction whose marker may not be replicated yet."""

    first_offset: int
    marker_offset: int


class Verification:
    """A question to a transaction's coordinator before the first record; see the module.

    Attributes:
        is_confirmed: The coordinator confirmed that this partition is in it; set by the appender.
        added_to: The transactional id to which the coordinator, which is on this broker, has added
            this partition: a batch that names it needs no question. None if nobody said so.
        first_sequence: The lowest sequence that waits to be appended, -1 without any.
    """

    __slots__ = ("added_to", "first_sequence", "is_confirmed", "producer_epoch")

    def __init__(self, producer_epoch: int) -> None:
        self.producer_epoch = producer_epoch
        self.is_confirmed = False
        self.added_to: str | None = None
        self.first_sequence = _NO_SEQUENCE

    def wants(self, base_sequence: int) -> None:
        """A batch with this sequence (-1: without one) waits for the confirmation."""
        if base_sequence >= 0 and not 0 <= self.first_sequence <= base_sequence:
            self.first_sequence = base_sequence


class TransactionState:
    """Open and aborted transactions of a partition.

    Attributes:
        aborted: In the order of their markers.
    """

    __slots__ = ("_ended", "_open", "_verifications", "aborted")

    def __init__(self) -> None:
        # By producer id, the first offset; also in the order of first offsets, because a
        # transaction is added when its first record is, at the end of the log.
        self._open: dict[int, OpenTransaction] = {}
        self._ended: deque[EndedTransaction] = deque()
        # By producer id and epoch: a late batch of an earlier epoch must not interfere.
        self._verifications: dict[int, dict[int, Verification]] = {}
        self.aborted = AbortedTransactions()

    # --- queries -----------------------------------------------------------------------------

    def open_of(self, producer_id: int) -> OpenTransaction | None:
        return self._open.get(producer_id)

    def last_stable_offset(self, high_watermark: int) -> int:
        """First offset that read_committed must not see."""
        self.settle(high_watermark)
        stable = high_watermark
        for transaction in self._ended:
            stable = min(stable, transaction.first_offset)
        for open_ in self._open.values():
            return min(stable, open_.first_offset)
        return stable

    def aborted_between(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions that overlap [first_offset, end_offset)."""
        aborted = self.aborted
        found: list[AbortedTransaction] = []
        for index in range(aborted.index_from(first_offset), len(aborted)):
            transaction = aborted[index]
            if transaction.first_offset < end_offset:
                found.append(transaction)
            if transaction.last_stable_offset >= end_offset:
                break
        return found

    @property
    def unsettled_count(self) -> int:
        """How many have ended above the high watermark."""
        return len(self._ended)

    # --- changes -----------------------------------------------------------------------------

    def verify(
        self, producer_id: int, producer_epoch: int, base_sequence: int = _NO_SEQUENCE
    ) -> Verification | None:
        """What the coordinator has to confirm before the first record; None once that is written.

        Args:
            producer_id: The transaction's producer.
            producer_epoch: The epoch of the transaction.
            base_sequence: Of the batch to be appended, -1 if it has none.
        """
        open_ = self._open.get(producer_id)
        if open_ is not None and open_.producer_epoch == producer_epoch:
            return None
        epochs = self._verifications.get(producer_id)
        if epochs is None:
            if len(self._verifications) >= VERIFICATIONS_MAX:
                del self._verifications[next(iter(self._verifications))]
            epochs = self._verifications[producer_id] = {}
        verification = epochs.get(producer_epoch)
        if verification is None:
            if len(epochs) >= _EPOCHS_MAX:
                del epochs[next(iter(epochs))]
            verification = epochs[producer_epoch] = Verification(producer_epoch)
        verification.wants(base_sequence)
        return verification

    def confirmed(self, producer_id: int, producer_epoch: int) -> Verification | None:
        """The confirmed verification of a transaction, unless a marker has voided it."""
        verification = self._verifications.get(producer_id, {}).get(producer_epoch)
        return verification if verification is not None and verification.is_confirmed else None

    def forget_verifications(self) -> None:
        """Another broker led in between, and may have ended transactions that were confirmed."""
        self._verifications.clear()

    def wrote(self, producer_id: int, producer_epoch: int, base_offset: int) -> None:
        """Note a transactional batch in the log."""
        if producer_id not in self._open:
            self._open[producer_id] = OpenTransaction(base_offset, producer_epoch)
            self._verifications.pop(producer_id, None)

    def end(
        self,
        producer_id: int,
        marker_epoch: int,
        control_type: ControlType,
        marker_offset: int,
    ) -> None:
        """Note a marker in the log; without an open transaction it only voids verifications."""
        open_ = self._open.pop(producer_id, None)
        epochs = self._verifications.pop(producer_id, None)
        if epochs is not None and open_ is not None and marker_epoch > open_.producer_epoch:
            # A marker with a greater epoch ends everything below it, and the next transaction
            # (which may be waiting for its coordinator already) has that epoch.
            kept = {epoch: one for epoch, one in epochs.items() if epoch >= marker_epoch}
            if kept:
                self._verifications[producer_id] = kept
        if open_ is None:
            return
        self._ended.append(EndedTransaction(open_.first_offset, marker_offset))
        if control_type is ControlType.ABORT:
            unstable = marker_offset + 1
            for other in self._open.values():
                unstable = other.first_offset
                break
            self.aborted.append(
                AbortedTransaction(producer_id, open_.first_offset, marker_offset, unstable)
            )

    def settle(self, high_watermark: int) -> None:
        """The high watermark has moved: markers below it can no longer be truncated."""
        ended = self._ended
        while ended and ended[0].marker_offset < high_watermark:
            ended.popleft()

    def truncate_from_start(self, log_start_offset: int) -> None:
        """The log now begins at `log_start_offset`: forget what ended below it."""
        self.aborted.forget_before(log_start_offset)

    def clear(self) -> None:
        """Forget everything but verifications, whose appends are still pending."""
        self._open.clear()
        self._ended.clear()
        self.aborted = AbortedTransactions()

    # --- snapshots ---------------------------------------------------------------------------

    def encode(self, aborted_from: int = 0) -> Plain:
        """What a later `load` needs; without the transactions aborted below an offset."""
        open_ = [[producer_id, *one] for producer_id, one in self._open.items()]
        aborted = self.aborted
        later = [aborted[at] for at in range(aborted.index_from(aborted_from), len(aborted))]
        return [open_, list(self._ended), later]

    def load(self, snapshot: object) -> None:
        """Restore what `encode` returned."""
        open_, ended, aborted = cast("tuple[list[list[int]], ...]", snapshot)
        self._open = {one[0]: OpenTransaction(*one[1:]) for one in open_}
        self._ended = deque(EndedTransaction(*one) for one in ended)
        self.aborted = AbortedTransactions(AbortedTransaction(*one) for one in aborted)

    def load_earlier(self, snapshot: object) -> None:
        """Restore what was aborted before what has been loaded, from an earlier snapshot."""
        _, _, aborted = cast("tuple[list[list[int]], ...]", snapshot)
        earlier = AbortedTransactions(AbortedTransaction(*one) for one in aborted)
        for later in self.aborted:
            earlier.append(later)
        self.aborted = earlier
