"""How much of what there is goes into the next batch of a stream."""

from __future__ import annotations

import math
from collections.abc import Mapping

from minikafka_client.types import TopicPartition

Offsets = Mapping[TopicPartition, int]


def available(starts: Offsets, ends: Offsets) -> int:
    """How many offsets there are to be read."""
    return sum(max(0, end - starts[each]) for each, end in ends.items())


def limited(starts: Offsets, ends: Offsets, offsets_max: int) -> dict[TopicPartition, int]:
    """Ends with at most about so many offsets, shared out in proportion to what there is.

    A partition with little gets one at least, so that it does not starve; with many of those a
    batch is a little larger than it should be. Spark's own connector does the same.
    """
    total = available(starts, ends)
    if total <= offsets_max:
        return dict(ends)
    found: dict[TopicPartition, int] = {}
    for each, end in ends.items():
        size = max(0, end - starts[each])
        share = offsets_max * size / total
        found[each] = min(end, starts[each] + (math.ceil(share) if share < 1 else int(share)))
    return found
