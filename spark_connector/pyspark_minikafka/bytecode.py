"""Adds bytecode to the zip files from which Spark's Python processes import PySpark.

    python -m pyspark_minikafka.bytecode

Spark puts `pyspark.zip` before the installed package on their path. It has no bytecode, so each of
these processes compiles PySpark: half a second of processor time, and several of them start with
each query. Other versions of Python ignore the bytecode. Run it once after installing PySpark.
"""

from __future__ import annotations

import os
import py_compile
import sys
import tempfile
import warnings
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pyspark


def add_bytecode(archive: Path) -> int:
    """Compile the modules in a zip file, for this version of Python, and add them to it.

    The file is replaced atomically; processes that have opened it go on with the old one.

    Returns:
        The number of modules.

    Raises:
        OSError: it cannot be replaced.
    """
    unfinished = archive.with_name(f".{archive.name}.tmp")
    count = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        ZipFile(archive) as old,
        ZipFile(unfinished, "w", ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            if name.endswith(("/", ".pyc")):
                continue
            source = Path(old.extract(name, folder))
            new.write(source, name)
            if name.endswith(".py"):
                new.writestr(f"{name}c", _compiled(source, archive / name))
                count += 1
    os.replace(unfinished, archive)
    return count


def _compiled(source: Path, name: Path) -> bytes:
    """The bytecode of a module; it is not compared with its source, which never changes."""
    target = source.with_suffix(".pyc")
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the code of others
        py_compile.compile(
            str(source), str(target), str(name), doraise=True, invalidation_mode=mode
        )
    return target.read_bytes()


def archives(spark_home: Path) -> list[Path]:
    """The zip files with Python modules of a Spark installation."""
    return sorted((spark_home / "python" / "lib").glob("*.zip"))


def main() -> int:
    """Run the command; returns its exit status."""
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    found = archives(home)
    if not found:
        sys.stderr.write(f"error: {home} has no python/lib/*.zip; set SPARK_HOME\n")
        return 1
    try:
        for archive in found:
            count = add_bytecode(archive)
            sys.stdout.write(f"bytecode of {count} modules added to {archive}\n")
    except OSError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
