"""Runs engines over cells of the matrix: many seeds of the simulation, on all processors.

The order in which workers finish does not matter: each cell has its own result, and what is kept of
it (counts, the first example of each kind) depends on the seeds alone.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from .engine import Engine
from .matrix import Cell
from .results import CellResult
from .scenario import Scenario

Progressed = Callable[[int, int, str], None]
"""Is told: runs done, runs in all, what is being run."""


def _say_nothing(done: int, total: int, text: str) -> None:
    pass


@dataclass
class EngineResult:
    """What an engine came to.

    Attributes:
        name: of the engine.
        version: of what it ran.
        cells: what each cell came to.
        left_out: why cells were not run, by reason: how many.
        seconds: how long it took.
        missing: why it did not run at all; None if it did.
        recorded: when and where, for results that were recorded earlier.
    """

    name: str
    version: str = ""
    cells: dict[Cell, CellResult] = field(default_factory=dict[Cell, CellResult])
    left_out: dict[str, int] = field(default_factory=dict[str, int])
    seconds: float = 0.0
    missing: str | None = None
    recorded: str | None = None

    @property
    def runs(self) -> int:
        """How many there were."""
        return sum(result.runs for result in self.cells.values())

    @property
    def broken(self) -> dict[str, str]:
        """Runs that broke an invariant, whatever the claims say: by token, what did not hold."""
        return {
            token: text for result in self.cells.values() for token, text in result.broken.items()
        }


def run_cell(engine: Engine, cell: Cell, seeds: Iterable[int]) -> CellResult:
    """Run seeds of a cell."""
    result = CellResult()
    for seed in seeds:
        scenario = Scenario(cell, seed)
        try:
            result.add(engine.run(scenario))
        except AssertionError as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            result.broke(str(scenario), lines[-1] if lines else repr(error))
        except Exception as error:  # noqa: BLE001 - it is what the lab looks for, and the rest goes on
            result.broke(str(scenario), f"{type(error).__name__}: {error}")
    return result


def run_here(
    engine: Engine,
    cells: Sequence[Cell],
    seeds: Sequence[int],
    progressed: Progressed = _say_nothing,
) -> EngineResult:
    """Run seeds of cells in this process, one after the other.

    An interrupt (Ctrl-C) leaves with what has been run: see `Interrupted`.
    """
    found = EngineResult(engine.name, engine.version)
    begin = time.monotonic()
    able = list(_able(engine, cells, found))
    with interruptible(found, begin):
        for number, cell in enumerate(able):
            progressed(number * len(seeds), len(able) * len(seeds), str(cell))
            found.cells[cell] = run_cell(engine, cell, seeds)
    progressed(len(able) * len(seeds), len(able) * len(seeds), "")
    found.seconds = time.monotonic() - begin
    return found


def run_everywhere(
    make_engine: Callable[[], Engine],
    cells: Sequence[Cell],
    seeds: Sequence[int],
    *,
    workers: int | None = None,
    progressed: Progressed = _say_nothing,
) -> EngineResult:
    """The same on all processors.

    Args:
        make_engine: called in every worker; a function of a module.
        cells: which.
        seeds: of each.
        workers: how many processes; as many as there are processors if None.
        progressed: is told of each cell that is done.

    Raises:
        Interrupted: Ctrl-C; it has what was run until then.
    """
    workers = workers or os.cpu_count() or 1
    engine = make_engine()
    if workers == 1:
        return run_here(engine, cells, seeds, progressed)
    found = EngineResult(engine.name, engine.version)
    begin = time.monotonic()
    able = list(_able(engine, cells, found))
    context = multiprocessing.get_context("spawn")
    with (
        interruptible(found, begin),
        ProcessPoolExecutor(workers, context, _prepare, (make_engine,)) as pool,
    ):
        futures: dict[Future[CellResult], Cell] = {
            pool.submit(_run_in_worker, cell, seeds): cell for cell in able
        }
        try:
            for number, future in enumerate(as_completed(futures), 1):
                found.cells[futures[future]] = future.result()
                progressed(number * len(seeds), len(able) * len(seeds), str(futures[future]))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    order = {cell: number for number, cell in enumerate(able)}
    found.cells = dict(sorted(found.cells.items(), key=lambda pair: order[pair[0]]))
    found.seconds = time.monotonic() - begin
    return found


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while an engine ran.

    Attributes:
        found: what it had come to.
    """

    def __init__(self, found: EngineResult) -> None:
        super().__init__(found.name)
        self.found = found


@contextmanager
def interruptible(found: EngineResult, begin: float) -> Generator[None]:
    """Let Ctrl-C end the block with what was found.

    Raises:
        Interrupted: instead of a `KeyboardInterrupt`.
    """
    try:
        yield
    except KeyboardInterrupt:
        found.seconds = time.monotonic() - begin
        raise Interrupted(found) from None


def _able(engine: Engine, cells: Sequence[Cell], found: EngineResult) -> Iterator[Cell]:
    """The cells that it can run; the others are counted by their reason."""
    for cell in cells:
        reason = engine.why_not(cell)
        if reason is None:
            yield cell
        else:
            found.left_out[reason] = found.left_out.get(reason, 0) + 1


_engine: list[Engine] = []


def _prepare(make_engine: Callable[[], Engine]) -> None:
    """A worker begins. Ctrl-C is for the process that has started it."""
    import signal

    with suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    _engine[:] = [make_engine()]


def _run_in_worker(cell: Cell, seeds: Sequence[int]) -> CellResult:
    # Pickling made a new cell of the same value.
    return run_cell(_engine[0], Cell(*cell), seeds)
