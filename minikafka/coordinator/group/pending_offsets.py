"""Offsets that were committed in transactions that have not ended yet (KIP-98, KIP-447).

They are pending from their append until the marker of their transaction is committed. The last
append wins, not the last marker: an offset that is committed later, with or without a transaction,
stays when the earlier one's marker arrives. While a marker is appended but not yet committed, it
may still be lost with the leader, so readers still get UNSTABLE_OFFSET_COMMIT.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from math import inf

from .records import CommittedOffset, OffsetKey

_Ordered = dict[OffsetKey, tuple[int, CommittedOffset]]
"""Offsets with their position in the order of appends."""


class EndedOffsets:
    """Offsets of a transaction whose marker is appended but not committed."""

    __slots__ = ("offsets",)

    def __init__(self, offsets: _Ordered) -> None:
        self.offsets = offsets


class PendingOffsets:
    def __init__(self) -> None:
        self._open: dict[int, _Ordered] = {}
        self._ended: dict[EndedOffsets, None] = {}
        self._times: Counter[OffsetKey] = Counter()
        self._last_order = 0

    def __contains__(self, key: OffsetKey) -> bool:
        """Whether an offset may change when a transaction ends."""
        return key in self._times

    def has_group(self, group_id: str) -> bool:
        return any(key.group_id == group_id for key in self._times)

    def keys_of(self, group_id: str) -> list[OffsetKey]:
        return [key for key in self._times if key.group_id == group_id]

    def add(self, producer_id: int, key: OffsetKey, committed: CommittedOffset) -> None:
        offsets = self._open.setdefault(producer_id, {})
        if key not in offsets:
            self._times[key] += 1
        self._last_order += 1
        offsets[key] = (self._last_order, committed)

    def supersede(self, key: OffsetKey, order: float = inf) -> None:
        """Drop pending offsets of this partition that were appended before ``order``."""
        if key in self._times:
            for offsets in chain(self._open.values(), (ended.offsets for ended in self._ended)):
                if key in offsets and offsets[key][0] < order:
                    del offsets[key]
                    self._release(key)

    def end(self, producer_id: int) -> EndedOffsets:
        """A marker was appended; later offsets belong to the producer's next transaction."""
        ended = EndedOffsets(self._open.pop(producer_id, {}))
        self._ended[ended] = None
        return ended

    def settle(self, ended: EndedOffsets, *, commits: bool) -> dict[OffsetKey, CommittedOffset]:
        """A marker is committed: forget the transaction; returns the offsets that now count."""
        if ended not in self._ended:
            return {}  # the shard has resigned in the meantime
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
        self._open.clear()
        self._ended.clear()
        self._times.clear()
