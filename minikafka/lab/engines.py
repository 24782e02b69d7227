"""The engines by name, each with what it needs; imported when they are used."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .claims import Claim
from .engine import Engine
from .matrix import Cell
from .results import CellResult
from .runner import EngineResult, Progressed, interruptible
from .scenario import Scenario

if TYPE_CHECKING:
    from .processes.engine import ProcessesEngine

ENGINES: Final = ("simulation", "processes", "apache-kafka")
ATTEMPTS: Final = 3
"""A scenario of real processes is run again when the cluster did not do its part in time."""
QUICK_RUNS: Final = 1
LONG_RUNS: Final = 5


def _do_not_wait() -> None:
    pass


@contextmanager
def quiet() -> Generator[None]:
    """Log nothing: clients whose brokers are killed have much to say."""
    logged = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logged)


def simulation() -> Engine:
    """Thousands of seeds of a simulated cluster."""
    from .simulation.engine import SimulationEngine

    return SimulationEngine()


def processes(
    claims: Sequence[Claim],
    *,
    is_quick: bool,
    progressed: Progressed,
    wait_until_quiet: Callable[[], None] = _do_not_wait,
) -> EngineResult:
    """Real processes of minikafka, in the cells that decide claims.

    Args:
        claims: which.
        is_quick: as few runs as possible.
        progressed: is told of each cell before it is run.
        wait_until_quiet: called once, before the first cell in which times are measured; these
            come last. It returns when nothing else keeps the machine busy.
    """
    from .processes.verify import engine_for

    return _run(
        lambda: engine_for("processes"),
        "processes",
        claims,
        is_quick,
        progressed,
        wait_until_quiet,
    )


def apache_kafka(
    claims: Sequence[Claim], *, home: Path | None, is_quick: bool, progressed: Progressed
) -> EngineResult:
    """Real processes of Apache Kafka; without a distribution, what is on record."""
    if home is None:
        return recorded("apache-kafka")
    from .processes.verify import engine_for

    return _run(
        lambda: engine_for("apache-kafka", home=home), "apache-kafka", claims, is_quick, progressed
    )


def recorded(name: str) -> EngineResult:
    """What an engine came to on the machine of minikafka's makers."""
    from .recorded import load

    found = load(name)
    if found is None:
        return EngineResult(name, missing="nothing is on record; name one with --apache-kafka DIR")
    when = f"{found.date}, on {found.cores} cores"
    return EngineResult(name, found.version, dict(found.found), recorded=when)


def _run(
    make: Callable[[], ProcessesEngine],
    name: str,
    claims: Sequence[Claim],
    is_quick: bool,
    progressed: Progressed,
    wait_until_quiet: Callable[[], None] = _do_not_wait,
) -> EngineResult:
    from .processes.choice import representative
    from .processes.java import NoApacheKafkaError
    from .processes.target import CannotError

    begin = time.monotonic()
    chosen = list(
        dict.fromkeys(cell for one in claims for cell in representative(one, is_quick=is_quick))
    )
    measured = {
        cell
        for one in claims
        if one.costs is not None
        for cell in representative(one, is_quick=is_quick)
    }
    chosen.sort(key=lambda cell: cell in measured)
    try:
        engine = make()
    except (CannotError, NoApacheKafkaError, RuntimeError) as error:
        return EngineResult(name, missing=str(error).splitlines()[0])
    found = EngineResult(name, engine.version)
    try:
        with quiet(), interruptible(found, begin):
            for number, cell in enumerate(chosen):
                progressed(number, len(chosen), str(cell))
                if cell in measured and (not number or chosen[number - 1] not in measured):
                    wait_until_quiet()
                why = engine.why_not(cell)
                if why is None:
                    why = _run_cell(engine, cell, QUICK_RUNS if is_quick else LONG_RUNS, found)
                if why is not None:
                    found.left_out[why] = found.left_out.get(why, 0) + 1
    finally:
        engine.close()
    found.seconds = time.monotonic() - begin
    return found


def _run_cell(engine: ProcessesEngine, cell: Cell, runs: int, found: EngineResult) -> str | None:
    """Run a cell some times; why that was impossible, if it was."""
    from .processes.target import CannotError

    result = CellResult()
    why = None
    for seed in range(runs * ATTEMPTS):
        if result.runs == runs:
            break
        scenario = Scenario(cell, seed)
        try:
            result.add(engine.run(scenario))
        except CannotError as error:
            why = str(error).splitlines()[0]
        except AssertionError as error:
            result.broke(str(scenario), str(error).splitlines()[-1])
    if result.runs or result.broken:
        found.cells[cell] = result
        return None
    return why
