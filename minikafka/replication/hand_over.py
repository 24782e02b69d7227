"""How a leader hands its partition over, so that a planned move loses nothing (KAFKA-20554).

The controller never takes the lead from a leader that lives: it asks, by naming a ``next_leader``
in the partition; or the leader itself wants to stop and chooses a member of the ISR (`retire`). See
`minikafka.metadata.elections` for the controller's part.

===========  ===========================================  =========================================
state        event                                        then
===========  ===========================================  =========================================
None         asked, or retiring with somebody to follow   Approaching
Approaching  the next leader has nearly everything        freeze -> Frozen
Approaching  nobody is asked for any more                 None
Frozen       it has everything                            propose it as leader; still Frozen
Frozen       its time is over, or it may not lead         thaw -> Approaching, after a pause
Frozen       the same, but it was proposed                propose oneself as leader; still Frozen
Frozen       the metadata log has a newer state           what was proposed is forgotten
===========  ===========================================  =========================================

Frozen means that nothing is appended: the next leader then has everything this one ever
acknowledged, and begins where this log ends. Once the change is proposed, a record that is
appended may be lost with it, whatever answer comes: so the leader thaws only with the next
partition epoch, in which the old proposal is worth nothing. To get there it proposes itself.
"""

from __future__ import annotations

from typing import Final

from .effects import NO_LEADER, Freeze, LeaderEffect, Thaw
from .isr import Committed, Pending
from .leader_state import Approaching, Frozen, LeaderState
from .progress import LONG_AGO, UNKNOWN_OFFSET, FollowerProgress

__all__ = ["FREEZE_TIME_MAX_S", "HandingOver"]

FREEZE_TIME_MAX_S: Final = 1.0
"""How long producers wait for a hand-over at most, if it can be given up."""

PAUSE_S: Final = 1.0
"""How long a leader waits after a hand-over that came to nothing."""

NEAR_S: Final = 0.5
"""A next leader has nearly everything when it had everything so long ago."""


class HandingOver(LeaderState):
    """The part of a leader that hands over."""

    __slots__ = ()

    def retire(self, now: float) -> list[LeaderEffect]:
        """This broker wants to stop: let somebody else lead, as soon as somebody can."""
        self.is_retiring = True
        effects: list[LeaderEffect] = []
        self._go_on_handing_over(effects, now)
        return effects

    def _go_on_handing_over(self, effects: list[LeaderEffect], now: float) -> None:
        """Do what can be done now."""
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
            self.hand_over = Approaching(LONG_AGO)  # from here on its fetches show when it is near
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
        """When there is something to do without news."""
        state, isr = self.hand_over, self.isr
        if isinstance(state, Frozen):
            if isinstance(isr, Pending) and isr.proposal.leader != state.next_leader:
                return None
            return state.until
        if not isinstance(state, Approaching) or isinstance(isr, Pending):
            return None
        return state.not_before if state.not_before != LONG_AGO else None

    def _candidates(self) -> list[FollowerProgress]:
        """Find who may lead next: whoever is asked for, else anybody in sync."""
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
