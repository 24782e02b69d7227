"""Which records the application has consumed, and which of them count as processed.

A record counts as processed when the application asks for the next one, so that what it was working
on when it crashed is read again. There is no bookkeeping per record: the iterator that the
application draws from shows how far a run has been consumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from operator import length_hint

from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.core.partition_reader import PartitionReader
from minikafka_client.types import ConsumerRecord, OffsetAndMetadata, TopicPartition


class Iteration:
    """A run of records that is being consumed.

    Attributes:
        reader: its partition.
        term: the reader's when it began; after a seek, the rest is dropped.
        run: where the records come from.
        iterator: the rest; drawing from it consumes a record.
    """

    __slots__ = ("_records", "iterator", "reader", "run", "term")

    def __init__(self, reader: PartitionReader, run: ConsumedBatch) -> None:
        self.reader = reader
        self.term = reader.term
        self.run = run
        self._records = run.records
        self.iterator: Iterator[ConsumerRecord] = iter(self._records)

    @property
    def given(self) -> int:
        return len(self._records) - length_hint(self.iterator)

    @property
    def is_over(self) -> bool:
        """Whether it is exhausted, or the partition was moved or revoked."""
        return self.reader.term != self.term or not length_hint(self.iterator)

    @property
    def position(self) -> int:
        given = self.given
        if given == len(self._records):
            return self.run.next_offset
        return self._records[given].offset if given else self.run.first_offset

    @property
    def last_given(self) -> int | None:
        given = self.given
        return self._records[given - 1].offset if given else None


class Consumption:
    """Keeps positions, and knows what may be committed."""

    def __init__(self) -> None:
        self.current: Iteration | None = None
        self._in_process: dict[TopicPartition, PartitionReader] = {}
        self._is_single = False

    def begin(self, reader: PartitionReader, run: ConsumedBatch) -> Iteration:
        self._settle()
        self.current = Iteration(reader, run)
        return self.current

    def put_back(self) -> None:
        """Keep the rest of the current run for later: its partition is paused."""
        self._settle()
        current, self.current = self.current, None
        if current is not None and not current.is_over:
            current.reader.fetched.appendleft(current.run.rest(current.position))

    def one_by_one(self) -> None:
        """From now on, records are drawn from the current iterator one at a time."""
        self._is_single = True

    def take(self, iteration: Iteration, count_max: int) -> list[ConsumerRecord]:
        """Consume several records; all of them are in process until the next call."""
        self._is_single = False
        self._in_process[iteration.reader.partition] = iteration.reader
        return list(islice(iteration.iterator, count_max))

    def take_run(self, reader: PartitionReader, run: ConsumedBatch) -> None:
        self._settle()
        self.current = None
        self._in_process[reader.partition] = reader
        reader.position = run.next_offset
        reader.leader_epoch = run.leader_epoch

    def asked_for_more(self) -> None:
        self._settle()
        if self._is_single and self.current is not None:
            self._in_process[self.current.reader.partition] = self.current.reader
        for reader in self._in_process.values():
            reader.processed = reader.position
            reader.processed_epoch = reader.leader_epoch
        self._in_process.clear()
        self._is_single = False
        if self.current is not None and self.current.is_over:
            self.current = None

    def _settle(self) -> None:
        current = self.current
        if current is not None and current.reader.term == current.term:
            current.reader.position = current.position
            current.reader.leader_epoch = current.run.leader_epoch_before(current.position)

    def position(self, reader: PartitionReader) -> int:
        self._settle()
        return reader.position

    def processed(self, reader: PartitionReader) -> OffsetAndMetadata:
        """The offset before which all records of a partition are processed, -1 while unknown."""
        current = self.current
        if self._is_single and current is not None and current.reader is reader:
            last = current.last_given
            if last is not None and reader.term == current.term:
                return OffsetAndMetadata(last, "", current.run.leader_epoch_before(last))
        return OffsetAndMetadata(reader.processed, "", reader.processed_epoch)

    def positions(
        self, readers: Iterable[PartitionReader]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What `commit` commits: everything consumed."""
        self._settle()
        return _known(
            (each.partition, OffsetAndMetadata(each.position, "", each.leader_epoch))
            for each in readers
        )

    def all_processed(
        self, readers: Iterable[PartitionReader]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What auto-commit commits: everything processed."""
        return _known((each.partition, self.processed(each)) for each in readers)


def _known(
    offsets: Iterable[tuple[TopicPartition, OffsetAndMetadata]],
) -> dict[TopicPartition, OffsetAndMetadata]:
    return {partition: found for partition, found in offsets if found.offset >= 0}
