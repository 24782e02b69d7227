"""What a run of one seed gives: an outcome, or a failure that says how to repeat it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

from minikafka.lab.simulation.kit.invariants import InvariantViolated


class SimulationFailed(AssertionError):
    """A run broke an invariant; the text ends with its trace and how to repeat it.

    Attributes:
        seed: of the run.
        name: of the invariant; "crash" when something raised an exception.
    """

    def __init__(self, module: str, seed: int, name: str, text: str, trace: str) -> None:
        what = f"seed {seed}: {name}: {text}"
        super().__init__(
            f"{what}\n{trace}\n{what}\nrepeat it: python -m {module} --first {seed} --seeds 1"
        )
        self.seed = seed
        self.name = name


@contextmanager
def traced(module: str, seed: int, trace: Callable[[], str]) -> Generator[None]:
    """Let whatever fails say how to repeat it.

    Raises:
        SimulationFailed: an invariant does not hold, or something crashed.
    """
    try:
        yield
    except Exception as error:
        reason = _reason_of(error)
        name, text = "crash", repr(reason)
        if isinstance(reason, InvariantViolated):
            name, text = reason.name, reason.text
        raise SimulationFailed(module, seed, name, text, trace()) from error


def _reason_of(error: BaseException) -> BaseException:
    """The broken invariant, or what was raised first, out of groups and causes."""
    while not isinstance(error, InvariantViolated):
        if isinstance(error, BaseExceptionGroup):
            error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
        elif error.__cause__ is not None:
            error = error.__cause__
        else:
            break
    return error


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did.

    Attributes:
        seed: of the run.
        simulated_s: how much time passed in it.
        counts: how often what happened, by name.
        trace: gives what happened, which a run repeats line by line.
        faults: how often what went wrong.
        steps: a hash of every step, where a run has more of them than its trace has lines.
    """

    seed: int
    simulated_s: float
    counts: Counter[str]
    trace: Callable[[], str]
    faults: Counter[str] = field(default_factory=Counter[str])
    steps: str = ""

    @property
    def fingerprint(self) -> str:
        """A hash of what happened."""
        return self.steps or hashlib.sha256(self.trace().encode()).hexdigest()
