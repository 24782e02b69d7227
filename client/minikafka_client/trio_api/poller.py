"""What happens when the application polls: rebalances, errors, the next run of records.

Partitions are assigned and revoked in the task that polls, so that callbacks never run while that
task works on a record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from math import inf
from operator import attrgetter
from typing import Any, Generic, NamedTuple, Self

import trio

from minikafka_client.consumer_options import RebalanceCallback
from minikafka_client.core.consumption import Consumption, Iteration
from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.core.membership import Polled, Revoke, Revoked
from minikafka_client.core.meters import RateMeter
from minikafka_client.core.partition_reader import PartitionReader, Phase
from minikafka_client.core.serialization import Deserializers
from minikafka_client.errors import CorruptRecordsError, DeserializationError, KafkaError
from minikafka_client.log_events import LogEvent
from minikafka_client.trio_api.commits import Commits
from minikafka_client.trio_api.fetch_loop import FetchLoop
from minikafka_client.trio_api.group_loop import GroupLoop
from minikafka_client.types import ConsumerRecord, Key, TopicPartition, Value


class RebalanceCallbacks(NamedTuple):
    """The application's; see `Consumer`."""

    on_revoked: RebalanceCallback | None
    on_assigned: RebalanceCallback | None
    on_lost: RebalanceCallback | None


class Poller:
    """The application's side of a consumer.

    Attributes:
        records: what may be drawn one by one. It is empty when the application must come back
            before it draws another record, and replaced whenever it asks for more, so that an old
            iterator cannot yield what has been consumed since.
        is_interrupted: there is something to do before the next record.
        topic_error: why wanted topics can never be read.
    """

    def __init__(
        self, callbacks: RebalanceCallbacks, *, auto_commits: bool, deserializers: Deserializers
    ) -> None:
        self.consumption = Consumption()
        self.records: Iterator[ConsumerRecord[Any, Any]] = iter(())
        self.is_interrupted = False
        self.auto_commits = auto_commits
        self.consumed = RateMeter()
        self.polled_at = -inf
        self.topic_error: KafkaError | None = None
        self._callbacks = callbacks
        self._deserializers = deserializers
        self._fetches: FetchLoop | None = None
        self._group: GroupLoop | None = None
        self._commits: Commits | None = None
        self._wake_up = trio.Event()
        self._is_waiting = False
        self._seen: tuple[Iteration | None, int] = (None, 0)

    def attach(self, fetches: FetchLoop, group: GroupLoop | None, commits: Commits | None) -> None:
        """Set the parts of the consumer that are made after this one."""
        self._fetches, self._group, self._commits = fetches, group, commits

    @property
    def fetches(self) -> FetchLoop:
        assert self._fetches is not None
        return self._fetches

    @property
    def readers(self) -> dict[TopicPartition, PartitionReader]:
        return self.fetches.fetcher.readers

    # --- called by other tasks ---

    def wake(self) -> None:
        """There may be records: a waiting poll looks again."""
        self._wake_up.set()

    def interrupt(self) -> None:
        """There is something to do before the next record."""
        self.is_interrupted = True
        self.records = iter(())
        self._wake_up.set()

    def has_progressed(self) -> bool:
        """Whether the application took a record since this was asked last, or waits for one."""
        current = self.consumption.current
        seen = (current, current.given if current is not None else 0)
        before, self._seen = self._seen, seen
        return self._is_waiting or seen != before

    # --- called by the application ---

    async def next_iteration(self, deadline: float) -> Iteration | None:
        """A run with records left (or, rarely, none after compaction); None after the deadline."""
        while True:
            current = self.consumption.current
            if current is not None and self._may_go_on(current):
                return current
            self.consumption.put_back()
            if not await self._wait_for_run(deadline):
                return None
            reader, run = self._take_run(self._readable)
            self.consumption.begin(reader, run)

    async def next_record(self) -> ConsumerRecord[Any, Any]:
        """The first record of a run whose others are then drawn from ``records``."""
        await self.begin()
        while True:
            iteration = await self.next_iteration(inf)
            assert iteration is not None
            for record in iteration.iterator:
                self.consumption.one_by_one()
                if not self.is_interrupted:
                    self.records = iteration.iterator
                return record

    async def next_run(self, deadline: float) -> ConsumedBatch | None:
        """A whole run (or the rest of one, or rarely an empty one); None after the deadline."""
        current = self.consumption.current
        if current is not None and self._may_go_on(current):
            reader, run = current.reader, current.run.rest(current.position)
        else:
            self.consumption.put_back()
            if not await self._wait_for_run(deadline):
                return None
            reader, run = self._take_run(self._decodable)
        self.consumption.take_run(reader, run)
        return run

    def _may_go_on(self, current: Iteration) -> bool:
        reader = current.reader
        is_ours = self.readers.get(reader.partition) is reader
        return is_ours and not current.is_over and not reader.is_paused

    async def begin(self) -> None:
        """Earlier records count as processed; rebalances, and raises what has failed."""
        self.records = iter(())
        await trio.lowlevel.checkpoint()
        self.consumption.asked_for_more()
        self.polled_at = trio.current_time()
        self._polled()
        await self._rebalance()
        self._raise_failures()

    def _polled(self) -> None:
        if self._group is not None:
            self._group.feed(Polled())

    def _take_run(
        self, look: Callable[[PartitionReader], ConsumedBatch]
    ) -> tuple[PartitionReader, ConsumedBatch]:
        fetcher = self.fetches.fetcher
        reader = fetcher.next_arrived()
        assert reader is not None
        try:
            run = look(reader)
        except KafkaError:
            fetcher.arrived.appendleft(reader)  # it is where it was, for the next time
            raise
        self.consumed.add(run.record_count_max, run.size_bytes, trio.current_time())
        self.fetches.fetcher.resumed(reader)
        self.fetches.changed()
        return reader, run

    def _decodable(self, reader: PartitionReader) -> ConsumedBatch:
        """Take a reader's next run, up to the first batch that cannot be decoded."""
        return self._take_until_failure(reader, len)

    def _readable(self, reader: PartitionReader) -> ConsumedBatch:
        """Take a reader's next run, up to the first record that is unreadable."""
        return self._take_until_failure(reader, attrgetter("records"))

    def _take_until_failure(
        self, reader: PartitionReader, look: Callable[[ConsumedBatch], object]
    ) -> ConsumedBatch:
        run = reader.fetched[0]
        run.deserializers = self._deserializers
        rest: ConsumedBatch | None = None
        while True:
            try:
                look(run)
                break
            except (CorruptRecordsError, DeserializationError) as error:
                run, rest = reader.fetched[0].split(error.offset)
                if not len(run):
                    raise
        if rest is None:
            reader.fetched.popleft()
        else:
            reader.fetched[0] = rest
        return run

    async def _wait_for_run(self, deadline: float) -> bool:
        """Wait until a partition has records for the application; False when the time is over."""
        fetcher = self.fetches.fetcher
        if deadline == -inf:
            # There are records that were not returned yet: nothing may happen now that
            # takes them away (a cancellation), or counts them as processed.
            if self.is_interrupted:
                return False
            self._raise_failures()
            reader = fetcher.next_arrived()
            if reader is not None:
                fetcher.arrived.appendleft(reader)
            return reader is not None and bool(reader.fetched[0].record_count_max)
        self._is_waiting = True
        try:
            while True:
                self._wake_up = trio.Event()
                if self.is_interrupted:
                    self._polled()
                    await self._rebalance()
                self._raise_failures()
                reader = fetcher.next_arrived()
                if reader is not None:
                    fetcher.arrived.appendleft(reader)
                    if reader.fetched[0].record_count_max:
                        return True
                    # Nothing but what compaction or an aborted transaction left.
                    reader.skip(reader.fetched.popleft())
                    self.fetches.changed()
                    continue
                if any(map(self._has_waited_for_us, self.readers.values())):
                    self.fetches.changed()
                with trio.move_on_at(deadline) as scope:
                    await self._wake_up.wait()
                if scope.cancelled_caught:
                    return False
        finally:
            self._is_waiting = False

    def _has_waited_for_us(self, reader: PartitionReader) -> bool:
        """Whether a partition can continue now that all its fetched records were consumed."""
        return reader.retry_at == inf and self.consumption.position(reader) == reader.fetch_offset

    def _raise_failures(self) -> None:
        if self._group is not None and self._group.error is not None:
            raise self._group.error
        if self.topic_error is not None:
            raise self.topic_error
        for reader in self.readers.values():
            if reader.phase is Phase.FAILED and reader.error is not None:
                raise reader.error

    # --- rebalances ---

    async def _rebalance(self) -> None:
        self.is_interrupted = False
        group = self._group
        while group is not None and group.actions:
            action = group.actions[0]
            if isinstance(action, Revoke):
                lost, revoked = LogEvent.PARTITIONS_LOST, LogEvent.PARTITIONS_REVOKED
                group.log(lost if action.is_lost else revoked, action.partitions)
                try:
                    await self._let_go(action.partitions, is_lost=action.is_lost)
                except Exception:  # the application's callback has failed: once is enough
                    self.drop([each for each in action.partitions if each in self.readers])
                    group.actions.popleft()
                    group.feed(Revoked())
                    self.is_interrupted = True  # for what comes after it
                    raise
                group.actions.popleft()
                group.feed(Revoked())
            else:
                group.actions.popleft()
                group.log(LogEvent.PARTITIONS_ASSIGNED, action.partitions)
                self.add(action.partitions)
                self.fetches.changed()
                if self._callbacks.on_assigned is not None:
                    await self._callbacks.on_assigned(action.partitions)
                self.fetches.changed()

    async def _let_go(self, partitions: Sequence[TopicPartition], *, is_lost: bool) -> None:
        ours = [partition for partition in partitions if partition in self.readers]
        if is_lost:
            callback = self._callbacks.on_lost or self._callbacks.on_revoked
        else:
            callback = self._callbacks.on_revoked
            if self.auto_commits and self._commits is not None:
                readers = [self.readers[partition] for partition in ours]
                await self._commits.commit_quietly(self.consumption.all_processed(readers))
        if callback is not None and partitions:
            await callback(partitions)
        self.drop(ours)

    def add(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            if partition not in self.readers:
                self.readers[partition] = PartitionReader(partition)

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self.readers.pop(partition, None)
        current = self.consumption.current
        if current is not None and current.reader.partition in partitions:
            self.consumption.current = None
            self.records = iter(())
            self.is_interrupted = True
        if self._commits is not None:
            self._commits.forget(set(partitions))

    async def give_back(self, *, is_orderly: bool) -> None:
        """The consumer closes: commit what was processed, and run the revocation callback."""
        self.records = iter(())
        if is_orderly:
            self.consumption.asked_for_more()
        partitions = sorted(self.readers)
        if self.auto_commits and self._commits is not None and partitions:
            await self._commits.commit_quietly(
                self.consumption.all_processed(self.readers.values())
            )
        is_subscribed = self._group is not None and bool(self._group.member.owned)
        if is_orderly and is_subscribed and partitions and self._callbacks.on_revoked is not None:
            await self._callbacks.on_revoked(partitions)


class RecordIterator(Generic[Key, Value]):
    """Records one by one; ``poller.records`` has those that may be drawn without waiting.

    This is not an async generator: those must not be left with ``break``.
    """

    __slots__ = ("poller",)

    def __init__(self, poller: Poller) -> None:
        self.poller = poller

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord[Key, Value]:
        record = next(self.poller.records, None)
        return await self.poller.next_record() if record is None else record


class BatchIterator:
    __slots__ = ("_poller",)

    def __init__(self, poller: Poller) -> None:
        self._poller = poller

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumedBatch:
        await self._poller.begin()
        while True:
            run = await self._poller.next_run(inf)
            assert run is not None
            if len(run):
                return run
