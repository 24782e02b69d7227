"""A result file as one HTML page: plots, tables, and everything one has to know to believe them.

The page loads nothing and runs no script, so it works from a file, in a mail, and years later. All
of it is reached by keyboard; nothing is said by colour alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from .markdown import target_of
from .plots import Axis, Bar, Point, bar_plot, line_plot
from .report import number

QUIET_CPUS_MAX: Final = 0.1
"""Processors that others may keep busy before a page says that its figures are noisy."""

_HEAD: Final = ("figure", "median", "lowest to highest", "unit", "target")
_STYLE: Final = """
:root { color-scheme: light dark; --line: #8885; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 1340px;
  padding: 0 1rem 3rem; }
a.skip { position: absolute; left: -99rem; } a.skip:focus { left: 1rem; top: .5rem; }
:focus-visible { outline: 3px solid #d55e00; outline-offset: 2px; }
nav ul { columns: 18rem; padding-left: 1.2rem; } section { border-top: 1px solid var(--line); }
.plots { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 34rem), 1fr)); }
figure { margin: 0; } svg { width: 100%; height: auto; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; margin: .5rem 0; }
th, td { padding: .15rem .7rem .15rem 0; text-align: left; border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.note { background: var(--soft); border-left: 4px solid #d55e00; padding: .3rem .8rem; }
.missed { font-weight: 700; } caption { text-align: left; font-weight: 600; padding-top: .5rem; }
@media print { nav, a.skip { display: none } section { break-inside: avoid } }
"""


def as_page(results: Mapping[str, Any], title: str = "minikafka side by side") -> str:
    """The page of what `read_results` returns."""
    workloads = results["workloads"]
    links = "".join(
        f'<li><a href="#{_slug(one["name"])}">{_e(one["name"])}</a>' for one in workloads
    )
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_e(title)}</title><style>{_STYLE}</style></head><body>",
        '<a class="skip" href="#main">Skip to the figures</a>',
        f"<h1>{_e(title)}</h1>",
        *_introduction(results),
        f'<nav aria-label="Parts"><ul>{links}</ul></nav>',
        '<main id="main">',
        *_at_a_glance(workloads),
        *(line for one in workloads for line in _section(one)),
        "</main>",
        *_environment(results),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _e(text: object) -> str:
    return escape(str(text))


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _introduction(results: Mapping[str, Any]) -> Iterator[str]:
    yield (
        "<p>The sides of a comparison take turns, A B A B, under the same load. A ratio is taken "
        "within each round, before the median; beside the median are the lowest and the highest "
        "round. Processor time depends less on other work of the machine than time on the clock."
        "</p>"
    )
    if results["scale"] != 1:
        yield _note(
            f"Counts were multiplied by {results['scale']:g}: a short look, not a measurement."
        )
    for name, reason in results.get("peers", {}).items():
        yield _note(f"{name} is missing: {reason}. Nothing stands in for its figures.")
    for text in results.get("notes", ()):
        yield f"<p>{_e(text)}</p>"
    noisy = [
        one["name"]
        for one in results["workloads"]
        if float(one.get("others_cpus", 0)) > QUIET_CPUS_MAX
    ]
    if noisy:
        yield _note(
            f"Other work kept more than {QUIET_CPUS_MAX:g} processors busy during "
            f"{', '.join(noisy)}: do not believe these before they are repeated on a quiet machine."
        )


def _at_a_glance(workloads: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Every figure with a target, with what became of it."""
    rows: list[Sequence[object]] = []
    for workload in workloads:
        rows += [
            (
                f"{workload['name']}: {figure['name']}",
                number(figure["median"]),
                _spread(figure),
                figure.get("unit", ""),
                target_of(figure),
            )
            for figure in workload["figures"]
            if target_of(figure)
        ]
    if rows:
        yield "<section><h2>Figures with a target</h2>"
        yield _table(_HEAD, rows)
        yield "</section>"


def _note(text: str) -> str:
    return f'<p class="note">{_e(text)}</p>'


def _section(workload: Mapping[str, Any]) -> Iterator[str]:
    yield f'<section id="{_slug(workload["name"])}"><h2>{_e(workload["name"])}</h2>'
    yield f"<p>{_e(workload.get('measures', ''))}</p>"
    if workload.get("error"):
        yield _note(f"It failed: {workload['error']}")
    plots = workload.get("plots", ())
    if plots:
        yield '<div class="plots">'
        for index, plot in enumerate(plots):
            prefix = f"{_slug(workload['name'])}-{index}"
            yield f"<figure>{_plot(plot, prefix)}{_data(plot)}</figure>"
        yield "</div>"
    yield from _figures(workload)
    rounds = len(workload.get("rounds", ()))
    said = (
        f"{rounds} round{'s' * (rounds != 1)} in {workload.get('seconds', 0):.0f} s; "
        f"{workload.get('others_cpus', 0):.2f} processors busy with other work."
    )
    for text in (said, *workload.get("notes", ())):
        yield f"<p>{_e(text)}</p>"
    yield "</section>"


def _plot(plot: Mapping[str, Any], prefix: str) -> str:
    y = _axis(plot)
    if plot["x"] is None:
        bars = {
            one["name"]: [
                Bar(point["at"], point["median"], point["min"], point["max"])
                for point in one["points"]
            ]
            for one in plot["series"]
        }
        return bar_plot(plot["title"], y, bars, prefix)
    lines = {
        one["name"]: [
            Point(point["at"], point["median"], point["min"], point["max"])
            for point in one["points"]
        ]
        for one in plot["series"]
    }
    return line_plot(plot["title"], Axis(**plot["x"]), y, lines)


def _axis(plot: Mapping[str, Any]) -> Axis:
    """The axis of the measures; a logarithmic one has no 0, which too short a run may measure."""
    lowest = min(point["min"] for one in plot["series"] for point in one["points"])
    return Axis(plot["y"]["label"], plot["y"]["scale"] if lowest > 0 else "linear")


def _data(plot: Mapping[str, Any]) -> str:
    """The plot's numbers as a table, for those who do not see it or want to copy them."""
    head = ("series", "at" if plot["x"] is None else plot["x"]["label"], plot["y"]["label"])
    rows = [
        (one["name"], point["at"], number(point["median"]), _spread(point))
        for one in plot["series"]
        for point in one["points"]
    ]
    table = _table((*head, "lowest to highest"), rows)
    return f"<details><summary>Numbers of this plot</summary>{table}</details>"


def _spread(found: Mapping[str, Any]) -> str:
    return f"{number(found['min'])} to {number(found['max'])}"


def _figures(workload: Mapping[str, Any]) -> Iterator[str]:
    rows: list[Sequence[object]] = [
        (
            figure["name"],
            number(figure["median"]),
            _spread(figure),
            figure.get("unit", ""),
            target_of(figure),
        )
        for figure in workload["figures"]
    ]
    rows += [
        (one["name"], "missing", "", one["unit"], one["reason"])
        for one in workload.get("missing", ())
    ]
    if rows:
        yield _table(_HEAD, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    top = "".join(f'<th scope="col">{_e(name)}</th>' for name in head)
    lines = [
        "<tr>"
        + "".join(
            f'<td class="{_kind(cell)}">{_e(cell)}</td>' if place else f"<th>{_e(cell)}</th>"
            for place, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    ]
    body = "\n".join(lines)
    table = f"<table><thead><tr>{top}</tr></thead>\n<tbody>{body}</tbody></table>"
    return f'<div class="wide">{table}</div>'


def _kind(cell: object) -> str:
    text = str(cell)
    if text.endswith(", missed"):
        return "missed"
    return "n" if text[:1].isdigit() or isinstance(cell, float) else ""


def _environment(results: Mapping[str, Any]) -> Iterator[str]:
    rows = [(name, value) for name, value in results["environment"].items()]
    yield "<section><h2>The machine</h2>"
    yield _table(("what", "value"), rows)
    yield "</section>"
