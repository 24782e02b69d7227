"""Figures with their spread, from the measures of rounds, compared with their targets."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .workload import Figure, Plot, Round, Workload


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


@dataclass(frozen=True)
class Drawn:
    """A plot with the spreads of its points; a series of which nothing was measured is left out."""

    plot: Plot
    series: Mapping[str, Sequence[tuple[float | str, Spread]]]


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
        missing: figures that were not measured because a peer is not here, with the reason.
        plots: those of the workload that have a point.
        notes: what else there is to say about the run.
    """

    workload: Workload
    seconds: float
    rounds: Sequence[Round] = ()
    figures: Sequence[Measured] = field(default_factory=tuple)
    error: str | None = None
    others_cpus: float = 0.0
    longest_turn: str = ""
    missing: Sequence[tuple[Figure, str]] = ()
    plots: Sequence[Drawn] = ()
    notes: Sequence[str] = ()

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


def judge(
    workload: Workload, rounds: Sequence[Round], absent: Mapping[str, str] | None = None
) -> tuple[Measured, ...]:
    """Compute every figure over the rounds and compare its median with its target.

    Args:
        workload: whose figures.
        rounds: the measures of each round.
        absent: peers that are not here, by name; figures that need one are left out. The name of
            a peer's measure begins with the name of the peer.

    Raises:
        KeyError: a figure names a measure that a round lacks.
        ValueError: there are no rounds.
    """
    measured: list[Measured] = []
    for figure in workload.figures:
        if absent and absent_for(workload, figure, absent) is not None:
            continue
        spread = Spread.of([figure.value(measures) for measures in rounds])
        is_met = figure.is_met_by(spread.median) if figure.has_target else None
        measured.append(Measured(figure, spread, is_met))
    return tuple(measured)


def absent_for(workload: Workload, figure: Figure, absent: Mapping[str, str]) -> str | None:
    """The absent peer without which a figure of a workload cannot be measured, if there is one."""
    for peer in absent:
        if peer in workload.needs or any(one.startswith(peer) for one in figure.measures):
            return peer
    return None


def missing_figures(
    workload: Workload, absent: Mapping[str, str]
) -> tuple[tuple[Figure, str], ...]:
    """The figures that need a peer that is not here, each with the peer and the reason."""
    found: list[tuple[Figure, str]] = []
    for figure in workload.figures:
        peer = absent_for(workload, figure, absent)
        if peer is not None:
            found.append((figure, f"{peer}: {absent[peer]}"))
    return tuple(found)


def draw(workload: Workload, rounds: Sequence[Round]) -> tuple[Drawn, ...]:
    """The workload's plots, with the points that were measured in every round."""
    found: list[Drawn] = []
    for plot in workload.plots:
        series: dict[str, list[tuple[float | str, Spread]]] = {}
        for name, points in plot.series.items():
            for position, measure in points:
                values = [measures[measure] for measures in rounds if measure in measures]
                if values and len(values) == len(rounds):
                    series.setdefault(name, []).append((position, Spread.of(values)))
        if series:
            found.append(Drawn(plot, series))
    return tuple(found)
