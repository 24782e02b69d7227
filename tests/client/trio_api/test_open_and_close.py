"""A client that is closed while it connects leaves nothing behind."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio

from minikafka_client import Consumer, TopicPartition
from minikafka_client.core.cluster import Cluster
from minikafka_client.errors import ConnectionLostError
from minikafka_client.options import ConnectionConfig
from minikafka_client.trio_api.background import Background
from minikafka_client.trio_api.network import Network


class Streams:
    """Hands out one end of memory streams; keeps the other."""

    def __init__(self) -> None:
        self.ours: list[trio.abc.Stream] = []

    async def open(self, host: str, port: int, context: object) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        theirs, ours = trio.testing.memory_stream_pair()
        self.ours.append(ours)
        return theirs


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Streams:
    made = Streams()
    monkeypatch.setattr("minikafka_client.trio_api.network.open_stream", made.open)
    return made


@asynccontextmanager
async def networking(
    socket_connection_setup_timeout_ms: int = 10_000,
) -> AsyncGenerator[tuple[Network, Background]]:
    """A network, and the background that must be closed at the end."""
    background = Background("test")
    await background.open()
    config = ConnectionConfig(socket_connection_setup_timeout_ms=socket_connection_setup_timeout_ms)
    yield Network(Cluster([("h", 1)]), config, background, lambda: 0.5), background


async def test_closing_while_the_broker_is_greeted_closes_the_stream(streams: Streams) -> None:
    async with networking() as (network, background):
        background.start_soon(network.connect_any)
        await trio.testing.wait_all_tasks_blocked()
        await background.close(None, None, None)
        await _read_to_the_end(streams)


async def test_closing_before_the_connections_task_began_closes_the_stream(
    streams: Streams,
) -> None:
    async with networking() as (network, background):
        background.start_soon(network.connect_any)
        while not streams.ours:
            await trio.lowlevel.checkpoint()
        await background.close(None, None, None)
        await _read_to_the_end(streams)


async def test_a_peer_that_does_not_greet_back_is_given_up(
    streams: Streams,
    autojump_clock: trio.testing.MockClock,  # taken, or else pytest-trio does not see it
) -> None:
    async with networking(socket_connection_setup_timeout_ms=2_000) as (network, background):
        with pytest.raises(ConnectionLostError, match=r"setup_timeout_ms \(2000\)"):
            await network.connect_any()
        await _read_to_the_end(streams)
        await background.close(None, None, None)


async def _read_to_the_end(streams: Streams) -> None:
    """A stream whose other end was closed ends."""
    [ours] = streams.ours
    received = b""
    while piece := await ours.receive_some():
        received += piece
    assert received == b"" or b"minikafka-client" in received


async def test_leaving_a_consumer_while_it_fetches_is_nothing_to_warn_of(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign([TopicPartition(topic, 0)])
        assert await consumer.poll(timeout_ms=0) == []
        while not any(b.in_flight_requests for b in consumer.statistics().brokers.values()):
            await trio.lowlevel.checkpoint()
    assert [record.message for record in caplog.records if record.levelname != "INFO"] == []
