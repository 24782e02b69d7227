"""Which bytes of a segment this process knows to be intact.

Bytes that were appended or recovered by this process were checked then; bytes that an earlier
process left are checked when they are read first, so that damage on disk is never served, and every
later read goes straight from the file to the socket.
"""

from bisect import bisect_right
from operator import itemgetter
from typing import Final

RANGES_MAX: Final = 16
"""Ranges remembered per segment: readers at more places than this check some bytes again."""

_start_of = itemgetter(0)


class VerifiedRanges:
    """Disjoint [start, end) ranges in rising order."""

    __slots__ = ("ranges",)

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []

    def covers(self, start: int, end: int) -> bool:
        """Whether every byte in [start, end) is known to be intact."""
        index = bisect_right(self.ranges, start, key=_start_of)
        return index > 0 and self.ranges[index - 1][1] >= end

    def add(self, start: int, end: int) -> None:
        """[start, end) is intact."""
        if start >= end:
            return
        kept: list[tuple[int, int]] = []
        for range_start, range_end in self.ranges:
            if range_end < start or range_start > end:
                kept.append((range_start, range_end))
            else:
                start, end = min(start, range_start), max(end, range_end)
        kept.append((start, end))
        if len(kept) > RANGES_MAX:
            kept.remove(min(kept, key=lambda candidate: candidate[1] - candidate[0]))
        kept.sort()
        self.ranges = kept

    def cut(self, end: int) -> None:
        """The file was truncated to `end` bytes."""
        self.ranges = [
            (range_start, min(range_end, end))
            for range_start, range_end in self.ranges
            if range_start < end
        ]
