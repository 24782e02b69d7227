"""``minikafka lab run``: run engines, stamp claims, write a report."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, Self

import click

from ..cli.failure import EXIT_FAILED, EXIT_INTERRUPTED
from ..cli.output import Cell as TableCell
from ..cli.output import Progress, is_terminal, note, print_table, reader_may_leave
from .claims import CLAIMS, Claim
from .command_files import check_writable, find_claim, write_report
from .engine import Engine
from .engines import ENGINES, apache_kafka, processes, simulation
from .matrix import Cell, cells
from .report import Lab, Stamped
from .results import Document, Verdict
from .runner import EngineResult, Interrupted, run_everywhere
from .scenario import Scenario
from .side_by_side import Beside, run_side_by_side

QUICK_SEEDS: Final = 50
LONG_SEEDS: Final = 1_000


@click.command("run")
@click.option(
    "--quick/--long",
    "is_quick",
    default=True,
    show_default=True,
    help=f"{QUICK_SEEDS} seeds a cell and the fewest real runs, or {LONG_SEEDS:,} and all.",
)
@click.option("--seeds", type=click.IntRange(1), help="Seeds a cell, instead.")
@click.option("--first", type=click.IntRange(0), default=0, help="The first seed.")
@click.option("--claim", "names", multiple=True, metavar="ID", help="Only this claim; repeatable.")
@click.option(
    "--engine",
    "engines",
    multiple=True,
    type=click.Choice(ENGINES),
    help="Only this engine; repeatable. Without it: simulation and processes, and what is on "
    "record of Apache Kafka.",
)
@click.option(
    "--apache-kafka",
    "apache_home",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    envvar="KAFKA_HOME",
    help="An unpacked Apache Kafka, for the engine apache-kafka; also KAFKA_HOME.",
)
@click.option("--workers", type=click.IntRange(1), help="Processes for the simulation.")
@click.option("--json", "json_path", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--html", "html_path", type=click.Path(path_type=Path))
def command(
    is_quick: bool,
    seeds: int | None,
    first: int,
    names: Sequence[str],
    engines: Sequence[str],
    apache_home: Path | None,
    workers: int | None,
    json_path: Path | None,
    html_path: Path | None,
) -> None:
    r"""Attack the claims, and stamp them true or false.

    The simulation runs every cell of the matrix with many seeds; real processes run the few
    scenarios that decide each claim. The exit code is 0 if every stamp is the expected one, and 1
    if one is not: then either minikafka is broken or the claim is wrong.

    --json FILE writes everything (- for stdout), --html FILE one page that needs no network, with
    a timeline for each claim.

    \b
    For example:
      minikafka lab run --quick --html lab.html
      minikafka lab run --claim acks1-exactly-once --engine simulation --seeds 500
      minikafka lab run --engine apache-kafka --apache-kafka ./kafka_2.13-4.4.0
    """
    check_writable(json_path, html_path)
    claims = [find_claim(name) for name in names] or list(CLAIMS)
    lab = Lab(claims=claims, is_quick=is_quick)
    chosen = list(dict.fromkeys(engines)) or ["simulation", "processes", "apache-kafka"]
    count = seeds or (QUICK_SEEDS if is_quick else LONG_SEEDS)
    begin = time.monotonic()
    run = partial(
        _run,
        claims=claims,
        seeds=range(first, first + count),
        is_quick=is_quick,
        apache_home=apache_home,
        workers=workers,
    )
    try:
        if chosen[:2] == ["simulation", "processes"]:
            del chosen[:2]
            run_side_by_side(partial(run, "simulation"), partial(run, "processes"), lab.results)
        for engine in chosen:
            lab.results.append(run(engine))
    except Interrupted as interrupted:
        lab.results.append(interrupted.found)
        lab.is_complete = False
    lab.seconds = time.monotonic() - begin
    _write(lab, json_path, html_path)
    if json_path is None or str(json_path) != "-":
        with reader_may_leave():
            _print_stamps(lab)
    if not lab.is_complete:
        note("interrupted: the stamps are of what was run until then")
        sys.exit(EXIT_INTERRUPTED)
    for line in lab.surprises:
        note(f"not as expected: {line}")
    if lab.surprises:
        sys.exit(EXIT_FAILED)


def _cells_of(claims: Sequence[Claim]) -> list[Cell]:
    """The cells that claims speak of; each once."""
    found: dict[Cell, None] = {}
    for claim in claims:
        for says in claim.says:
            found.update(dict.fromkeys(says.where.cells()))
        if claim.costs is not None:
            for where in (claim.costs.of, claim.costs.over):
                found.update({} if where is None else dict.fromkeys(where.cells()))
    return list(found)


def _run(
    engine: str,
    claims: Sequence[Claim],
    seeds: range,
    *,
    is_quick: bool,
    apache_home: Path | None,
    workers: int | None,
    beside: Beside | None = None,
) -> EngineResult:
    """Run one engine, with a progress bar; `beside` is what the two that run together share."""
    if engine == "simulation":
        chosen = list(cells()) if len(claims) == len(CLAIMS) else _cells_of(claims)
        with _Bar("simulation", len(chosen) * len(seeds)) as bar:
            progressed = bar if beside is None else beside.added_to(bar)
            return run_everywhere(simulation, chosen, seeds, workers=workers, progressed=progressed)
    if beside is not None:
        return processes(
            claims,
            is_quick=is_quick,
            progressed=beside.progressed,
            wait_until_quiet=beside.wait_until_quiet,
        )
    with _Bar(engine, None) as bar:
        if engine == "processes":
            return processes(claims, is_quick=is_quick, progressed=bar)
        return apache_kafka(claims, home=apache_home, is_quick=is_quick, progressed=bar)


class _Bar:
    """A progress bar for an engine; on a pipe, a line when it begins."""

    def __init__(self, label: str, total: int | None) -> None:
        self._progress = Progress(label, total, is_bytes=False)
        if not is_terminal(sys.stderr):
            note(f"{label}: {'running' if total is None else f'{total:,} runs'}")

    def __enter__(self) -> Self:
        self._progress.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.__exit__(None, None, None)

    def __call__(self, done: int, _total: int, text: str) -> None:
        self._progress.update(done, text)


# --- what it writes -------------------------------------------------------------------------------


def _write(lab: Lab, json_path: Path | None, html_path: Path | None) -> None:
    if json_path is None and html_path is None:
        return
    from .shrinking import shows, shrink

    engine = simulation()
    document = lab.document(
        lambda scenario: _timeline(engine, scenario),
        lambda scenario, what: shrink(engine, scenario, shows(what)).scenario,
    )
    write_report(document, json_path, html_path)


def _timeline(engine: Engine, scenario: Scenario) -> Document:
    run = engine.run(scenario)
    document: Document = run.timeline().to_json()
    return document | {"faults": list(run.faults.values())}


def _print_stamps(lab: Lab) -> None:
    names = [one.name for one in lab.results]
    rows: list[list[TableCell]] = []
    for one in lab.stamped():
        row: list[TableCell] = [_stamp_of(one), one.claim.id]
        for name in names:
            judgement = one.judgements.get(name)
            row.append(None if judgement is None else _cell_text(judgement.verdict, judgement.why))
        rows.append(row)
    print_table(["stamp", "claim", *names], rows)
    for result in lab.results:
        if result.missing is not None:
            note(f"{result.name} did not run: {result.missing}")


def _stamp_of(one: Stamped) -> str:
    return one.verdict.value if one.is_as_expected else f"{one.verdict.value} !"


def _cell_text(verdict: Verdict, why: str) -> str:
    return why if verdict is not Verdict.OPEN else f"open: {why}"
