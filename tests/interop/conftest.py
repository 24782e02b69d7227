"""A broker as its users run it, `minikafka serve`, for the clients that are not ours."""

from __future__ import annotations

import warnings
from collections.abc import Generator

import pytest

with warnings.catch_warnings():
    # kafka-python reads its message schemas with a function that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka as _kafka_imported_first  # noqa: F401  # later imports find it loaded

from tests.interop.brokers import InteropBroker
from tests.interop.wire import MakeTopic, Wire


@pytest.fixture(scope="session")
def session_broker(tmp_path_factory: pytest.TempPathFactory) -> Generator[InteropBroker]:
    # A member that dies is to be noticed while a test waits for it.
    with InteropBroker(
        tmp_path_factory.mktemp("broker"), {"group.min.session.timeout.ms": "1000"}
    ) as broker:
        yield broker


@pytest.fixture
def broker(session_broker: InteropBroker) -> Generator[InteropBroker]:
    """The broker that all tests of a worker share: use topics and groups of your own.

    A test during which it logs a bug fails.
    """
    yield session_broker
    session_broker.check_log()


@pytest.fixture
def bootstrap(broker: InteropBroker) -> str:
    """The address of `broker`."""
    return broker.bootstrap


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses."""
    name = f"{request.module.__name__.rsplit('.', 1)[-1]}.{request.node.name}"
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name)[
        :200
    ]


@pytest.fixture
def make_topic(broker: InteropBroker, topic: str) -> Generator[MakeTopic]:
    """Create ``topic``: ``make_topic(partitions, retention_ms=...)``; it is deleted afterwards.

    With ``suffix`` further ones can be made.
    """
    made: list[str] = []

    def make(partitions: int = 1, *, suffix: str = "", **settings: object) -> str:
        with Wire(broker.host_and_port) as wire:
            wire.create_topic(topic + suffix, partitions, settings)
        made.append(topic + suffix)
        return topic + suffix

    yield make
    with Wire(broker.host_and_port) as wire:
        wire.delete_topics(made)
