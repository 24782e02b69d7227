"""Brokers for the client's tests."""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import count
from pathlib import Path

import pytest

from minikafka import testing
from minikafka_client import NewTopic, sync

# Static members may die young.
SETTINGS = {
    "group.min.session.timeout.ms": "1000",
    # A member of the newer groups learns with a heartbeat what is assigned to it.
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "auto.create.topics.enable": "false",
    "transaction.two.phase.commit.enable": "true",
}


@pytest.fixture(scope="session")
def live_broker(tmp_path_factory: pytest.TempPathFactory) -> Generator[testing.Broker]:
    """A broker that all tests of a worker share: use topics and groups of your own."""
    with testing.broker(SETTINGS, directory=tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def bootstrap(live_broker: testing.Broker) -> str:
    return live_broker.bootstrap


@pytest.fixture
def own_broker(tmp_path: Path) -> Generator[testing.Broker]:
    """A broker of one's own, to kill and restart."""
    with testing.broker(SETTINGS, directory=tmp_path) as broker:
        yield broker


_numbers = count()


@pytest.fixture
def new_name() -> Callable[[], str]:
    """Names that no other test uses, for topics and groups."""
    return lambda: f"name-{next(_numbers)}"


@pytest.fixture
def topic(request: pytest.FixtureRequest, new_name: Callable[[], str]) -> str:
    """A topic of the test's broker with one partition, or `PARTITIONS` of the test's module."""
    which = "own_broker" if "own_broker" in request.fixturenames else "live_broker"
    broker: testing.Broker = request.getfixturevalue(which)
    name = new_name()
    with sync.AdminClient(broker.bootstrap) as admin:
        admin.create_topics([NewTopic(name, getattr(request.module, "PARTITIONS", 1))])
    return name


@pytest.fixture
def group(new_name: Callable[[], str]) -> str:
    """A group that no other test uses."""
    return new_name()


@pytest.fixture
def name(new_name: Callable[[], str]) -> str:
    """A name that no other test uses."""
    return new_name()
