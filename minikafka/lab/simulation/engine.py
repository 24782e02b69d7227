"""The engine that runs scenarios in a simulated cluster, in this process, in milliseconds."""

from __future__ import annotations

import gc
import logging
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from minikafka.lab.engine import Run
from minikafka.lab.matrix import Cell
from minikafka.lab.scenario import Scenario
from minikafka.lab.simulation.consuming import Consuming
from minikafka.lab.simulation.kit.invariants import InvariantViolated
from minikafka.lab.simulation.run import LabRun, why_not
from minikafka.lab.timeline import Timeline


def _version() -> str:
    try:
        return version("minikafka")
    except PackageNotFoundError:  # in a browser the files may come without a package
        return "unknown"


@contextmanager
def _undisturbed() -> Generator[None]:
    """Collect no garbage and log nothing.

    A run makes little garbage before it ends, and looking for it costs a fifth; a broker that is
    attacked has much to say.
    """
    was_enabled, logged = gc.isenabled(), logging.root.manager.disable
    gc.disable()
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logged)
        if was_enabled:
            gc.enable()


class SimulationEngine:
    """See the module's text; an `Engine`."""

    name = "simulation"

    def __init__(self) -> None:
        self.version = _version()

    def why_not(self, cell: Cell) -> str | None:
        """Why it cannot run a cell, in one line; None if it can."""
        return why_not(cell)

    def run(self, scenario: Scenario) -> Run:
        """Run a scenario.

        Raises:
            AssertionError: an invariant of the simulated cluster does not hold.
        """
        with _undisturbed():
            if scenario.cell.consumer is not None:
                return self._run_with_consumer(scenario)
            return self._run_producers(scenario)

    def _run_producers(self, scenario: Scenario) -> Run:
        run = LabRun(scenario)
        run.run()
        ended = Run(
            scenario,
            run.ledger.count(),
            run.strikes.texts(),
            partial(self.timeline, scenario),
            run.fingerprint(),
            run.measures(),
            {"ack_s": [*run.ack_times_s()]},
        )
        run.stage.end()
        return ended

    def _run_with_consumer(self, scenario: Scenario) -> Run:
        run = Consuming(scenario)
        run.run()
        ended = Run(
            scenario,
            run.journal.ledger.count(),
            run.faults,
            partial(self.timeline, scenario),
            run.fingerprint(),
            run.measures(),
            run.samples(),
        )
        run.stage.end()
        return ended

    def timeline(self, scenario: Scenario) -> Timeline:
        """Run a scenario again and write down everything, up to an invariant that is broken.

        Args:
            scenario: also one whose `run` fails.
        """
        with _undisturbed():
            run = Consuming(scenario) if scenario.cell.consumer is not None else LabRun(scenario)
            try:
                run.run(is_recorded=True)
            except InvariantViolated as broken:
                run.stage.note_fault(f"an invariant is broken: {broken}")
            return run.timeline()
