"""One replica on this broker: its log, its role, and the requests that wait for it.

A partition *leads*, *follows*, or is *idle* (there is no leader, or this broker does not know it
yet). The metadata log decides, and `ReplicaManager` calls `lead`, `follow` and `rest`. What a role
means is decided by the pure machines of `minikafka.replication`; this class carries out their
effects on the log and notifies

- ``waiters`` (fetches of consumers) when the high watermark moves,
- ``fetchers`` (fetches of followers) when records are appended,
- ``commits`` (acks=all, coordinators) when the high watermark reaches their offset,

and all of them when the role changes. A partition with a single replica takes a shortcut: what it
appends is committed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Protocol

import trio

from ...metadata.records import PartitionRecord
from ...protocol.errors import ErrorCode
from ...protocol.records import ControlType
from ...replication import (
    AdvanceHighWatermark,
    AdvanceLogStart,
    AppendRecords,
    BeginEpoch,
    EligibleBrokers,
    FollowerEffect,
    FollowerReplica,
    FollowHighWatermark,
    Freeze,
    LeaderEffect,
    LeaderReplica,
    ProposeIsr,
    RestartAt,
    Thaw,
    TruncateTo,
    cut_before_leading,
)
from ...storage.log import AppendResult, Log
from ...storage.validation import Inspection, RecordsUnread
from .offset_waiters import OffsetWaiter, OffsetWaiters
from .recompression import is_compressed_otherwise
from .topic_state import TopicState

logger = logging.getLogger(__name__)


class PartitionError(Exception):
    """A request for one partition is refused; carries Kafka's error code."""

    def __init__(self, error_code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or error_code.name)
        self.error_code = error_code
        self.message = message


class Waiter(Protocol):
    """A fetch that waits for partitions."""

    def notify(self, partition: Partition) -> None:
        """The partition has records, or another role.

        Called on the event loop, right after it happened; must not wait or raise.
        """
        ...


class PartitionHost(Protocol):
    """What all partitions of a broker share; `ReplicaManager` is one."""

    node_id: int
    brokers: EligibleBrokers
    lag_time_max_s: float
    is_rack_aware: bool
    is_retiring: bool
    frozen: dict[Partition, None]

    def now(self) -> float:
        """Monotonic seconds."""
        ...

    def propose_isr(self, partition: Partition, proposal: ProposeIsr) -> None:
        """Send a proposal to the active controller; a refusal goes to `Partition.isr_refused`."""
        ...

    def watch(self, partition: Partition) -> None:
        """Call `Partition.expire` at the leader's deadline."""
        ...


class Partition:
    """One replica on this broker.

    Attributes:
        topic: what it shares with the topic's other partitions.
        index: its number.
        leader_epoch: of the leader that this broker knows.
        is_alone: it leads, and the only replica is here.
        is_frozen: appends are refused because another replica is about to lead.
        leader: the leader's machine, while it leads.
        follower: the follower's machine, while it follows.
        waiters: notified when the high watermark or the role changes.
        fetchers: notified when records are appended or the role changes.
        commits: wait for the high watermark.
        deletions: wait for the low watermark: all live replicas have deleted records.
    """

    __slots__ = (
        "_host",
        "_thawed",
        "commits",
        "deletions",
        "fetchers",
        "follower",
        "index",
        "is_alone",
        "is_frozen",
        "is_leader",
        "leader",
        "leader_epoch",
        "log",
        "topic",
        "waiters",
    )

    def __init__(self, host: PartitionHost, topic: TopicState, index: int, log: Log) -> None:
        self._host = host
        self.topic = topic
        self.index = index
        self.log = log
        self.leader_epoch = -1
        self.is_leader = False
        self.is_alone = False
        self.is_frozen = False
        self.leader: LeaderReplica | None = None
        self.follower: FollowerReplica | None = None
        self.waiters: dict[Waiter, None] = {}
        self.fetchers: dict[Waiter, None] = {}
        self.commits = OffsetWaiters()
        self.deletions = OffsetWaiters()
        self._thawed: trio.Event | None = None

    def __repr__(self) -> str:
        return f"{self.topic.name}-{self.index}"

    # --- roles ---------------------------------------------------------------------------------

    def lead(self, image: PartitionRecord, now_ms: int) -> None:
        """Become leader, or take over what the metadata log changed about it.

        Raises:
            StorageError: the log is offline.
        """
        now = self._host.now()
        if self.leader is not None:
            self._catch_up_machine(now)
            effects = self.leader.image_changed(
                image.replicas,
                image.in_sync_replicas,
                image.leader_epoch,
                image.partition_epoch,
                now,
                image.next_leader,
            )
        else:
            self._end_role()
            settle_losses(self.log, len(image.replicas), image.leader_epoch, now_ms)
            self.log.producer_state.transactions.forget_verifications()  # another leader ended some
            if self.topic.is_fsync_acked:
                self.log.flush()  # records of a killed process may be in the page cache only
            self.leader = LeaderReplica(
                node_id=self._host.node_id,
                replicas=image.replicas,
                isr=image.in_sync_replicas,
                leader_epoch=image.leader_epoch,
                partition_epoch=image.partition_epoch,
                log_end_offset=self.log.log_end_offset,
                high_watermark=self.log.high_watermark,
                brokers=self._host.brokers,
                min_insync=self.topic.min_insync_replicas,
                lag_time_max_s=self._host.lag_time_max_s,
                is_sync_counted=self.topic.is_fsync_acked,
                synced_offset=self.log.log_end_offset,
                next_leader=image.next_leader,
                now=now,
            )
            effects = self.leader.begin(now)
            if self._host.is_retiring:
                effects += self.leader.retire(now)
        self.leader_epoch = image.leader_epoch
        self.is_leader = True
        self.is_alone = len(image.replicas) == 1 and len(image.in_sync_replicas) == 1
        self._carry_out_leader(effects)
        if self.leader.is_under_min_isr:
            self.commits.fail(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def follow(self, image: PartitionRecord, now_ms: int) -> None:
        """Follow a leader, or the next one.

        Raises:
            StorageError: the log is offline.
        """
        if self.follower is None:
            self._end_role()
            self.follower = FollowerReplica(
                self.log, leader_id=image.leader, leader_epoch=image.leader_epoch
            )
            self.carry_out(self.follower.begin(), now_ms)
        else:
            self.follower.leader_changed(image.leader, image.leader_epoch)
        self.leader_epoch = image.leader_epoch

    def rest(self, leader_epoch: int) -> None:
        """Neither lead nor follow: there is no leader, or the replica is being removed."""
        self._end_role()
        self.leader_epoch = leader_epoch

    def _end_role(self) -> None:
        was_leader, self.is_leader, self.is_alone = self.is_leader, False, False
        self._thaw()
        self.leader = self.follower = None
        if was_leader:
            self.commits.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.deletions.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            for fetcher in list(self.fetchers):
                fetcher.notify(self)
        self.wake()

    def low_watermark(self) -> int:
        """Where the log begins on the live replica that has deleted least."""
        start = self.log.log_start_offset
        return start if self.leader is None else self.leader.low_watermark(start)

    def delete_records(self, offset: int) -> None:
        """Delete the records below an offset here, and let followers know.

        Raises:
            LogError: the offset is above the high watermark, or the disk failed.
        """
        self.log.advance_log_start_offset(offset)
        for fetcher in self.fetchers:
            fetcher.notify(self)

    def configure(self) -> None:
        """Take the topic's new settings."""
        self.log.config = self.topic.log_config
        if self.leader is not None:
            now = self._host.now()
            self._catch_up_machine(now)
            effects = self.leader.configure(
                min_insync=self.topic.min_insync_replicas,
                lag_time_max_s=self._host.lag_time_max_s,
                is_sync_counted=self.topic.is_fsync_acked,
                now=now,
            )
            self._carry_out_leader(effects)
            if self.leader.is_under_min_isr:
                self.commits.fail(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def _catch_up_machine(self, now: float) -> None:
        """Let the machine see what the shortcut of a single replica has appended."""
        leader = self.leader
        if leader is not None and leader.log_end_offset != self.log.log_end_offset:
            self._carry_out_leader(leader.appended(self.log.log_end_offset, now))
            if self.is_alone:
                self._carry_out_leader(leader.synced(self.log.recovery_point))

    # --- the leader's machine ------------------------------------------------------------------

    def follower_fetched(
        self, broker_id: int, broker_epoch: int, fetch_offset: int, log_start_offset: int
    ) -> None:
        """A follower fetches from its log end offset; see `LeaderReplica.follower_fetched`.

        Raises:
            ReplicaFetchRefused: it is not a replica, or fetches with an old broker epoch.
        """
        assert self.leader is not None
        effects = self.leader.follower_fetched(
            broker_id, broker_epoch, fetch_offset, log_start_offset, self._host.now()
        )
        if effects:
            self._carry_out_leader(effects)
        if self.deletions:
            self.deletions.reach(self.low_watermark())

    def eligibility_changed(self) -> None:
        """A broker with a replica was fenced, unfenced or registered."""
        if self.leader is not None:
            self._carry_out_leader(self.leader.eligibility_changed(self._host.now()))
            self.deletions.reach(self.low_watermark())

    def isr_refused(self, proposal: ProposeIsr, error_code: ErrorCode) -> None:
        """The controller refused a proposal (accepted ones come with the metadata log)."""
        if self.leader is not None:
            self._carry_out_leader(self.leader.isr_refused(proposal, error_code, self._host.now()))

    def retire(self) -> None:
        """This broker wants to stop: hand over to another leader."""
        if self.leader is not None and not self.is_alone:
            self._carry_out_leader(self.leader.retire(self._host.now()))

    def expire(self) -> None:
        """Let the leader's machine act on the time: lagging followers, late answers."""
        if self.leader is not None and not self.is_alone:
            self._carry_out_leader(self.leader.expire(self._host.now()))

    def _carry_out_leader(self, effects: list[LeaderEffect]) -> None:
        """Do what the machine says; the high watermark last, because it may cause appends."""
        offset = -1
        for effect in effects:
            match effect:
                case AdvanceHighWatermark(offset):
                    pass
                case ProposeIsr():
                    self._host.propose_isr(self, effect)
                case BeginEpoch(epoch, start_offset):
                    self.log.leader_epochs.assign(epoch, start_offset)
                case Freeze(next_leader):
                    logger.debug("%r: handing over to broker %d", self, next_leader)
                    self.is_frozen = True
                    self._host.frozen[self] = None
                    self._host.watch(self)
                case Thaw():
                    self._thaw()
                    self._host.watch(self)
        if offset >= 0:
            self.advance_high_watermark(offset)

    def _thaw(self) -> None:
        self.is_frozen = False
        self._host.frozen.pop(self, None)
        if self._thawed is not None:
            self._thawed.set()
            self._thawed = None

    async def wait_thawed(self) -> None:
        """Wait until the partition accepts records again, or is led elsewhere."""
        while self.is_frozen:
            if self._thawed is None:
                self._thawed = trio.Event()
            await self._thawed.wait()

    # --- the follower's machine ----------------------------------------------------------------

    def carry_out(self, effects: Iterable[FollowerEffect], now_ms: int) -> None:
        """Do to the log what the follower's machine says, in order.

        Raises:
            LogError: the log refuses what the leader sent, or the disk failed.
        """
        log = self.log
        for effect in effects:
            match effect:
                case AppendRecords(records):
                    log.append_as_follower(records, now_ms=now_ms)
                    log.expected_end_offset = 0  # lost records have been fetched again
                case FollowHighWatermark(offset):
                    self._follow_high_watermark(offset)
                case AdvanceLogStart(offset):
                    log.advance_log_start_offset(min(offset, log.high_watermark))
                case TruncateTo(offset, is_below_high_watermark):
                    self._log_truncation(offset, is_lost=is_below_high_watermark)
                    log.truncate_to(offset)
                    log.expected_end_offset = 0
                case RestartAt(offset, is_below_high_watermark):
                    self._log_truncation(offset, is_lost=is_below_high_watermark)
                    log.truncate_fully_and_start_at(offset, now_ms=now_ms)
                    log.expected_end_offset = 0

    def _log_truncation(self, offset: int, *, is_lost: bool) -> None:
        end_offset = self.log.log_end_offset
        if is_lost:
            logger.error(
                "%r: committed records are lost: the leader does not have offsets %d to %d; "
                "was there an unclean election?",
                *(self, offset, end_offset),
            )
        elif offset != end_offset:
            logger.info("%r: truncating offsets %d to %d", self, offset, end_offset)

    def _follow_high_watermark(self, offset: int) -> None:
        """Set a follower's high watermark; it may go back, see `FollowHighWatermark`."""
        before = self.log.high_watermark
        self.log.high_watermark = offset
        if self.log.high_watermark > before:
            self.wake()

    # --- records -------------------------------------------------------------------------------

    def check_leader_epoch(self, asked: int) -> None:
        """Compare a client's leader epoch with ours (KIP-320); -1 is no opinion.

        Raises:
            PartitionError: FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.
        """
        if asked in (-1, self.leader_epoch):
            return
        if asked < self.leader_epoch:
            raise PartitionError(
                ErrorCode.FENCED_LEADER_EPOCH,
                f"leader epoch {asked} is older than the current {self.leader_epoch}",
            )
        raise PartitionError(
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"leader epoch {asked} is newer than the {self.leader_epoch} known here",
        )

    def check_in_sync(self) -> None:
        """Refuse acks=all when too few replicas are in sync.

        Raises:
            PartitionError: NOT_ENOUGH_REPLICAS.
        """
        leader = self.leader
        if leader is not None and leader.is_under_min_isr:
            raise PartitionError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(leader.isr.isr)} in-sync replica(s) {list(leader.isr.isr)}; "
                f"min.insync.replicas wants {leader.effective_min_insync}",
            )

    def append(
        self,
        records: memoryview | bytes,
        *,
        now_ms: int,
        version: int,
        from_client: bool = True,
        inspection: Inspection = Inspection.ELSEWHERE,
    ) -> AppendResult:
        """Append batches as leader and notify waiters.

        Raises:
            LogError: the log refuses them, or the disk failed.
            PartitionError: the partition is not led here, or about to be handed over.
            RecordsUnread: `Inspector` has to see them first.
        """
        topic, log = self.topic, self.log
        self._check_writable()
        if (
            topic.compression is not None
            and from_client
            and inspection is not Inspection.DONE
            and is_compressed_otherwise(records, topic.compression)
        ):
            raise RecordsUnread
        result = log.append_as_leader(
            records,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            from_client=from_client,
            request_version=version,
            inspection=inspection,
        )
        if not result.is_duplicate:
            self._appended()
        return result

    def append_marker(
        self,
        control_type: ControlType,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        transaction_version: int,
        now_ms: int,
    ) -> AppendResult | None:
        """End a transaction as leader; None when the marker is there already.

        Raises:
            LogError: the log refuses it, or the disk failed.
            PartitionError: the partition is not led here, or about to be handed over.
        """
        self._check_writable()
        result = self.log.append_marker(
            control_type,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
        )
        if result is not None:
            self._appended()
        return result

    def _check_writable(self) -> None:
        if not self.is_leader or self.is_frozen:
            raise PartitionError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{self!r} {'is being handed over' if self.is_frozen else 'is not led here'}",
            )

    def _appended(self) -> None:
        """Commit appended records, or notify the followers' fetches."""
        topic, log = self.topic, self.log
        if self.is_alone:
            # A single replica is the whole ISR, so its records are committed, unless the topic
            # hides them until they are on the disk (then `synced` moves the high watermark).
            if not topic.is_fsync_acked:
                self.advance_high_watermark(log.log_end_offset)
        else:
            assert self.leader is not None
            effects = self.leader.appended(log.log_end_offset, self._host.now())
            if effects:
                self._carry_out_leader(effects)
            for fetcher in self.fetchers:
                fetcher.notify(self)

    def synced(self) -> None:
        """The log has been synced up to its recovery point."""
        if self.is_alone:
            self.advance_high_watermark(self.log.recovery_point)
        elif self.leader is not None:
            self._carry_out_leader(self.leader.synced(self.log.recovery_point))

    def advance_high_watermark(self, offset: int) -> None:
        """Let consumers read up to an offset; a leader's high watermark never goes back."""
        log = self.log
        if offset > log.high_watermark:
            log.high_watermark = offset
            if offset >= self.commits.next_offset:
                self.commits.reach(offset)
            for waiter in self.waiters:
                waiter.notify(self)
            if self._host.is_rack_aware:
                for fetcher in self.fetchers:
                    fetcher.notify(self)

    def wait_for_commit(self, waiter: OffsetWaiter, offset: int) -> None:
        """Settle a waiter when everything below ``offset`` is committed, which it is not yet."""
        self.commits.add(waiter, offset)

    def wake(self) -> None:
        """Notify the consumers' fetches that wait for this partition."""
        for waiter in self.waiters:
            waiter.notify(self)


def settle_losses(log: Log, replica_count: int, leader_epoch: int, now_ms: int) -> None:
    """Make a log that lost something fit to lead.

    See `minikafka.replication.damage` and `Log.skip_lost`.

    Raises:
        StorageError: the disk failed; the log is offline.
    """
    damaged_from = cut_before_leading(log, replica_count)
    if damaged_from is not None:
        logger.error("%s: damaged at offset %d, truncating there", log.directory, damaged_from)
        log.truncate_to(damaged_from)
    lost = log.skip_lost(leader_epoch=leader_epoch, now_ms=now_ms)
    if lost:
        logger.error("%s: the last %d offsets are lost and stay empty", log.directory, lost)
    log.accept_damage()
