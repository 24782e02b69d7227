"""Runs real processes beside the simulation.

Real processes wait most of the time (for an election, for a session to expire), so they cost the
simulation little. Only where times are measured the machine has to be quiet.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Protocol

from .runner import EngineResult, Interrupted, Progressed


class Beside:
    """What the two share: progress, and when one has to wait or to end."""

    def __init__(self) -> None:
        self._may_go_on = Event()
        self._is_over = False
        self._text = ""

    # --- for the real processes ------------------------------------------------------------------

    def progressed(self, done: int, total: int, _text: str) -> None:
        """Some cells are done.

        Raises:
            KeyboardInterrupt: the others are not to be run.
        """
        self._text = f"{done} of {total} with real processes"
        self._leave_if_over()

    def wait_until_quiet(self) -> None:
        """Return when the simulation has ended.

        Raises:
            KeyboardInterrupt: it was interrupted.
        """
        self._may_go_on.wait()
        self._leave_if_over()

    def _leave_if_over(self) -> None:
        if self._is_over:
            raise KeyboardInterrupt

    # --- for the simulation ----------------------------------------------------------------------

    def added_to(self, progressed: Progressed) -> Progressed:
        """The progress of the simulation, with that of the real processes as its text."""
        return lambda done, total, _text: progressed(done, total, self._text)

    def simulation_has_ended(self) -> None:
        """The machine is quiet."""
        self._may_go_on.set()

    def end(self) -> None:
        """Have the real processes end after the cell that they are running."""
        self._is_over = True
        self._may_go_on.set()


class RunBeside(Protocol):
    """Runs one of the two engines."""

    def __call__(self, *, beside: Beside) -> EngineResult:
        """Run it; the result may be of a part, when `Interrupted` is raised."""
        ...


def run_side_by_side(
    simulation: RunBeside, processes: RunBeside, results: list[EngineResult]
) -> None:
    """Run both; the real processes in a thread.

    Args:
        simulation: runs in this thread.
        processes: runs in another one.
        results: gets those of the simulation, then those of the real processes.

    Raises:
        Interrupted: Ctrl-C; it has what the real processes came to. What the simulation came to
            is in `results`.
    """
    beside = Beside()
    with ThreadPoolExecutor(1) as thread:
        real = thread.submit(processes, beside=beside)
        try:
            results.append(simulation(beside=beside))
        except Interrupted as interrupted:
            results.append(interrupted.found)
            raise _ended(real, beside) from None
        except BaseException:
            beside.end()
            raise
        beside.simulation_has_ended()
        try:
            results.append(real.result())
        except KeyboardInterrupt:
            raise _ended(real, beside) from None


def _ended(real: Future[EngineResult], beside: Beside) -> Interrupted:
    """What the real processes came to until they were told to end."""
    beside.end()
    try:
        return Interrupted(real.result())
    except Interrupted as interrupted:
        return interrupted
