"""Real processes run beside the simulation, and measure times when it has ended."""

from __future__ import annotations

from threading import Event

import pytest

from minikafka.lab.runner import EngineResult, Interrupted, interruptible
from minikafka.lab.side_by_side import Beside, run_side_by_side

SIMULATION, PROCESSES = EngineResult("simulation"), EngineResult("processes")


class Engines:
    """Two engines that tell each other how far they are."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.has_begun = Event()
        self.results: list[EngineResult] = []

    def simulation(self, *, beside: Beside) -> EngineResult:
        self.has_begun.wait()
        beside.added_to(lambda *progress: self.done.append(str(progress)))(1, 2, "a cell")
        return SIMULATION

    def processes(self, *, beside: Beside) -> EngineResult:
        with interruptible(PROCESSES, 0):
            beside.progressed(0, 3, "the first")
            self.has_begun.set()
            beside.wait_until_quiet()
            self.done.append("measured")
        return PROCESSES

    def run(self) -> None:
        run_side_by_side(self.simulation, self.processes, self.results)


def test_times_are_measured_after_the_simulation() -> None:
    engines = Engines()
    engines.run()
    assert engines.done == ["(1, 2, '0 of 3 with real processes')", "measured"]
    assert engines.results == [SIMULATION, PROCESSES]


def test_an_interrupt_of_the_simulation_keeps_what_both_came_to() -> None:
    class Broken(Engines):
        def simulation(self, *, beside: Beside) -> EngineResult:
            super().simulation(beside=beside)
            raise Interrupted(SIMULATION)

    engines = Broken()
    with pytest.raises(Interrupted) as raised:
        engines.run()
    assert engines.results == [SIMULATION]
    assert raised.value.found is PROCESSES
    assert "measured" not in engines.done


def test_an_interrupt_after_the_simulation_keeps_what_both_came_to() -> None:
    class Broken(Engines):
        def processes(self, *, beside: Beside) -> EngineResult:
            super().processes(beside=beside)
            with interruptible(PROCESSES, 0):
                raise KeyboardInterrupt
            raise AssertionError

    engines = Broken()
    with pytest.raises(Interrupted) as raised:
        engines.run()
    assert engines.results == [SIMULATION]
    assert raised.value.found is PROCESSES


def test_an_error_of_the_simulation_ends_the_processes() -> None:
    class Broken(Engines):
        def simulation(self, *, beside: Beside) -> EngineResult:
            super().simulation(beside=beside)
            raise ZeroDivisionError

    engines = Broken()
    with pytest.raises(ZeroDivisionError):
        engines.run()
    assert "measured" not in engines.done
