"""Pin in a constraints file what the running environment holds: names and versions, no addresses.

Pins of packages that are not installed here (the `spark` extra is large) stay as they are.
"""

import re
import sys
from importlib.metadata import distributions
from pathlib import Path

HEADER = """\
# The versions every install of this project uses (`pip install -c constraints.txt`).
# Written by `make constraints` from an environment in which `make test` and `make check` passed.
"""
NOT_PINNED = {"minikafka", "pip", "setuptools", "wheel"}


def normalized(name: str) -> str:
    """Return a distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins_of(text: str) -> dict[str, str]:
    """Return name -> version of the `name==version` lines of a constraints file."""
    lines = (line.split("#")[0].strip() for line in text.splitlines())
    return dict(line.split("==", 1) for line in lines if line)


def main(path: Path) -> None:
    """Rewrite the constraints file at `path`."""
    pins = pins_of(path.read_text()) if path.exists() else {}
    pins |= {normalized(found.metadata["Name"]): found.version for found in distributions()}
    lines = [f"{name}=={pins[name]}" for name in sorted(pins) if name not in NOT_PINNED]
    path.write_text(HEADER + "\n".join(lines) + "\n")


main(Path(sys.argv[1]))
