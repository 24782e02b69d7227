"""Decides what each batch of a stream reads, independently of Spark's classes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from minikafka_client.types import TopicPartition

from .errors import data_loss
from .lookups import Lookups, MissingTopicsError, Snapshot, listed, resolve
from .losses import find_losses
from .offset_specs import SpecKind
from .ranges import OffsetRange, between
from .source_options import SourceOptions
from .stream_offsets import StreamOffset

Offsets = dict[TopicPartition, int]


@dataclass(frozen=True)
class Admission:
    """The size of a batch.

    Attributes:
        offsets_min: with fewer, wait for ``maxTriggerDelay``.
    """

    offsets_max: int | None = None
    offsets_min: int | None = None


EVERYTHING: Final = Admission()


class StreamPlan:
    """Plans the batches of one stream.

    Args:
        options: of the stream.
        lookups: asks the brokers.
        clock: monotonic seconds.

    Attributes:
        latest: the ends of the partitions when they were last looked up; None before.
    """

    def __init__(
        self,
        options: SourceOptions,
        lookups: Lookups,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._lookups = lookups
        self._clock = clock
        self._frozen: Snapshot | None = None
        self._triggered_at: float | None = None
        self.latest: Offsets | None = None

    def freeze(self) -> None:
        """Ignore records that arrive from now on (``Trigger.AvailableNow``)."""
        self._frozen = self._lookups.snapshot()
        self.latest = dict(self._frozen.latest)

    def next(self, start: StreamOffset | None, admission: Admission) -> StreamOffset | None:
        """Where the next batch ends.

        Args:
            start: where it begins; None if unknown (Spark 4.1).
            admission: how much it may read.

        Returns:
            None if there is nothing, or not enough, to read.

        Raises:
            DataLossError: records were lost.
            OptionError: a topic does not exist.
            KafkaError: the brokers could not be asked.
        """
        now = self._look(start)
        if start is None:
            return StreamOffset(now.latest, {}, now.topic_ids, now.leader_epochs)
        begun, begins = self._begins(start, now)
        if not start.is_initial and self._waits(begins, now, admission):
            return None
        ends = dict(now.latest)
        if admission.offsets_max is not None:
            ends = limited(begins, ends, admission.offsets_max)
        if not start.is_initial and not begun and ends == dict(start.offsets):
            return None
        self._triggered_at = self._clock()
        return StreamOffset(ends, begun, now.topic_ids, now.leader_epochs)

    def _look(self, start: StreamOffset | None) -> Snapshot:
        if self._frozen is not None:
            return self._frozen
        try:
            now = self._lookups.snapshot()
        except MissingTopicsError as error:
            known = () if start is None else start.offsets
            lost = sorted({each.topic for each in known}.intersection(error.topics))
            if lost:
                raise data_loss(f"topics that were read no longer exist: {lost}") from None
            raise
        self.latest = dict(now.latest)
        return now

    def _begins(self, start: StreamOffset, now: Snapshot) -> tuple[Offsets, Offsets]:
        """Where the partitions begin that do not continue, and where all of them begin."""
        if start.is_initial:
            begun = self._first_offsets(now)
            return begun, begun
        losses = find_losses(start, now, self._lookups)
        causes = losses.causes
        new = [each for each in now.latest if each not in start.offsets]
        begun = self._lookups.earliest(new)
        late = {each: offset for each, offset in begun.items() if offset > 0}
        if late:
            causes.append(f"the new partitions {listed(late)} no longer begin at offset 0")
        if causes and self._options.fail_on_data_loss:
            raise data_loss("; ".join(causes))
        begun.update(losses.resumed)
        begun = {each: min(offset, now.latest[each]) for each, offset in begun.items()}
        return begun, {each: begun.get(each, start.offsets.get(each, 0)) for each in now.latest}

    def _first_offsets(self, now: Snapshot) -> Offsets:
        options = self._options
        latest = dict(now.latest)
        if options.starting.kind is SpecKind.LATEST:
            return latest
        wanted = resolve(
            self._lookups,
            latest,
            options.starting,
            uses_latest_without_timestamp=options.uses_latest_without_timestamp,
        )
        if options.starting.kind is SpecKind.OFFSETS:
            firsts = self._lookups.earliest(latest)
            real = {each: min(max(o, firsts[each]), latest[each]) for each, o in wanted.items()}
            gone = [each for each, offset in wanted.items() if offset != real[each]]
            if gone and options.fail_on_data_loss:
                raise data_loss(f"{listed(gone)} do not have the offsets of startingOffsets")
            return real
        return {each: min(offset, latest[each]) for each, offset in wanted.items()}

    def _waits(self, begins: Offsets, now: Snapshot, admission: Admission) -> bool:
        """Whether there is too little to read, and time to wait for more."""
        if admission.offsets_min is None or self._frozen is not None:
            return False
        if available(begins, now.latest) >= admission.offsets_min:
            return False
        if self._triggered_at is None:
            return False
        delay_s = self._options.max_trigger_delay_ms / 1000
        return self._clock() - self._triggered_at < delay_s

    def ranges(self, start: StreamOffset, end: StreamOffset) -> list[OffsetRange]:
        """The offsets that a batch reads.

        Raises:
            KafkaError: the brokers could not be asked.
        """
        begins = {**{each: start.offsets.get(each, -1) for each in end.offsets}, **end.starts}
        unknown = [each for each in end.offsets if begins[each] < 0]
        begins.update(self._lookups.earliest(unknown))
        return self._lookups.sized(between(begins, end.offsets))


def available(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int:
    """The number of offsets to read."""
    return sum(max(0, end - starts[each]) for each, end in ends.items())


def limited(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], offsets_max: int
) -> Offsets:
    """Ends that leave about `offsets_max` offsets, in proportion to what is available.

    Each partition with anything to read gets at least one offset, so that it does not starve; with
    many such partitions a batch is a little larger than the limit. Spark's own connector does the
    same.
    """
    total = available(starts, ends)
    if total <= offsets_max:
        return dict(ends)
    found: Offsets = {}
    for each, end in ends.items():
        size = max(0, end - starts[each])
        share = offsets_max * size / total
        found[each] = min(end, starts[each] + (math.ceil(share) if share < 1 else int(share)))
    return found
