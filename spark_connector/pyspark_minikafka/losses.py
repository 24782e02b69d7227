"""Detects, between two batches of a stream, that topics were replaced or logs truncated.

Records that retention deleted are detected by the task that reads them, which saves a request per
batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from minikafka.protocol.fields import ZERO_UUID
from minikafka_client.types import TopicPartition

from .lookups import Lookups, Snapshot, listed
from .stream_offsets import StreamOffset


@dataclass
class Losses:
    """What was lost, and where to continue.

    Attributes:
        causes: for the error message.
        resumed: where partitions continue, if not at the stream's offset.
    """

    causes: list[str] = field(default_factory=list[str])
    resumed: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])


def find_losses(start: StreamOffset, now: Snapshot, lookups: Lookups) -> Losses:
    """Compare a stream's position with the partitions.

    Raises:
        KafkaError: the brokers could not be asked.
    """
    losses = Losses()
    gone = [each for each in start.offsets if each not in now.latest]
    if gone:
        losses.causes.append(
            f"{listed(gone)} no longer exist (deleted, or no longer subscribed to)"
        )
    replaced = _replaced(start, now)
    if replaced:
        there = [each for each in start.offsets if each.topic in replaced and each in now.latest]
        losses.resumed.update(lookups.earliest(there))
        losses.causes += [
            f"topic {name!r} was deleted and created again (its id was "
            f"{start.topic_ids[name].hex()}, is now {now.topic_ids[name].hex()})"
            for name in replaced
        ]
    truncated = {
        each: end
        for each, end in _ends(start, now, lookups).items()
        if each.topic not in replaced and end < start.offsets[each]
    }
    losses.resumed.update(truncated)
    losses.causes += [
        f"{each.topic}-{each.partition} was truncated to {end}, the query had read to "
        f"{start.offsets[each]} (a leader was elected that did not have these records)"
        for each, end in sorted(truncated.items())
    ]
    return losses


def _replaced(start: StreamOffset, now: Snapshot) -> list[str]:
    return [
        name
        for name, before in sorted(start.topic_ids.items())
        if ZERO_UUID not in (before, now.topic_ids.get(name, ZERO_UUID))
        and before != now.topic_ids[name]
    ]


def _ends(start: StreamOffset, now: Snapshot, lookups: Lookups) -> Mapping[TopicPartition, int]:
    """The offset up to which each log is still the one that was read."""
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
