"""Runs the fetcher machine on trio, and looks up where partitions start."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

import trio

from minikafka.protocol.errors import ErrorCode
from minikafka_client.core import fetcher as machine
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.meters import RequestMeter
from minikafka_client.core.partition_reader import PartitionReader, Phase
from minikafka_client.core.wire import Answer
from minikafka_client.errors import ConnectionLostError, KafkaError, NoOffsetError, SomeFailedError
from minikafka_client.log_events import LogEvent
from minikafka_client.plans.group_offsets import MemberEpoch, member_offsets
from minikafka_client.plans.offsets import list_offsets
from minikafka_client.trio_api.background import Background
from minikafka_client.trio_api.metadata_keeper import MetadataKeeper
from minikafka_client.trio_api.network import Network
from minikafka_client.types import (
    LATEST,
    IsolationLevel,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)

logger = logging.getLogger(__name__)

FETCH_LANE: Final = "fetch"

_PASSING: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # a topic that does not exist may still be created
        # The member's next heartbeat brings its new epoch, or takes the partitions away.
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
    }
)


class FetchLoop:
    """The fetcher's shell.

    Partitions start at the group's committed offset, else at ``reset_spec``; without either they
    fail with `NoOffsetError`. ``member_epoch`` returns as whom to ask for committed offsets.
    ``on_arrival`` is called when there may be something for the
    application.
    """

    def __init__(
        self,
        fetcher: machine.Fetcher,
        network: Network,
        keeper: MetadataKeeper,
        background: Background,
        *,
        group_id: str | None,
        member_epoch: Callable[[], MemberEpoch | None],
        reset_spec: int | None,
        isolation_level: IsolationLevel,
        retry: Backoff,
        on_arrival: Callable[[], None],
    ) -> None:
        self.fetcher = fetcher
        self.meter = RequestMeter()
        self._network = network
        self._keeper = keeper
        self._background = background
        self._group_id = group_id
        self._member_epoch = member_epoch
        self._reset_spec = reset_spec
        self._isolation_level = isolation_level
        self._retry = retry
        self._on_arrival = on_arrival
        self._events: deque[machine.Event] = deque()
        self._is_busy = False
        self._timer = trio.CancelScope()
        self._has_changed = trio.Event()
        self._unplaced = trio.Event()

    # --- the machine ---

    def changed(self) -> None:
        self.feed(machine.Changed())

    def feed(self, event: machine.Event) -> None:
        self._events.append(event)
        if self._is_busy:
            return
        while self._events:
            self._run_effects(self.fetcher.handle(self._events.popleft(), trio.current_time()))
        if self.fetcher.has_unplaced:
            self._unplaced.set()
        self._timer.deadline = self.fetcher.deadline() or math.inf

    async def next_change(self) -> None:
        await self._has_changed.wait()

    async def run(self) -> None:
        while True:
            self._timer = trio.CancelScope(deadline=self.fetcher.deadline() or math.inf)
            with self._timer:
                await trio.sleep_forever()
            self.feed(machine.Changed())

    def _readers(self) -> list[PartitionReader]:
        return list(self.fetcher.readers.values())

    def _run_effects(self, effects: list[machine.Effect]) -> None:
        self._is_busy = True
        for effect in effects:
            match effect:
                case machine.SendFetch():
                    self._send(effect)
                case machine.Connect(node):
                    self._background.start_soon(self._connect, node)
                case machine.RefreshMetadata(topics):
                    self._keeper.want(topics)
        self._is_busy = False

    def _send(self, effect: machine.SendFetch) -> None:
        node, request_id = effect.node, effect.request_id
        sent_at = trio.current_time()
        self.meter.sent(node)

        def on_answer(answer: Answer) -> None:
            if self._network.is_closing:
                return  # do not log a retry that will not happen
            now = trio.current_time()
            if isinstance(answer, KafkaError):
                self.meter.lost(node)
            else:
                self.meter.answered(node, now - sent_at, now)
            self.feed(machine.Fetched(request_id, answer))
            self._on_arrival()

        connection = self._network.connected(effect.node, FETCH_LANE)
        try:
            if connection is None:
                raise ConnectionLostError(f"the connection to broker {effect.node} is closed")
            version = connection.version_for(effect.request, 4, effect.version_max)
            connection.submit(effect.request, version, on_answer)
        except KafkaError as error:
            on_answer(error)

    async def _connect(self, node: int) -> None:
        try:
            await self._network.connect(node, FETCH_LANE)
        except KafkaError:
            self.feed(machine.NodeFailed(node))
        else:
            self.feed(machine.NodeConnected(node))

    # --- where to start ---

    async def find_positions(self) -> None:
        failures = 0
        while True:
            await self._unplaced.wait()
            self._unplaced = trio.Event()
            try:
                try:
                    await self._look_up_committed()
                finally:  # a failure for some must not keep the others waiting
                    await self._look_up_resets()
                failures = 0
            except KafkaError as error:
                logger.warning(
                    "cannot look up where to start: %s",
                    error,
                    extra=LogEvent.POSITIONS_FAILED.about(error=str(error)),
                )
                await trio.sleep(self._retry.seconds(failures))
                failures += 1
                self._unplaced.set()
            self.feed(machine.Changed())
            has_changed, self._has_changed = self._has_changed, trio.Event()
            has_changed.set()
            self._on_arrival()

    async def _look_up_committed(self) -> None:
        asked = {r: (r.term, 0) for r in self._readers() if r.phase is Phase.UNKNOWN}
        if not asked:
            return
        committed: Mapping[TopicPartition, OffsetAndMetadata | None] = {}
        failed: Mapping[TopicPartition, KafkaError] = {}
        try:
            if self._group_id is not None:
                partitions = [reader.partition for reader in asked]
                committed = await self._list_committed(self._group_id, partitions)
        except SomeFailedError as error:
            committed, failed = error.succeeded, error.failed
        except KafkaError as error:
            failed = {reader.partition: error for reader in asked}
        for reader, (term, _) in asked.items():
            if reader.term == term and reader.partition not in failed:  # no seek meanwhile
                self._begin_at(reader, committed.get(reader.partition))
        _fail_or_raise(asked, failed)

    async def _list_committed(
        self, group_id: str, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        is_committed = self._isolation_level is IsolationLevel.READ_COMMITTED
        return await self._network.run_plan(
            lambda cluster: member_offsets(
                cluster,
                group_id,
                partitions,
                member=self._member_epoch(),
                require_stable=is_committed,
            )
        )

    def _begin_at(self, reader: PartitionReader, committed: OffsetAndMetadata | None) -> None:
        if committed is not None:
            reader.seek(committed.offset, committed.leader_epoch)
        elif self._reset_spec is not None:
            reader.reset(self._reset_spec)
        else:
            topic, partition = reader.partition
            reader.fail(
                NoOffsetError(
                    f"group {self._group_id!r} has no committed offset for partition {partition} "
                    f"of topic {topic!r}; seek, or set auto_offset_reset"
                )
            )

    async def _look_up_resets(self) -> None:
        asked = {r: (r.term, r.reset_to) for r in self._readers() if r.phase is Phase.RESETTING}
        if not asked:
            return
        try:
            found = await self._list_offsets({r.partition: spec for r, (_, spec) in asked.items()})
        except SomeFailedError as error:
            self._place(asked, error.succeeded)
            _fail_or_raise(asked, error.failed)
        except KafkaError as error:
            _fail_or_raise(asked, {reader.partition: error for reader in asked})
        else:
            self._place(asked, found)
            beyond = [r for r in asked if r.phase is Phase.RESETTING and r.term == asked[r][0]]
            for reader in beyond:  # no record is that recent: start with the next one
                reader.reset(LATEST)
            if beyond:
                await self._look_up_resets()

    async def _list_offsets(
        self, specs: dict[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        return await self._network.run_plan(
            lambda cluster: list_offsets(cluster, specs, isolation_level=self._isolation_level)
        )

    def _place(
        self,
        asked: dict[PartitionReader, tuple[int, int]],
        found: Mapping[TopicPartition, OffsetAndTimestamp],
    ) -> None:
        for reader, (term, _spec) in asked.items():
            offset = found.get(reader.partition)
            if offset is not None and offset.offset >= 0 and reader.term == term:
                reader.seek(offset.offset)  # its epoch is that of the record there, not before


def may_pass(error: KafkaError) -> bool:
    """Whether a look-up that failed like this is tried again, as long as there is the partition."""
    return error.is_retriable or error.code in _PASSING


def _fail_or_raise(
    asked: dict[PartitionReader, tuple[int, int]], failed: Mapping[TopicPartition, KafkaError]
) -> None:
    """Fail the partitions that can never be read; raise one of the errors that may pass."""
    passing: KafkaError | None = None
    for reader, (term, _spec) in asked.items():
        error = failed.get(reader.partition)
        if error is None or reader.term != term:
            continue
        if may_pass(error):
            passing = error
        else:
            reader.fail(error)
    if passing is not None:
        raise passing
