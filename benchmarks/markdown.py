"""The figures of a result file as a table for a README."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .report import number

_WORKLOAD: Final = "| **"
_HEAD: Final = ("figure", "median", "lowest to highest round", "target")


def as_markdown(results: Mapping[str, Any], *, only_targets: bool = False) -> str:
    """One table, with a row for each figure, and the machine below it.

    Args:
        results: what `read_results` returns.
        only_targets: leave out figures without a target.
    """
    lines = ["| " + " | ".join(_HEAD) + " |", "|---|---:|---:|---|"]
    for workload in results["workloads"]:
        lines.append(f"{_WORKLOAD}{workload['name']}** | | | |")
        if workload.get("error"):
            lines.append(f"| failed: {_cell(workload['error'])} | | | |")
        lines += [
            _row(figure) for figure in workload["figures"] if target_of(figure) or not only_targets
        ]
        lines += [
            f"| {_cell(one['name'])} | missing | | {_cell(one['reason'])} |"
            for one in workload.get("missing", ())
        ]
    lines = [
        line
        for line, after in zip(lines, [*lines[1:], _WORKLOAD], strict=True)
        if not (line.startswith(_WORKLOAD) and after.startswith(_WORKLOAD))
    ]
    environment = results["environment"]
    machine = ", ".join(
        str(environment[name])
        for name in ("processor", "cores", "memory", "kernel", "python")
        if name in environment
    )
    lines += ["", f"Measured on: {machine}."]
    lines += [f"Missing: {name} ({reason})." for name, reason in results.get("peers", {}).items()]
    if results["scale"] != 1:
        lines.append(f"Counts were multiplied by {results['scale']:g}: not the full measurement.")
    return "\n".join(lines) + "\n"


def _row(figure: Mapping[str, Any]) -> str:
    unit = figure.get("unit", "")
    value = f"{number(figure['median'])} {unit}".strip()
    spread = f"{number(figure['min'])} to {number(figure['max'])}"
    return f"| {_cell(figure['name'])} | {value} | {spread} | {target_of(figure)} |"


def target_of(figure: Mapping[str, Any]) -> str:
    """A figure's target and whether it was met, or nothing."""
    for name, sign in (("at_least", ">="), ("at_most", "<=")):
        bound = figure.get(name)
        if bound is not None:
            return f"{sign} {bound:g}, {'met' if figure.get('is_met') else 'missed'}"
    return ""


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "/").split())
