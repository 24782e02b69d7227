"""Figures with their spread, from the measures of rounds, compared with their targets."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from .workload import Figure, Round, Workload


@dataclass(frozen=True)
class Spread:
    """A figure over all rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of at least one value.

        Raises:
            ValueError: there is no value.
        """
        if not values:
            raise ValueError("no round was measured; use at least one")
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True)
class Measured:
    """A figure with its spread; `is_met` is None where there is no target."""

    figure: Figure
    spread: Spread
    is_met: bool | None


@dataclass(frozen=True, kw_only=True)
class Result:
    """A workload's outcome.

    Attributes:
        workload: what ran.
        seconds: how long all of it took.
        rounds: the measures of every round, in order.
        figures: one for each of the workload's.
        error: why it did not finish, or None.
        others_cpus: processors that were busy with work that was not ours, on average.
        longest_turn: the longest turn of a broker's event loop, in its own words; "" if none ran.
    """

    workload: Workload
    seconds: float
    rounds: Sequence[Round] = ()
    figures: Sequence[Measured] = field(default_factory=tuple)
    error: str | None = None
    others_cpus: float = 0.0
    longest_turn: str = ""

    @property
    def is_met(self) -> bool:
        """Whether it finished and reached its targets."""
        if self.error is not None:
            return False
        choice = [
            one.is_met for one in self.figures if one.figure.name in self.workload.one_is_enough
        ]
        required = [
            one.is_met
            for one in self.figures
            if one.is_met is not None and one.figure.name not in self.workload.one_is_enough
        ]
        return all(required) and (not choice or True in choice)


def judge(workload: Workload, rounds: Sequence[Round]) -> tuple[Measured, ...]:
    """Compute every figure over the rounds and compare its median with its target.

    Raises:
        KeyError: a figure names a measure that a round lacks.
        ValueError: there are no rounds.
    """
    measured: list[Measured] = []
    for figure in workload.figures:
        spread = Spread.of([figure.value(measures) for measures in rounds])
        is_met = figure.is_met_by(spread.median) if figure.has_target else None
        measured.append(Measured(figure, spread, is_met))
    return tuple(measured)
