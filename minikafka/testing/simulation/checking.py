"""Looks for a seed that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from .cluster import Program
from .judging import Guarantee
from .running import DEFAULT_FAULTS, Report, Setting, run
from .schedule import Fault, Faults
from .shrinking import shrink


class SimulationFailed(AssertionError):
    """A guarantee does not hold; the text is the story of a run that shows it.

    Attributes:
        report: of that run, with as few faults as were found to be enough.
    """

    def __init__(self, report: Report) -> None:
        super().__init__(report.story)
        self.report = report


def check(
    program: Program,
    *,
    seeds: int | Iterable[int] = 20,
    faults: Faults | Sequence[Fault] = DEFAULT_FAULTS,
    guarantee: Guarantee = "at_least_once",
    in_order: bool = True,
    settings: Mapping[str, Setting] | None = None,
    on_run: Callable[[Report], object] | None = None,
) -> None:
    """Run a program with many seeds; the first that fails is shrunk, and told.

    Args:
        program: see `run`, as for all that is not explained here.
        seeds: how many (0, 1, 2, ...), or which.
        faults: see `run`.
        guarantee: see `run`.
        in_order: see `run`.
        settings: see `run`.
        on_run: called with the report of each run.

    Raises:
        SimulationFailed: a run violates the guarantee.
    """
    for seed in range(seeds) if isinstance(seeds, int) else seeds:
        report = run(
            program,
            seed=seed,
            faults=faults,
            guarantee=guarantee,
            in_order=in_order,
            settings=settings,
        )
        if on_run is not None:
            on_run(report)
        if not report.is_good:
            raise SimulationFailed(shrink(report))
