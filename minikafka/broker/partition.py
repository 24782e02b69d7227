"""One replica on this broker: its log, its role, and who waits for it.

A partition here *leads*, *follows*, or is *idle* (nobody leads it, or this broker does not know
yet). The metadata log decides; `Replicas` calls `lead`, `follow` and `rest`. What a role means is
decided by the pure machines of `minikafka.replication`; this class carries out their effects on the
log and tells those who wait:

- ``waiters`` (fetches of consumers) when the high watermark moves,
- ``fetchers`` (fetches of followers) when records are appended,
- ``commits`` (acks=all, coordinators) when the high watermark reaches their offset,

and all of them when the role changes. A partition whose only replica is here goes a shorter way:
what it appends is committed.
"""

from __future__ import annotations

import logging

import trio

from ..metadata.image import PartitionImage
from ..protocol.errors import ErrorCode
from ..protocol.records import ControlType
from ..replication import (
    AdvanceHighWatermark,
    BeginEpoch,
    FollowerReplica,
    Freeze,
    LeaderEffect,
    LeaderReplica,
    ProposeIsr,
    Thaw,
)
from ..storage.log import Log
from ..storage.results import AppendResult
from .before_leading import settle_losses
from .following import carry_out
from .offset_waiters import OffsetWaiter, OffsetWaiters
from .partition_host import PartitionError, PartitionHost, Waiter
from .recompress import recompress
from .topic_state import TopicState

__all__ = ["Partition", "PartitionError", "Waiter"]

logger = logging.getLogger(__name__)


class Partition:
    """One replica on this broker.

    Attributes:
        topic: what it shares with the topic's other partitions.
        index: its number.
        log: its records.
        leader_epoch: of the leader that this broker knows.
        is_leader: this broker leads.
        is_alone: it leads, and the only replica is here.
        is_frozen: nothing is appended, for another replica is about to lead.
        leader: the leader's machine, while it leads.
        follower: the follower's machine, while it follows.
        waiters: told when the high watermark or the role changes.
        fetchers: told when records are appended or the role changes.
        commits: who waits for the high watermark.
        deletions: who waits for the low watermark: all live replicas have deleted records.
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
        """For messages: topic-number."""
        return f"{self.topic.name}-{self.index}"

    # --- roles ---------------------------------------------------------------------------------

    def lead(self, image: PartitionImage, now_ms: int) -> None:
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
            self.log.producer_state.transactions.forget_verifications()  # another led, ended some
            if self.topic.is_fsync_acked:
                self.log.flush()  # what survived a process may be in the page cache only
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
        self._carry_out(effects)
        if self.leader.is_under_min_isr:
            self.commits.fail(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def follow(self, image: PartitionImage, now_ms: int) -> None:
        """Follow a leader, or the next one.

        Raises:
            StorageError: the log is offline.
        """
        if self.follower is None:
            self._end_role()
            self.follower = FollowerReplica(
                self.log, leader_id=image.leader, leader_epoch=image.leader_epoch
            )
            carry_out(self, self.follower.begin(), now_ms)
        else:
            self.follower.leader_changed(image.leader, image.leader_epoch)
        self.leader_epoch = image.leader_epoch

    def rest(self, leader_epoch: int) -> None:
        """Neither lead nor follow: nobody leads, or the replica is about to go."""
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
        """Forget the records below an offset here, and let followers hear of it.

        Raises:
            LogError: the offset is above the high watermark, or the disk failed.
        """
        self.log.advance_log_start_offset(offset)
        for fetcher in self.fetchers:
            fetcher.notify(self)

    def configure(self) -> None:
        """The topic's settings changed."""
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
            self._carry_out(effects)
            if self.leader.is_under_min_isr:
                self.commits.fail(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def _catch_up_machine(self, now: float) -> None:
        """Alone, records are committed without asking the machine; tell it before it is asked."""
        leader = self.leader
        if leader is not None and leader.log_end_offset != self.log.log_end_offset:
            self._carry_out(leader.appended(self.log.log_end_offset, now))
            if self.is_alone:
                self._carry_out(leader.synced(self.log.recovery_point))

    # --- the leader's machine ------------------------------------------------------------------

    def follower_fetched(
        self, broker_id: int, broker_epoch: int, fetch_offset: int, log_start_offset: int
    ) -> None:
        """A follower asks for what is behind its end; see `LeaderReplica.follower_fetched`.

        Raises:
            ReplicaFetchRefused: it may not.
        """
        assert self.leader is not None
        effects = self.leader.follower_fetched(
            broker_id, broker_epoch, fetch_offset, log_start_offset, self._host.now()
        )
        if effects:
            self._carry_out(effects)
        if self.deletions:
            self.deletions.reach(self.low_watermark())

    def eligibility_changed(self) -> None:
        """A broker with a replica was fenced, unfenced or registered."""
        if self.leader is not None:
            self._carry_out(self.leader.eligibility_changed(self._host.now()))
            self.deletions.reach(self.low_watermark())

    def isr_refused(self, proposal: ProposeIsr, error_code: ErrorCode) -> None:
        """The controller refused a proposal; what it takes comes with the metadata log."""
        if self.leader is not None:
            self._carry_out(self.leader.isr_refused(proposal, error_code, self._host.now()))

    def retire(self) -> None:
        """This broker wants to stop: let another one lead."""
        if self.leader is not None and not self.is_alone:
            self._carry_out(self.leader.retire(self._host.now()))

    def expire(self) -> None:
        """Let the leader's machine look at the time: followers may lag, answers be late."""
        if self.leader is not None and not self.is_alone:
            self._carry_out(self.leader.expire(self._host.now()))

    def _carry_out(self, effects: list[LeaderEffect]) -> None:
        """Do what the machine says; the high watermark last, for it may lead to appends."""
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
        """Wait until the partition takes records again, or is not led here any more."""
        while self.is_frozen:
            if self._thawed is None:
                self._thawed = trio.Event()
            await self._thawed.wait()

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
        """Refuse acks=all where too few replicas are in sync.

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
        self, records: memoryview | bytes, *, now_ms: int, version: int, from_client: bool = True
    ) -> AppendResult:
        """Append batches as leader and let waiters know.

        Raises:
            LogError: the log refuses them, or the disk failed.
            PartitionError: the partition is not led here, or about to be handed over.
        """
        topic, log = self.topic, self.log
        self._check_writable()
        if topic.compression is not None and from_client:
            records = recompress(records, topic.compression, topic.log_config.max_message_bytes)
        result = log.append_as_leader(
            records,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            from_client=from_client,
            request_version=version,
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
        """Records were appended: they are committed at once, or the followers are told."""
        topic, log = self.topic, self.log
        if self.is_alone:
            # A single replica is the whole ISR: what it has is committed, unless the topic wants
            # nothing to be seen before it is on the disk (then `synced` moves it).
            if not topic.is_fsync_acked:
                self.advance_high_watermark(log.log_end_offset)
        else:
            assert self.leader is not None
            effects = self.leader.appended(log.log_end_offset, self._host.now())
            if effects:
                self._carry_out(effects)
            for fetcher in self.fetchers:
                fetcher.notify(self)

    def synced(self) -> None:
        """The log has been synced up to its recovery point."""
        if self.is_alone:
            self.advance_high_watermark(self.log.recovery_point)
        elif self.leader is not None:
            self._carry_out(self.leader.synced(self.log.recovery_point))

    def advance_high_watermark(self, offset: int) -> None:
        """Let readers see records below an offset; the high watermark never goes back."""
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
        """Tell somebody when everything below ``offset`` is committed; it is not yet."""
        self.commits.add(waiter, offset)

    def follow_high_watermark(self, offset: int) -> None:
        """Set a follower's high watermark; it may go back, see `FollowHighWatermark`."""
        before = self.log.high_watermark
        self.log.high_watermark = offset
        if self.log.high_watermark > before:
            self.wake()

    def wake(self) -> None:
        """Notify every consumer's fetch that waits for this partition."""
        for waiter in self.waiters:
            waiter.notify(self)
