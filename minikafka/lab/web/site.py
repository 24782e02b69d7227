"""Builds the page: a folder that works from a web server, and when index.html is opened as a file.

A page that was opened as a file may not fetch its neighbours, so Pyodide and the Python code travel
in `engine.js`, a script, as compressed base64. That is the only way in both cases.
"""

from __future__ import annotations

import base64
import gzip
import json
import shutil
import subprocess
import tempfile
from importlib import resources
from pathlib import Path
from typing import Final

from ..page import asset
from .bundle import STAND_INS, bundle

PYODIDE: Final = "314.0.7"
"""The version of the npm package. It has Python 3.14."""
_PARTS: Final = {
    "loader": "pyodide.mjs",
    "module": "pyodide.asm.mjs",
    "wasm": "pyodide.asm.wasm",
    "lock": "pyodide-lock.json",
    "stdlib": "python_stdlib.zip",
}
_COPIED: Final = ("index.html", "web.css", "web.js", "worker.js")
_FROM_REPORT: Final = ("lab.css", "dom.js", "scrubber.js")
_NPM_TIMEOUT_S: Final = 300.0


class SiteError(RuntimeError):
    """The page cannot be built; the message says what is missing and what to do."""


def fetch_pyodide(folder: Path) -> Path:
    """Get Pyodide with npm.

    Args:
        folder: where to unpack it.

    Returns:
        The directory with its files.

    Raises:
        SiteError: there is no npm, or it has failed.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise SiteError(
            "npm is not installed, which fetches Pyodide; install Node.js, or name a directory "
            f"with the npm package pyodide {PYODIDE} by --pyodide"
        )
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [npm, "pack", "--silent", f"pyodide@{PYODIDE}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=_NPM_TIMEOUT_S,
    )
    if done.returncode:
        raise SiteError(f"npm cannot fetch pyodide {PYODIDE}: {done.stderr.strip()[-500:]}")
    archive = folder / done.stdout.strip().splitlines()[-1]
    shutil.unpack_archive(archive, folder, filter="data")
    archive.unlink()
    return folder / "package"


def build_site(target: Path, pyodide: Path | None = None) -> None:
    """Write the page.

    Args:
        target: the folder, which is made; files in it with the same names are replaced.
        pyodide: the unpacked npm package; it is fetched if None.

    Raises:
        SiteError: Pyodide is missing or incomplete.
    """
    with tempfile.TemporaryDirectory() as temporary:
        place = fetch_pyodide(Path(temporary)) if pyodide is None else pyodide
        target.mkdir(parents=True, exist_ok=True)
        (target / "engine.js").write_text(_engine_script(place), encoding="ascii")
    own = resources.files("minikafka.lab.web")
    for name in _COPIED:
        (target / name).write_bytes((own / name).read_bytes())
    for name in _FROM_REPORT:
        (target / name).write_text(asset(name), encoding="utf-8")


def _engine_script(pyodide: Path) -> str:
    """Pyodide, the Python code and the worker as one script that sets `LAB_ENGINE`."""
    parts: dict[str, str] = {}
    for name, file in _PARTS.items():
        try:
            content = (pyodide / file).read_bytes()
        except OSError as error:
            raise SiteError(f"{pyodide} is not the npm package pyodide: {error}") from None
        parts[name] = _packed(content)
    parts["code"] = _packed(bundle())
    worker = resources.files("minikafka.lab.web") / "worker.js"
    parts["worker"] = _packed(worker.read_bytes())
    parts["stand_ins"] = json.dumps(list(STAND_INS))
    return f"window.LAB_ENGINE = {json.dumps(parts)};\n"


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, 6, mtime=0)).decode()
