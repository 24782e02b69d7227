"""Checks the Python of a driver or worker."""

from __future__ import annotations

import gc
import os
import sys
from importlib.util import find_spec
from typing import Final

from .errors import EnvironmentMismatchError

_NEEDED: Final = ("numpy", "pyarrow")
_UNKNOWN: Final = "unknown"
_METADATA_BEGINS: Final = "minikafka-"
_METADATA_ENDS: Final = ".dist-info"

_is_frozen = False


def check_packages() -> None:
    """Check that the packages that decode records are installed.

    Raises:
        EnvironmentMismatchError: one is missing.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise EnvironmentMismatchError(
            f"{sys.executable} has no {' and no '.join(missing)}: run "
            f"`{sys.executable} -m pip install {' '.join(missing)}`, or set PYSPARK_PYTHON to an "
            f"interpreter that has them"
        )


def connector_version() -> str:
    """The installed version, from the name of the directory with the package's metadata.

    `importlib.metadata` would take 40 ms in each of Spark's processes: it reads the index of
    `pyspark.zip`, and imports the modules that parse metadata.
    """
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:  # a zip file, or nothing
            continue
        for name in names:
            if name.startswith(_METADATA_BEGINS) and name.endswith(_METADATA_ENDS):
                return name.removeprefix(_METADATA_BEGINS).removesuffix(_METADATA_ENDS)
    return _UNKNOWN


def check_worker(driver_version: str) -> None:
    """Compare this worker with the driver that planned its task.

    Raises:
        EnvironmentMismatchError: a package is missing, or the versions differ.
    """
    check_packages()
    here = connector_version()
    if here != driver_version and _UNKNOWN not in (here, driver_version):
        raise EnvironmentMismatchError(
            f"the driver has minikafka {driver_version}, this worker ({sys.executable}) has "
            f"{here}: install the same version on both, or set PYSPARK_PYTHON"
        )


def prepare_worker(driver_version: str) -> None:
    """Check a worker process once, and exempt loaded modules from garbage collection.

    Spark's workers collect garbage after every task; with NumPy and Arrow loaded, that takes longer
    than a small task.

    Raises:
        EnvironmentMismatchError: see `check_worker`.
    """
    global _is_frozen
    if _is_frozen:
        return
    check_worker(driver_version)
    gc.collect()
    gc.freeze()
    _is_frozen = True
