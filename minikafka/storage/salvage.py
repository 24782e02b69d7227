"""What is intact in a segment after an unclean stop, and what is damaged.

- **Torn tail** (the file ends inside a batch, or nothing intact follows): cut at the last good
  batch. If a whole damaged batch was cut, its bytes are kept in `<offset>-tail.quarantine`.
- **Damage in the middle** (a flipped bit, with intact batches behind it): the damaged bytes go to
  `<first>-<next>.quarantine`, and the segment is rewritten with an *empty batch* in their place
  that covers their offsets. So nothing damaged is served, nothing intact is lost, and every other
  record keeps its offset. Kafka truncates here, and assigns the same offsets a second time. A
  replicated partition can do better still: `Log.quarantined` names the ranges, and a follower
  truncates to the first of them and fetches the rest from its leader.
- The fields that no CRC covers (base offset, length, leader epoch) are checked against their
  neighbours: offsets have no gaps unless the topic is compacted, and epochs never fall and are
  those in the epoch file. After a power failure that file may be older than the batches: an epoch
  newer than all in it is believed if another batch follows.

When a length is damaged, the next batch may begin where the length says, where it says with one of
its 32 bits flipped, or at the next index entry. A candidate counts if an intact batch with a higher
offset begins there; one that continues the offsets of the damaged header is preferred. Bytes are
never *searched* for something that looks like a batch: a record's value may well contain one.
"""

import logging
from collections.abc import Iterator
from struct import Struct
from typing import Final

from minikafka.data_class import DataClass
from minikafka.protocol.records.batch import (
    BATCH_HEADER_SIZE_BYTES,
    BATCH_LENGTH_MIN,
    LOG_OVERHEAD_SIZE_BYTES,
    BatchHeader,
    parse_batch_header,
)
from minikafka.protocol.records.errors import CorruptBatchError
from minikafka.storage.disk import DiskFile
from minikafka.storage.index import RELATIVE_OFFSET_MAX, SparseIndex
from minikafka.storage.leader_epochs import LeaderEpochCache
from minikafka.storage.scan import DamagedSegment, batch_crc, walk_intact

logger = logging.getLogger(__name__)

_LENGTH: Final = Struct(">I")
_LENGTH_AT: Final = 8
_LENGTH_BITS: Final = 32
HOPS_MAX: Final = 16
"""Damaged batches in a row that are skipped by following their lengths."""


class Hole(DataClass):
    """Damaged bytes between intact batches.

    Attributes:
        position: Where they begin in the file.
        end: Where the next intact batch begins.
        first_offset: First offset that was in them.
        next_offset: Offset of the next intact batch.
        leader_epoch: Epoch of the batch before them, or of the one after them if they are first.
    """

    position: int
    end: int
    first_offset: int
    next_offset: int
    leader_epoch: int


class SegmentScan:
    """One pass over a segment file; iterate over its `batches`, then look at what it found.

    Attributes:
        holes: Damage with something intact behind it.
        end: Where the last intact batch ends; the file is cut here.
        next_offset: Offset after it.
        cut_reason: Why there are bytes behind `end`, "" when there are none.
        is_torn: They are one incomplete batch.
    """

    __slots__ = (
        "_file",
        "_gaps_allowed",
        "_index",
        "_known_epochs",
        "_last_epoch",
        "_offset_limit",
        "_size_bytes",
        "cut_reason",
        "end",
        "holes",
        "is_torn",
        "next_offset",
    )

    def __init__(
        self,
        file: DiskFile,
        index: SparseIndex,
        *,
        base_offset: int,
        size_bytes: int,
        offset_limit: int | None,
        last_epoch: int,
        gaps_allowed: bool,
        known_epochs: LeaderEpochCache | None,
    ) -> None:
        """Prepare.

        Args:
            file: The segment's file.
            index: Its index, only as a hint.
            base_offset: Its first offset.
            size_bytes: Size of the file.
            offset_limit: Where the next segment begins, None when there is none.
            last_epoch: Epoch of the batch before the segment, -1 when unknown.
            gaps_allowed: The topic is compacted, so offsets may be missing.
            known_epochs: Every possible epoch, None when unknown.
        """
        self._file: Final = file
        self._index: Final = index
        self._size_bytes: Final = size_bytes
        past_segment = base_offset + RELATIVE_OFFSET_MAX + 1
        self._offset_limit: Final = min(past_segment, offset_limit or past_segment)
        self._last_epoch = last_epoch
        self._gaps_allowed: Final = gaps_allowed
        self._known_epochs: Final = known_epochs
        self.holes: Final[list[Hole]] = []
        self.end = 0
        self.next_offset = base_offset
        self.cut_reason = ""
        self.is_torn = False

    def batches(self) -> Iterator[tuple[int, BatchHeader]]:
        """Yield position and header of each intact batch. Raises OSError."""
        position = 0
        while position < self._size_bytes:
            try:
                for batch_position, header in walk_intact(self._file, position, self._size_bytes):
                    reason = self._out_of_place(batch_position, header)
                    if reason:
                        raise DamagedSegment(
                            f"{self._file.path}: the batch at {batch_position}: {reason}",
                            self._file.path,
                            batch_position,
                        )
                    self.end = batch_position + header.size_bytes
                    self.next_offset = header.next_offset
                    self._last_epoch = header.partition_leader_epoch
                    yield batch_position, header
                return
            except DamagedSegment as damage:
                resumed = self._resume_after(damage.position, HOPS_MAX)
                if resumed is None:
                    self.cut_reason = str(damage)
                    self.is_torn = damage.is_torn
                    return
                position, header = resumed
                epoch = header.partition_leader_epoch
                self.holes.append(
                    Hole(
                        damage.position,
                        position,
                        self.next_offset,
                        header.base_offset,
                        self._last_epoch if self._last_epoch >= 0 else epoch,
                    )
                )
                self.next_offset = header.base_offset
                logger.error("%s; resuming at %d", damage, position)

    def epoch_start(self, position: int, header: BatchHeader) -> int:
        """Where the epoch of a batch begins: with the hole before it, if it has the same epoch."""
        holes = self.holes
        if holes and holes[-1].end == position:
            hole = holes[-1]
            if hole.leader_epoch == header.partition_leader_epoch:
                return hole.first_offset
        return header.base_offset

    def give_up_rest(self, next_base: int) -> None:
        """Nothing intact is left in this segment, but there is a next one: add a hole up to it."""
        logger.error(
            "%s: offsets %d to %d are missing at the end: %s",
            self._file.path,
            self.next_offset,
            next_base - 1,
            self.cut_reason or "the file is too short",
        )
        self.holes.append(
            Hole(self.end, self._size_bytes, self.next_offset, next_base, self._last_epoch)
        )
        self.end = self._size_bytes
        self.next_offset = next_base

    def _out_of_place(self, position: int, header: BatchHeader) -> str:
        """Why a batch with a correct CRC cannot be in this place, "" when it can."""
        expected = self.next_offset
        if header.base_offset < expected:
            return f"base offset {header.base_offset} after offset {expected - 1}"
        if header.next_offset > self._offset_limit:
            return (
                f"last offset {header.last_offset}, but the segment ends before offset "
                f"{self._offset_limit}"
            )
        epoch = header.partition_leader_epoch
        if epoch < self._last_epoch:
            return f"leader epoch {epoch} after epoch {self._last_epoch}"
        known_epoch = None
        if self._known_epochs is not None and not self._is_unknown(epoch):
            known_epoch = self._known_epochs.epoch_for(header.last_offset)
            # Epochs below the log start are forgotten; they are not newer than the first known one.
            is_forgotten = known_epoch < 0 and epoch <= self._known_epochs.first_epoch
            if epoch != known_epoch and not is_forgotten:
                return f"leader epoch {epoch} where it should be {known_epoch}"
        if header.base_offset == expected and epoch == self._last_epoch:
            return ""
        following = self._header_at(position + header.size_bytes)
        if header.base_offset > expected:
            follows = following is not None and following.base_offset == header.next_offset
            contradicted = following is not None and following.base_offset < header.next_offset
            if contradicted or not (self._gaps_allowed or follows):
                return f"base offset {header.base_offset} where {expected} is next"
        if epoch == known_epoch:
            return ""
        if following is not None and following.partition_leader_epoch < epoch:
            return f"leader epoch {epoch} before epoch {following.partition_leader_epoch}"
        if following is None and self._is_unknown(epoch):
            return f"leader epoch {epoch}, which the epoch file does not know"
        return ""

    def _is_unknown(self, epoch: int) -> bool:
        return self._known_epochs is not None and epoch > self._known_epochs.latest_epoch

    def _header_at(self, position: int) -> BatchHeader | None:
        if position + BATCH_HEADER_SIZE_BYTES > self._size_bytes:
            return None
        try:
            return parse_batch_header(self._file.pread(position, BATCH_HEADER_SIZE_BYTES))
        except CorruptBatchError:
            return None

    def _resume_after(self, position: int, hops_left: int) -> tuple[int, BatchHeader] | None:
        """The next intact batch after a damaged one, None when none is found."""
        size_bytes = self._size_bytes
        if size_bytes - position < LOG_OVERHEAD_SIZE_BYTES:
            return None
        (length,) = _LENGTH.unpack(self._file.pread(position + _LENGTH_AT, _LENGTH.size))
        candidates = [length, *(length ^ (1 << bit) for bit in range(_LENGTH_BITS))]
        found = [
            intact
            for candidate in sorted(candidates)
            if BATCH_LENGTH_MIN <= candidate < size_bytes
            and (intact := self._intact_at(position + LOG_OVERHEAD_SIZE_BYTES + candidate))
        ]
        if found:
            # Preferably one that continues the offsets of the damaged header, else the nearest.
            damaged = self._header_at(position)
            following = [
                intact
                for intact in found
                if damaged is not None and intact[1].base_offset == damaged.next_offset
            ]
            return (following or found)[0]
        if hops_left and length >= BATCH_LENGTH_MIN:
            next_position = position + LOG_OVERHEAD_SIZE_BYTES + length
            if next_position < size_bytes:
                resumed = self._resume_after(next_position, hops_left - 1)
                if resumed is not None:
                    return resumed
        for entry in self._index.entries():
            if entry.position > position:
                intact_there = self._intact_at(entry.position)
                if intact_there is not None:
                    return intact_there
        return None

    def _intact_at(self, position: int) -> tuple[int, BatchHeader] | None:
        header = self._header_at(position)
        if (
            header is None
            or position + header.size_bytes > self._size_bytes
            or header.base_offset <= self.next_offset
            or header.base_offset - self.next_offset > RELATIVE_OFFSET_MAX
            or header.partition_leader_epoch < self._last_epoch
            or header.next_offset > self._offset_limit
            or batch_crc(self._file, position, header.size_bytes) != header.crc
        ):
            return None
        following = self._header_at(position + header.size_bytes)
        if following is not None and following.base_offset < header.next_offset:
            return None
        return position, header
