"""One Spark session for all tests of a process: a JVM takes seconds to start."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator
from itertools import count

import pytest
from pyspark.sql import SparkSession

from minikafka import testing
from minikafka_client.sync import AdminClient
from minikafka_client.types import NewTopic
from tests.spark.session import new_session

MakeTopic = Callable[..., str]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need the session."""
    for item in items:
        if "java" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.java)


@pytest.fixture(scope="session")
def java() -> None:
    """Without Java the test is skipped (on CI it fails)."""
    if shutil.which("java") is None:
        pytest.skip("Spark needs a Java runtime, and there is no java here")


@pytest.fixture(scope="session")
def spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> Generator[SparkSession]:
    """A session with two local workers."""
    session = new_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Generator[testing.Broker]:
    """`minikafka serve`, one for each process; use topics of your own."""
    settings = {"transaction.two.phase.commit.enable": "true"}
    with testing.broker(settings, directory=tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="session")
def admin(broker: testing.Broker) -> Generator[AdminClient]:
    """An administrator of that broker."""
    with AdminClient(broker.bootstrap) as client:
        yield client


@pytest.fixture(scope="session")
def make_topic(admin: AdminClient) -> MakeTopic:
    """Creates a new topic: `make_topic(partitions, **configs)`."""
    numbers = count()

    def make(partitions: int = 1, prefix: str = "topic", **configs: str) -> str:
        name = f"{prefix}-{next(numbers)}"
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        admin.create_topics([NewTopic(name, partitions, 1, settings)])
        return name

    return make
