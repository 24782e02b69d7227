"""The result of an audit: totals and the worst rows, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

FINDINGS: Final = ("lost", "duplicated", "reordered", "unnumbered")
_UNKNOWN: Final = "-"


@dataclass(frozen=True, slots=True)
class Report:
    """Totals and rows of an audit; the package explains the findings.

    Attributes:
        records: the number of records that were read.
        rows: of `audited`, those with findings first, up to the limit.
        rows_left_out: the number of rows beyond the limit.
    """

    records: int
    lost: int
    duplicated: int
    reordered: int
    unnumbered: int
    rows: tuple[dict[str, Any], ...]
    rows_left_out: int

    @property
    def is_clean(self) -> bool:
        return not any(getattr(self, name) for name in FINDINGS)

    def document(self) -> dict[str, Any]:
        return {"clean": self.is_clean, **asdict(self)}


def report_on(audited: DataFrame, rows_max: int) -> Report:
    """Add up, and fetch at most `rows_max` rows; only these leave the cluster."""
    is_place = sf.col("partition").isNotNull()
    totals = audited.agg(
        sf.count("*").alias("rows"),
        _sum(sf.when(is_place, sf.col("records"))).alias("records"),
        _sum(sf.col("lost")).alias("lost"),
        *(_sum(sf.when(is_place, sf.col(name))).alias(name) for name in FINDINGS[1:]),
    ).collect()[0]
    trouble = sf.coalesce("lost", sf.lit(0))
    for name in FINDINGS[1:]:
        trouble = trouble + sf.col(name)
    first = audited.orderBy(
        trouble.desc(),
        sf.col("partition").isNotNull(),
        "topic",
        "producer",
        "partition",
    ).limit(rows_max)
    rows = sorted((row.asDict(recursive=True) for row in first.collect()), key=_place_of)
    return Report(
        records=totals["records"],
        **{name: totals[name] for name in FINDINGS},
        rows=tuple(rows),
        rows_left_out=totals["rows"] - len(rows),
    )


def _sum(numbers: Column) -> Column:
    return sf.coalesce(sf.sum(numbers), sf.lit(0).cast("long"))


def _place_of(row: dict[str, Any]) -> tuple[str, str, int]:
    partition = row["partition"]
    return row["topic"] or "", row["producer"] or "", -1 if partition is None else partition


def print_report(report: Report, console: Console) -> None:
    """Print a table (without lines if it is not a terminal) and one line with the verdict."""
    findings = [name for name in FINDINGS if name != "unnumbered" or report.unnumbered]
    lines = box.SIMPLE_HEAD if console.is_terminal else None
    table = Table(box=lines, header_style="cyan", collapse_padding=True, pad_edge=False)
    for name in ("topic", "producer", "partition"):
        table.add_column(name, overflow="fold")
    for name in ("records", "first", "last", *findings):
        table.add_column(name, justify="right", no_wrap=True)
    for row in report.rows:
        table.add_row(*_cells(row, findings))
    console.print(table)
    if report.rows_left_out:
        console.print(f"and {report.rows_left_out:,} more rows; --rows sets how many are shown")
    for row in report.rows:
        found = "; ".join(_instances(row))
        if found and (row["partition"] is None or row["lost"] is not None):
            console.print(Text(f"{_name(row['topic'])} {_name(row['producer'])}: {found}"))
    style = "bold green" if report.is_clean else "bold red"
    console.print(Text(verdict(report), style))


def verdict(report: Report) -> str:
    records = f"{report.records:,} record{'' if report.records == 1 else 's'}"
    if report.is_clean:
        return f"clean: {records}, none lost, duplicated or reordered"
    found = [(getattr(report, name), name) for name in FINDINGS]
    listed = ", ".join(f"{count:,} {name}" for count, name in found if count)
    return f"not clean: {records}; {listed}"


def _cells(row: dict[str, Any], findings: list[str]) -> list[Text]:
    partition = "all" if row["partition"] is None else str(row["partition"])
    texts = [_name(row["topic"]), _name(row["producer"]), Text(partition)]
    texts += [Text(_count(row[name])) for name in ("records", "first", "last")]
    texts += [Text(_count(row[name]), "bold red" if row[name] else "green") for name in findings]
    return texts


def _count(number: int | None) -> str:
    return _UNKNOWN if number is None else f"{number:,}"


def _name(name: str | None) -> Text:
    """A name from a record, escaped so that it cannot control the terminal."""
    if name is None:
        return Text(_UNKNOWN)
    return Text("".join(each if each.isprintable() else ascii(each)[1:-1] for each in name))


def _instances(row: dict[str, Any]) -> Iterator[str]:
    lost = row["first_lost"]
    if lost:
        first, last = lost["from"], lost["to"]
        yield f"lost {first}" if first == last else f"lost {first} to {last}"
    for name, word in (("first_duplicated", "again"), ("first_reordered", "late")):
        place = row[name]
        if place:
            where = f"partition {place['partition']} offset {place['offset']}"
            yield f"{place['sequence']} {word}, {where}"
