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

from minikafka.lab.processes.java import SMALL

HERE = Path(__file__).parent
POM = HERE / "pom.xml"
TOOLS_POM = HERE / "pom-tools.xml"
LIBRARIES_POM = HERE / "pom-libraries.xml"
OLD_CLIENTS_POM = HERE / "pom-old-clients.xml"
TOOLS_PACKAGES = ("kafka.admin.", "org.apache.kafka.tools.")
CONNECT_PACKAGE = "org.apache.kafka.connect."
JAVA_SOURCES = HERE / "java"
STREAMS_SOURCES = JAVA_SOURCES / "streams"
LOG_CONFIG = HERE / "log4j2.properties"
KEPT = Path(sys.prefix) / "peers"
PROGRAMS = ("java", "javac", "mvn")


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


def classes(folder: Path = JAVA_SOURCES, pom: Path = POM) -> Path:
    """The folder with the compiled programs of a folder of sources.

    Raises:
        RuntimeError: they do not compile.
    """
    sources = sorted(folder.glob("*.java"))
    class_path = f"{jars(pom)}/*"

    def compile_all(into: Path) -> None:
        lint = ("-Xlint:all,-processing", "-Werror")
        _run(["javac", *lint, "-cp", class_path, "-d", into, *sources])

    return _made_once(KEPT / f"classes-{_digest([pom, *sources])}", compile_all)


def class_path(main_class: str) -> str:
    """Where a class is: in the jars, in `java/`, in `java/streams/`, or among Kafka's tools."""
    if main_class.startswith(TOOLS_PACKAGES):
        return f"{jars(TOOLS_POM)}/*"
    if main_class.startswith(CONNECT_PACKAGE):
        return f"{jars(LIBRARIES_POM)}/*"
    if (STREAMS_SOURCES / f"{main_class}.java").is_file():
        return f"{classes(STREAMS_SOURCES, LIBRARIES_POM)}:{jars(LIBRARIES_POM)}/*"
    return f"{classes()}:{jars()}/*"


def java_command(
    main_class: str,
    *arguments: str,
    heap_mb: int = 128,
    log_level: str = "info",
    flags: Sequence[str] = SMALL,
    classes_and_jars: str | None = None,
) -> list[str]:
    """The command line that runs a class; `class_path` says which there are and where."""
    return [
        "java",
        f"-Xmx{heap_mb}m",
        *flags,
        f"-Dlog4j2.configurationFile={LOG_CONFIG}",
        f"-Dpeers.log.level={log_level}",
        "-cp",
        classes_and_jars or class_path(main_class),
        main_class,
        *arguments,
    ]
