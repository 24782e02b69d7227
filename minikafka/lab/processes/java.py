"""Java programs of Apache Kafka: their command lines and what they need on loopback."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

SMALL: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""Quick to start, and no threads for a collector that has nothing to collect."""

HOME_VARIABLE: Final = "KAFKA_HOME"

LOG_CONFIG: Final = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %m (%c{1})%n%throwable
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""


class NoApacheKafkaError(RuntimeError):
    """There is no Apache Kafka to run; the message says what is missing."""


def jar_folder(home: Path | None = None) -> Path:
    """The folder with Apache Kafka's jars.

    Args:
        home: an unpacked distribution, or a folder of jars; KAFKA_HOME if None.

    Raises:
        NoApacheKafkaError: Apache Kafka or Java is missing.
    """
    if shutil.which("java") is None:
        raise NoApacheKafkaError("no Java on this machine")
    if home is None:
        if not os.environ.get(HOME_VARIABLE):
            raise NoApacheKafkaError(
                f"no Apache Kafka: give its folder with --apache-kafka, or set {HOME_VARIABLE}"
            )
        home = Path(os.environ[HOME_VARIABLE])
    for folder in (home / "libs", home):
        if any(folder.glob("kafka_*.jar")):
            return folder
    raise NoApacheKafkaError(f"no kafka_*.jar in {home} or in {home / 'libs'}")


def version_of(jars: Path) -> str:
    """Apache Kafka's version, by the name of its jar."""
    names = sorted(path.stem for path in jars.glob("kafka_*.jar"))
    return names[0].rpartition("-")[2]


def java_command(
    main_class: str,
    *arguments: str,
    class_path: str,
    log_config: Path,
    heap_mb: int = 256,
    flags: Sequence[str] = SMALL,
    properties: Sequence[str] = (),
) -> list[str]:
    """The command line that runs a class."""
    return [
        "java",
        f"-Xmx{heap_mb}m",
        *flags,
        f"-Dlog4j2.configurationFile={log_config}",
        *properties,
        "-cp",
        class_path,
        main_class,
        *arguments,
    ]


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody uses at the moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
