"""From a scenario that shows something to a small one that shows it, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

from .engine import Engine, Run
from .scenario import Scenario

SEEDS_TRIED = 50
"""Small seeds that `shrink` looks at."""


def shows(what: str) -> Callable[[Run], bool]:
    """Whether a run shows something.

    Args:
        what: a member of `Counts`, such as ``lost``.
    """
    return lambda run: getattr(run.counts, what) > 0


def shrink(
    engine: Engine, scenario: Scenario, is_shown: Callable[[Run], bool], *, seeds: int = SEEDS_TRIED
) -> Run:
    """Find the fewest strikes that show something, and then the smallest seed that needs no more.

    Strikes are numbered by their drawing (`Scenario.kept`). A seed below `seeds` takes the place of
    the scenario's if it shows the same with as few strikes.

    Args:
        engine: one that repeats its runs.
        scenario: it shows it.
        is_shown: what it shows, such as `shows("lost")`.
        seeds: how many small seeds are tried.

    Returns:
        The run of the small scenario.

    Raises:
        ValueError: the scenario does not show it.
        AssertionError: from `Engine.run`.
    """
    first = engine.run(scenario)
    if not is_shown(first):
        raise ValueError(f"{scenario} does not show it")
    small = _with_fewest(engine, first, is_shown, len(first.faults))
    for seed in range(min(seeds, scenario.seed)):
        if not small.faults:
            break  # it needs no strike at all
        other = engine.run(Scenario(scenario.cell, seed))
        if is_shown(other):
            found = _with_fewest(engine, other, is_shown, len(small.faults))
            if len(found.faults) <= len(small.faults):
                return found
    return small


def _with_fewest(engine: Engine, run: Run, is_shown: Callable[[Run], bool], most: int) -> Run:
    """The run with the fewest of its strikes, at most `most`; itself if it needs all or more."""
    for kept in _choices(sorted(run.faults), min(most, len(run.faults) - 1)):
        smaller = engine.run(run.scenario._replace(kept=kept))
        if is_shown(smaller):
            return smaller
    return run


def _choices(numbers: list[int], most: int) -> Iterator[tuple[int, ...]]:
    """All choices of numbers, the small ones first."""
    for size in range(most + 1):
        yield from combinations(numbers, size)
