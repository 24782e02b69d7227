"""Results for people (tables) and for programs (JSON)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from .results import Drawn, Measured, Result
from .workload import Figure

_VERDICTS = {True: ("met", "green"), False: ("missed", "red"), None: ("", "")}


def number(value: float) -> str:
    """A number with three significant digits: ``1,230,000``, ``0.0123``."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"


def target(figure: Figure) -> str:
    """A figure's target as a comparison, or nothing."""
    if figure.at_least is not None:
        return f">= {figure.at_least:g}"
    return f"<= {figure.at_most:g}" if figure.at_most is not None else ""


def as_json(
    environment: Mapping[str, str], results: Sequence[Result], scale: float
) -> dict[str, Any]:
    """Everything that was measured, including the measures of each round."""
    return {
        "environment": dict(environment),
        "scale": scale,
        "is_met": all(result.is_met for result in results),
        "workloads": [_workload_as_json(result) for result in results],
    }


def _workload_as_json(result: Result) -> dict[str, Any]:
    return {
        "name": result.workload.name,
        "measures": result.workload.measures,
        "is_met": result.is_met,
        "error": result.error,
        "seconds": result.seconds,
        "others_cpus": result.others_cpus,
        "longest_turn": result.longest_turn,
        "figures": [_figure_as_json(measured) for measured in result.figures],
        "missing": [
            {"name": figure.name, "unit": figure.unit, "reason": reason}
            for figure, reason in result.missing
        ],
        "plots": [_plot_as_json(drawn) for drawn in result.plots],
        "notes": list(result.notes),
        "rounds": [dict(measures) for measures in result.rounds],
    }


def _figure_as_json(measured: Measured) -> dict[str, Any]:
    figure, spread = measured.figure, measured.spread
    return {
        "name": figure.name,
        "unit": figure.unit,
        "median": spread.median,
        "min": spread.low,
        "max": spread.high,
        "at_least": figure.at_least,
        "at_most": figure.at_most,
        "is_met": measured.is_met,
        "better": figure.better,
    }


def _plot_as_json(drawn: Drawn) -> dict[str, Any]:
    plot = drawn.plot
    return {
        "title": plot.title,
        "x": None if plot.x is None else asdict(plot.x),
        "y": asdict(plot.y),
        "series": [
            {
                "name": name,
                "points": [
                    {"at": at, "median": one.median, "min": one.low, "max": one.high}
                    for at, one in points
                ],
            }
            for name, points in drawn.series.items()
        ],
    }


def show(
    console: Console, environment: Mapping[str, str], results: Sequence[Result], scale: float
) -> None:
    """Print a table per workload, and the environment."""
    for result in results:
        console.print(_table(result))
        console.print()
    grid = Table.grid(padding=(0, 2))
    for name, value in environment.items():
        grid.add_row(Text(name, style="dim"), Text(value))
    console.print(grid)
    if scale != 1:
        console.print(f"counts multiplied by {scale:g}: the targets are for 1", style="yellow")
    missed = [result.workload.name for result in results if not result.is_met]
    if missed:
        console.print(f"missed: {', '.join(missed)}", style="bold red")
    else:
        console.print("every target met", style="bold green")


def _table(result: Result) -> RenderableType:
    workload = result.workload
    head = Text(workload.name, style="bold")
    head.append(f"  {workload.measures}", style="not bold")
    if result.error is not None:
        return Group(head, Text(result.error, style="red"))
    table = Table(show_edge=False, pad_edge=False)
    table.add_column("figure")
    for column in ("median", "min", "max"):
        table.add_column(column, justify="right")
    table.add_column("unit")
    table.add_column("target")
    table.add_column("")
    for measured in result.figures:
        spread = measured.spread
        word, style = _VERDICTS[measured.is_met]
        needs_one = measured.figure.name in workload.one_is_enough
        table.add_row(
            measured.figure.name,
            number(spread.median),
            number(spread.low),
            number(spread.high),
            measured.figure.unit,
            target(measured.figure) + (" (one of these)" if needs_one else ""),
            Text(word, style=style),
        )
    for figure, reason in result.missing:
        table.add_row(figure.name, "missing", "", "", figure.unit, "", Text(reason, style="yellow"))
    foot = Text(
        f"{len(result.rounds)} rounds, {result.seconds:.0f} s; "
        f"{result.others_cpus:.2f} processors busy with other work",
        style="dim",
    )
    if result.longest_turn:
        foot.append(f"\nof the brokers, {result.longest_turn}")
    for note in result.notes:
        foot.append(f"\n{note}")
    return Group(head, table, foot)
