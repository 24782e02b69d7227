"""Guards that are broken on purpose: a simulation has to notice each of them.

A simulation that needs more seeds for one than its mutant says has become weaker.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from minikafka.lab.simulation.kit.run import SimulationFailed

Replacement = tuple[Any, str, Any]
"""Owner, attribute, and what takes its place."""


class Mutant(NamedTuple):
    """A broken guard.

    Attributes:
        name: what it does.
        seeds: how many are enough to notice it.
        replacements: what is replaced by what.
        first: the first of the seeds, where many would be needed.
        plan: what the runs are like, where the simulation has plans.
    """

    name: str
    seeds: int
    replacements: tuple[Replacement, ...]
    first: int = 0
    plan: Any = None

    @contextmanager
    def applied(self) -> Generator[None]:
        """Break it for a while."""
        with ExitStack() as stack:
            for owner, attribute, replacement in self.replacements:
                stack.enter_context(patch.object(owner, attribute, replacement))
            yield

    def caught(self, run_seed: Callable[[int], object]) -> SimulationFailed:
        """How a simulation notices it.

        Raises:
            AssertionError: it does not, in as many seeds as should be enough.
        """
        with self.applied():
            for seed in range(self.first, self.first + self.seeds):
                try:
                    run_seed(seed)
                except SimulationFailed as error:
                    return error
        raise AssertionError(f"{self.seeds} seeds do not notice: {self.name}")


def always(answer: Any) -> Callable[..., Any]:
    """A function that returns the same whatever it is asked."""
    return lambda *_, **__: answer
