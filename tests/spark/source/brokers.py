"""Lookups answered from a table instead of by brokers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from minikafka_client.types import EARLIEST, LATEST, OffsetAndTimestamp, TopicPartition
from pyspark_minikafka.lookups import Found, Lookups, MissingTopicsError
from pyspark_minikafka.ranges import OffsetRange


@dataclass
class Log:
    """One partition: its first offset, its end, and where its leader epochs ended."""

    start: int = 0
    end: int = 0
    epoch: int = 0
    epoch_ends: tuple[tuple[int, int], ...] = ()
    """Epochs, and the offset after the last record of each."""


class Table(Lookups):
    """Answers from a table, in which the record at offset n has the timestamp n.

    Attributes:
        logs: the existing partitions.
        missing: requested topics that do not exist.
    """

    def __init__(self, **topics: list[int]) -> None:
        self.logs = {
            TopicPartition(topic, partition): Log(end=end)
            for topic, ends in topics.items()
            for partition, end in enumerate(ends)
        }
        self.topic_ids = {topic: topic.encode().ljust(16, b"1") for topic in topics}
        self.missing: tuple[str, ...] = ()
        self.asked_for_epochs = 0

    def find(self) -> Found:
        if self.missing:
            raise MissingTopicsError("there is no such topic", self.missing)
        return Found(self.topic_ids, {each: log.epoch for each, log in self.logs.items()})

    def listed(
        self, specs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        found: dict[TopicPartition, OffsetAndTimestamp] = {}
        for each, spec in specs.items():
            log = self.logs[each]
            if spec == EARLIEST:
                offset = log.start
            elif spec == LATEST:
                offset = log.end
            else:
                offset = max(spec, log.start) if spec < log.end else -1
            found[each] = OffsetAndTimestamp(offset, -1, log.epoch)
        return found

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        self.asked_for_epochs += len(epochs)
        return {each: dict(self.logs[each].epoch_ends).get(e, -1) for each, e in epochs.items()}

    def sized(self, ranges: list[OffsetRange]) -> list[OffsetRange]:
        return ranges

    def append(self, records: int, partitions: Collection[TopicPartition] | None = None) -> None:
        """Append a number of records to each partition."""
        for each in partitions or self.logs:
            self.logs[each].end += records
