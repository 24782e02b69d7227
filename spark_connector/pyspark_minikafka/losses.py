"""Finds out, between two batches of a stream, whether records it had read or was to read are gone.

What retention took is noticed by the task that wants to read it; that saves a question per batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from minikafka.protocol.schema import ZERO_UUID
from minikafka_client.types import TopicPartition

from .lookups import Lookups, listed
from .snapshots import Snapshot
from .stream_offsets import StreamOffset


@dataclass
class Losses:
    """What is gone, and where to go on without it.

    Attributes:
        causes: one sentence each.
        resumed: where partitions go on, if not at the offset that the stream had.
    """

    causes: list[str] = field(default_factory=list[str])
    resumed: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])


def find_losses(start: StreamOffset, now: Snapshot, lookups: Lookups) -> Losses:
    """Compare where a stream stands with what there is.

    Raises:
        KafkaError: nobody could be asked.
    """
    losses = Losses()
    gone = [each for each in start.offsets if each not in now.latest]
    if gone:
        losses.causes.append(
            f"{listed(gone)} do not exist any more (deleted, or no longer subscribed to)"
        )
    anew = _made_anew(start, now)
    if anew:
        there = [each for each in start.offsets if each.topic in anew and each in now.latest]
        losses.resumed.update(lookups.earliest(there))
        losses.causes += [
            f"topic {name!r} was deleted and made anew (its id was "
            f"{start.topic_ids[name].hex()}, it is {now.topic_ids[name].hex()})"
            for name in anew
        ]
    truncated = {
        each: end
        for each, end in _ends(start, now, lookups).items()
        if each.topic not in anew and end < start.offsets[each]
    }
    losses.resumed.update(truncated)
    losses.causes += [
        f"{each.topic}-{each.partition} was truncated to {end}, the query had read to "
        f"{start.offsets[each]} (a leader was elected that did not have these records)"
        for each, end in sorted(truncated.items())
    ]
    return losses


def _made_anew(start: StreamOffset, now: Snapshot) -> list[str]:
    return [
        name
        for name, before in sorted(start.topic_ids.items())
        if ZERO_UUID not in (before, now.topic_ids.get(name, ZERO_UUID))
        and before != now.topic_ids[name]
    ]


def _ends(start: StreamOffset, now: Snapshot, lookups: Lookups) -> Mapping[TopicPartition, int]:
    """Up to where each log is the one that the stream has read."""
    ends = {each: now.latest[each] for each in start.offsets if each in now.latest}
    moved = {
        each: epoch
        for each, epoch in start.leader_epochs.items()
        if each in ends and 0 <= epoch < now.leader_epochs.get(each, -1)
    }
    for each, end in lookups.epoch_ends(moved).items():
        if end >= 0:
            ends[each] = min(ends[each], end)
    return ends
