"""The Python code of the page: the modules that the simulation engine imports, in one zip file.

Only what is pure Python can run in a browser. Some libraries have a pure part beside the compiled
one (msgpack, google-crc32c) or are not used by the simulation (cramjam, re2, trio); the page puts
empty modules in their place. The pure floors are in it as a whole, because they import some of
their modules when they are used.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

_FLOORS: Final = (
    "protocol",
    "storage",
    "replication",
    "consensus",
    "security",
    "metadata",
    "coordinator",
)
STAND_INS: Final = ("trio", "cramjam", "re2")
"""Modules that are imported and not used by a simulation."""
_LIST: Final = """
import json, sys, types, warnings
for name in %r:
    sys.modules[name] = types.ModuleType(name)
for name in ("msgpack._cmsgpack", "google_crc32c._crc32c"):
    sys.modules[name] = None
warnings.simplefilter("ignore")
before = set(sys.modules)
import minikafka.lab.web.browser
files = {}
for name, module in sys.modules.items():
    file = getattr(module, "__file__", None)
    if name not in before and file and file.endswith(".py"):
        files[name] = [file, bool(getattr(module, "__path__", None))]
print(json.dumps([files, sorted(sys.stdlib_module_names)]))
"""
_FIXED_TIME: Final = (2020, 1, 1, 0, 0, 0)


class BundleError(RuntimeError):
    """The code cannot be gathered; the message says why."""


def modules() -> dict[str, Path]:
    """The files of the bundle by their path in it.

    Raises:
        BundleError: the engine cannot be imported.
    """
    done = subprocess.run(
        [sys.executable, "-c", _LIST % (STAND_INS,)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BundleError(f"the lab cannot be imported:\n{done.stderr}")
    files, standard = json.loads(done.stdout)
    found: dict[str, Path] = {}
    for name, (file, is_package) in sorted(files.items()):
        if name.partition(".")[0] in standard:
            continue
        place = name.replace(".", "/") + ("/__init__.py" if is_package else ".py")
        found[place] = Path(file)
    root = Path(files["minikafka"][0]).parent
    for floor in _FLOORS:
        for path in (root / floor).rglob("*.py"):
            found[f"minikafka/{path.relative_to(root).as_posix()}"] = path
    return dict(sorted(found.items()))


def bundle() -> bytes:
    """A zip file with the code; the same code gives the same bytes.

    Raises:
        BundleError: see `modules`.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for place, path in modules().items():
            info = zipfile.ZipInfo(place, _FIXED_TIME)
            archive.writestr(info, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
