"""``python -m benchmarks list|run|suite|report``: see the README beside this file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from .comparison import THRESHOLD, compare, comparison_as_json, show_comparison
from .document import DocumentError, write_part
from .environment import describe_environment
from .flame import FlameGraphs, ProfileError, flame_graphs
from .interpreters import (
    InterpreterError,
    compare_interpreters,
    find_interpreter,
    interpreter,
)
from .markdown import as_markdown
from .page import as_page
from .peers import APACHE, LIBRDKAFKA, OURS
from .report import as_json, show, target
from .result_file import ResultFileError, read_results
from .runner import run_all, run_one
from .steps import steps_table
from .suite.run import GROWTH, SIDE_BY_SIDE, progress_bar, run_suite
from .suite.servers import absent_peers
from .workload import Workload

try:
    from .catalogue import WORKLOADS
except ModuleNotFoundError as error:
    if error.name != "confluent_kafka":
        raise
    WORKLOADS = ()  # the suite says of each part that librdkafka is missing

ALL = "all"
RESULTS, PAGE = "results.json", "report.html"
SIDE_BY_SIDE_PART = "side by side"
_WORSE, _UNUSABLE = 1, 2
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
@click.option("--python", help="Start the brokers with this interpreter, which has minikafka.")
@click.option(
    "--profile",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.svg",
    help="Write a flame graph of each broker (FILE.svg, FILE-2.svg...), which slows it a little.",
)
def run_workloads(
    names: tuple[str, ...],
    is_json: bool,
    rounds: int | None,
    scale: float,
    python: str | None,
    profile: Path | None,
) -> None:
    """Run workloads by name, or `all`; exit 1 when one misses a target or fails."""
    chosen = _choose(names)
    environment = describe_environment()
    if python is not None:
        executable, version = _find_interpreter(python)
        interpreter.set(executable)
        environment["python of the brokers"] = version
    graphs = None if profile is None else FlameGraphs(profile)
    flame_graphs.set(graphs)
    results = list(
        run_all(chosen, rounds=rounds, scale=scale, say=lambda text: click.echo(text, err=True))
    )
    if is_json:
        click.echo(json.dumps(as_json(environment, results, scale), indent=2))
    else:
        show(Console(width=_width()), environment, results, scale)
    for path in [one for one in (graphs.written if graphs else ()) if one.exists()]:
        click.echo(f"flame graph: {path}", err=True)
    sys.exit(0 if all(result.is_met for result in results) else 1)


@main.command("suite")
@click.option("--growth", "is_growth", is_flag=True, help="Growth instead: about half an hour.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("build/benchmarks"),
    show_default=True,
    help=f"The directory that gets {RESULTS} and {PAGE}.",
)
@click.option("--only", multiple=True, metavar="PART", help="Run this part (repeatable).")
@click.option("--rounds", type=click.IntRange(min=1), help="Rounds of each part, not its own.")
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    help="Do fewer rounds rather than take longer; 10, or 60 for growth.",
)
@click.option(
    "--scale",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Multiply counts of records, requests and connections.",
)
@click.option("--without", multiple=True, metavar="PEER", help="Leave a peer out (repeatable).")
def suite(
    is_growth: bool,
    output: Path,
    only: tuple[str, ...],
    rounds: int | None,
    minutes: float | None,
    scale: float,
    without: tuple[str, ...],
) -> None:
    """Run our broker beside Apache Kafka; write results and a report; exit 1 if a part fails."""
    needed = (LIBRDKAFKA,) if is_growth else (APACHE, LIBRDKAFKA)
    absent = {**absent_peers(needed), **dict.fromkeys(without, "left out by --without")}
    try:
        with progress_bar() as advance:
            found = run_suite(
                GROWTH if is_growth else SIDE_BY_SIDE,
                rounds=rounds,
                scale=scale,
                seconds=60 * (minutes or (60 if is_growth else 10)),
                absent=absent,
                advance=advance,
                names=(OURS,) if is_growth else (OURS, APACHE),
                only=only,
            )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    output.mkdir(parents=True, exist_ok=True)
    (output / RESULTS).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    title = "minikafka as it grows" if is_growth else "minikafka beside Apache Kafka"
    (output / PAGE).write_text(as_page(found, title), encoding="utf-8")
    failed = [one["name"] for one in found["workloads"] if one["error"]]
    for name, reason in found["peers"].items():
        click.echo(f"missing: {name}: {reason}", err=True)
    for name in failed:
        click.echo(f"failed: {name}; {PAGE} says why", err=True)
    click.echo(f"{output / PAGE}\n{output / RESULTS}")
    sys.exit(1 if failed else 0)


@main.command("steps")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=6.0,
    show_default=True,
    help="For each of the measurements of each request.",
)
@click.option(
    "--write",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Replace the table in this document instead of printing it.",
)
def steps(seconds: float, write: Path | None) -> None:
    """Measure the microseconds of each step of one produce and one fetch, beside their limits."""
    try:
        table = steps_table(seconds, lambda text: click.echo(text, err=True))
    except ProfileError as error:
        raise click.ClickException(str(error)) from error
    _print_or_write(table, write, "steps")


@main.command("pythons")
@click.argument("pythons", nargs=-1, required=True, metavar="PYTHON...")
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True)
@click.option(
    "--scale",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Multiply counts of records and requests.",
)
@click.option(
    "--write",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Replace the table in this document instead of printing it.",
)
def pythons(pythons: tuple[str, ...], rounds: int, scale: float, write: Path | None) -> None:
    """Measure the broker under other interpreters, by turns with this one."""
    try:
        workload = compare_interpreters(pythons)
    except InterpreterError as error:
        raise click.UsageError(str(error)) from error
    environment = describe_environment()
    result = run_one(
        workload, rounds=rounds, scale=scale, say=lambda text: click.echo(text, err=True)
    )
    if result.error is not None:
        raise click.ClickException(result.error)
    _print_or_write(as_markdown(as_json(environment, [result], scale)), write, workload.name)


def _find_interpreter(name: str) -> tuple[str, str]:
    try:
        return find_interpreter(name)
    except InterpreterError as error:
        raise click.UsageError(str(error)) from error


def _print_or_write(text: str, document: Path | None, name: str) -> None:
    if document is None:
        click.echo(text, nl=False)
        return
    try:
        write_part(document, name, text)
    except DocumentError as error:
        raise click.ClickException(str(error)) from error


@main.command("report")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path), required=False)
@click.option("--markdown", "is_markdown", is_flag=True, help="Print FILE as a Markdown table.")
@click.option("--targets", "is_targets", is_flag=True, help="Of these, figures with a target only.")
@click.option("--only", metavar="PART", help="Show this part or workload of FILE only.")
@click.option(
    "--write",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Replace the table (of PART) in this document instead of printing it.",
)
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), help="Write FILE as a page."
)
@click.option("--json", "is_json", is_flag=True, help="Print the comparison as JSON.")
@click.option(
    "--threshold",
    type=click.FloatRange(min=0),
    default=THRESHOLD,
    show_default=True,
    help="How much worse a median may be, beside the spread of the rounds.",
)
def report(
    file: Path,
    new: Path | None,
    is_markdown: bool,
    is_targets: bool,
    only: str | None,
    write: Path | None,
    html: Path | None,
    is_json: bool,
    threshold: float,
) -> None:
    """Show one result file, or compare two: FILE is the old one, and exit 1 says NEW is worse."""
    try:
        found = read_results(file)
        newer = None if new is None else read_results(new)
    except ResultFileError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(_UNUSABLE)
    if newer is None:
        if not is_markdown and html is None:
            raise click.UsageError("name a second file to compare with, or --markdown, or --html")
        kept = found if only is None else _part(found, only)
        if html is not None:
            html.write_text(as_page(kept), encoding="utf-8")
        if is_markdown:
            table = as_markdown(kept, only_targets=is_targets)
            _print_or_write(table, write, only or SIDE_BY_SIDE_PART)
        return
    if is_markdown or html is not None or only is not None or write is not None:
        raise click.UsageError(
            "--markdown, --html, --only and --write show one file; leave the second one out"
        )
    comparison = compare(found, newer, threshold)
    if is_json:
        click.echo(json.dumps(comparison_as_json(comparison), indent=2))
    else:
        show_comparison(Console(width=_width()), comparison)
    sys.exit(_WORSE if comparison.is_worse else 0)


def _part(found: dict[str, Any], name: str) -> dict[str, Any]:
    kept = [one for one in found["workloads"] if one["name"] == name]
    if not kept:
        names = ", ".join(one["name"] for one in found["workloads"])
        raise click.UsageError(f"the file has no part {name}; it has {names}")
    return {**found, "workloads": kept}


def _width() -> int | None:
    """Tables in a file or a pipe get enough room; a terminal has a width of its own."""
    return None if sys.stdout.isatty() else _WIDTH_OF_FILES_CHARACTERS


def _choose(names: tuple[str, ...]) -> list[Workload]:
    by_name = {one.name: one for one in WORKLOADS}
    if not by_name:
        raise click.UsageError("the workloads need confluent-kafka: pip install 'minikafka[bench]'")
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
