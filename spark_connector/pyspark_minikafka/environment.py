"""Whether the Python of a driver or a worker has what the connector needs."""

from __future__ import annotations

import gc
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Final

from .errors import EnvironmentMismatchError

_NEEDED: Final = ("numpy", "pyarrow")
_UNKNOWN: Final = "unknown"

_is_frozen = False


def check_packages() -> None:
    """Look for the packages that decode records.

    Raises:
        EnvironmentMismatchError: one is missing.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise EnvironmentMismatchError(
            f"{sys.executable} has no {' and no '.join(missing)}: run "
            f"`{sys.executable} -m pip install 'minikafka[spark]'`, or set PYSPARK_PYTHON to the "
            f"interpreter that has it"
        )


def connector_version() -> str:
    """The version that is installed, as its metadata say."""
    try:
        return version("minikafka")
    except PackageNotFoundError:
        return _UNKNOWN


def check_worker(driver_version: str) -> None:
    """Compare this worker with the driver that made its task.

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
    """Check a worker process, once, and take what is loaded out of the garbage collector's sight.

    Spark's workers collect garbage after every task: with NumPy and Arrow loaded that takes longer
    than a small task does.

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
