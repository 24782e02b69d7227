"""Brokers for the client's tests."""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import count
from pathlib import Path

import pytest

from tests.live_broker import LiveBroker

# Tests must not wait for stragglers that do not exist, and static members may die young.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "auto.create.topics.enable": "false",
    "transaction.two.phase.commit.enable": "true",
}


@pytest.fixture(scope="session")
def live_broker(tmp_path_factory: pytest.TempPathFactory) -> Generator[LiveBroker]:
    """A broker that all tests of a worker share: use topics and groups of your own."""
    with LiveBroker(tmp_path_factory.mktemp("broker"), SETTINGS) as broker:
        yield broker


@pytest.fixture
def bootstrap(live_broker: LiveBroker) -> str:
    """The address of the shared broker."""
    return live_broker.bootstrap


@pytest.fixture
def own_broker(tmp_path: Path) -> Generator[LiveBroker]:
    """A broker of one's own, to kill and restart."""
    with LiveBroker(tmp_path, SETTINGS) as broker:
        yield broker


_numbers = count()


@pytest.fixture
def new_name() -> Callable[[], str]:
    """Names that no other test uses, for topics and groups."""
    return lambda: f"name-{next(_numbers)}"
