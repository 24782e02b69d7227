"""Two result files, figure by figure: what became worse by more than noise.

A figure is a *regression* when both hold: its median is worse by more than the threshold, and the
ranges of the two files (lowest to highest round) do not overlap. Within overlapping ranges, the
rounds of one file differ as much as the files do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .report import number

Verdict = Literal["regression", "better", "changed", "same", "failed", "not measured", "new"]
"""`changed` is beyond the noise, but neither direction is better; `new` is only in the new file."""

THRESHOLD: Final = 0.05
_STYLES: Final = {"regression": "bold red", "failed": "bold red", "better": "green"}
_OF_EVERY_RUN: Final = frozenset({"load average before", "command"})


@dataclass(frozen=True)
class Range:
    """A figure in one file."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure in both files.

    Attributes:
        workload: its workload.
        figure: its name.
        unit: of its values.
        old: None if the old file does not have it.
        new: None if the new file does not have it.
        ratio: new median over old median; None without one of them, or if the old one is 0.
        verdict: what follows from it.
        reason: why it was not measured, or failed.
    """

    workload: str
    figure: str
    unit: str
    old: Range | None
    new: Range | None
    ratio: float | None
    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All figures, and what is different about the machine.

    Attributes:
        rows: in the order of the new file, then what only the old one has.
        environment: what differs: name, old value, new value.
        threshold: how much worse a median may be.
    """

    rows: list[Row]
    environment: list[tuple[str, str, str]]
    threshold: float

    @property
    def is_worse(self) -> bool:
        """Whether there is a regression, or a workload that fails now and did not before."""
        return any(row.verdict in ("regression", "failed") for row in self.rows)


def compare(
    old: Mapping[str, Any], new: Mapping[str, Any], threshold: float = THRESHOLD
) -> Comparison:
    """Compare two results of `read_results`."""
    before, after = _figures(old), _figures(new)
    keys = [*after, *(key for key in before if key not in after)]
    failed = {one["name"]: one["error"] for one in new["workloads"] if one.get("error")}
    missing = {
        (one["name"], absent["name"]): absent["reason"]
        for one in new["workloads"]
        for absent in one.get("missing", ())
    }
    rows = [
        _row(key, before.get(key), after.get(key), threshold, failed.get(key[0]), missing.get(key))
        for key in keys
    ]
    return Comparison(rows=rows, environment=_differences(old, new), threshold=threshold)


def _figures(results: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {
        (workload["name"], figure["name"]): figure
        for workload in results["workloads"]
        for figure in workload["figures"]
    }


def _row(
    key: tuple[str, str],
    old: Mapping[str, Any] | None,
    new: Mapping[str, Any] | None,
    threshold: float,
    error: str | None,
    missing: str | None,
) -> Row:
    known = new or old
    assert known is not None
    before = None if old is None else Range(old["median"], old["min"], old["max"])
    after = None if new is None else Range(new["median"], new["min"], new["max"])
    ratio, reason = None, ""
    if before is None:
        verdict: Verdict = "new"
    elif after is None:
        verdict = "failed" if error else "not measured"
        reason = error or missing or "the new file does not have it"
    else:
        ratio = after.median / before.median if before.median else None
        better = known.get("better") or (old or known).get("better") or ""
        verdict = _judge(before, after, str(better), threshold)
    return Row(
        workload=key[0],
        figure=key[1],
        unit=str(known.get("unit", "")),
        old=before,
        new=after,
        ratio=ratio,
        verdict=verdict,
        reason=reason,
    )


def _judge(old: Range, new: Range, better: str, threshold: float) -> Verdict:
    if new.low <= old.high and old.low <= new.high:
        return "same"
    if abs(new.median - old.median) <= threshold * abs(old.median):
        return "same"
    if not better:
        return "changed"
    return "better" if (new.median > old.median) == (better == "higher") else "regression"


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    before = {"scale": f"{old['scale']:g}", **old["environment"]}
    after = {"scale": f"{new['scale']:g}", **new["environment"]}
    return [
        (name, str(before.get(name, "not there")), str(after.get(name, "not there")))
        for name in {**before, **after}
        if name not in _OF_EVERY_RUN and before.get(name) != after.get(name)
    ]


def comparison_as_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison for programs."""
    return {
        "threshold": comparison.threshold,
        "is_worse": comparison.is_worse,
        "environment": [
            {"name": name, "old": old, "new": new} for name, old, new in comparison.environment
        ],
        "figures": [asdict(row) for row in comparison.rows],
    }


def show_comparison(console: Console, comparison: Comparison) -> None:
    """Print one row for each figure, and what differs about the machine."""
    table = Table(show_edge=False, pad_edge=False)
    for column in ("workload", "figure"):
        table.add_column(column)
    for column in ("old", "new", "new/old"):
        table.add_column(column, justify="right")
    for column in ("unit", ""):
        table.add_column(column)
    for row in comparison.rows:
        words = row.verdict + (f": {row.reason}" if row.reason else "")
        table.add_row(
            row.workload,
            row.figure,
            _shown(row.old),
            _shown(row.new),
            "" if row.ratio is None else f"{row.ratio:.3f}",
            row.unit,
            Text("" if words == "same" else words, style=_STYLES.get(row.verdict, "")),
        )
    console.print(table)
    for name, before, after in comparison.environment:
        console.print(f"different {name}: {before} -> {after}", style="yellow", highlight=False)
    worse = [row for row in comparison.rows if row.verdict in ("regression", "failed")]
    if worse:
        console.print(
            f"{len(worse)} of {len(comparison.rows)} figures failed or are worse by more than "
            f"{comparison.threshold:.0%} and the spread of the rounds"
        )
    else:
        console.print(f"no figure is worse by more than {comparison.threshold:.0%} and the spread")


def _shown(found: Range | None) -> str:
    if found is None:
        return "-"
    if found.low == found.high:
        return number(found.median)
    return f"{number(found.median)} [{number(found.low)}..{number(found.high)}]"
