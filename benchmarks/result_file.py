"""Reads the JSON files of `run --json` and `suite`, and says what is wrong with one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_FIGURE_NUMBERS = ("median", "min", "max")


class ResultFileError(Exception):
    """A file has no results; the text names the file and what is wrong with it."""


def read_results(path: Path) -> dict[str, Any]:
    """The results in a file, checked as far as reports and comparisons need them.

    Raises:
        ResultFileError: the file cannot be read, is not JSON, or has not what a result has.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ResultFileError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ResultFileError(f"{path} is not UTF-8 text: {error.reason}") from error
    except json.JSONDecodeError as error:
        raise ResultFileError(
            f"{path} is not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from error
    problem = _problem(found)
    if problem is not None:
        raise ResultFileError(f"{path} has no results of `python -m benchmarks`: {problem}")
    checked: dict[str, Any] = found
    return checked


def _problem(found: object) -> str | None:
    if not isinstance(found, Mapping):
        return "it is not an object"
    for name, kind in (("environment", Mapping), ("scale", int | float), ("workloads", list)):
        if not isinstance(found.get(name), kind):
            return f"{name!r} is missing or of the wrong kind"
    for number, workload in enumerate(found["workloads"]):
        problem = _workload_problem(workload)
        if problem is not None:
            known = workload.get("name") if isinstance(workload, Mapping) else None
            return f"workload {known or number}: {problem}"
    return None


def _workload_problem(workload: object) -> str | None:
    if not isinstance(workload, Mapping):
        return "it is not an object"
    if not isinstance(workload.get("name"), str):
        return "it has no name"
    figures = workload.get("figures")
    if not isinstance(figures, list):
        return "'figures' is missing or not a list"
    for figure in figures:
        if not isinstance(figure, Mapping) or not isinstance(figure.get("name"), str):
            return "a figure has no name"
        for number in _FIGURE_NUMBERS:
            if not isinstance(figure.get(number), int | float):
                return f"figure {figure['name']!r}: {number!r} is missing or not a number"
    return None
