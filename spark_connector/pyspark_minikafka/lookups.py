"""What the driver asks brokers: which partitions there are, and which offsets they have."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from minikafka_client.errors import KafkaError, SomeFailedError, UnknownTopicError
from minikafka_client.sync import AdminClient
from minikafka_client.types import (
    EARLIEST,
    LATEST,
    OffsetAndTimestamp,
    TopicDescription,
    TopicPartition,
)

from .errors import OptionError
from .leader_epochs import epoch_ends
from .source_options import SourceOptions

LISTED_MAX: Final = 5

_Result = TypeVar("_Result")


class MissingTopicsError(OptionError):
    """Topics that were asked for do not exist.

    Attributes:
        topics: their names.
    """

    def __init__(self, message: str, topics: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.topics = topics


@dataclass(frozen=True)
class Found:
    """The partitions to read.

    Attributes:
        topic_ids: of each topic; zeros where the broker is too old to know.
        leader_epochs: of each partition, -1 where unknown.
    """

    topic_ids: Mapping[str, bytes]
    leader_epochs: Mapping[TopicPartition, int]

    @property
    def partitions(self) -> list[TopicPartition]:
        """All of them, sorted."""
        return sorted(self.leader_epochs)


class Lookups:
    """Asks on behalf of one read; connections are kept until `close`.

    Args:
        options: of the read.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        connection = options.kafka.connection_options()
        if options.lookup_retry_interval_ms is not None:
            connection["retry_backoff_ms"] = max(1, options.lookup_retry_interval_ms)
        try:
            self._admin = AdminClient(options.kafka.bootstrap, **connection)
        except ValueError as error:
            raise OptionError(f"kafka.*: {error}") from None

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()

    def find(self) -> Found:
        """The partitions that the options choose.

        Raises:
            MissingTopicsError: a topic that they name does not exist.
            OptionError: a partition does not.
            KafkaError: nobody could be asked.
        """
        choice = self._options.topics
        if choice.pattern:
            matches = re.compile(choice.pattern).fullmatch
            described = self._asked(lambda: self._admin.describe_topics())
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

    def _describe(self, names: Collection[str]) -> Mapping[str, TopicDescription]:
        try:
            return self._asked(lambda: self._admin.describe_topics(names))
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

    def _asked(self, ask: Callable[[], _Result]) -> _Result:
        """Ask; what may succeed later is asked again as often as the user wants it."""
        retries = self._options.lookup_retries
        while True:
            try:
                return ask()
            except KafkaError as error:
                if not retries or not error.is_retriable:
                    raise
                retries -= 1
                time.sleep((self._options.lookup_retry_interval_ms or 0) / 1000)

    def offsets(self, specs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Look up `EARLIEST`, `LATEST` or a timestamp in ms; -1 where nothing is as late.

        Raises:
            KafkaError: nobody could be asked.
        """
        return {each: found.offset for each, found in self.listed(specs).items()}

    def listed(
        self, specs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """The same, with what else the broker says."""
        if not specs:
            return {}
        level = self._options.isolation_level
        return self._asked(lambda: self._admin.list_offsets(specs, isolation_level=level))

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return self.offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last record that may be read of each partition."""
        return self.offsets(dict.fromkeys(partitions, LATEST))

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where the log of each partition's leader leaves what was written up to an epoch.

        Raises:
            KafkaError: nobody could be asked.
        """
        return self._admin.run_plan(lambda cluster: epoch_ends(cluster, epochs)) if epochs else {}


def listed(partitions: Collection[TopicPartition]) -> str:
    """Partitions in a message: the first few of them."""
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
