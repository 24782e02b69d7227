"""The driver's questions to brokers: which partitions exist, and what their offsets are."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import KafkaError, SomeFailedError, UnknownTopicError
from minikafka_client.plans.offsets import list_offsets
from minikafka_client.plans.plan import Plan
from minikafka_client.plans.topics import describe_topics
from minikafka_client.sync.plan_client import PlanClient
from minikafka_client.types import (
    EARLIEST,
    LATEST,
    OffsetAndTimestamp,
    TopicDescription,
    TopicPartition,
)

from .errors import OptionError
from .leader_epochs import epoch_ends
from .offset_specs import OffsetSpec, SpecKind
from .ranges import GUESSED_RECORD_SIZE_BYTES, OffsetRange
from .record_sizes import record_sizes
from .source_options import SourceOptions
from .topic_pattern import topic_matcher

LISTED_MAX: Final = 5

RECORD_SIZES_LAST_S: Final = 60.0
"""A stream estimates the sizes of records again after this time."""

_Result = TypeVar("_Result")


class MissingTopicsError(OptionError):
    """Topics that the options name do not exist."""

    def __init__(self, message: str, topics: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.topics = topics


@dataclass(frozen=True)
class Found:
    """The partitions to read.

    Attributes:
        topic_ids: zeros if the broker is too old to know.
        leader_epochs: of each partition, -1 if unknown.
    """

    topic_ids: Mapping[str, bytes]
    leader_epochs: Mapping[TopicPartition, int]

    @property
    def partitions(self) -> list[TopicPartition]:
        return sorted(self.leader_epochs)


@dataclass(frozen=True)
class Snapshot:
    """The chosen partitions at one moment.

    Attributes:
        topic_ids: zeros if the broker is too old to know.
        latest: the offset after the last readable record.
        leader_epochs: of the last record; missing if the broker is too old to know.
    """

    topic_ids: Mapping[str, bytes]
    latest: Mapping[TopicPartition, int]
    leader_epochs: Mapping[TopicPartition, int]


class Lookups:
    """Asks the brokers for one read; connections stay open until `close`."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        connection = options.kafka.connection_options()
        if options.lookup_retry_interval_ms is not None:
            connection["retry_backoff_ms"] = max(1, options.lookup_retry_interval_ms)
        try:
            self._client = PlanClient(options.kafka.bootstrap, **connection)
        except ValueError as error:
            raise OptionError(f"kafka.*: {error}") from None
        self._record_sizes: dict[TopicPartition, int] = {}
        self._sized_at = -RECORD_SIZES_LAST_S

    def close(self) -> None:
        self._client.close()

    def find(self) -> Found:
        """The partitions that the options choose.

        Raises:
            MissingTopicsError: a topic that they name does not exist.
            OptionError: a partition does not exist.
            KafkaError: the brokers could not be asked.
        """
        choice = self._options.topics
        if choice.pattern:
            matches = topic_matcher(choice.pattern)
            described = self._asked(describe_topics)
            wanted = {
                name: topic
                for name, topic in described.items()
                if matches(name) and not topic.is_internal
            }
            return _found(wanted)
        names = choice.topics or sorted({each.topic for each in choice.assigned})
        found = _found(self._describe(names))
        if not choice.assigned:
            return found
        missing = [each for each in choice.assigned if each not in found.leader_epochs]
        if missing:
            raise OptionError(f"assign names partitions that do not exist: {listed(missing)}")
        epochs = {each: found.leader_epochs[each] for each in choice.assigned}
        return Found(found.topic_ids, epochs)

    def snapshot(self) -> Snapshot:
        """The chosen partitions and their ends.

        Raises:
            OptionError: a topic or a partition does not exist.
            KafkaError: the brokers could not be asked.
        """
        found = self.find()
        ends = self.listed(dict.fromkeys(found.partitions, LATEST))
        return Snapshot(
            found.topic_ids,
            {each: end.offset for each, end in ends.items()},
            {each: end.leader_epoch for each, end in ends.items() if end.leader_epoch >= 0},
        )

    def _describe(self, names: Collection[str]) -> Mapping[str, TopicDescription]:
        try:
            return self._asked(lambda cluster: describe_topics(cluster, names))
        except UnknownTopicError:
            missing = list(names)
        except SomeFailedError as error:
            missing = [n for n, why in error.failed.items() if isinstance(why, UnknownTopicError)]
            if len(missing) < len(error.failed):
                raise
        shown = ", ".join(repr(name) for name in missing[:LISTED_MAX])
        raise MissingTopicsError(
            f"there is no topic {shown} at {self._options.kafka.bootstrap}; create it, or change "
            f"subscribe or assign",
            tuple(missing),
        ) from None

    def _asked(self, start: Callable[[Cluster], Plan[_Result]]) -> _Result:
        """Run a plan, and repeat retriable failures as often as ``fetchOffset.numRetries`` says."""
        retries = self._options.lookup_retries
        while True:
            try:
                return self._client.run_plan(start)
            except KafkaError as error:
                if not retries or not error.is_retriable:
                    raise
                retries -= 1
                time.sleep((self._options.lookup_retry_interval_ms or 0) / 1000)

    def offsets(self, specs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Look up `EARLIEST`, `LATEST` or a timestamp in ms; -1 if all records are earlier.

        Raises:
            KafkaError: the brokers could not be asked.
        """
        return {each: found.offset for each, found in self.listed(specs).items()}

    def listed(
        self, specs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """The same with timestamps and leader epochs."""
        if not specs:
            return {}
        level = self._options.isolation_level
        return self._asked(lambda cluster: list_offsets(cluster, specs, isolation_level=level))

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self.offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last readable record of each partition."""
        return self.offsets(dict.fromkeys(partitions, LATEST))

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The offset at which each partition's leader ended an epoch, or the last one before it.

        Raises:
            KafkaError: the brokers could not be asked.
        """
        return self._client.run_plan(lambda cluster: epoch_ends(cluster, epochs)) if epochs else {}

    def sized(self, ranges: list[OffsetRange]) -> list[OffsetRange]:
        """The same ranges, with the sizes of their records as far as the brokers report them."""
        now = time.monotonic()
        wanted = {each.partition for each in ranges}
        is_old = now - self._sized_at >= RECORD_SIZES_LAST_S
        if wanted and (is_old or not wanted <= self._record_sizes.keys()):
            try:
                found = self._client.run_plan(lambda cluster: record_sizes(cluster, wanted))
            except KafkaError:  # an estimate is no reason to fail
                found = {}
            self._record_sizes = {**dict.fromkeys(wanted, GUESSED_RECORD_SIZE_BYTES), **found}
            self._sized_at = now
        sizes = self._record_sizes
        return [each._replace(record_size_bytes=sizes[each.partition]) for each in ranges]


def listed(partitions: Collection[TopicPartition]) -> str:
    """The first few partitions, for a message."""
    shown = ", ".join(
        f"{topic}-{partition}" for topic, partition in sorted(partitions)[:LISTED_MAX]
    )
    more = len(partitions) - LISTED_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def _found(topics: Mapping[str, TopicDescription]) -> Found:
    return Found(
        {name: topic.topic_id for name, topic in topics.items()},
        {
            TopicPartition(name, each.partition): each.leader_epoch
            for name, topic in topics.items()
            for each in topic.partitions
        },
    )


def resolve(
    lookups: Lookups,
    partitions: Collection[TopicPartition],
    spec: OffsetSpec,
    *,
    uses_latest_without_timestamp: bool,
) -> dict[TopicPartition, int]:
    """Look up the offsets that a specification means.

    Args:
        lookups: asks the brokers.
        partitions: the partitions to read.
        spec: the user's specification.
        uses_latest_without_timestamp: whether to take the end of a partition if all its records
            are earlier than a timestamp, or to fail.

    Raises:
        OptionError: the specification names other partitions, or all records are earlier.
        KafkaError: the brokers could not be asked.
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
                f"{spec.option}: all records of {listed(without)} are earlier than "
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
            f"{listed(missing)}; offsets may be -1 (latest) or -2 (earliest)"
        )
    if others:
        raise OptionError(f"{spec.option} names partitions that are not read: {listed(others)}")


def _fixed(
    lookups: Lookups, of_partition: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Replace -1 and -2 by the offsets that they mean."""
    words = {each: offset for each, offset in of_partition.items() if offset in (EARLIEST, LATEST)}
    return {**of_partition, **lookups.offsets(words)}
