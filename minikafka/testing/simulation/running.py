"""Runs a program once, and makes a report of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final, cast

import trio
import trio.testing

from . import ambient, life, observing, trace
from .cluster import Program, ProgramFailed, Run
from .judging import Guarantee, Violation, judge
from .machines import SETTINGS
from .schedule import Fault, Faults
from .story import story_of

Setting = str | int | float | bool

DEFAULT_FAULTS: Final = Faults()


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a run.

    Attributes:
        seed: of the run.
        faults: what went wrong, as a schedule that can be run again.
        violations: what should not have happened; empty when all is well.
        story: what happened, for people; in a run that failed, also to the record concerned.
        fingerprint: equal for runs that did the same, step by step.
        simulated_s: how much time passed in it.
        counts: records ``sent``, ``acknowledged``, ``consumed`` and ``processed``.
        conditions: what was run, for `shrink`.
    """

    seed: int
    faults: tuple[Fault, ...]
    violations: tuple[Violation, ...]
    story: str
    fingerprint: str
    simulated_s: float
    counts: Mapping[str, int]
    conditions: Conditions = field(repr=False, compare=False)

    @property
    def is_good(self) -> bool:
        """Whether everything that was claimed holds."""
        return not self.violations

    def __str__(self) -> str:
        return self.story


@dataclass(frozen=True, slots=True)
class Conditions:
    """A program, what it claims, and the settings of its brokers."""

    program: Program
    guarantee: Guarantee
    in_order: bool
    settings: Mapping[str, Setting]

    def run(self, seed: int, faults: Faults | Sequence[Fault]) -> Report:
        """Run it once."""
        played = Run(
            self.program,
            seed,
            faults,
            (*SETTINGS, *(f"{name}={_text(value)}" for name, value in self.settings.items())),
            waits_for_all=self.guarantee != "at_most_once",
        )
        failure = _play(played)
        if failure is None:
            violations = judge(played, self.guarantee, in_order=self.in_order)
        else:
            violations = [Violation("crash", str(failure))]
        return self._report(played, violations)

    def _report(self, played: Run, violations: Sequence[Violation]) -> Report:
        seen = played.seen
        counts = {
            "sent": len(seen.sent),
            "acknowledged": sum(one.fate is observing.Fate.DONE for one in seen.sent),
            "consumed": len(seen.consumed),
            "processed": len(seen.processed),
        }
        return Report(
            played.seed,
            tuple(played.schedule),
            tuple(violations),
            story_of(played, violations),
            played.trace.fingerprint,
            round(played.ended_at_s - played.begun_at_s, 3),
            counts,
            self,
        )


def _play(played: Run) -> ProgramFailed | None:
    """Play it in a world of its own; returns how the program failed, if it did."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    with ExitStack() as stack:
        stack.enter_context(ambient.simulated(played.seed))
        stack.enter_context(life.stoppable())
        stack.enter_context(observing.observed(played.seen))
        stack.enter_context(trace.seeded(played.seed, played.trace))
        try:
            trio.run(played.play, clock=clock, instruments=[played.trace])
        except BaseException as error:
            failure = _failure_in(error)
            if failure is None:
                raise
            return failure
    return None


def _failure_in(error: BaseException) -> ProgramFailed | None:
    """The program's own failure, out of the groups of nurseries."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        found = (_failure_in(one) for one in group.exceptions)
        return next((one for one in found if one is not None), None)
    return error if isinstance(error, ProgramFailed) else None


def _text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def run(
    program: Program,
    *,
    seed: int = 0,
    faults: Faults | Sequence[Fault] = DEFAULT_FAULTS,
    guarantee: Guarantee = "at_least_once",
    in_order: bool = True,
    settings: Mapping[str, Setting] | None = None,
) -> Report:
    """Run a program once against three simulated brokers, and judge what it did.

    Args:
        program: a trio function, called with a `Cluster`. It makes topics and starts processes.
        seed: everything that happens follows from it.
        faults: how they are drawn from the seed; or a schedule, such as that of a report.
        guarantee: what the program claims: how often each record has its effect.
        in_order: whether it claims as well to process each partition in its order.
        settings: of the brokers, by Kafka's names.
    """
    return Conditions(program, guarantee, in_order, settings or {}).run(seed, faults)
