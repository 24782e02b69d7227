"""Apache Kafka on this machine, as its own start script runs it; needs Java and Maven."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..processes import ProcessFailedError

if TYPE_CHECKING:
    from tests.peers.apache_kafka import OwnApacheKafka

HEAP_MB: Final = 1024
FLAGS: Final = (
    "-server",
    f"-Xms{HEAP_MB}m",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
)
DEFAULTS: Final = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "background.threads": "10",
    "offsets.topic.num.partitions": "50",
    "transaction.state.log.num.partitions": "50",
    "log.cleaner.dedupe.buffer.size": "134217728",
}
"""Kafka's, instead of what the tests choose to save memory."""


def require_java() -> None:
    """Check that Apache Kafka can run here.

    Raises:
        ProcessFailedError: there is no Java or no Maven.
    """
    from tests.peers import java_runtime

    missing = java_runtime.missing()
    if missing is not None:
        raise ProcessFailedError(missing)


@contextmanager
def apache_kafka(folder: Path, settings: Mapping[str, str] | None = None) -> Generator[str]:
    """The bootstrap address of a broker with Kafka's defaults, which runs during a block.

    Raises:
        ProcessFailedError: there is no Java or no Maven.
    """
    with apache_node(folder, settings) as node:
        yield node.bootstrap


@contextmanager
def apache_node(
    folder: Path, settings: Mapping[str, str] | None = None
) -> Generator[OwnApacheKafka]:
    """The same, with what can be done to it.

    Raises:
        ProcessFailedError: there is no Java or no Maven.
    """
    require_java()
    from tests.peers.apache_kafka import OwnApacheKafka

    every = {**DEFAULTS, **(settings or {})}
    with OwnApacheKafka(folder, every, heap_mb=HEAP_MB, flags=FLAGS) as node:
        yield node
