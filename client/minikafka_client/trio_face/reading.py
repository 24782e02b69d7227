"""What happens when the application asks for records: rebalances, errors, the next run of records.

Everything that takes partitions away from the application or gives it new ones is done in the task
that asks for records, so that callbacks never run while that task works on a record.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from math import inf
from typing import NamedTuple

import trio

from minikafka_client.core.fetched import FetchedRecords
from minikafka_client.core.group_messages import Polled, Revoke, Revoked
from minikafka_client.core.handout import Handout, Iteration
from minikafka_client.core.meters import RateMeter
from minikafka_client.core.partition_reader import PartitionReader, Phase
from minikafka_client.core.serializing import Deserializers
from minikafka_client.errors import DeserializationError, KafkaError
from minikafka_client.log_events import LogEvent
from minikafka_client.trio_face.commits import Commits
from minikafka_client.trio_face.fetch_loop import FetchLoop
from minikafka_client.trio_face.group_loop import GroupLoop
from minikafka_client.types import TopicPartition

RebalanceCallback = Callable[[Sequence[TopicPartition]], Awaitable[None]]


class RebalanceCallbacks(NamedTuple):
    """The application's; see `Consumer`."""

    on_revoked: RebalanceCallback | None
    on_assigned: RebalanceCallback | None
    on_lost: RebalanceCallback | None


class Reading:
    """The application's side of a consumer.

    Attributes:
        handout: what the application was given.
        is_interrupted: the application must come back before it draws another record.
        auto_commits: whether to commit by itself.
        consumed: counts what was handed out.
        topic_error: why topics that are wanted will never be read.
        polled_at: when the application last asked for records; -inf before.
    """

    def __init__(
        self, callbacks: RebalanceCallbacks, *, auto_commits: bool, deserializers: Deserializers
    ) -> None:
        self.handout = Handout()
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
        """Connect the parts of the consumer that need this one to be made."""
        self._fetches, self._group, self._commits = fetches, group, commits

    @property
    def fetches(self) -> FetchLoop:
        """Where records come from."""
        assert self._fetches is not None
        return self._fetches

    @property
    def readers(self) -> dict[TopicPartition, PartitionReader]:
        """The assigned partitions."""
        return self.fetches.fetcher.readers

    # --- told by other tasks ---

    def wake(self) -> None:
        """There may be records: look again, if the application waits."""
        self._wake_up.set()

    def interrupt(self) -> None:
        """There is something to do before the next record."""
        self.is_interrupted = True
        self._wake_up.set()

    def has_progressed(self) -> bool:
        """Whether the application took a record since this was asked last, or waits for one."""
        current = self.handout.current
        seen = (current, current.given if current is not None else 0)
        before, self._seen = self._seen, seen
        return self._is_waiting or seen != before

    # --- asked by the application ---

    async def next_iteration(self, deadline: float) -> Iteration | None:
        """A run that has records left to hand out; None when the time is over.

        In rare cases (after compaction) it turns out to have none.

        Raises:
            KafkaError: a partition has failed, or the group cannot be joined.
        """
        while True:
            current = self.handout.current
            if current is not None and self._may_go_on(current):
                return current
            self.handout.put_back()
            if not await self._wait_for_run(deadline):
                return None
            reader, run = self._take_run(self._readable)
            self.handout.begin(reader, run)

    async def next_run(self, deadline: float) -> FetchedRecords | None:
        """A whole run (or what is left of one); None when the time is over.

        In rare cases (after compaction) it has no records.

        Raises:
            KafkaError: a partition has failed, or the group cannot be joined.
        """
        current = self.handout.current
        if current is not None and self._may_go_on(current):
            reader, run = current.reader, current.run.rest(current.position)
        else:
            self.handout.put_back()
            if not await self._wait_for_run(deadline):
                return None
            reader, run = self._take_run(self._decodable)
        self.handout.take_run(reader, run)
        return run

    def _may_go_on(self, current: Iteration) -> bool:
        reader = current.reader
        is_ours = self.readers.get(reader.partition) is reader
        return is_ours and not current.is_over and not reader.is_paused

    async def begin(self) -> None:
        """The application asks for records: what it had is processed; rebalance if need be.

        Raises:
            KafkaError: a partition has failed, or the group cannot be joined.
        """
        await trio.lowlevel.checkpoint()
        self.handout.asked_for_more()
        self.polled_at = trio.current_time()
        self._polled()
        await self._rebalance()
        self._raise_failures()

    def _polled(self) -> None:
        if self._group is not None:
            self._group.feed(Polled())

    def _take_run(
        self, look: Callable[[PartitionReader], FetchedRecords]
    ) -> tuple[PartitionReader, FetchedRecords]:
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

    def _decodable(self, reader: PartitionReader) -> FetchedRecords:
        """Take a reader's next run, if it can be decoded."""
        run = reader.fetched[0]
        run.deserializers = self._deserializers
        len(run)
        return reader.fetched.popleft()

    def _readable(self, reader: PartitionReader) -> FetchedRecords:
        """Take a reader's next run, or what of it is before the first record that is unreadable."""
        run = reader.fetched[0]
        run.deserializers = self._deserializers
        rest: FetchedRecords | None = None
        while True:
            try:
                _ = run.records
                break
            except DeserializationError as error:
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
            # Whoever has records already that were not returned yet: nothing may happen now that
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
        """Whether a partition can go on now that all it had was handed out."""
        return reader.retry_at == inf and self.handout.position(reader) == reader.fetch_offset

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
                await self._commits.commit_quietly(self.handout.all_processed(readers))
        if callback is not None and partitions:
            await callback(partitions)
        self.drop(ours)

    def add(self, partitions: Collection[TopicPartition]) -> None:
        """Start reading partitions; the position comes from the group or from a reset."""
        for partition in partitions:
            if partition not in self.readers:
                self.readers[partition] = PartitionReader(partition)

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Stop reading partitions."""
        for partition in partitions:
            self.readers.pop(partition, None)
        current = self.handout.current
        if current is not None and current.reader.partition in partitions:
            self.handout.current = None
            self.is_interrupted = True
        if self._commits is not None:
            self._commits.forget(set(partitions))

    async def give_back(self, *, is_orderly: bool) -> None:
        """The consumer closes: commit what was processed, and tell the application."""
        if is_orderly:
            self.handout.asked_for_more()
        partitions = sorted(self.readers)
        if self.auto_commits and self._commits is not None and partitions:
            await self._commits.commit_quietly(self.handout.all_processed(self.readers.values()))
        is_subscribed = self._group is not None and bool(self._group.member.owned)
        if is_orderly and is_subscribed and partitions and self._callbacks.on_revoked is not None:
            await self._callbacks.on_revoked(partitions)
