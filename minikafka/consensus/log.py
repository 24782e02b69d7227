"""The quorum's log as the state machine sees it: the epoch of each entry, and the last entries.

It begins at its *base*: the last index that a snapshot covers (0 before the first snapshot, which
is empty). Entries follow from ``base_index + 1`` on. Epochs never decrease along the log, so it is
enough to know where each begins. The voter sets that it records are known, too: the last one counts
(`minikafka.consensus.voters`). Payloads are kept in memory up to a limit; older ones are read
from the disk, where all of them are by the time that `forget_old` may be called.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from .messages import Entry
from .voters import VoterSet, decode_voters

__all__ = ["RaftLog", "ReadEntries", "RecordedVoters"]

ReadEntries = Callable[[int, int, int], Sequence[Entry]]
"""(first index, end index, bytes) -> entries from the disk: at least one, and no more of them than
the bytes allow."""

ENTRY_OVERHEAD_BYTES: Final = 16
"""Counted for an entry besides its payload, in messages and in memory."""


class RecordedVoters(NamedTuple):
    """A voter set, and where it was recorded (in a snapshot: at its last index)."""

    at: int
    voters: VoterSet


class RaftLog:
    """Entries by index.

    Attributes:
        base_index: The snapshot covers every entry up to here.
        last_index: Index of the last entry, or the base.
    """

    __slots__ = (
        "_memory",
        "_memory_size_bytes",
        "_memory_size_bytes_max",
        "_read",
        "_run_epochs",
        "_run_starts",
        "_voters",
        "base_index",
        "last_index",
    )

    def __init__(
        self,
        base_index: int,
        base_epoch: int,
        entries: Iterable[Entry],
        read: ReadEntries,
        memory_size_bytes_max: int,
        *,
        base_voters: VoterSet | None = None,
    ) -> None:
        """Start with what is on the disk.

        Args:
            base_index: Last index in the snapshot.
            base_epoch: Epoch of that entry.
            entries: What follows; all but the last ones are dropped from memory on the way.
            read: Reads entries that are no longer in memory.
            memory_size_bytes_max: How much to keep in memory.
            base_voters: The voter set in the snapshot, if it has one.
        """
        self._read: Final = read
        self._memory_size_bytes_max: Final = memory_size_bytes_max
        self._memory: deque[Entry] = deque()  # the last ones, up to last_index
        self._memory_size_bytes = 0
        self.base_index = self.last_index = base_index
        self._run_epochs = [base_epoch]
        self._run_starts = [base_index]
        self._voters: list[RecordedVoters] = []  # by index; only the first may be at the base
        if base_voters is not None:
            self._voters.append(RecordedVoters(base_index, base_voters))
        for entry in entries:
            self.append((entry,))
            self.forget_old()

    # --- questions ---------------------------------------------------------------------------

    @property
    def last_epoch(self) -> int:
        return self._run_epochs[-1]

    @property
    def base_epoch(self) -> int:
        return self._run_epochs[0]

    @property
    def _memory_start(self) -> int:
        return self.last_index - len(self._memory) + 1

    def epoch_at(self, index: int) -> int:
        """Epoch of the entry at an index from the base to the end, both included."""
        return self._run_epochs[bisect_right(self._run_starts, index) - 1]

    def matches(self, index: int, epoch: int) -> bool:
        """Whether the entry at that index has that epoch (then all before it agree, too)."""
        return self.base_index <= index <= self.last_index and self.epoch_at(index) == epoch

    def is_behind(self, last_epoch: int, last_index: int) -> bool:
        """Whether a log with that end has everything that may be committed in this one."""
        return (self.last_epoch, self.last_index) <= (last_epoch, last_index)

    def last_not_after(self, index: int, epoch: int) -> tuple[int, int]:
        """The last (index, epoch) at or below both: where two logs that differ may agree.

        At least the base: it is committed, so all nodes agree there.
        """
        index = max(min(index, self.last_index), self.base_index)
        run = bisect_right(self._run_starts, index) - 1
        while run > 0 and self._run_epochs[run] > epoch:
            index = self._run_starts[run] - 1
            run -= 1
        if self._run_epochs[run] > epoch:
            index = self.base_index
        return index, self._run_epochs[run]

    @property
    def voters(self) -> VoterSet | None:
        """The last voter set that the log records; None while that is configuration."""
        return self._voters[-1].voters if self._voters else None

    @property
    def voters_index(self) -> int:
        """Where `voters` is recorded; 0 if it is not."""
        return self._voters[-1].at if self._voters else 0

    @property
    def previous_voters(self) -> VoterSet | None:
        """The set before `voters`, as far as the log goes back; None if it was configuration."""
        return self._voters[-2].voters if len(self._voters) > 1 else None

    def voters_at(self, index: int) -> VoterSet | None:
        """The last set that is recorded up to an index, which is not below the base."""
        found = [one.voters for one in self._voters if one.at <= index]
        return found[-1] if found else None

    def is_in_memory(self, index: int) -> bool:
        """Whether `entries` from that index on does not read the disk."""
        return index >= self._memory_start

    def entries(self, first: int, size_bytes_max: int) -> tuple[Entry, ...]:
        """Entries from an index on: up to ``size_bytes_max``, but at least one if there is one.

        Raises:
            OSError, StorageError: older entries could not be read.
        """
        skipped = first - self._memory_start
        if skipped < 0:
            return tuple(self._read(first, self._memory_start, size_bytes_max))
        chosen: list[Entry] = []
        for entry in islice(self._memory, skipped, None):
            size_bytes_max -= len(entry.payload) + ENTRY_OVERHEAD_BYTES
            if chosen and size_bytes_max < 0:
                break
            chosen.append(entry)
        return tuple(chosen)

    # --- changes -----------------------------------------------------------------------------

    def append(self, entries: Iterable[Entry]) -> None:
        """Add entries at the end.

        Raises:
            UnknownControlRecord: one is of a later version.
        """
        for entry in entries:
            self.last_index += 1
            if entry.epoch != self._run_epochs[-1]:
                self._run_epochs.append(entry.epoch)
                self._run_starts.append(self.last_index)
            self._memory.append(entry)
            self._memory_size_bytes += len(entry.payload) + ENTRY_OVERHEAD_BYTES
            voters = decode_voters(entry.payload)
            if voters is not None:
                self._voters.append(RecordedVoters(self.last_index, voters))

    def truncate_to(self, index: int) -> None:
        """Remove every entry from `index` on, which is above the base."""
        while self._memory and self.last_index >= index:
            self._memory_size_bytes -= len(self._memory.pop().payload) + ENTRY_OVERHEAD_BYTES
            self.last_index -= 1
        self.last_index = min(self.last_index, index - 1)
        while self._run_starts[-1] >= index:
            self._run_starts.pop()
            self._run_epochs.pop()
        while self._voters and self._voters[-1].at >= index:
            self._voters.pop()

    def compact(self, index: int) -> None:
        """Move the base up to `index`, which is in the log: a snapshot covers the rest."""
        epoch = self.epoch_at(index)
        run = bisect_right(self._run_starts, index)
        self._run_starts[:run] = [index]
        self._run_epochs[:run] = [epoch]
        self.base_index = index
        covered = [one for one in self._voters if one.at <= index]
        self._voters[: len(covered)] = covered[-1:]
        while self._memory and self._memory_start <= index:
            self._forget_first()

    def replace_by_snapshot(self, index: int, epoch: int, voters: VoterSet | None = None) -> None:
        """Replace the whole log by a snapshot of everything up to `index`."""
        self._memory.clear()
        self._memory_size_bytes = 0
        self.base_index = self.last_index = index
        self._run_starts = [index]
        self._run_epochs = [epoch]
        self._voters = [] if voters is None else [RecordedVoters(index, voters)]

    def forget_old(self) -> None:
        """Drop the oldest entries from memory, above the limit. All entries must be on the disk."""
        while self._memory_size_bytes > self._memory_size_bytes_max:
            self._forget_first()

    def _forget_first(self) -> None:
        self._memory_size_bytes -= len(self._memory.popleft().payload) + ENTRY_OVERHEAD_BYTES
