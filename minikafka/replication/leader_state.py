"""What a leader knows and how it follows from that; `leader` adds what can happen to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from .effects import NO_LEADER, AdvanceHighWatermark, IsrMember, LeaderEffect, ProposeIsr
from .isr import Committed, IsrState, Pending
from .progress import UNKNOWN_EPOCH, UNKNOWN_OFFSET, EligibleBrokers, FollowerProgress

__all__ = ["ANSWER_TIME_MAX_S", "Approaching", "Frozen", "HandOver", "LeaderState"]

ANSWER_TIME_MAX_S: Final = 5.0
"""A proposal that is not answered for so long is sent again."""


class Approaching(NamedTuple):
    """A hand-over: waiting until the next leader has nearly everything, and for ``not_before``."""

    not_before: float


class Frozen(NamedTuple):
    """A hand-over: nothing is appended for the sake of ``next_leader``, at most until ``until``."""

    next_leader: int
    until: float


HandOver = Approaching | Frozen | None


class LeaderState:
    """The state of a partition's leader.

    Attributes:
        node_id: This broker.
        leader_epoch: The epoch it leads in.
        partition_epoch: Of the last change of the partition that is known here.
        epoch_start_offset: Where its log ended when the epoch began.
        replicas: All replicas, this one included.
        isr: The in-sync replicas: Committed or Pending.
        log_end_offset: Of this log.
        high_watermark: End of what is committed.
        min_insync: min.insync.replicas; change it with `configure`.
        lag_time_max_s: replica.lag.time.max.ms; change it with `configure`.
        is_sync_counted: Own records count when they are on the disk; change it with `configure`.
        next_leader: Whom the metadata log asks to lead, or `NO_LEADER`.
        is_retiring: This broker wants to stop.
        hand_over: How far it is with handing over, see the module of that name.
        is_frozen: Nothing may be appended, as another replica is about to lead.
    """

    __slots__ = (
        "_brokers",
        "_followers",
        "_holders",
        "_is_alone",
        "_own_offset",
        "epoch_start_offset",
        "hand_over",
        "high_watermark",
        "is_frozen",
        "is_retiring",
        "is_sync_counted",
        "isr",
        "lag_time_max_s",
        "leader_epoch",
        "log_end_offset",
        "min_insync",
        "next_leader",
        "node_id",
        "partition_epoch",
        "replicas",
    )

    def __init__(
        self,
        *,
        node_id: int,
        replicas: Sequence[int],
        isr: Sequence[int],
        leader_epoch: int,
        partition_epoch: int,
        log_end_offset: int,
        high_watermark: int,
        brokers: EligibleBrokers,
        min_insync: int,
        lag_time_max_s: float,
        is_sync_counted: bool = False,
        synced_offset: int = 0,
        next_leader: int = NO_LEADER,
        now: float,
    ) -> None:
        """Become leader.

        Args:
            node_id: This broker, one of the replicas.
            replicas: From the metadata log.
            isr: Likewise; this broker is in it.
            leader_epoch: Likewise.
            partition_epoch: Likewise.
            log_end_offset: Of the log.
            high_watermark: Of the log: what this broker knew as a follower, or its checkpoint.
            brokers: Who may be in an ISR; shared by all partitions.
            min_insync: min.insync.replicas.
            lag_time_max_s: replica.lag.time.max.ms.
            is_sync_counted: This broker's own records count when they are on its disk
                (flush.messages=1): see `synced`.
            synced_offset: What is on its disk already; only with ``is_sync_counted``.
            next_leader: From the metadata log: whom this broker is asked to hand over to.
            now: The time.
        """
        self.node_id: Final = node_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.log_end_offset = log_end_offset
        self.high_watermark = high_watermark
        self.min_insync = min_insync
        self.lag_time_max_s = lag_time_max_s
        self.is_sync_counted = is_sync_counted
        self.is_frozen = False
        self.is_retiring = False
        self.next_leader = next_leader
        self.hand_over: HandOver = None
        self._own_offset = synced_offset if is_sync_counted else log_end_offset
        self._brokers: Final = brokers
        self._followers: dict[int, FollowerProgress] = {}
        # The followers that hold the high watermark back: of the maximal ISR, and about to join.
        self._holders: list[FollowerProgress] = []
        self._is_alone = False
        self.replicas: tuple[int, ...] = ()
        self.isr: IsrState = Committed(tuple(isr))
        self._take_replicas(replicas)
        self._start_epoch(now)

    # --- what others ask -------------------------------------------------------------------------

    @property
    def effective_min_insync(self) -> int:
        """min.insync.replicas, or the number of replicas if that is smaller."""
        return min(self.min_insync, len(self.replicas))

    @property
    def is_under_min_isr(self) -> bool:
        """Whether acks=all has to be refused: NOT_ENOUGH_REPLICAS."""
        return len(self.isr.isr) < self.effective_min_insync

    @property
    def is_high_watermark_known(self) -> bool:
        """Whether everything the leaders before committed is below it (KIP-207).

        Until then ListOffsets answers OFFSET_NOT_AVAILABLE.
        """
        return self.high_watermark >= self.epoch_start_offset

    def progress_of(self, broker_id: int) -> FollowerProgress | None:
        """What is known of a follower, to be read only; None if it is not one."""
        return self._followers.get(broker_id)

    def low_watermark(self, log_start_offset: int) -> int:
        """Smallest log start of all eligible replicas: DeleteRecords waits for it (KIP-107).

        Args:
            log_start_offset: Of this log.
        """
        for follower in self._followers.values():
            if follower.broker_id in self._brokers.epochs:
                log_start_offset = min(log_start_offset, follower.log_start_offset)
        return log_start_offset

    # --- inside ----------------------------------------------------------------------------------

    def _start_epoch(self, now: float) -> None:
        self.epoch_start_offset = self.log_end_offset
        for follower in self._followers.values():
            is_member = follower.broker_id in self.isr.isr
            follower.forget(now if is_member else now - self.lag_time_max_s)
        self._find_holders(now)

    def _take_replicas(self, replicas: Sequence[int]) -> None:
        self.replicas = tuple(replicas)
        known = self._followers
        self._followers = {
            broker_id: known.get(broker_id) or FollowerProgress(broker_id)
            for broker_id in (*replicas, *self.isr.isr)
            if broker_id != self.node_id
        }
        self._is_alone = not (self._followers or self.is_sync_counted)

    def _is_eligible(self, follower: FollowerProgress) -> bool:
        return self._brokers.may_join(follower.broker_id, follower.broker_epoch)

    def _may_join(self, follower: FollowerProgress, now: float) -> bool:
        return (
            follower.fetch_offset >= self.high_watermark
            and follower.fetch_offset >= self.epoch_start_offset
            and follower.broker_id in self.replicas
            and now >= follower.join_after
            and self._is_eligible(follower)
        )

    def _find_holders(self, now: float) -> None:
        maximal = self.isr.maximal
        end_offset, lag_time_max_s = self.log_end_offset, self.lag_time_max_s
        self._holders = [
            follower
            for follower in self._followers.values()
            if follower.broker_id in maximal
            or (
                follower.fetch_offset != UNKNOWN_OFFSET
                and follower.is_caught_up(end_offset, lag_time_max_s, now)
                and self._is_eligible(follower)
            )
        ]

    def _advance(self, effects: list[LeaderEffect]) -> None:
        if len(self.isr.isr) < self.min_insync and self.is_under_min_isr:
            return
        offset = self._own_offset
        for follower in self._holders:
            if follower.fetch_offset < offset:
                offset = follower.fetch_offset
        if offset > self.high_watermark and offset >= self.epoch_start_offset:
            self.high_watermark = offset
            effects.append(AdvanceHighWatermark(offset))

    def _let_join(self, effects: list[LeaderEffect], now: float) -> None:
        """Let everybody join who may: on an idle partition nobody's next fetch comes soon."""
        isr = self.isr
        if isinstance(isr, Committed) and not self.is_frozen:
            joining = [
                follower.broker_id
                for follower in self._followers.values()
                if follower.broker_id not in isr.isr and self._may_join(follower, now)
            ]
            if joining:
                self._propose((*isr.isr, *joining), effects, now)

    def _shrink(self, leaving: list[int], effects: list[LeaderEffect], now: float) -> None:
        if isinstance(self.isr, Committed) and not self.is_frozen:
            staying = tuple(broker_id for broker_id in self.isr.isr if broker_id not in leaving)
            self._propose(staying, effects, now)

    def _propose(
        self,
        isr: tuple[int, ...],
        effects: list[LeaderEffect],
        now: float,
        leader: int = NO_LEADER,
    ) -> None:
        epochs = self._brokers.epochs
        proposal = ProposeIsr(
            self.leader_epoch,
            self.partition_epoch,
            tuple(IsrMember(one, epochs.get(one, UNKNOWN_EPOCH)) for one in isr),
            leader,
        )
        maximal = tuple(dict.fromkeys((*self.isr.maximal, *isr)))
        self.isr = Pending(self.isr.isr, maximal, proposal, now + ANSWER_TIME_MAX_S, 1)
        effects.append(proposal)
        self._find_holders(now)
