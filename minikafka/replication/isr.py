"""The in-sync replicas as the leader knows them: committed, or being changed (KIP-497).

Only the controller changes the ISR. While a proposal is on its way nobody knows which ISR counts,
so a record is committed when *every* replica has it that may be in the ISR: the maximal ISR.
Whoever is elected has then seen every committed record, whatever the controller decided.

A proposal ends with the next partition epoch: by its acceptance, or by the metadata log. A refusal
alone ends nothing, as a copy of the proposal may still be on its way. A proposal that cannot
succeed is therefore *withdrawn*: the leader proposes the committed ISR itself, which the
controller records like any other change, with the next partition epoch.
"""

from __future__ import annotations

from typing import NamedTuple

from .effects import ProposeIsr

__all__ = ["Committed", "IsrState", "Pending"]


class Committed(NamedTuple):
    """No proposal is on its way."""

    isr: tuple[int, ...]

    @property
    def maximal(self) -> tuple[int, ...]:
        """Everybody who may be in the ISR."""
        return self.isr


class Pending(NamedTuple):
    """A proposal is on its way.

    Attributes:
        isr: What the metadata log says.
        maximal: Those, and all that were proposed for this partition epoch.
        proposal: What was proposed last.
        resend_at: When to send it again if no answer comes.
        attempts: How often it was sent.
    """

    isr: tuple[int, ...]
    maximal: tuple[int, ...]
    proposal: ProposeIsr
    resend_at: float
    attempts: int


IsrState = Committed | Pending
