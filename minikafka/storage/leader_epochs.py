"""Which leader epoch began at which offset (KIP-101, KIP-279).

Invariants: epochs rise strictly, start offsets never fall, and every offset in the log belongs to
the last entry that starts at or below it. The log writes the cache to `leader-epoch-checkpoint`
before the first batch of a new epoch, and syncs that file before its recovery point passes an
entry. If the file is lost, the epochs are read from the batches.
"""

import logging
from bisect import bisect_left, bisect_right
from itertools import pairwise
from operator import itemgetter
from typing import Final, NamedTuple, cast

from minikafka.storage.checked_file import DamagedFile, decode_checked, encode_checked

logger = logging.getLogger(__name__)

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1

LEADER_EPOCH_FILE_NAME: Final = "leader-epoch-checkpoint"
_KIND: Final = "leader-epochs"

_epoch_of = itemgetter(0)
_start_offset_of = itemgetter(1)


class EpochEndOffset(NamedTuple):
    """Answer to OffsetForLeaderEpoch; (-1, -1) when nothing is known."""

    leader_epoch: int
    end_offset: int


class LeaderEpochCache:
    """(epoch, start offset) pairs of one partition.

    Attributes:
        entries: The pairs in rising order.
        is_dirty: The entries changed since they were last written.
        is_unsynced: They changed since they were last synced.
    """

    __slots__ = ("entries", "is_dirty", "is_unsynced")

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self.entries: list[tuple[int, int]] = [] if entries is None else entries
        self.is_dirty = False
        self.is_unsynced = False

    @property
    def latest_epoch(self) -> int:
        """The newest epoch, -1 when there is none."""
        return self.entries[-1][0] if self.entries else NO_EPOCH

    @property
    def first_epoch(self) -> int:
        """The oldest known epoch, -1 when there is none."""
        return self.entries[0][0] if self.entries else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """A leader epoch begins: at its election, or with its first batch.

        An epoch at or below the newest changes nothing. Entries that start at or above
        `start_offset` have no records and are dropped.

        Raises:
            ValueError: a negative epoch or offset.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} at offset {start_offset}: neither may be negative")
        entries = self.entries
        if entries:
            if epoch <= entries[-1][0]:
                return
            while entries and entries[-1][1] >= start_offset:
                entries.pop()
        entries.append((epoch, start_offset))
        self.is_dirty = True

    def prepend(self, older: "LeaderEpochCache") -> None:
        """Put the epochs of records below the first entry before it.

        An epoch above the first one cannot be older: it is ignored.
        """
        entries = self.entries
        added = [one for one in older.entries if not entries or one[0] <= entries[0][0]]
        if added and entries and added[-1][0] == entries[0][0]:
            del entries[0]  # the same epoch began earlier
        entries[:0] = added
        self.is_dirty = self.is_dirty or bool(added)

    def epoch_for(self, offset: int) -> int:
        """Epoch of the record at `offset`, -1 when it is below the first entry."""
        index = bisect_right(self.entries, offset, key=_start_offset_of)
        return self.entries[index - 1][0] if index else NO_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """Largest known epoch at or below `epoch`, and where it ended.

        Kafka's rules: the newest epoch ends at the log end offset; a newer one is unknown,
        (-1, -1); for one older than the first entry the answer is that epoch and the first entry's
        start, which makes a follower truncate to it.
        """
        entries = self.entries
        if epoch < 0 or not entries or epoch > entries[-1][0]:
            return EpochEndOffset(NO_EPOCH, NO_OFFSET)
        if epoch == entries[-1][0]:
            return EpochEndOffset(epoch, log_end_offset)
        index = bisect_right(entries, epoch, key=_epoch_of)
        if index == 0:
            return EpochEndOffset(epoch, entries[0][1])
        return EpochEndOffset(entries[index - 1][0], entries[index][1])

    def truncate_from_end(self, end_offset: int) -> None:
        """The log was cut: forget epochs that began at or above `end_offset`."""
        index = bisect_left(self.entries, end_offset, key=_start_offset_of)
        if index < len(self.entries):
            del self.entries[index:]
            self.is_dirty = True

    def truncate_from_start(self, start_offset: int) -> None:
        """The log now begins at `start_offset`: forget epochs that ended there or before."""
        entries = self.entries
        index = bisect_right(entries, start_offset, key=_start_offset_of)
        if index and entries[index - 1][1] < start_offset:
            # The epoch of start_offset stays, and now begins there.
            entries[index - 1] = (entries[index - 1][0], start_offset)
            self.is_dirty = True
        if index > 1:
            del entries[: index - 1]
            self.is_dirty = True

    def clear(self) -> None:
        if self.entries:
            self.entries.clear()
            self.is_dirty = True

    def encode(self) -> bytes:
        """Content of the checkpoint file."""
        return encode_checked(_KIND, list(self.entries))

    @classmethod
    def decode(cls, content: bytes, *, path: str) -> "LeaderEpochCache":
        """The cache that was encoded.

        Raises:
            DamagedFile: torn or changed, or the entries break the invariants.
        """
        value = decode_checked(_KIND, content, path=path)
        entries = [(epoch, start) for epoch, start in cast("list[list[int]]", value)]
        for (epoch, start), (next_epoch, next_start) in pairwise(entries):
            if next_epoch <= epoch or next_start < start:
                raise DamagedFile(
                    f"{path}: epoch {next_epoch} at offset {next_start} after epoch {epoch} at "
                    f"offset {start}; both have to rise"
                )
        return cls(entries)
