"""The leader's side of a replicated partition: high watermark and in-sync replicas.

One `LeaderReplica` per partition that this broker leads; made when the metadata log says so,
thrown away when it says otherwise. Offsets and the time go in, effects come out; it does no I/O.

What is committed. A record is committed when every replica in the *maximal* ISR (see `isr`) has
it and the ISR has at least min.insync.replicas members (KIP-966; no more than there are replicas,
as in Kafka). The high watermark is the end of what is committed; it never goes back. A new leader
does not know how far its predecessor's was: its own stays until the ISR has fetched up to where
its epoch began, which is at or behind everything that was ever committed.

Which positions count. A fetch at offset n says: I have everything below n. It counts when the
fetch names this leader epoch and continues this log (`divergence`; both checked by the caller
first), and comes from the follower's present life: an older broker epoch is refused (KIP-903). A
new leader epoch forgets all positions.

Who is in sync. A follower joins the ISR when its position has reached the high watermark and the
start of this epoch (KAFKA-7128: below it, it may still hold what no leader has), and it is
eligible: not fenced, not shutting down, the same broker epoch (KIP-841). A follower that keeps up
but is not in the ISR yet holds the high watermark back a little: on a busy partition it would
never reach it otherwise. A member leaves that has not had everything for ``lag_time_max_s``; and
at once when it fetches below the high watermark, for then it has lost records.

===========  =======================================  ============================================
state        event                                    then
===========  =======================================  ============================================
Committed    a follower may join, or members lag      propose -> Pending
Pending      isr_accepted, image_changed              Committed with the next partition epoch
Pending      isr_refused: INELIGIBLE_REPLICA          propose the committed ISR (withdraw), Pending
Pending      isr_refused: anything else               send the same again after a while, Pending
Pending      no answer                                send the same again, Pending
both         image_changed: next leader epoch         begin the epoch, forget positions, Committed
both         older epochs, answers to other proposals nothing
===========  =======================================  ============================================

"Anything else" includes INVALID_UPDATE_VERSION, FENCED_LEADER_EPOCH and NEW_LEADER_ELECTED: the
metadata log has the truth and will bring it. Asking again meanwhile cannot harm, and it helps when
the answer came from a controller that was one no more (KAFKA-14144, KAFKA-14154).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from minikafka.protocol.errors import ErrorCode

from .effects import NO_LEADER, AdvanceHighWatermark, BeginEpoch, LeaderEffect, ProposeIsr
from .hand_over import HandingOver
from .isr import Committed, Pending
from .leader_state import ANSWER_TIME_MAX_S
from .progress import UNKNOWN_EPOCH, FollowerProgress

__all__ = ["LeaderReplica", "ReplicaFetchRefused"]

RETRY_TIME_MIN_S: Final = 0.05
RETRY_TIME_MAX_S: Final = 1.0
"""A refused proposal is sent again after RETRY_TIME_MIN_S; each time twice that, up to this."""

JOIN_RETRY_TIME_S: Final = 0.5
"""A join that the controller refused is not proposed again for so long."""


# Half the price of the class's own constructor.
_new: Final = cast(
    "Callable[[type[AdvanceHighWatermark], tuple[int]], AdvanceHighWatermark]", tuple[int].__new__
)


class ReplicaFetchRefused(Exception):
    """A fetch that says nothing about a follower's log; carries Kafka's error code."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


class LeaderReplica(HandingOver):
    """A partition's leader. Times are seconds of any monotonic clock.

    Call `begin` first. All methods return effects to carry out in order, before the next call.
    """

    __slots__ = ()

    # --- the log ---------------------------------------------------------------------------------

    def begin(self, now: float) -> list[LeaderEffect]:
        """Begin to lead: the epoch has to be stored before anything is served."""
        effects: list[LeaderEffect] = [BeginEpoch(self.leader_epoch, self.epoch_start_offset)]
        self._settle(effects, now)
        return effects

    def appended(self, log_end_offset: int, now: float) -> list[LeaderEffect]:
        """The log has got records and ends at ``log_end_offset``."""
        if self._is_alone and log_end_offset > self.high_watermark:
            # The only replica, on every append: nothing is asked that cannot be otherwise.
            self.log_end_offset = self._own_offset = self.high_watermark = log_end_offset
            return [_new(AdvanceHighWatermark, (log_end_offset,))]
        if not self.is_sync_counted:
            self._own_offset = log_end_offset
        before = self.log_end_offset
        for follower in self._followers.values():
            if follower.fetch_offset >= before:
                follower.last_caught_up_at = now  # it has waited for these records
        self.log_end_offset = log_end_offset
        if self._holders:
            return []  # some of them would have to have the records before their leader has
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
        """Find out whether a fetch is to be answered at all.

        Raises:
            ReplicaFetchRefused: it is no replica, or an older life of one.
        """
        follower = self._followers.get(broker_id)
        if follower is None:
            raise ReplicaFetchRefused(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {broker_id} is not one of the replicas {self.replicas}; if it is to be "
                "one, this leader does not know yet",
            )
        known = max(follower.broker_epoch, self._brokers.epochs.get(broker_id, UNKNOWN_EPOCH))
        if broker_epoch < known:
            raise ReplicaFetchRefused(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {broker_id} fetches with broker epoch {broker_epoch}, it has {known} now",
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
        """A follower fetched, in this leader epoch, and continues this log.

        Args:
            broker_id: The follower.
            broker_epoch: Of its registration.
            fetch_offset: It has everything below; with ``is_sync_counted``, on its disk.
            log_start_offset: Where its log begins.
            now: The time.

        Raises:
            ReplicaFetchRefused: see `check_follower`.
        """
        follower = self.check_follower(broker_id, broker_epoch)
        follower.fetched(broker_epoch, fetch_offset, log_start_offset, self.log_end_offset, now)
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
        """A broker that is a replica here was fenced, unfenced or registered."""
        effects: list[LeaderEffect] = []
        self._settle(effects, now)
        return effects

    # --- what the controller says ----------------------------------------------------------------

    def isr_refused(
        self, proposal: ProposeIsr, error_code: ErrorCode, now: float
    ) -> list[LeaderEffect]:
        """The controller refused a proposal, or it is not known whether it arrived.

        Args:
            proposal: The effect.
            error_code: Kafka's; any retriable one when nobody answered.
            now: The time.
        """
        isr = self.isr
        effects: list[LeaderEffect] = []
        if not isinstance(isr, Pending) or isr.proposal != proposal:
            return effects
        if error_code is ErrorCode.INELIGIBLE_REPLICA and proposal.leader != self.node_id:
            for follower in self._followers.values():
                if follower.broker_id not in isr.isr:
                    follower.join_after = now + JOIN_RETRY_TIME_S
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
        """The metadata log changed the partition, and this broker still leads it.

        Call it in the order of the log, and `configure` for settings that came before.
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
        """When `expire` has something to do, None for never."""
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

    def _settle(self, effects: list[LeaderEffect], now: float) -> None:
        """Something changed that is not a follower's position: see what follows from it."""
        self._find_holders(now)
        self._advance(effects)
        self._go_on_handing_over(effects, now)
        self._let_join(effects, now)
