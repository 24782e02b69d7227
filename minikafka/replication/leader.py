"""The leader's side of a replicated partition: high watermark, in-sync replicas, hand-over.

One `LeaderReplica` per partition that this broker leads, created when the metadata log makes this
broker the leader and dropped when it names another. Offsets and the time go in, effects come out;
it does no I/O.

What is committed. A record is committed when every replica in the *maximal* ISR (see `isr`) has
it and the ISR has at least min.insync.replicas members (KIP-966; no more than there are replicas,
as in Kafka). The high watermark is the end of what is committed; it never goes back. A new leader
does not know how far its predecessor's was: its own stays until the ISR has fetched up to where
its epoch began, which is at or behind everything that was ever committed.

Which positions count. A fetch at offset n says: I have everything below n. It counts when the
fetch names this leader epoch and continues this log (`divergence`; the caller checks both first),
and comes from the follower's current incarnation: an older broker epoch is refused (KIP-903). A
new leader epoch forgets all positions.

Who is in sync. A follower joins the ISR when its position has reached the high watermark and the
start of this epoch (KAFKA-7128: below it, it may still hold what no leader has), and it is
eligible: not fenced, not shutting down, the same broker epoch (KIP-841). A follower that keeps up
but is not in the ISR yet holds the high watermark back a little: on a busy partition it would
never reach it otherwise. A member leaves that has not had everything for ``lag_time_max_s``; and
immediately when it fetches below the high watermark, because then it has lost records. Who has
left joins again only after another fetch: while the ISR is too small the high watermark stands
still, and the old position would let a silent follower join and leave at the controller's pace.

===========  =======================================  ============================================
state        event                                    then
===========  =======================================  ============================================
Committed    a follower may join, or members lag      propose -> Pending
Pending      image_changed                            Committed with the next partition epoch
Pending      isr_refused: INELIGIBLE_REPLICA          propose the committed ISR (withdraw), Pending
Pending      isr_refused: anything else               resend after a back-off, Pending
Pending      no answer                                resend, Pending
both         image_changed: next leader epoch         begin the epoch, forget positions, Committed
both         older epochs, answers to old proposals   nothing
===========  =======================================  ============================================

"Anything else" includes INVALID_UPDATE_VERSION, FENCED_LEADER_EPOCH and NEW_LEADER_ELECTED: the
metadata log has the truth and will bring it. Resending meanwhile is harmless, and it helps when
the answer came from a deposed controller (KAFKA-14144, KAFKA-14154).

Hand-over, so that a planned move loses nothing (KAFKA-20554). The controller never takes a
partition from a live leader. It asks, by naming a ``next_leader`` in the partition; or the leader
itself wants to stop and chooses a member of the ISR (`LeaderReplica.retire`). The controller's part
is in `minikafka.metadata.elections`.

===========  ===========================================  =========================================
hand-over    event                                        then
===========  ===========================================  =========================================
None         asked, or retiring with a successor in sync  Approaching
Approaching  the next leader has nearly everything        freeze -> Frozen
Approaching  the request is withdrawn                     None
Frozen       the next leader has everything               propose it as leader; still Frozen
Frozen       out of time, or it may not lead              thaw -> Approaching, after a pause
Frozen       the same, but it was proposed                propose oneself as leader; still Frozen
Frozen       the metadata log has a newer state           what was proposed is forgotten
===========  ===========================================  =========================================

Frozen means that nothing is appended: the next leader then has everything this one ever
acknowledged, and begins where this log ends. Once the change is proposed, a record that is
appended may be lost with it, whatever the answer: so the leader thaws only with the next partition
epoch, which invalidates the old proposal. To get there it proposes itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, cast

from minikafka.protocol.errors import ErrorCode

from .effects import (
    NO_LEADER,
    AdvanceHighWatermark,
    BeginEpoch,
    Freeze,
    IsrMember,
    LeaderEffect,
    ProposeIsr,
    Thaw,
)
from .isr import Committed, IsrState, Pending
from .progress import (
    LONG_AGO,
    UNKNOWN_EPOCH,
    UNKNOWN_OFFSET,
    UNTIL_IT_FETCHES,
    EligibleBrokers,
    FollowerProgress,
)

__all__ = [
    "ANSWER_TIME_MAX_S",
    "FREEZE_TIME_MAX_S",
    "Approaching",
    "Frozen",
    "HandOver",
    "LeaderReplica",
    "ReplicaFetchRefused",
]

ANSWER_TIME_MAX_S: Final = 5.0
"""A proposal without an answer is resent after this long."""

RETRY_TIME_MIN_S: Final = 0.05
RETRY_TIME_MAX_S: Final = 1.0
"""A refused proposal is resent after RETRY_TIME_MIN_S, doubling up to this."""

JOIN_RETRY_TIME_S: Final = 0.5
"""A join that the controller refused is not proposed again for this long."""

FREEZE_TIME_MAX_S: Final = 1.0
"""The longest that producers wait for a hand-over that can still be given up."""

PAUSE_S: Final = 1.0
"""How long a leader waits after a hand-over that failed."""

NEAR_S: Final = 0.5
"""A next leader has nearly everything if it had everything less than this long ago."""


# Half the price of the class's own constructor.
_new: Final = cast(
    "Callable[[type[AdvanceHighWatermark], tuple[int]], AdvanceHighWatermark]", tuple[int].__new__
)


class ReplicaFetchRefused(Exception):
    """A fetch that says nothing about a follower's log; carries Kafka's error code."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


class Approaching(NamedTuple):
    """Waiting until the next leader has nearly everything, and for ``not_before``."""

    not_before: float


class Frozen(NamedTuple):
    """Nothing is appended, so that ``next_leader`` can catch up; at most until ``until``."""

    next_leader: int
    until: float


HandOver = Approaching | Frozen | None


class LeaderReplica:
    """A partition's leader. Times are seconds of any monotonic clock.

    Call `begin` first. All methods return effects to carry out in order, before the next call.

    Attributes:
        epoch_start_offset: Where the log ended when the leader epoch began.
        replicas: All replicas, including this one.
        high_watermark: End of what is committed.
        is_sync_counted: This broker's own records count once they are on its disk.
        next_leader: The replica that the metadata log asks this one to hand over to, or
            `NO_LEADER`.
        is_retiring: This broker wants to stop.
        is_frozen: Nothing may be appended, because another replica is about to lead.
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
            replicas: From the metadata log, like the ISR (which this broker is in) and the epochs.
            isr: See ``replicas``.
            leader_epoch: See ``replicas``.
            partition_epoch: See ``replicas``.
            log_end_offset: Of the log.
            high_watermark: Of the log: what this broker knew as a follower, or its checkpoint.
            brokers: The brokers that may be in an ISR; shared by all partitions.
            min_insync: min.insync.replicas.
            lag_time_max_s: replica.lag.time.max.ms.
            is_sync_counted: This broker's own records count once they are on its disk
                (flush.messages=1): see `synced`.
            synced_offset: What is on its disk already; only with ``is_sync_counted``.
            next_leader: From the metadata log: the replica to hand over to.
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
        # The followers that hold the high watermark back: the maximal ISR, and those about to join.
        self._holders: list[FollowerProgress] = []
        self._is_alone = False
        self.replicas: tuple[int, ...] = ()
        self.isr: IsrState = Committed(tuple(isr))
        self._take_replicas(replicas)
        self._start_epoch(now)

    # --- queries ---------------------------------------------------------------------------------

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
        """Whether it is at or above everything that earlier leaders committed (KIP-207).

        Until then ListOffsets answers OFFSET_NOT_AVAILABLE.
        """
        return self.high_watermark >= self.epoch_start_offset

    def progress_of(self, broker_id: int) -> FollowerProgress | None:
        """What is known of a follower, read-only; None if the broker is not one."""
        return self._followers.get(broker_id)

    def low_watermark(self, log_start_offset: int) -> int:
        """Smallest log start offset of all eligible replicas: DeleteRecords waits for it (KIP-107).

        Args:
            log_start_offset: Of this log.
        """
        for follower in self._followers.values():
            if follower.broker_id in self._brokers.epochs:
                log_start_offset = min(log_start_offset, follower.log_start_offset)
        return log_start_offset

    # --- the log ---------------------------------------------------------------------------------

    def begin(self, now: float) -> list[LeaderEffect]:
        """Begin to lead: the epoch must be stored before anything is served."""
        effects: list[LeaderEffect] = [BeginEpoch(self.leader_epoch, self.epoch_start_offset)]
        self._settle(effects, now)
        return effects

    def appended(self, log_end_offset: int, now: float) -> list[LeaderEffect]:
        """Records were appended; the log now ends at ``log_end_offset``."""
        if self._is_alone and log_end_offset > self.high_watermark:
            # The only replica: the hot path of every append, so skip what is known already.
            self.log_end_offset = self._own_offset = self.high_watermark = log_end_offset
            return [_new(AdvanceHighWatermark, (log_end_offset,))]
        if not self.is_sync_counted:
            self._own_offset = log_end_offset
        before = self.log_end_offset
        for follower in self._followers.values():
            if follower.fetch_offset >= before:
                follower.last_caught_up_at = now  # it was waiting for these records
        self.log_end_offset = log_end_offset
        if self._holders:
            return []  # they cannot have the records before their leader does
        effects: list[LeaderEffect] = []
        self._advance(effects)
        return effects

    def synced(self, offset: int) -> list[LeaderEffect]:
        """Everything below ``offset`` is on this broker's disk; see ``is_sync_counted``."""
        effects: list[LeaderEffect] = []
        if self.is_sync_counted:
            self._own_offset = max(self._own_offset, offset)
            self._advance(effects)
        return effects

    # --- followers -------------------------------------------------------------------------------

    def check_follower(self, broker_id: int, broker_epoch: int) -> FollowerProgress:
        """Check that a fetch comes from the current incarnation of a replica.

        Raises:
            ReplicaFetchRefused: not a replica, or an older incarnation of one.
        """
        follower = self._followers.get(broker_id)
        if follower is None:
            raise ReplicaFetchRefused(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {broker_id} is not one of the replicas {self.replicas}; if it was just "
                "added, this leader does not know yet",
            )
        known = max(follower.broker_epoch, self._brokers.epochs.get(broker_id, UNKNOWN_EPOCH))
        if broker_epoch < known:
            raise ReplicaFetchRefused(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {broker_id} fetches with broker epoch {broker_epoch}, its epoch is now "
                f"{known}",
            )
        return follower

    def follower_fetched(
        self,
        broker_id: int,
        broker_epoch: int,
        fetch_offset: int,
        log_start_offset: int,
        now: float,
    ) -> list[LeaderEffect]:
        """A follower fetched, in this leader epoch, from a position that continues this log.

        Args:
            broker_id: The follower.
            broker_epoch: Of its registration.
            fetch_offset: It has everything below; with ``is_sync_counted``, on its disk.
            log_start_offset: Where its log begins.
            now: The time.

        Raises:
            ReplicaFetchRefused: from `check_follower`.
        """
        follower = self.check_follower(broker_id, broker_epoch)
        follower.fetched(broker_epoch, fetch_offset, log_start_offset, self.log_end_offset, now)
        if follower.join_after == UNTIL_IT_FETCHES:
            follower.join_after = LONG_AGO
        effects: list[LeaderEffect] = []
        isr = self.isr
        if broker_id in isr.isr:
            if fetch_offset < self.high_watermark:
                self._shrink([broker_id], effects, now)
        else:
            self._find_holders(now)
            self._let_join(effects, now)
        self._advance(effects)
        if self.hand_over is not None:
            self._go_on_handing_over(effects, now)
        return effects

    def eligibility_changed(self, now: float) -> list[LeaderEffect]:
        """A broker with a replica of this partition was fenced, unfenced or registered."""
        effects: list[LeaderEffect] = []
        self._settle(effects, now)
        return effects

    # --- from the controller ---------------------------------------------------------------------

    def isr_refused(
        self, proposal: ProposeIsr, error_code: ErrorCode, now: float
    ) -> list[LeaderEffect]:
        """The controller refused a proposal, or there is no telling whether it arrived.

        Args:
            proposal: The effect.
            error_code: Kafka's; any retriable one when there was no answer.
            now: The time.
        """
        isr = self.isr
        effects: list[LeaderEffect] = []
        if not isinstance(isr, Pending) or isr.proposal != proposal:
            return effects
        if error_code is ErrorCode.INELIGIBLE_REPLICA and proposal.leader != self.node_id:
            for follower in self._followers.values():
                if follower.broker_id not in isr.isr:
                    follower.join_after = max(follower.join_after, now + JOIN_RETRY_TIME_S)
            self._propose(isr.isr, effects, now, leader=self.node_id)
        else:
            pause_s = min(RETRY_TIME_MIN_S * 2 ** min(isr.attempts - 1, 8), RETRY_TIME_MAX_S)
            self.isr = isr._replace(resend_at=now + pause_s)
        return effects

    def image_changed(
        self,
        replicas: Sequence[int],
        isr: Sequence[int],
        leader_epoch: int,
        partition_epoch: int,
        now: float,
        next_leader: int = NO_LEADER,
    ) -> list[LeaderEffect]:
        """The metadata log changed the partition, and this broker is still its leader.

        Call it in the order of the log, after `configure` for settings that come earlier in it.
        """
        effects: list[LeaderEffect] = []
        if partition_epoch < self.partition_epoch or leader_epoch < self.leader_epoch:
            return effects
        if partition_epoch > self.partition_epoch:
            self.partition_epoch = partition_epoch
            self.isr = Committed(tuple(isr))
        self.next_leader = next_leader
        self._take_replicas(replicas)
        if leader_epoch > self.leader_epoch:
            self.leader_epoch = leader_epoch
            self._start_epoch(now)
            effects.append(BeginEpoch(leader_epoch, self.epoch_start_offset))
        self._settle(effects, now)
        return effects

    def configure(
        self, *, min_insync: int, lag_time_max_s: float, is_sync_counted: bool, now: float
    ) -> list[LeaderEffect]:
        """The topic's or the broker's settings changed."""
        self.min_insync = min_insync
        self.lag_time_max_s = lag_time_max_s
        self.is_sync_counted = is_sync_counted
        if not is_sync_counted:
            self._own_offset = self.log_end_offset
        self._is_alone = not (self._followers or is_sync_counted)
        effects: list[LeaderEffect] = []
        self._settle(effects, now)
        return effects

    # --- time ------------------------------------------------------------------------------------

    def deadline(self) -> float | None:
        """When `expire` has something to do; None for never."""
        isr = self.isr
        is_settled = isinstance(isr, Committed) and not self.is_frozen
        times = [
            follower.last_caught_up_at + self.lag_time_max_s
            for follower in self._holders
            if follower.fetch_offset < self.log_end_offset
            and (is_settled or follower.broker_id not in isr.maximal)
        ]
        if isinstance(isr, Pending):
            times.append(isr.resend_at)
        elif is_settled:
            times += [
                follower.join_after
                for follower in self._followers.values()
                if follower.broker_id not in isr.isr
                and follower.join_after < UNTIL_IT_FETCHES
                and self._may_join(follower, follower.join_after)
            ]
        if self.hand_over is not None:
            hand_over_at = self._hand_over_deadline()
            if hand_over_at is not None:
                times.append(hand_over_at)
        return min(times, default=None)

    def expire(self, now: float) -> list[LeaderEffect]:
        """The time is `deadline` or later."""
        effects: list[LeaderEffect] = []
        isr = self.isr
        if isinstance(isr, Committed):
            lagging = [
                follower.broker_id
                for follower in self._holders
                if follower.broker_id in isr.isr
                and not follower.is_caught_up(self.log_end_offset, self.lag_time_max_s, now)
            ]
            if lagging:
                self._shrink(lagging, effects, now)
        elif now >= isr.resend_at:
            self.isr = isr._replace(resend_at=now + ANSWER_TIME_MAX_S, attempts=isr.attempts + 1)
            effects.append(isr.proposal)
        self._settle(effects, now)
        return effects

    # --- hand-over (the module's second table) ---------------------------------------------------

    def retire(self, now: float) -> list[LeaderEffect]:
        """This broker wants to stop: hand over to a follower as soon as one can lead."""
        self.is_retiring = True
        effects: list[LeaderEffect] = []
        self._go_on_handing_over(effects, now)
        return effects

    def _go_on_handing_over(self, effects: list[LeaderEffect], now: float) -> None:
        candidates = self._candidates()
        state = self.hand_over
        if isinstance(state, Frozen):
            chosen = [one for one in candidates if one.broker_id == state.next_leader]
            self._go_on_frozen(state, chosen[0] if chosen else None, effects, now)
        elif not candidates:
            self.hand_over = None
        else:
            follower = max(candidates, key=lambda one: one.fetch_offset)
            if state is not None and now < state.not_before:
                return
            self.hand_over = Approaching(LONG_AGO)  # its fetches will show when it is near
            if isinstance(self.isr, Committed) and self._is_near(follower, now):
                self.is_frozen = True
                self.hand_over = Frozen(follower.broker_id, now + FREEZE_TIME_MAX_S)
                effects.append(Freeze(follower.broker_id))
                self._go_on_frozen(self.hand_over, follower, effects, now)

    def _go_on_frozen(
        self,
        state: Frozen,
        follower: FollowerProgress | None,
        effects: list[LeaderEffect],
        now: float,
    ) -> None:
        isr = self.isr
        is_given_up = follower is None or now >= state.until
        if isinstance(isr, Pending):
            if is_given_up and isr.proposal.leader == state.next_leader:
                self._propose(isr.isr, effects, now, leader=self.node_id)
        elif is_given_up:
            self.is_frozen = False
            self.hand_over = Approaching(now + PAUSE_S)
            effects.append(Thaw())
        elif follower is not None and follower.fetch_offset >= self.log_end_offset:
            self._propose(isr.isr, effects, now, leader=state.next_leader)

    def _hand_over_deadline(self) -> float | None:
        """When the hand-over has to go on without another event."""
        state, isr = self.hand_over, self.isr
        if isinstance(state, Frozen):
            if isinstance(isr, Pending) and isr.proposal.leader != state.next_leader:
                return None
            return state.until
        if not isinstance(state, Approaching) or isinstance(isr, Pending):
            return None
        return state.not_before if state.not_before != LONG_AGO else None

    def _candidates(self) -> list[FollowerProgress]:
        """The followers that may lead next: the one asked for, or else any in-sync one."""
        wanted: tuple[int, ...] = ()
        if self.next_leader != NO_LEADER:
            wanted = (self.next_leader,)
        elif self.is_retiring:
            wanted = self.isr.isr
        return [
            follower
            for follower in self._followers.values()
            if follower.broker_id in wanted
            and follower.broker_id in self.isr.isr
            and self._is_eligible(follower)
        ]

    def _is_near(self, follower: FollowerProgress, now: float) -> bool:
        return follower.fetch_offset != UNKNOWN_OFFSET and (
            follower.fetch_offset >= self.log_end_offset
            or now < follower.last_caught_up_at + NEAR_S
        )

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
        """Let every follower join that may: on an idle partition the next fetch may be far off."""
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
            for broker_id in leaving:
                self._followers[broker_id].join_after = UNTIL_IT_FETCHES
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

    def _settle(self, effects: list[LeaderEffect], now: float) -> None:
        """Carry out what follows from any change other than a follower's position."""
        self._find_holders(now)
        self._advance(effects)
        self._go_on_handing_over(effects, now)
        self._let_join(effects, now)
