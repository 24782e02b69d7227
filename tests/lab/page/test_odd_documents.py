"""Documents of labs that ran little, or found something terrible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from minikafka.lab.page import render
from tests.kit.chromium import Page
from tests.lab.page import documents

TOKEN = "p.acks1_t.r3-m2_c.none_f.none@5"
JUDGED = {"verdict": "false", "runs": 3, "counts": {"sent": 9, "lost": 2}, "why": "lost in 1 of 3"}
CLAIM = {"id": "a", "statement": "Nothing is lost.", "expected": True, "verdict": "false"}


def shown(page: Page, tmp_path: Path, document: dict[str, Any]) -> str:
    file = tmp_path / "report.html"
    file.write_text(render(document), encoding="utf-8")
    page.open(file)
    text: str = page.evaluate("document.querySelector('main').textContent")
    assert page.console == []
    return text


@pytest.mark.parametrize(
    "rest",
    [
        {},
        {"side_by_side": [], "cells": [], "timelines": {}, "plots": {}},
        {"side_by_side": ["a", "b"], "timelines": {}},
        {"plots": {"lag": {}, "latency_by_acks": {"acks=1": []}}},
        {"plots": {"lag": {"a": []}, "consumed_times": {"a": {"0": 0}}}},
    ],
)
def test_little_is_no_error(chromium: Page, tmp_path: Path, rest: dict[str, Any]) -> None:
    text = shown(chromium, tmp_path, {"engines": {}, "claims": [], **rest})
    assert "No claim was looked at." in text
    assert "The same seed twice" not in text


def test_a_broken_invariant_is_loud(chromium: Page, tmp_path: Path) -> None:
    engine = {"version": "1", "runs": 3, "broken": {TOKEN: "two leaders"}, "left_out": {"slow": 7}}
    claim = CLAIM | {"engines": {"simulation": JUDGED | {"example": None}}}
    document = {"engines": {"simulation": engine}, "claims": [claim], "is_as_expected": False}
    text = shown(chromium, tmp_path, document)
    assert "An invariant broke: two leaders" in text
    assert f"minikafka lab replay '{TOKEN}'" in text
    assert "7 cells left out: slow" in text
    assert "expected TRUE" in text


def test_an_example_without_a_timeline_has_its_command(chromium: Page, tmp_path: Path) -> None:
    claim = CLAIM | {"engines": {"verify": JUDGED | {"example": {"seed": TOKEN}}}}
    document = {"engines": {"verify": {"runs": 3}}, "claims": [claim]}
    text = shown(chromium, tmp_path, document)
    assert "This cluster" in text
    assert f"minikafka lab replay '{TOKEN}'" in text


def test_the_same_timeline_twice_has_no_difference(chromium: Page, tmp_path: Path) -> None:
    timeline = documents.timeline(records=4)
    document = {"side_by_side": ["a", "b"], "timelines": {"a": timeline, "b": timeline}}
    text = shown(chromium, tmp_path, {"engines": {}, "claims": [], **document})
    assert "They do not differ in anything." in text
