"""Apache Kafka's jars, collected by Maven, and programs that run on them.

The jars are kept beside the tests' own packages (under the virtual environment), so Maven runs once
per environment and version of `pom.xml`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
POM = HERE / "pom.xml"
TOOLS_POM = HERE / "pom-tools.xml"
TOOLS_PACKAGES = ("kafka.admin.", "org.apache.kafka.tools.")
JAVA_SOURCES = HERE / "java"
LOG_CONFIG = HERE / "log4j2.properties"
KEPT = Path(sys.prefix) / "peers"
PROGRAMS = ("java", "javac", "mvn")

SMALL = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""Quick to start, and no threads for a collector that has nothing to collect."""


def missing() -> str | None:
    """Why Java programs cannot run here, in one line; None when they can."""
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    if not absent:
        return None
    return f"Apache Kafka needs a JDK and Maven, and there is no {' and no '.join(absent)} here"


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Let one process at a time be here."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """A folder that some process has filled completely; this one does it if none has."""
    with locked(folder.with_name(f"{folder.name}.lock")):
        if not folder.is_dir():
            unfinished = folder.with_name(f"{folder.name}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(folder)
    return folder


def _digest(paths: Sequence[Path]) -> str:
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()[:16]


def _run(command: Sequence[str | os.PathLike[str]]) -> None:
    finished = subprocess.run(
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if finished.returncode:
        said = (finished.stdout + finished.stderr).strip()
        raise RuntimeError(f"{command[0]} ended with {finished.returncode}:\n{said[-4000:]}")


def jars(pom: Path = POM) -> Path:
    """The folder with the jars that a `pom.xml` names, and all that they need.

    Raises:
        RuntimeError: Maven could not get them; the text ends with what it said.
    """

    def collect(folder: Path) -> None:
        goal = "dependency:copy-dependencies"
        _run(["mvn", "--batch-mode", "-q", "-f", pom, goal, f"-DoutputDirectory={folder}"])

    return _made_once(KEPT / f"jars-{_digest([pom])}", collect)


def classes() -> Path:
    """The folder with the compiled programs of `java/`.

    Raises:
        RuntimeError: they do not compile.
    """
    sources = sorted(JAVA_SOURCES.glob("*.java"))
    class_path = f"{jars()}/*"

    def compile_all(folder: Path) -> None:
        _run(
            [
                "javac",
                "-Xlint:all,-processing",
                "-Werror",
                "-cp",
                class_path,
                "-d",
                folder,
                *sources,
            ]
        )

    return _made_once(KEPT / f"classes-{_digest([POM, *sources])}", compile_all)


def java_command(
    main_class: str, *arguments: str, heap_mb: int = 128, log_level: str = "info"
) -> list[str]:
    """The command line that runs a class of the jars or of `java/`, or one of Kafka's tools."""
    is_tool = main_class.startswith(TOOLS_PACKAGES)
    return [
        "java",
        f"-Xmx{heap_mb}m",
        *SMALL,
        f"-Dlog4j2.configurationFile={LOG_CONFIG}",
        f"-Dpeers.log.level={log_level}",
        "-cp",
        f"{jars(TOOLS_POM)}/*" if is_tool else f"{classes()}:{jars()}/*",
        main_class,
        *arguments,
    ]
