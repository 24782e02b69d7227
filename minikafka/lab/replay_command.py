"""``minikafka lab replay``: what happened in one run of the simulation, step by step."""

from __future__ import annotations

from pathlib import Path

import click

from ..cli.failure import CommandFailed
from ..cli.output import print_json, reader_may_leave
from .command_files import write_file
from .engine import Engine, Run
from .ledger import Counts
from .scenario import Scenario
from .timeline import Timeline


@click.command("replay")
@click.argument("seed")
@click.option(
    "--shrink", "what", metavar="COUNT", help="First find the fewest faults that show it."
)
@click.option("--record", metavar="VALUE", help="Only what happened to one record, such as r7.")
@click.option(
    "--html", "html_path", type=click.Path(path_type=Path), help="A page with its timeline."
)
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
def command(
    seed: str, what: str | None, record: str | None, html_path: Path | None, as_json: bool
) -> None:
    r"""Repeat a run from its seed, and tell what happened.

    SEED is what a report or a failing test names: CELL@NUMBER, perhaps with the faults that are
    left (CELL@17+0.2); a bare number draws the cell, too. The same seed gives the same run
    everywhere, which the fingerprint at the end shows.

    \b
    For example:
      minikafka lab replay 17
      minikafka lab replay p.acks1-retries_t.r3-m2_c.none_f.leader-killed-after-ack@3
      minikafka lab replay 17 --record r7
    """
    from .simulation.engine import SimulationEngine

    try:
        scenario = Scenario.parse(seed)
    except ValueError as error:
        raise CommandFailed(f"{error}; `minikafka lab run --json -` names some") from None
    engine = SimulationEngine()
    run = engine.run(scenario) if what is None else _shrunk(engine, scenario, what)
    timeline = run.timeline()
    if html_path is not None:
        from .page import render_timeline

        document = timeline.to_json() | {"faults": list(run.faults.values())}
        write_file(html_path, render_timeline(document))
    with reader_may_leave():
        if as_json:
            print_json(
                timeline.to_json()
                | {"faults": list(run.faults.values()), "fingerprint": run.fingerprint}
            )
        else:
            _tell(run, timeline, record)


def _shrunk(engine: Engine, scenario: Scenario, what: str) -> Run:
    from .shrinking import shows, shrink

    if what not in Counts._fields:
        known = ", ".join(Counts._fields)
        raise CommandFailed(f"{what!r} is not counted; there are {known}")
    try:
        return shrink(engine, scenario, shows(what))
    except ValueError as error:
        raise CommandFailed(f"{error}: it has no {what.replace('_', ' ')}") from None


def _tell(run: Run, timeline: Timeline, record: str | None) -> None:
    if record is not None and record not in timeline.records:
        raise CommandFailed(f"this run has no record {record!r}; it has r0 to r{_last(timeline)}")
    click.echo(f"{run.scenario}")
    for fault in run.faults.values():
        click.echo(f"  fault: {fault}")
    width = max((len(lane.title) for lane in timeline.lanes), default=0)
    titles = {lane.id: lane.title for lane in timeline.lanes}
    for event in timeline.events:
        if record is None or event.record == record:
            lane = titles.get(event.lane, event.lane)
            click.echo(f"{event.t:9.4f}  {lane:<{width}}  {event.text}")
    counted = {name: count for name, count in run.counts._asdict().items() if count}
    click.echo(", ".join(f"{name.replace('_', ' ')} {count}" for name, count in counted.items()))
    click.echo(f"fingerprint {run.fingerprint}")


def _last(timeline: Timeline) -> int:
    return max(0, len(timeline.records) - 1)
