"""Offsets that were committed inside transactions and do not count yet (KIP-98, KIP-447).

They wait from their append to their transaction's marker. What was appended last wins, not what
was decided last: an offset that is committed later, with or without a transaction, stays when the
earlier one's marker comes. Between the append of a marker and
the high watermark that passes it, the transaction has ended in the log, but might still be lost
with its leader: readers are told that the offset is not stable.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from math import inf

from .records import CommittedOffset, OffsetKey

__all__ = ["EndedOffsets", "PendingOffsets"]

_Ordered = dict[OffsetKey, tuple[int, CommittedOffset]]
"""Offsets, and when they were appended."""


class EndedOffsets:
    """Offsets of a transaction whose marker the high watermark has not passed."""

    __slots__ = ("offsets",)

    def __init__(self, offsets: _Ordered) -> None:
        self.offsets = offsets


class PendingOffsets:
    """Offsets by the producer in whose transaction they were committed."""

    def __init__(self) -> None:
        self._open: dict[int, _Ordered] = {}
        self._ended: dict[EndedOffsets, None] = {}
        self._times: Counter[OffsetKey] = Counter()
        self._last_order = 0

    def __contains__(self, key: OffsetKey) -> bool:
        """Whether an offset may change when some transaction ends."""
        return key in self._times

    def has_group(self, group_id: str) -> bool:
        """Whether a group has such offsets."""
        return any(key.group_id == group_id for key in self._times)

    def keys_of(self, group_id: str) -> list[OffsetKey]:
        """Those of a group."""
        return [key for key in self._times if key.group_id == group_id]

    def add(self, producer_id: int, key: OffsetKey, committed: CommittedOffset) -> None:
        """A transaction's offset is in the log."""
        offsets = self._open.setdefault(producer_id, {})
        if key not in offsets:
            self._times[key] += 1
        self._last_order += 1
        offsets[key] = (self._last_order, committed)

    def supersede(self, key: OffsetKey, order: float = inf) -> None:
        """The same offset was committed or deleted after those (that were appended before)."""
        if key in self._times:
            for offsets in chain(self._open.values(), (ended.offsets for ended in self._ended)):
                if key in offsets and offsets[key][0] < order:
                    del offsets[key]
                    self._release(key)

    def end(self, producer_id: int) -> EndedOffsets:
        """A marker is in the log; what follows belongs to the producer's next transaction."""
        ended = EndedOffsets(self._open.pop(producer_id, {}))
        self._ended[ended] = None
        return ended

    def settle(self, ended: EndedOffsets, *, commits: bool) -> dict[OffsetKey, CommittedOffset]:
        """The high watermark has passed a marker: forget the transaction, return what counts."""
        if ended not in self._ended:
            return {}  # the shard has resigned meanwhile
        del self._ended[ended]
        for key, (order, _) in ended.offsets.items():
            self._release(key)
            if commits:
                self.supersede(key, order)
        return {key: offset for key, (_, offset) in ended.offsets.items()} if commits else {}

    def _release(self, key: OffsetKey) -> None:
        self._times[key] -= 1
        if not self._times[key]:
            del self._times[key]

    def clear(self) -> None:
        """Forget everything."""
        self._open.clear()
        self._ended.clear()
        self._times.clear()
