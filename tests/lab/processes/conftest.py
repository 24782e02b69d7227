"""Three brokers of ours, started once, and the engine that runs scenarios on them."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from minikafka.lab.processes.engine import ProcessesEngine
from minikafka.lab.processes.minikafka_target import MinikafkaTarget
from tests.peers import java_runtime


@pytest.fixture(scope="session")
def target() -> MinikafkaTarget:
    """The cluster; the engine ends it."""
    return MinikafkaTarget()


@pytest.fixture(scope="session")
def engine(target: MinikafkaTarget) -> Generator[ProcessesEngine]:
    """Runs scenarios on the cluster."""
    engine = ProcessesEngine(target)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def java() -> None:
    """Without Java and Maven the test is skipped (on CI it fails)."""
    reason = java_runtime.missing()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def jars(java: None) -> Path:
    """Apache Kafka's jars."""
    return java_runtime.jars()
