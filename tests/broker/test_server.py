"""The server: limits, idle connections, and stopping."""

import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from minikafka.broker.net.server import BoundListener, Server, bind, endpoint_of
from minikafka.protocol.messages import fetch, metadata
from tests.broker.handlers.config_requests import BROKER, SET, change
from tests.kit.in_process import running_broker
from tests.kit.wire import WireClient, fetch_request, values_of


class Listening:
    """A server on a loopback port."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.port = port
        self.clients: list[trio.SocketStream] = []

    async def connect(self) -> WireClient:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        self.clients.append(stream)
        return WireClient(stream)


@asynccontextmanager
async def listening(data_dir: Path, *assignments: str) -> AsyncGenerator[Listening]:
    async with running_broker(data_dir, *assignments) as under_test, trio.open_nursery() as nursery:
        listener = bind("127.0.0.1", 0, 10)
        found = Listening(under_test.server, endpoint_of(listener, "127.0.0.1").port)
        nursery.start_soon(under_test.server.serve, [BoundListener(listener)])
        try:
            yield found
        finally:
            under_test.server.stop()
            for stream in found.clients:
                await trio.aclose_forcefully(stream)


async def ask(client: WireClient) -> metadata.Response:
    return await client.ask(metadata.Request(topics=[]), 9, metadata.Response)


async def test_a_connection_over_the_limit_is_closed(tmp_path: Path) -> None:
    async with listening(tmp_path, "max.connections=2") as found:
        first, second = await found.connect(), await found.connect()
        await ask(first)
        await ask(second)
        assert await (await found.connect()).receive_frame() is None
        await first.stream.aclose()
        while len(found.server.connections) > 1:
            await trio.testing.wait_all_tasks_blocked()
        await ask(await found.connect())


async def test_one_address_may_not_take_all_connections(tmp_path: Path) -> None:
    async with listening(tmp_path, "max.connections.per.ip=1") as found:
        await ask(await found.connect())
        assert await (await found.connect()).receive_frame() is None


@pytest.mark.parametrize("name", ["max.connections", "max.connections.per.ip"])
async def test_the_limits_of_connections_change_while_the_broker_runs(
    tmp_path: Path, name: str
) -> None:
    async with listening(tmp_path, f"{name}=1") as found:
        first = await found.connect()
        assert await change(first, BROKER, "1", (name, SET, "2")) == 0
        await ask(await found.connect())
        assert await (await found.connect()).receive_frame() is None


async def test_idle_connections_and_incomplete_frames_are_closed(tmp_path: Path) -> None:
    async with listening(
        tmp_path, "connections.max.idle.ms=1500", "minikafka.frame.timeout.ms=100"
    ) as found:
        idle, half = await found.connect(), await found.connect()
        await half.send_bytes(struct.pack(">ihhi", 5000, 0, 9, 1))
        assert await half.receive_frame() is None
        assert await idle.receive_frame() is None


async def test_a_request_that_waits_ends_when_its_client_hangs_up(tmp_path: Path) -> None:
    async with listening(tmp_path) as found:
        staying, leaving = await found.connect(), await found.connect()
        await staying.create_topic("t")
        for client in (staying, leaving):
            await client.send(fetch_request("t", 0, max_wait_ms=2**31 - 1), 11)
        while sum(one.is_serving for one in found.server.connections) < 2:
            await trio.testing.wait_all_tasks_blocked()
        # Later requests are not read while it waits, and are no reason to disconnect.
        await staying.send(metadata.Request(topics=None), 12)
        await leaving.stream.aclose()
        while len(found.server.connections) == 2:
            await trio.testing.wait_all_tasks_blocked(0.01)
        await (await found.connect()).produce("t", b"v")
        _, answer = await staying.receive(fetch.Response, 11)
        assert answer.responses[0].partitions[0].high_watermark == 1
        await staying.receive(metadata.Response, 12)


async def test_stopping_answers_a_long_poll_and_closes_everything(tmp_path: Path) -> None:
    async with listening(tmp_path) as found:
        waiting, idle = await found.connect(), await found.connect()
        await ask(idle)
        await waiting.create_topic("t")
        await waiting.send(fetch_request("t", 0, max_wait_ms=60_000), 11)
        while not any(one.is_serving for one in found.server.connections):
            await trio.testing.wait_all_tasks_blocked()
        found.server.stop()
        _, answer = await waiting.receive(fetch.Response, 11)
        assert answer.responses[0].partitions[0].error_code == 0
        assert await waiting.receive_frame() is None
        assert await idle.receive_frame() is None
        with pytest.raises(OSError, match="127"):
            await found.connect()


async def test_stopping_without_connections_ends_immediately(tmp_path: Path) -> None:
    async with listening(tmp_path) as found:
        found.server.stop()
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(OSError, match="127"):
            await found.connect()


async def test_buffer_settings_reach_the_socket(tmp_path: Path) -> None:
    async with listening(
        tmp_path, "socket.send.buffer.bytes=50000", "socket.receive.buffer.bytes=50000"
    ) as found:
        assert (await ask(await found.connect())).controller_id == 1


def test_binding_a_taken_port_fails_and_closes_the_socket() -> None:
    taken = bind("127.0.0.1", 0, 1)
    with pytest.raises(OSError, match="in use"):
        bind("127.0.0.1", taken.getsockname()[1], 1)
    taken.close()


def test_ipv6_can_be_listened_on() -> None:
    listener = bind("::1", 0, 1)
    assert listener.family is socket.AF_INET6
    listener.close()


async def make_large_topic(client: WireClient) -> int:
    """A topic whose answer fits into no socket's buffer; returns the number of its records."""
    await client.create_topic("large")
    for _ in range(12):
        assert (await client.produce("large", b"v" * 1_000_000)).error_code == 0
    return 12


async def test_stopping_lets_an_answer_that_is_being_sent_arrive(tmp_path: Path) -> None:
    async with listening(tmp_path) as found:
        client = await found.connect()
        count = await make_large_topic(client)
        await client.send(fetch_request("large", 0, max_bytes=50_000_000), 11)
        await client.stream.socket.recv(4, socket.MSG_PEEK)  # it has begun to arrive
        found.server.stop()
        _, answer = await client.receive(fetch.Response, 11)
        assert len(values_of(answer.responses[0].partitions[0])) == count
        assert await client.receive_frame() is None


async def test_a_slow_reader_is_not_idle(tmp_path: Path) -> None:
    settings = ("connections.max.idle.ms=900", "socket.send.buffer.bytes=20000")
    async with listening(tmp_path, *settings) as found:
        client = await found.connect()
        count = await make_large_topic(client)
        await client.send(fetch_request("large", 0, max_bytes=50_000_000), 11)
        (connection,) = found.server.connections
        before = connection.last_active
        while connection.last_active == before:  # the reaper runs, and finds that bytes have moved
            client.frames.feed(await client.stream.receive_some(10_000))
            await trio.testing.wait_all_tasks_blocked(0.01)
        _, answer = await client.receive(fetch.Response, 11)
        assert len(values_of(answer.responses[0].partitions[0])) == count
