"""``python -m benchmarks list|run NAME... [--json]``: see the README beside this file."""

from __future__ import annotations

import json
import sys

import click
from rich.console import Console

from .catalogue import WORKLOADS
from .environment import describe_environment
from .report import as_json, show, target
from .runner import run_all
from .workload import Workload

ALL = "all"
_WIDTH_OF_FILES_CHARACTERS = 120


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Measure minikafka beside something to compare it with."""


@main.command("list")
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
def list_workloads(is_json: bool) -> None:
    """Name the workloads, what they measure and their targets."""
    if is_json:
        rows = [
            {"name": one.name, "measures": one.measures, "targets": _targets(one)}
            for one in WORKLOADS
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    for one in WORKLOADS:
        click.secho(one.name, bold=True)
        click.echo(f"  {one.measures}")
        for name, text in _targets(one).items():
            click.echo(f"  {name} {text}")


@main.command("run")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
@click.option(
    "--rounds", type=click.IntRange(min=1), help="Rounds of each workload, instead of its own."
)
@click.option(
    "--scale",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Multiply counts of records, requests and connections.",
)
def run_workloads(names: tuple[str, ...], is_json: bool, rounds: int | None, scale: float) -> None:
    """Run workloads by name, or `all`; exit 1 when one misses a target or fails."""
    chosen = _choose(names)
    environment = describe_environment()
    results = list(
        run_all(chosen, rounds=rounds, scale=scale, say=lambda text: click.echo(text, err=True))
    )
    if is_json:
        click.echo(json.dumps(as_json(environment, results, scale), indent=2))
    else:
        # Tables in a file or a pipe get enough room; a terminal has a width of its own.
        width = None if sys.stdout.isatty() else _WIDTH_OF_FILES_CHARACTERS
        show(Console(width=width), environment, results, scale)
    sys.exit(0 if all(result.is_met for result in results) else 1)


def _choose(names: tuple[str, ...]) -> list[Workload]:
    by_name = {one.name: one for one in WORKLOADS}
    if ALL in names:
        return list(WORKLOADS)
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise click.UsageError(
            f"there is no workload {', '.join(unknown)}; use one of {', '.join(by_name)} or {ALL}"
        )
    return [by_name[name] for name in dict.fromkeys(names)]


def _targets(workload: Workload) -> dict[str, str]:
    return {
        figure.name: f"{target(figure)} {figure.unit}"
        + (" (one of these)" if figure.name in workload.one_is_enough else "")
        for figure in workload.figures
        if figure.has_target
    }


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
