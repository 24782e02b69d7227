"""The follower's side of replica fetch: ask each leader, append what comes, ask again.

A fetcher remembers what it asked for each partition (a *slot*, see `fetch_server`) and sends a new
position only when an answer, or the metadata, changed it. So a thousand idle partitions cost one
small request per half second.

What an answer means for a log is decided by `FollowerReplica`; its effects are carried out in
order, before the next answer is looked at. Records are appended as the bytes that arrived. Topics
with flush.messages=1 are synced before the next position acknowledges the records.

===========  ===================================  =================================================
state        event                                then
===========  ===================================  =================================================
idle         a partition is added                 connect, begin a session -> asking
asking       a small answer                       append, ask again, all in one plain call
asking       a large answer, or one to be synced  -> working: the task appends, syncs, asks again
asking       the session is lost                  begin another -> asking
asking       no answer, or an error               back off for a growing time; then as from idle
asking       nothing left to fetch                -> idle
===========  ===================================  =================================================
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable
from itertools import count

import trio

from ...metadata.setting_table import BrokerConfig
from ...protocol.errors import ErrorCode
from ...replication import FetchAnswer, FetchPosition, FollowerEffect, FollowerReplica
from ...storage.errors import LogError, StorageError
from ...storage.leader_epochs import EpochEndOffset
from ..rpc.codec import Reply
from ..rpc.errors import RpcError
from ..rpc.lanes import Lane
from ..rpc.operations import (
    REPLICA_FETCH,
    REPLICA_FETCH_OK,
    REPLICA_FETCH_WAKE,
    ReplicaFetch,
    ReplicaFetchAnswer,
    ReplicaFetchWake,
    ReplicaPosition,
    ReplicaUpdate,
)
from ..rpc.peers import Peers
from ..settings.effective import MetadataView
from ..settings.node import Node
from ..system.backoff import Backoff
from ..system.clock import Clock
from .flusher import Flusher
from .partition import Partition
from .throttle import Throttle

logger = logging.getLogger(__name__)

_CONNECT_SECONDS_MAX = 5.0
_ANSWER_SECONDS_MAX = 10.0
"""How much longer than its wait a fetch may take before it is given up."""
_BACKOFF_SECONDS_MIN = 0.02
_INLINE_BYTES_MAX = 512 * 1024
"""The task appends larger answers, and lets others run in between."""
_POSITIONS_PER_REQUEST_MAX = 1000


class _Fetched:
    """One partition that is fetched.

    Attributes:
        slot: its number in the session.
        follower: the machine; replaced when the partition led in between.
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

    def __init__(
        self,
        leader_id: int,
        node: Node,
        config: BrokerConfig,
        metadata: MetadataView,
        peers: Peers,
        flusher: Flusher,
        throttle: Throttle,
        *,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._leader_id = leader_id
        self._node = node
        self._config = config
        self._metadata = metadata
        self._peers = peers
        self._flusher = flusher
        self._throttle = throttle
        self._clock = clock
        self._rng = rng
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
        """Counts requests; only the answer to the last one counts."""
        self._is_asking = False
        self._is_woken = False
        self._asked_until = float("inf")
        self._work: Reply[ReplicaFetchAnswer] | None = None
        self._failure: RpcError | None = None
        self._wakeup = trio.Event()
        self._logged = ""

    # --- what to fetch -------------------------------------------------------------------------

    def add(self, partition: Partition) -> None:
        """Fetch a partition, or start over from where it is now."""
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
        """Stop fetching a partition."""
        fetched = self._fetched.pop(partition, None)
        if fetched is not None:
            del self._by_slot[fetched.slot]
            self._changed.pop(fetched, None)
            self._resting.pop(fetched, None)
            self._forgotten.append(fetched.slot)
            self._wake()

    def resume(self) -> None:
        """Ask again now for the partitions that rest."""
        if self._resting:
            self._resting = dict.fromkeys(self._resting, 0.0)
            self._wake()

    def _wake(self) -> None:
        """Make the leader answer, so that it can be sent the changes."""
        if not self._is_asking:
            self._wakeup.set()
        elif not self._is_woken:
            self._is_woken = True
            client = self._peers.client(self._leader_id, Lane.RECORDS)
            client.send(REPLICA_FETCH_WAKE, ReplicaFetchWake(self._session_id))

    # --- the task ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Fetch until cancelled."""
        await trio.lowlevel.checkpoint()  # do nothing in a broker that is stopping already
        longest_s = self._config.replica_fetch_backoff_ms / 1000
        backoff = Backoff(_BACKOFF_SECONDS_MIN, longest_s, self._rng.random)
        while True:
            try:
                while not self._fetched:
                    await self._wait(float("inf"))
                client = self._peers.client(self._leader_id, Lane.RECORDS)
                await client.connected(timeout_s=_CONNECT_SECONDS_MAX)
                self._begin_session()
                await self._sync_and_ask()
                await self._keep_asking()
                backoff.reset()
            except RpcError as error:
                self._is_asking = False
                self._question += 1
                if str(error) != self._logged:
                    self._logged = str(error)
                    logger.info("cannot fetch from broker %d: %s", self._leader_id, error)
                await self._wait(trio.current_time() + backoff.next_pause())

    async def _wait(self, until: float) -> None:
        with trio.move_on_at(until):
            await self._wakeup.wait()
        self._wakeup = trio.Event()

    async def _keep_asking(self) -> None:
        """Do what the plain calls leave to the task, until nothing is left to fetch.

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
                await self._sync_and_ask()
            elif self._is_asking and trio.current_time() >= self._asked_until:
                raise RpcError(f"broker {self._leader_id} does not answer a fetch")

    async def _sync_and_ask(self) -> None:
        """Sync what has to be synced, and ask again."""
        unsynced = list(self._unsynced())
        if unsynced:
            await self._sync(unsynced)
        if self._fetched or self._failed:
            self._ask()

    def _unsynced(self) -> Iterable[Partition]:
        """Partitions whose next position may not be ahead of the disk."""
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
                await self._flusher.sync(partition.log, partition.log.log_end_offset)
            except StorageError as error:
                logger.error("%r: %s", partition, error)

        async with trio.open_nursery() as nursery:
            for partition in partitions:
                nursery.start_soon(sync, partition)

    # --- asking --------------------------------------------------------------------------------

    def _begin_session(self) -> None:
        """Send the leader all positions with the next requests."""
        self._session_id = self._rng.getrandbits(62)
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
        config = self._config
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
        request = ReplicaFetch(
            self._session_id,
            self._number,
            self._node.broker_epoch,
            int(wait_s * 1000),
            config.replica_fetch_min_bytes,
            config.replica_fetch_response_max_bytes,
            config.replica_fetch_max_bytes,
            tuple(positions),
            tuple(forgotten),
            tuple(failed),
        )
        self._number += 1
        self._question = question = self._question + 1
        self._is_woken = False
        self._asked_until = now + wait_s + _ANSWER_SECONDS_MAX
        self._is_asking = True
        self._peers.client(self._leader_id, Lane.RECORDS).ask(
            REPLICA_FETCH, request, on_answer=lambda answer: self._answered(question, answer)
        )

    def _end_rests(self, now: float) -> None:
        for fetched in [one for one, at in self._resting.items() if at <= now]:
            del self._resting[fetched]
            fetched.follower.expire(now)
            self._changed[fetched] = None

    def _positions(self) -> list[ReplicaPosition]:
        """The positions that the leader does not know."""
        changed, self._changed = self._changed, {}
        positions: list[ReplicaPosition] = []
        for fetched in changed:
            if len(positions) == _POSITIONS_PER_REQUEST_MAX:
                self._changed[fetched] = None
                continue
            position = fetched.follower.position()
            if position is None:  # it rests after an error, no matter what else has changed
                self._resting[fetched] = fetched.follower.deadline() or 0.0
            else:
                fetched.asked = position
                partition = fetched.partition
                topic_id = partition.topic.topic_id
                positions.append(
                    ReplicaPosition(fetched.slot, topic_id, partition.index, *position)
                )
        return positions

    # --- answers -------------------------------------------------------------------------------

    def _answered(self, question: int, answer: Reply[ReplicaFetchAnswer] | RpcError) -> None:
        """The leader answered the last request; called by the connection's reader."""
        if question != self._question:
            return
        self._is_asking = False
        try:
            if isinstance(answer, RpcError):
                raise answer
            status, updates = answer.message
            if status != REPLICA_FETCH_OK:
                self._begin_session()
            elif sum(map(len, answer.attachments)) > _INLINE_BYTES_MAX:
                self._work = answer
                self._wakeup.set()
                return
            else:
                self._logged = ""
                attachments = iter(answer.attachments)
                now, now_ms = trio.current_time(), self._clock.wall_ms()
                for update in updates:
                    self._take(update, attachments, now, now_ms)
            if not self._fetched and not self._failed:
                self._wakeup.set()
            elif any(self._unsynced()):
                self._work = Reply(ReplicaFetchAnswer(REPLICA_FETCH_OK))
                self._wakeup.set()
            else:
                self._ask()
        except RpcError as error:
            self._fail(error)
        except Exception as error:
            logger.exception("failed to process an answer of broker %d", self._leader_id)
            self._fail(RpcError(f"broker {self._leader_id} sent a malformed answer: {error}"))

    def _fail(self, error: RpcError) -> None:
        self._failure = error
        self._wakeup.set()

    async def _take_slowly(self, answer: Reply[ReplicaFetchAnswer]) -> None:
        """Take a large answer, and let others run in between."""
        attachments = iter(answer.attachments)
        for update in answer.message.updates:
            self._take(update, attachments, trio.current_time(), self._clock.wall_ms())
            if update.has_records:
                await trio.lowlevel.checkpoint()

    def _take(
        self, update: ReplicaUpdate, attachments: Iterable[memoryview], now: float, now_ms: int
    ) -> None:
        """Bring a partition up to date with its leader."""
        slot, code, high_watermark, log_start, log_end, epoch, end, has_records = update
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
            partition.carry_out(effects, now_ms)
        except LogError as error:
            logger.error("%r cannot follow broker %d: %s", partition, self._leader_id, error)
            fetched.follower.append_failed(now)

    def _throttle_if_wanted(self, fetched: _Fetched, size_bytes: int, now: float) -> None:
        """Let a replica rest that catches up faster than the throttle allows."""
        partition = fetched.partition
        topic = partition.topic
        node_id = self._node.node_id
        image = self._metadata.image.partition(topic.topic_id, partition.index)
        if (
            image is not None
            and node_id not in image.in_sync_replicas
            and topic.is_throttled(topic.throttled_at_follower, partition.index, node_id)
        ):
            self._throttle.passed(size_bytes, now)
            wait_s = self._throttle.wait_s(now)
            if wait_s:
                self._resting[fetched] = now + wait_s


class ReplicaFetchers:
    """The fetchers of a broker, one for each leader that it follows."""

    def __init__(
        self,
        node: Node,
        config: BrokerConfig,
        metadata: MetadataView,
        peers: Peers,
        flusher: Flusher,
        *,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._throttle = throttle = Throttle(config.follower_replication_throttled_rate)

        def new_fetcher(leader_id: int) -> ReplicaFetcher:
            return ReplicaFetcher(
                leader_id, node, config, metadata, peers, flusher, throttle, clock=clock, rng=rng
            )

        self._new_fetcher = new_fetcher
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._leaders: dict[Partition, int] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Fetch until cancelled."""
        async with trio.open_nursery() as self._nursery:
            for fetcher in self._fetchers.values():
                self._nursery.start_soon(fetcher.run)
            task_status.started()
            await trio.sleep_forever()

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from the leader that its machine names."""
        assert partition.follower is not None
        leader_id = partition.follower.leader_id
        if self._leaders.get(partition, leader_id) != leader_id:
            self.unfollow(partition)
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            fetcher = self._fetchers[leader_id] = self._new_fetcher(leader_id)
            if self._nursery is not None:
                self._nursery.start_soon(fetcher.run)
        self._leaders[partition] = leader_id
        fetcher.add(partition)

    def unfollow(self, partition: Partition) -> None:
        """Stop fetching a partition."""
        leader_id = self._leaders.pop(partition, None)
        if leader_id is not None:
            self._fetchers[leader_id].remove(partition)

    def set_rate(self, rate_bytes: float) -> None:
        """Bytes per second for throttled replicas (follower.replication.throttled.rate)."""
        if self._throttle.set_rate(rate_bytes):
            for fetcher in self._fetchers.values():
                fetcher.resume()
