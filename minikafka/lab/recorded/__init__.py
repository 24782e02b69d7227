"""Results that were recorded on another day, for reports of machines that cannot repeat them.

`load` reads ``apache-kafka.json``, which `save` has written; a report shows them as recorded, with
the date, the version and the number of cores.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any, Final

from ..claims import CLAIMS
from ..ledger import Counts
from ..matrix import Cell
from ..results import CellResult, CellResults, judge

FORMAT: Final = 1


@dataclass(frozen=True)
class Recorded:
    """Results of an engine.

    Attributes:
        engine: its name.
        version: of what was run.
        date: ISO date of the run.
        cores: of the machine.
        found: what was found, by cell; of each measure only the median.
        verdicts: the stamp of each claim that was decided, by its id.
    """

    engine: str
    version: str
    date: str
    cores: int
    found: Mapping[Cell, CellResult]
    verdicts: Mapping[str, str]


def load(engine: str) -> Recorded | None:
    """What was recorded of an engine; None if nothing was."""
    place = files(__name__) / f"{engine}.json"
    if not place.is_file():
        return None
    document = json.loads(place.read_text(encoding="utf-8"))
    return Recorded(
        engine=document["engine"],
        version=document["version"],
        date=document["date"],
        cores=document["cores"],
        found={
            Cell.parse(name): CellResult(
                runs=one["runs"],
                counts=Counts(**one["counts"]),
                runs_with=Counter(one["runs_with"]),
                examples=one["examples"],
                measures={name: [value] for name, value in one["medians"].items()},
            )
            for name, one in document["cells"].items()
        },
        verdicts={claim: one["verdict"] for claim, one in document["claims"].items()},
    )


def save(
    path: Path, found: CellResults, *, engine: str, version: str, date: str, cores: int
) -> None:
    """Write results to a file, with the stamp of each claim that they decide."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "engine": engine,
        "version": version,
        "date": date,
        "cores": cores,
        "claims": _claims(found),
        "cells": {str(cell): _cell(result) for cell, result in found.items()},
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _claims(found: CellResults) -> dict[str, Any]:
    judged = {claim.id: judge(claim, found) for claim in CLAIMS}
    return {
        claim: {"verdict": one.verdict.value, "runs": one.runs, "why": one.why}
        for claim, one in judged.items()
        if one.runs
    }


def _cell(result: CellResult) -> dict[str, Any]:
    return {
        "runs": result.runs,
        "counts": {name: n for name, n in result.counts._asdict().items() if n},
        "runs_with": dict(result.runs_with),
        "examples": result.examples,
        "medians": {name: round(median(some), 6) for name, some in result.measures.items()},
    }
