"""The follower's side of replica fetch: ask one leader, append what comes, ask again.

See `replica_sessions` for what travels. A fetcher remembers what it asked for each partition (a
*slot*) and sends a new position only when the answer, or the metadata, changed it. So a thousand
idle partitions cost one small request per half second.

What an answer means for a log is decided by `FollowerReplica`; its effects are carried out in
order, before the next answer is looked at. Records are appended as the bytes that arrived. Topics
with flush.messages=1 are synced before the next position says that the records are here.

===========  ===================================  =================================================
state        event                                then
===========  ===================================  =================================================
idle         a partition is added                 connect, begin a session -> asking
asking       a small answer                       append, ask again, all in one plain call
asking       a large answer, or one to be synced  -> working: the task appends, syncs, asks again
asking       the session is lost                  begin another -> asking
asking       no answer, or an error               rest, for a growing while; then as from idle
asking       nothing left to fetch                -> idle
===========  ===================================  =================================================
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import trio

from ..protocol.errors import ErrorCode
from ..replication import FetchAnswer, FetchPosition, FollowerEffect, FollowerReplica
from ..storage.errors import LogError, StorageError
from ..storage.results import EpochEndOffset
from .following import carry_out
from .partition import Partition
from .replica_sessions import FETCH, FETCH_WAKE, OK
from .rpc import Lane, Reply, RpcError
from .throttle import Throttle

if TYPE_CHECKING:
    from .broker import Broker

logger = logging.getLogger(__name__)

_CONNECT_SECONDS_MAX = 5.0
_ANSWER_SECONDS_MAX = 10.0
"""How much longer than its wait a fetch may take before it is given up."""
_REST_SECONDS_MIN = 0.02
_INLINE_BYTES_MAX = 512 * 1024
"""A larger answer is worked on by the task, which lets others run."""
_POSITIONS_PER_REQUEST_MAX = 1000


class _Fetched:
    """One partition that is fetched.

    Attributes:
        slot: its number in the session.
        follower: the machine; another one when the partition led in between.
        asked: the last position that was sent, None before the first.
    """

    __slots__ = ("asked", "follower", "partition", "slot")

    def __init__(self, slot: int, partition: Partition, follower: FollowerReplica) -> None:
        self.slot = slot
        self.partition = partition
        self.follower = follower
        self.asked: FetchPosition | None = None


class ReplicaFetcher:
    """Fetches from one leader."""

    def __init__(self, broker: Broker, leader_id: int, throttle: Throttle) -> None:
        self._broker = broker
        self._leader_id = leader_id
        self._throttle = throttle
        self._slots = count()
        self._fetched: dict[Partition, _Fetched] = {}
        self._by_slot: dict[int, _Fetched] = {}
        self._changed: dict[_Fetched, None] = {}
        self._resting: dict[_Fetched, float] = {}
        """Partitions whose position is sent later, and when."""
        self._forgotten: list[int] = []
        self._failed: list[int] = []
        """Slots of partitions whose log failed here."""
        self._session_id = 0
        self._number = 0
        self._question = 0
        """Counts requests; the answer to another one than the last is ignored."""
        self._is_asking = False
        self._is_woken = False
        self._asked_until = float("inf")
        self._work: Reply | None = None
        self._failure: RpcError | None = None
        self._news = trio.Event()
        self._told = ""

    def __len__(self) -> int:
        """How many partitions are fetched."""
        return len(self._fetched)

    # --- what to fetch -------------------------------------------------------------------------

    def add(self, partition: Partition) -> None:
        """Fetch a partition, or begin anew with what it is now."""
        follower = partition.follower
        assert follower is not None
        fetched = self._fetched.get(partition)
        if fetched is None:
            fetched = _Fetched(next(self._slots), partition, follower)
            self._fetched[partition] = self._by_slot[fetched.slot] = fetched
        fetched.follower = follower
        self._resting.pop(fetched, None)
        self._changed[fetched] = None
        self._wake()

    def remove(self, partition: Partition) -> None:
        """Fetch a partition no more."""
        fetched = self._fetched.pop(partition, None)
        if fetched is not None:
            del self._by_slot[fetched.slot]
            self._changed.pop(fetched, None)
            self._resting.pop(fetched, None)
            self._forgotten.append(fetched.slot)
            self._wake()

    def go_on(self) -> None:
        """Let everything that rests go on."""
        if self._resting:
            self._resting = dict.fromkeys(self._resting, 0.0)
            self._wake()

    def _wake(self) -> None:
        """Let the leader answer, so that it can be told of changes."""
        if not self._is_asking:
            self._news.set()
        elif not self._is_woken:
            self._is_woken = True
            client = self._broker.peers.client(self._leader_id, Lane.RECORDS)
            client.send(FETCH_WAKE, self._session_id)

    # --- the task ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Fetch until cancelled."""
        await trio.lowlevel.checkpoint()  # not a step in a broker that is stopping already
        rest_s = _REST_SECONDS_MIN
        while True:
            try:
                while not self._fetched:
                    await self._wait(float("inf"))
                client = self._broker.peers.client(self._leader_id, Lane.RECORDS)
                await client.connected(timeout_s=_CONNECT_SECONDS_MAX)
                self._begin_session()
                await self._go_on()
                rest_s = await self._keep_asking()
            except RpcError as error:
                self._is_asking = False
                self._question += 1
                if str(error) != self._told:
                    self._told = str(error)
                    logger.info("cannot fetch from broker %d: %s", self._leader_id, error)
                await self._wait(trio.current_time() + rest_s)
                rest_s = min(2 * rest_s, self._broker.config.replica_fetch_backoff_ms / 1000)

    async def _wait(self, until: float) -> None:
        with trio.move_on_at(until):
            await self._news.wait()
        self._news = trio.Event()

    async def _keep_asking(self) -> float:
        """Do what the plain calls leave to the task, until nothing is to be fetched any more.

        Returns:
            How long to rest after the next failure: not long, for there were answers.

        Raises:
            RpcError: there is no answer.
        """
        while self._is_asking or self._work is not None or self._failure is not None:
            await self._wait(self._asked_until)
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure
            work, self._work = self._work, None
            if work is not None:
                await self._take_slowly(work)
                await self._go_on()
            elif self._is_asking and trio.current_time() >= self._asked_until:
                raise RpcError(f"broker {self._leader_id} does not answer a fetch")
        return _REST_SECONDS_MIN

    async def _go_on(self) -> None:
        """Sync what has to be, and ask again."""
        unsynced = list(self._unsynced())
        if unsynced:
            await self._sync(unsynced)
        if self._fetched or self._failed:
            self._ask()

    def _unsynced(self) -> Iterable[Partition]:
        """Partitions whose next position may only speak of what is on the disk."""
        for fetched in self._changed:
            partition = fetched.partition
            if (
                partition.topic.is_fsync_acked
                and partition.log.recovery_point < partition.log.log_end_offset
                and partition.log.is_offline is None
            ):
                yield partition

    async def _sync(self, partitions: list[Partition]) -> None:
        async def sync(partition: Partition) -> None:
            try:
                await self._broker.flusher.make_durable(partition.log, partition.log.log_end_offset)
            except StorageError as error:
                logger.error("%r: %s", partition, error)

        async with trio.open_nursery() as nursery:
            for partition in partitions:
                nursery.start_soon(sync, partition)

    # --- asking --------------------------------------------------------------------------------

    def _begin_session(self) -> None:
        """Tell the leader everything with the next requests."""
        self._session_id = self._broker.rng.getrandbits(62)
        self._number = 0
        self._work = self._failure = None
        self._forgotten.clear()
        self._failed.clear()
        self._changed = dict.fromkeys(
            one for one in self._fetched.values() if one not in self._resting
        )

    def _ask(self) -> None:
        """Send what changed.

        Raises:
            RpcError: there is no connection.
        """
        broker = self._broker
        config = broker.config
        now = trio.current_time()
        wait_s = config.replica_fetch_wait_max_ms / 1000
        if self._resting:
            self._end_rests(now)
        positions = self._positions()
        if self._changed:
            wait_s = 0.0
        if self._resting:
            wait_s = max(0.0, min(wait_s, min(self._resting.values()) - now))
        forgotten, self._forgotten = self._forgotten, []
        failed, self._failed = self._failed, []
        fields = (
            self._session_id,
            self._number,
            broker.replicas.broker_epoch,
            int(wait_s * 1000),
            config.replica_fetch_min_bytes,
            config.replica_fetch_response_max_bytes,
            config.replica_fetch_max_bytes,
            positions,
            forgotten,
            failed,
        )
        self._number += 1
        self._question = question = self._question + 1
        self._is_woken = False
        self._asked_until = now + wait_s + _ANSWER_SECONDS_MAX
        self._is_asking = True
        broker.peers.client(self._leader_id, Lane.RECORDS).ask(
            FETCH, fields, on_answer=lambda answer: self._heard(question, answer)
        )

    def _end_rests(self, now: float) -> None:
        for fetched in [one for one, at in self._resting.items() if at <= now]:
            del self._resting[fetched]
            fetched.follower.expire(now)
            self._changed[fetched] = None

    def _positions(self) -> list[tuple[Any, ...]]:
        """Where the partitions are whose position the leader does not know."""
        changed, self._changed = self._changed, {}
        positions: list[tuple[Any, ...]] = []
        for fetched in changed:
            if len(positions) == _POSITIONS_PER_REQUEST_MAX:
                self._changed[fetched] = None
                continue
            position = fetched.follower.position()
            if position is None:  # it rests after an error, whatever else has changed
                self._resting[fetched] = fetched.follower.deadline() or 0.0
            else:
                fetched.asked = position
                partition = fetched.partition
                topic_id = partition.topic.topic_id
                positions.append((fetched.slot, topic_id, partition.index, *position))
        return positions

    # --- answers -------------------------------------------------------------------------------

    def _heard(self, question: int, answer: Reply | RpcError) -> None:
        """The leader answered the last request; called by the connection's reader."""
        if question != self._question:
            return
        self._is_asking = False
        try:
            if isinstance(answer, RpcError):
                raise answer
            status, news = answer.fields
            if status != OK:
                self._begin_session()
            elif sum(map(len, answer.attachments)) > _INLINE_BYTES_MAX:
                self._work = answer
                self._news.set()
                return
            else:
                self._told = ""
                attachments = iter(answer.attachments)
                now, now_ms = trio.current_time(), self._broker.clock.wall_ms()
                for one in news:
                    self._take(one, attachments, now, now_ms)
            if not self._fetched and not self._failed:
                self._news.set()
            elif any(self._unsynced()):
                self._work = Reply((OK, ()))
                self._news.set()
            else:
                self._ask()
        except RpcError as error:
            self._fail(error)
        except Exception as error:
            logger.exception("a bug in fetching from broker %d", self._leader_id)
            self._fail(RpcError(f"broker {self._leader_id} answered what makes no sense: {error}"))

    def _fail(self, error: RpcError) -> None:
        self._failure = error
        self._news.set()

    async def _take_slowly(self, answer: Reply) -> None:
        """Take a large answer, and let others run in between."""
        attachments = iter(answer.attachments)
        for one in answer.fields[1]:
            self._take(one, attachments, trio.current_time(), self._broker.clock.wall_ms())
            if one[-1]:
                await trio.lowlevel.checkpoint()

    def _take(
        self, news: Sequence[Any], attachments: Iterable[memoryview], now: float, now_ms: int
    ) -> None:
        """Do to a log what the leader's news mean."""
        slot, code, high_watermark, log_start, log_end, epoch, end, has_records = news
        records = next(iter(attachments)) if has_records else None
        fetched = self._by_slot.get(slot)
        if fetched is None or fetched.asked is None:
            return
        diverging = None if end < 0 else EpochEndOffset(epoch, end)
        answer = FetchAnswer(
            ErrorCode(code), high_watermark, log_start, log_end, diverging, records
        )
        follower = fetched.follower
        effects = follower.answered(fetched.asked, answer, now)
        if effects:
            self._carry_out(fetched, effects, now, now_ms)
        if records is not None and fetched.partition.topic.throttled_at_follower:
            self._throttle_if_wanted(fetched, len(records), now)
        if fetched.partition.log.is_offline is not None:
            self._failed.append(slot)
            self.remove(fetched.partition)
            return
        rests_until = follower.deadline()
        if rests_until is not None:
            self._resting[fetched] = rests_until
        elif fetched not in self._resting and (
            code
            or diverging is not None
            or records is not None
            or follower.position() != fetched.asked
        ):
            self._changed[fetched] = None

    def _carry_out(
        self, fetched: _Fetched, effects: list[FollowerEffect], now: float, now_ms: int
    ) -> None:
        partition = fetched.partition
        try:
            carry_out(partition, effects, now_ms)
        except LogError as error:
            logger.error("%r cannot follow broker %d: %s", partition, self._leader_id, error)
            fetched.follower.append_failed(now)

    def _throttle_if_wanted(self, fetched: _Fetched, size_bytes: int, now: float) -> None:
        """Let a replica that catches up wait when it has fetched faster than it may."""
        partition = fetched.partition
        topic = partition.topic
        node_id = self._broker.node_id
        image = self._broker.image.partition(topic.topic_id, partition.index)
        if (
            image is not None
            and node_id not in image.in_sync_replicas
            and topic.is_throttled(topic.throttled_at_follower, partition.index, node_id)
        ):
            self._throttle.passed(size_bytes, now)
            wait_s = self._throttle.wait_s(now)
            if wait_s:
                self._resting[fetched] = now + wait_s
