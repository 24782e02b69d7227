"""The page for browsers: it runs the same code to the same end, opened as a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from minikafka.lab.web import browser as code
from minikafka.lab.web.bundle import bundle, modules
from minikafka.lab.web.site import SiteError, build_site
from tests.kit.chromium import Page
from tests.lab.web import machines

SEEDS = 12


def test_a_page_that_was_opened_as_a_file_runs_the_same_code(page: Page) -> None:
    assert machines.in_page(page, SEEDS) == code.fingerprints_of(SEEDS)


def test_the_first_run_is_shown(page: Page) -> None:
    assert page.evaluate("document.querySelector('.scrubber') !== null")
    assert "lost" in page.evaluate("document.getElementById('counts').textContent")
    token = page.evaluate("decodeURIComponent(location.hash.slice(1))")
    assert json.loads(code.run(token))["fingerprint"] == page.evaluate(
        "document.getElementById('fingerprint').textContent"
    )


def test_node_runs_the_same_code(tmp_path: Path, node: None) -> None:
    assert machines.in_node(SEEDS, tmp_path)["fingerprints"] == code.fingerprints_of(SEEDS)


def test_the_code_of_the_page_is_pure() -> None:
    files = modules()
    assert "minikafka/lab/web/browser.py" in files
    assert not any(place.startswith(("trio/", "cramjam/", "click/")) for place in files)
    assert bundle() == bundle()


def test_what_is_not_pyodide_is_named(tmp_path: Path) -> None:
    with pytest.raises(SiteError, match="is not the npm package pyodide"):
        build_site(tmp_path / "site", tmp_path)
