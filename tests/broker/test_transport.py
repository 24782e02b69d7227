"""The socket transport: partial writes, file slices, and clients that go away."""

import os
import random
import socket
from pathlib import Path

import pytest
import trio
import trio.testing

from minikafka.broker.transport import (
    SENDFILE_SIZE_BYTES_MIN,
    ConnectionLostError,
    FilePayload,
    SocketTransport,
)
from minikafka.storage.disk import FileSlice, RealDisk


def pair(buffer_size_bytes: int = 0) -> tuple[SocketTransport, socket.socket]:
    ours, theirs = socket.socketpair()
    for one in (ours, theirs):
        one.setblocking(False)
        if buffer_size_bytes:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_size_bytes)
    return SocketTransport(ours, "/test"), theirs


async def receive_all(plain: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        await trio.lowlevel.wait_readable(plain)
        chunk = plain.recv(65_536)
        assert chunk, "the transport closed early"
        received += chunk
    return bytes(received)


def payload(path: Path, content: bytes, position: int, size: int) -> FilePayload:
    path.write_bytes(content)
    return FilePayload(FileSlice(RealDisk().open(str(path)), position, size))


async def test_many_buffers_arrive_in_order_through_a_small_socket_buffer() -> None:
    transport, theirs = pair(buffer_size_bytes=4096)
    parts = [bytes([number % 251]) * (number * 37 % 400) for number in range(2000)]
    expected = b"".join(parts)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(transport.send, parts)
        assert await receive_all(theirs, len(expected)) == expected
    transport.close()
    theirs.close()


@pytest.mark.parametrize("size", [10, SENDFILE_SIZE_BYTES_MIN, 3_000_000])
async def test_file_slices_arrive_between_buffers(tmp_path: Path, size: int) -> None:
    content = random.Random(size).randbytes(size + 20)
    transport, theirs = pair()
    parts = [b"before", payload(tmp_path / "f", content, 7, size), b"after"]
    expected = b"before" + content[7 : 7 + size] + b"after"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(transport.send, parts)
        assert await receive_all(theirs, len(expected)) == expected
    transport.close()
    theirs.close()


@pytest.mark.parametrize("size", [1000, SENDFILE_SIZE_BYTES_MIN * 2])
async def test_a_file_that_became_shorter_ends_the_connection(tmp_path: Path, size: int) -> None:
    transport, theirs = pair()
    slice_ = payload(tmp_path / "f", bytes(size), 0, size)
    os.truncate(tmp_path / "f", size // 2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive_all, theirs, size // 2 if size > 1000 else 0)
        with pytest.raises(ConnectionLostError):
            await transport.send([slice_])
    transport.close()
    theirs.close()


async def test_receive_gives_bytes_and_then_the_end() -> None:
    transport, theirs = pair()
    theirs.send(b"hello")
    assert await transport.receive() == b"hello"
    theirs.close()
    assert await transport.receive() == b""
    transport.close()


async def test_receive_into_waits_for_bytes() -> None:
    transport, theirs = pair()
    buffer = bytearray(4)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def send_later() -> None:
            await trio.testing.wait_all_tasks_blocked()
            theirs.send(b"abcd")

        assert await transport.receive_into(memoryview(buffer)) == 4
    assert buffer == b"abcd"
    transport.close()
    theirs.close()


async def test_closing_wakes_whoever_waits() -> None:
    transport, theirs = pair()
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def close_later() -> None:
            await trio.testing.wait_all_tasks_blocked()
            transport.close()

        with pytest.raises(ConnectionLostError):
            await transport.receive()
    transport.close()
    theirs.close()


async def test_sending_to_a_client_that_is_gone_is_a_lost_connection() -> None:
    transport, theirs = pair()
    theirs.close()
    with pytest.raises(ConnectionLostError):
        await transport.send([b"x" * 100] * 3)
    transport.close()
    with pytest.raises(ConnectionLostError):
        await transport.send([b"x"])
    with pytest.raises(ConnectionLostError):
        await transport.receive_into(memoryview(bytearray(1)))


async def test_a_peer_that_left_is_seen_without_reading() -> None:
    transport, theirs = pair()
    assert not transport.has_peer_left()
    theirs.send(b"last words")
    assert not transport.has_peer_left()
    theirs.close()
    assert not transport.has_peer_left()
    assert await transport.receive() == b"last words"
    assert transport.has_peer_left()
    transport.close()
    assert transport.has_peer_left()


async def test_many_that_were_closed_before_they_began_are_lost_one_by_one() -> None:
    for _ in range(3):
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        transport = SocketTransport(ours, "/test")
        transport.close()
        with pytest.raises(ConnectionLostError):
            await transport.receive()
        with pytest.raises(ConnectionLostError):
            await transport.receive_into(memoryview(bytearray(1)))
        with pytest.raises(ConnectionLostError):
            await transport.send([b"x"])
        theirs.close()
