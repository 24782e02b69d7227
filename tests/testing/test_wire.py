"""The protocol message by message: pipelining, frames in pieces, and connections that end."""

from __future__ import annotations

import socket
from collections.abc import Generator
from contextlib import closing

import pytest
import trio
import trio.testing

from minikafka import testing
from minikafka.protocol.messages import api_versions, metadata
from minikafka.testing.wire import TrioWire, Wire, WireClosedError

NOBODY = b"\0\0\0\x0a" + b"\x7f\xff" + b"\0\0" + b"\0\0\0\1" + b"\xff\xff"
"""A request of an API that there is not."""


@pytest.fixture(scope="module")
def kafka() -> Generator[testing.Broker]:
    with testing.broker() as broker:
        yield broker


def test_requests_are_pipelined_and_answered_in_order(kafka: testing.Broker) -> None:
    with Wire(kafka.bootstrap) as wire:
        asked = [wire.send(metadata.Request(topics=[]), 12) for _ in range(3)]
        asked.append(wire.send(api_versions.Request(), 0))
        answers = [wire.receive(metadata.Response, 12) for _ in range(3)]
        last, versions = wire.receive(api_versions.Response, 0)
        assert [*(number for number, _ in answers), last] == asked == [1, 2, 3, 4]
        assert [broker.port for broker in answers[0][1].brokers] == [kafka.port]
        assert versions.api_keys


def test_a_closed_connection_is_an_error_of_its_own(kafka: testing.Broker) -> None:
    with Wire(kafka.bootstrap) as wire:
        wire.send_bytes(NOBODY)
        with pytest.raises(WireClosedError):
            wire.receive(metadata.Response, 12)
    with Wire(kafka.bootstrap) as wire:
        wire.send_bytes(NOBODY)
        assert wire.receive_frame() is None


def test_a_response_to_another_request_is_refused(kafka: testing.Broker) -> None:
    with Wire(kafka.bootstrap) as wire:
        wire.send(metadata.Request(topics=[]), 12)
        with pytest.raises(RuntimeError, match="a response to request 1, not to request 2"):
            wire.ask(metadata.Request(topics=[]), 12, metadata.Response)


def test_a_silent_server_is_not_waited_for_for_ever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with closing(Wire(address, timeout_s=0.05)) as wire, pytest.raises(TimeoutError):
            wire.receive_frame()


async def test_trio_asks_over_any_stream(kafka: testing.Broker) -> None:
    async with await trio.open_tcp_stream(kafka.host, kafka.port) as stream:
        wire = TrioWire(stream)
        answer = await wire.ask(metadata.Request(topics=[]), 12, metadata.Response)
        assert answer.brokers[0].port == kafka.port
        await wire.send_bytes(NOBODY)
        with pytest.raises(WireClosedError):
            await wire.receive(metadata.Response, 12)


async def test_frames_may_come_in_pieces_or_together() -> None:
    ours, theirs = socket.socketpair()
    async with trio.SocketStream(trio.socket.from_stdlib_socket(ours)) as stream:
        wire = TrioWire(stream)
        with theirs:
            for piece in (b"\0\0", b"\0\2a", b"b\0\0\0\0\0\0\0\1c\0\0"):
                theirs.sendall(piece)
                await trio.testing.wait_all_tasks_blocked()
            frames = [await wire.receive_frame() for _ in range(3)]
            assert [bytes(frame or b"none") for frame in frames] == [b"ab", b"none", b"c"]
        assert await wire.receive_frame() is None
