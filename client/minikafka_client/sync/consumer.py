"""The consumer for ordinary programs: the trio consumer, run in a thread of its own."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from types import TracebackType
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar, Unpack

from minikafka_client.consumer_options import ConsumerOptions
from minikafka_client.core.fetched import FetchedRecords
from minikafka_client.errors import ClosedError
from minikafka_client.statistics import ConsumerStatistics
from minikafka_client.sync.portal import Held, Portal, run_in_caller
from minikafka_client.trio_face import consumer as trio_consumer
from minikafka_client.trio_face.commits import CommitCallback, Offsets
from minikafka_client.types import (
    ConsumerRecord,
    GroupMetadata,
    Key,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
    Value,
)

if TYPE_CHECKING:
    from minikafka_client.serializers import Deserializer

_Result = TypeVar("_Result")

RebalanceCallback = Callable[[Sequence[TopicPartition]], object]

RECORDS_PER_CALL: Final = 500
"""Iterating takes this many records at once out of the thread (Kafka's max.poll.records)."""


class Consumer(Generic[Key, Value]):
    """Reads records: ``with Consumer("localhost:9092", group_id="g") as consumer``.

    Only one thread may use it at a time. Callbacks run in the thread that asks for records, and
    may use the consumer (to commit, say).

    Args:
        bootstrap: ``"host:port"``, several with commas between, or a sequence of them.
        on_partitions_revoked, on_partitions_assigned, on_partitions_lost: called while records are
            asked for; "revoked" may still commit, "lost" is too late for it.
        key_deserializer, value_deserializer: what makes keys and values of bytes, in the thread
            that runs trio; see `minikafka_client.serializers`. None: they are bytes.
        options: see `minikafka_client.consumer_options.ConsumerConfig` and
            `minikafka_client.options.ConnectionConfig`.

    Raises:
        ValueError: an option is refused.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        on_partitions_revoked: RebalanceCallback | None = None,
        on_partitions_assigned: RebalanceCallback | None = None,
        on_partitions_lost: RebalanceCallback | None = None,
        key_deserializer: Deserializer[Key] | None = None,
        value_deserializer: Deserializer[Value] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._portal = Portal("Consumer")
        self._make = lambda: trio_consumer.Consumer[Key, Value](
            bootstrap,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            on_partitions_revoked=_crossing(on_partitions_revoked),
            on_partitions_assigned=_crossing(on_partitions_assigned),
            on_partitions_lost=_crossing(on_partitions_lost),
            **options,
        )
        self._held: Held[trio_consumer.Consumer[Key, Value]] | None = None
        self._taken: deque[ConsumerRecord[Key, Value]] = deque()  # polled, not yet handed out
        self._in_process: ConsumerRecord[Key, Value] | None = None

    def __enter__(self) -> Self:
        self._held = self._portal.enter(self._make)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        held = self._held
        if held is None:
            return
        try:
            if exc is not None and self._in_process is not None:
                self._taken.appendleft(self._in_process)  # it is to be read again
            self._give_back()
        finally:
            try:
                held.close(exc_type, exc, traceback)
            finally:
                self._held = None

    @property
    def _consumer(self) -> trio_consumer.Consumer[Key, Value]:
        if self._held is None:
            raise ClosedError("use the Consumer inside its `with` block")
        return self._held.value

    # --- what to read ---

    def subscribe(self, topics: Iterable[str] | re.Pattern[str]) -> None:
        """Join the group for these topics (or all whose name the pattern matches fully)."""
        self._portal.call(self._consumer.subscribe, topics)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without the group's assignment."""
        wanted = list(partitions)
        self._forget(lambda record: (record.topic, record.partition) not in wanted)
        self._portal.call(self._consumer.assign, wanted)

    def unsubscribe(self) -> None:
        """Leave the group, or drop the assigned partitions."""
        self._give_back()
        self._portal.call(self._consumer.unsubscribe)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read now."""
        return self._consumer.assignment

    # --- reading ---

    def __iter__(self) -> Iterator[ConsumerRecord[Key, Value]]:
        """Iterate over records without end: ``for record in consumer``.

        Raises:
            KafkaError: a partition has failed, or the group cannot be joined.
        """
        taken = self._taken
        while True:
            if not taken:
                self._in_process = None
                taken.extend(self._portal.call(self._consumer.poll, RECORDS_PER_CALL))
            while taken:
                self._in_process = taken.popleft()
                yield self._in_process

    def batches(self) -> Iterator[FetchedRecords[Key, Value]]:
        """Iterate over runs of one partition's records: ``for batch in consumer.batches()``.

        Raises:
            KafkaError: a partition has failed, or the group cannot be joined.
        """
        self._give_back()
        batches = self._portal.call(self._open_batches)
        while True:
            yield self._portal.call(batches.__anext__)

    async def _open_batches(self) -> AsyncIterator[FetchedRecords[Key, Value]]:
        return self._consumer.batches()

    def poll(
        self, max_records: int = 500, timeout_ms: float | None = None
    ) -> list[ConsumerRecord[Key, Value]]:
        """Take up to ``max_records``; waits for the first one until ``timeout_ms`` (None: always).

        Returns an empty list when the time is over.

        Raises:
            KafkaError: a partition has failed, or the group cannot be joined.
        """
        self._give_back()
        return self._portal.call(self._consumer.poll, max_records, timeout_ms)

    def _give_back(self) -> None:
        """Return to the consumer what was taken out of it and not yet handed out."""
        first = self._not_handed_out()
        self._taken.clear()
        self._in_process = None
        for partition, offset in first.items():
            self._run(self._consumer.seek, partition, offset)

    def _not_handed_out(self) -> dict[TopicPartition, int]:
        """The first offset of each partition that waits to be handed out."""
        first: dict[TopicPartition, int] = {}
        for record in self._taken:
            first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        return first

    def _forget(self, is_gone: Callable[[ConsumerRecord[Key, Value]], bool]) -> None:
        kept = [record for record in self._taken if not is_gone(record)]
        self._taken.clear()
        self._taken.extend(kept)

    def _run(self, function: Callable[..., _Result], *arguments: object) -> _Result:
        async def run() -> _Result:
            return function(*arguments)

        return self._portal.call(run)

    # --- positions ---

    def seek(self, partition: TopicPartition, offset: int, *, leader_epoch: int = -1) -> None:
        """Read on from ``offset``; ``leader_epoch``: of the record before it, if it is known."""
        self._forget(lambda record: (record.topic, record.partition) == partition)
        self._run(lambda: self._consumer.seek(partition, offset, leader_epoch=leader_epoch))

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Read on from the log start offset (no partitions named: all assigned ones)."""
        self._seek_to(self._consumer.seek_to_beginning, list(partitions))

    def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Read on from the end (no partitions named: all assigned ones)."""
        self._seek_to(self._consumer.seek_to_end, list(partitions))

    def _seek_to(
        self,
        seek: Callable[[Iterable[TopicPartition]], Awaitable[None]],
        partitions: list[TopicPartition],
    ) -> None:
        moved = partitions or list(self.assignment)
        self._forget(lambda record: (record.topic, record.partition) in moved)
        self._portal.call(seek, partitions)

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that will be handed out; waits until it is known."""
        waiting = self._not_handed_out().get(partition)
        return self._portal.call(self._consumer.position, partition) if waiting is None else waiting

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing from these partitions until `resume`."""
        self._give_back()
        self._run(self._consumer.pause, list(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out records of these partitions again."""
        self._run(self._consumer.resume, list(partitions))

    def lag(self, partition: TopicPartition) -> int | None:
        """Records between position and the end last heard of; None before the first fetch."""
        lag = self._run(self._consumer.lag, partition)
        waiting = [r for r in self._taken if (r.topic, r.partition) == partition]
        return None if lag is None else lag + len(waiting)

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The log start offsets."""
        return self._portal.call(self._consumer.beginning_offsets, list(partitions))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets after the last record that this isolation level sees."""
        return self._portal.call(self._consumer.end_offsets, list(partitions))

    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a time; None where there is none."""
        return self._portal.call(self._consumer.offsets_for_times, timestamps_ms)

    def statistics(self) -> ConsumerStatistics:
        """What the consumer has done, and how far it is; see `minikafka_client.statistics`.

        While it is iterated over, records are handed out of the thread `RECORDS_PER_CALL` at once.
        """
        return self._run(self._consumer.statistics)

    # --- commits ---

    def commit(self, offsets: Offsets | None = None) -> None:
        """Commit offsets (None: everything handed out so far) and wait for the answer.

        Raises:
            CommitFailedError: the group moved on without this member.
            KafkaError: the coordinator could not be reached, or refused.
        """
        self._portal.call(self._commit, offsets, self._not_handed_out())

    async def _commit(
        self, offsets: Offsets | None, not_handed_out: Mapping[TopicPartition, int]
    ) -> None:
        await self._consumer.commit(self._committable(offsets, not_handed_out))

    def _committable(
        self, offsets: Offsets | None, not_handed_out: Mapping[TopicPartition, int]
    ) -> Offsets:
        return offsets if offsets is not None else {**self._consumer.positions(), **not_handed_out}

    def commit_nowait(
        self, offsets: Offsets | None = None, *, callback: CommitCallback | None = None
    ) -> None:
        """Start a commit; ``callback`` hears how it ended, in the thread that runs trio."""
        not_handed_out = self._not_handed_out()
        self._run(
            lambda: self._consumer.commit_nowait(
                self._committable(offsets, not_handed_out), callback=callback
            )
        )

    def group_metadata(self) -> GroupMetadata:
        """Who commits the group's offsets now, for `Transaction.send_offsets`.

        Raises:
            CommitFailedError: it is subscribed, and no member of the group now.
            ValueError: the consumer has no group_id.
        """
        return self._run(self._consumer.group_metadata)

    def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offsets; None where there is none."""
        return self._portal.call(self._consumer.committed, list(partitions))

    def partitions_for(self, topic: str) -> list[int]:
        """The partition indexes of a topic."""
        return self._portal.call(self._consumer.partitions_for, topic)


def _crossing(
    callback: RebalanceCallback | None,
) -> Callable[[Sequence[TopicPartition]], Awaitable[None]] | None:
    """The same callback for the trio side, run in the thread that asks for records."""
    if callback is None:
        return None

    async def cross(partitions: Sequence[TopicPartition]) -> None:
        await run_in_caller(callback, partitions)

    return cross
