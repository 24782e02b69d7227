"""Turns what users say about offsets into offsets."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from minikafka_client.types import EARLIEST, LATEST, TopicPartition

from .errors import OptionError
from .lookups import Lookups, listed
from .offset_specs import OffsetSpec, SpecKind


def resolve(
    lookups: Lookups,
    partitions: Collection[TopicPartition],
    spec: OffsetSpec,
    *,
    uses_latest_without_timestamp: bool,
) -> dict[TopicPartition, int]:
    """The offset of each partition that a specification means.

    Args:
        lookups: asks brokers.
        partitions: the partitions that are read.
        spec: what the user said.
        uses_latest_without_timestamp: what to do when no record is as late as a timestamp: go to
            the end, or fail.

    Raises:
        OptionError: the specification is about other partitions, or no record is as late.
        KafkaError: nobody could be asked.
    """
    if spec.kind is SpecKind.EARLIEST:
        return lookups.earliest(partitions)
    if spec.kind is SpecKind.LATEST:
        return lookups.latest(partitions)
    if spec.kind is SpecKind.OFFSETS:
        _check_complete(spec, partitions)
        return _fixed(lookups, spec.of_partition)
    if spec.kind is SpecKind.TIMESTAMP:
        timestamps = dict.fromkeys(partitions, spec.timestamp_ms)
    else:
        _check_complete(spec, partitions)
        timestamps = dict(spec.of_partition)
    found = lookups.offsets(timestamps)
    without = [each for each, offset in found.items() if offset < 0]
    if without:
        if not uses_latest_without_timestamp:
            raise OptionError(
                f"{spec.option}: no record of {listed(without)} is as late as "
                f"{timestamps[min(without)]}; set startingOffsetsByTimestampStrategy to 'latest' "
                f"to start at the end there"
            )
        found.update(lookups.latest(without))
    return found


def _check_complete(spec: OffsetSpec, partitions: Collection[TopicPartition]) -> None:
    missing = set(partitions) - set(spec.of_partition)
    others = set(spec.of_partition) - set(partitions)
    if missing:
        raise OptionError(
            f"{spec.option} must name every partition that is read, and leaves out "
            f"{listed(missing)}; where you do not care, offsets may be -1 (latest) or -2 (earliest)"
        )
    if others:
        raise OptionError(f"{spec.option} names what is not read: {listed(others)}")


def _fixed(
    lookups: Lookups, of_partition: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Offsets as they were given; the two words among them are looked up."""
    words = {each: offset for each, offset in of_partition.items() if offset in (EARLIEST, LATEST)}
    return {**of_partition, **lookups.offsets(words)}
