"""A broker as its users run it, `minikafka serve`, for the clients that are not ours."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from typing import Any

import pytest

with warnings.catch_warnings():
    # kafka-python reads its message schemas with a function that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka as _kafka_imported_first  # noqa: F401  # later imports find it loaded
    from kafka.net.inet import KafkaNetSocket

from tests.kit.live import JudgedBroker
from tests.kit.wire import MakeTopic, Wire, topic_named_after

_connecting: set[Any] = set()
"""Kept, so that none is collected before the coroutine that connects it."""
_connect_as_it_came = KafkaNetSocket.sock_connect


async def _connect_or_close(self: Any, net: Any, sock: Any, address: Any, **rest: Any) -> Any:
    """kafka-python forgets sockets that fail to connect, or still do when a client is closed."""
    _connecting.add(sock)
    try:
        return await _connect_as_it_came(self, net, sock, address, **rest)
    except BaseException:
        sock.close()
        raise
    finally:
        _connecting.remove(sock)


KafkaNetSocket.sock_connect = _connect_or_close


@pytest.fixture(scope="session")
def session_broker(tmp_path_factory: pytest.TempPathFactory) -> Generator[JudgedBroker]:
    # A member that dies is to be noticed while a test waits for it.
    with JudgedBroker(
        tmp_path_factory.mktemp("broker"), {"group.min.session.timeout.ms": "1000"}
    ) as broker:
        yield broker


@pytest.fixture
def broker(session_broker: JudgedBroker) -> Generator[JudgedBroker]:
    """The broker that all tests of a worker share: use topics and groups of your own.

    A test during which it logs a bug fails.
    """
    yield session_broker
    session_broker.check_log()


@pytest.fixture
def bootstrap(broker: JudgedBroker) -> str:
    return broker.bootstrap


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return topic_named_after(request)


@pytest.fixture
def make_topic(broker: JudgedBroker, name: str) -> Generator[MakeTopic]:
    """Create the topic ``name``: ``make_topic(partitions, retention_ms=...)``; deleted in the end.

    With ``suffix`` further ones can be made.
    """
    made: list[str] = []

    def make(partitions: int = 1, *, suffix: str = "", **settings: object) -> str:
        with Wire(broker.bootstrap) as wire:
            wire.create_topic(name + suffix, partitions, settings)
        made.append(name + suffix)
        return name + suffix

    yield make
    with Wire(broker.bootstrap) as wire:
        wire.delete_topics(made)


@pytest.fixture
def topic(request: pytest.FixtureRequest, make_topic: MakeTopic) -> str:
    """A topic with one partition, or `PARTITIONS` of the test's module."""
    return make_topic(getattr(request.module, "PARTITIONS", 1))
