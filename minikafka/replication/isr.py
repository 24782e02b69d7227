"""The in-sync replicas as the leader knows them: committed, or being changed (KIP-497).

Only the controller changes the ISR. While a proposal is in flight either ISR may be the current
one, so a record is committed when *every* replica has it that may be in the ISR: the maximal ISR.
Any replica that is elected then has every committed record, whatever the controller decided.

A proposal ends with the next partition epoch: by its acceptance, or by the metadata log. A refusal
alone ends nothing, as a copy of the proposal may still be in flight. A proposal that cannot
succeed is therefore *withdrawn*: the leader proposes the committed ISR, which the controller
records like any other change, with the next partition epoch.
"""

from __future__ import annotations

from typing import NamedTuple

from .effects import ProposeIsr

__all__ = ["Committed", "IsrState", "Pending"]


class Committed(NamedTuple):
    """No proposal is in flight."""

    isr: tuple[int, ...]

    @property
    def maximal(self) -> tuple[int, ...]:
        """Every replica that may be in the ISR."""
        return self.isr


class Pending(NamedTuple):
    """A proposal is in flight.

    Attributes:
        isr: From the metadata log.
        maximal: ``isr`` and all replicas that were proposed for this partition epoch.
        proposal: The last one.
        resend_at: When to resend it without an answer.
        attempts: How often it was sent.
    """

    isr: tuple[int, ...]
    maximal: tuple[int, ...]
    proposal: ProposeIsr
    resend_at: float
    attempts: int


IsrState = Committed | Pending
