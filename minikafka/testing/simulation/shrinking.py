"""Makes the schedule of a failing run as small as it goes, by running parts of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from .running import Report
from .schedule import Fault, KillProcess, PauseProcess, lasting

_SHORTENINGS_MAX: Final = 2


def shrink(report: Report, *, runs_max: int = 30) -> Report:
    """Look for fewer and shorter faults with which a run still fails in the same way.

    The program's time gets shorter with them: everything is healed when the last fault is over.

    Args:
        report: of the run that failed.
        runs_max: how many runs it may take.

    Returns:
        The report of the smallest run that failed.
    """
    if report.is_good:
        return report
    search = _Search(report, runs_max)
    if not search.fails(()):
        search.cut_the_end()
        search.remove()
        search.shorten()
    best = search.best
    story = (
        f"{best.story}\nseed {best.seed} with {len(best.faults)} of its {len(report.faults)} "
        f"faults, after {search.runs} more runs:"
    )
    return replace(best, story="\n".join([story, *(f"  {one!r}," for one in best.faults)]))


class _Search:
    """Schedules that were tried, and the smallest that failed."""

    def __init__(self, report: Report, runs_max: int) -> None:
        self.best = report
        self.runs = 0
        self._kind = report.violations[0].kind
        self._runs_max = runs_max

    def fails(self, faults: Sequence[Fault]) -> bool:
        if self.runs >= self._runs_max:
            return False
        self.runs += 1
        found = self.best.conditions.run(self.best.seed, faults)
        if found.is_good or found.violations[0].kind != self._kind:
            return False
        self.best = found
        return True

    def cut_the_end(self) -> None:
        """Find how many of the first faults are enough; mostly those after the harm matter not."""
        faults = self.best.faults
        too_few, enough = 0, len(faults)
        while enough - too_few > 1:
            middle = (too_few + enough) // 2
            if self.fails(faults[:middle]):
                enough = middle
            else:
                too_few = middle

    def remove(self) -> None:
        """Take away what is not needed: most of it at once, or piece by piece (ddmin)."""
        faults = self.best.faults
        of_processes = [one for one in faults if isinstance(one, KillProcess | PauseProcess)]
        others = [one for one in faults if one not in of_processes]
        for some in (faults[-1:], of_processes, others):
            if 0 < len(some) < len(faults) and self.fails(some):
                break
        size = (len(self.best.faults) + 1) // 2
        while size and len(self.best.faults) > 1:
            faults = self.best.faults
            has_shrunk = False
            for start in range(0, len(faults), size):
                rest = (*faults[:start], *faults[start + size :])
                if rest and self.fails(rest):
                    has_shrunk = True
                    break
            if not has_shrunk:
                size //= 2

    def shorten(self) -> None:
        """Let each fault last half as long, as often as it still fails."""
        for index in range(len(self.best.faults)):
            for _ in range(_SHORTENINGS_MAX):
                faults = [*self.best.faults]
                for_s = round(faults[index].for_s / 2, 2)
                faults[index] = lasting(faults[index], for_s)
                if not for_s or not self.fails(faults):
                    break
