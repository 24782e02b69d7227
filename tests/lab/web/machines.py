"""The lab's Python code elsewhere: in Node, and in a page in Chromium.

python -m tests.lab.web.machines 200      are the fingerprints of 200 seeds the same?
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from minikafka.lab.web.browser import fingerprints_of
from minikafka.lab.web.bundle import STAND_INS, bundle
from minikafka.lab.web.site import PYODIDE, build_site, fetch_pyodide
from tests.kit.chromium import Page, browser, find_chromium
from tests.peers.java_runtime import KEPT, locked

HERE = Path(__file__).parent
READY_TIMEOUT_S = 120.0


def missing() -> str | None:
    """Why the code cannot run elsewhere, in one line; None if it can."""
    absent = [name for name in ("node", "npm") if shutil.which(name) is None]
    return f"needs {' and '.join(absent)}, which is not here" if absent else None


def pyodide() -> Path:
    """The unpacked npm package, fetched once for each virtual environment."""
    folder = KEPT / f"pyodide-{PYODIDE}"
    with locked(folder.with_suffix(".lock")):
        if not (folder / "package").is_dir():
            unfinished = folder.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            fetch_pyodide(unfinished)
            unfinished.rename(folder)
    return folder / "package"


def in_node(seeds: int, folder: Path) -> dict[str, Any]:
    """Fingerprints, and how fast they came."""
    code = folder / "lab.zip"
    code.write_bytes(bundle())
    words = [str(pyodide()), str(code), str(seeds), json.dumps(STAND_INS)]
    done = subprocess.run(
        ["node", str(HERE / "node.mjs"), *words], check=True, capture_output=True, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def open_site(page: Page, folder: Path) -> float:
    """Open the page as a file, and wait for its first run; how many seconds that took."""
    build_site(folder, pyodide())
    begin = time.monotonic()
    page.open(folder / "index.html")
    wait = """new Promise((resolve) => {
      const look = () => document.body.dataset.ready === 'true' ||
        document.getElementById('status').textContent.startsWith('cannot')
        ? resolve(document.getElementById('status').textContent) : setTimeout(look, 20);
      look();
    })"""
    status = page.evaluate(wait)
    assert page.evaluate("document.body.dataset.ready") == "true", status
    return time.monotonic() - begin


def in_page(page: Page, seeds: int) -> list[str]:
    """Fingerprints of the page that is open."""
    found: list[str] = page.evaluate(f"window.labFingerprints({seeds})")
    return found


def main() -> int:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    here = fingerprints_of(seeds)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        there = in_node(seeds, folder)
        speed = there["simulated_s"] / there["seconds"]
        is_equal = there["fingerprints"] == here
        words = "equal" if is_equal else "DIFFERENT"
        sys.stdout.write(f"Node: {words}, {speed:,.0f} simulated s per s\n")
        program = find_chromium()
        if program is None:
            sys.stdout.write("Chromium: not here\n")
            return int(not is_equal)
        with browser(program, folder / "profile") as page:
            ready_s = open_site(page, folder / "site")
            is_equal_there = in_page(page, seeds) == here
            words = "equal" if is_equal_there else "DIFFERENT"
            sys.stdout.write(f"Chromium: {words}, first frame after {ready_s:.1f} s\n")
    return int(not (is_equal and is_equal_there))


if __name__ == "__main__":
    sys.exit(main())
