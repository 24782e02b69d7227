"""The socket transport: partial writes, file slices, and clients that disconnect."""

import os
import random
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
import trio.testing

from minikafka.broker.transport.transport import (
    SENDFILE_SIZE_BYTES_MIN,
    ConnectionLostError,
    FilePayload,
    SocketNodeStream,
    SocketTransport,
)
from minikafka.storage.disk import FileSlice, RealDisk


def socket_pair(buffer_size_bytes: int = 0) -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair()
    for one in (ours, theirs):
        one.setblocking(False)
        if buffer_size_bytes:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_size_bytes)
    return ours, theirs


def pair(buffer_size_bytes: int = 0) -> tuple[SocketTransport, socket.socket]:
    ours, theirs = socket_pair(buffer_size_bytes)
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


@pytest.mark.parametrize("is_local", [True, False], ids=["copied", "sendfile"])
@pytest.mark.parametrize("buffer_size_bytes", [0, 4096])
async def test_sending_to_a_node_sends_what_fits_now_and_the_rest_later(
    tmp_path: Path, buffer_size_bytes: int, is_local: bool
) -> None:
    ours, theirs = socket_pair(buffer_size_bytes)
    stream = SocketNodeStream(ours)
    stream.is_local = is_local
    content = random.Random(1).randbytes(300_000)
    buffers = [bytes([number % 251]) * (number % 40) for number in range(1500)]
    parts = [
        payload(tmp_path / "f", content, 7, 100_000),
        b"between",
        payload(tmp_path / "g", content, 0, 200_000),
        *buffers,
    ]
    expected = content[7:100_007] + b"between" + content[:200_000] + b"".join(buffers)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def send() -> None:
            left = stream.send_now([b"head", *parts])
            assert left
            while left:
                await stream.send(left[:700])
                left = stream.send_now(left[700:])

        assert await receive_all(theirs, 4 + len(expected)) == b"head" + expected
    stream.close()
    theirs.close()


async def test_sending_to_a_dead_node_fails_immediately(tmp_path: Path) -> None:
    ours, theirs = socket_pair()
    theirs.close()
    stream = SocketNodeStream(ours)
    assert stream.send_now([b"x"]) == []
    assert stream.send_now([payload(tmp_path / "f", bytes(100), 0, 100)]) == []
    stream.close()


@pytest.mark.parametrize("is_local", [True, False], ids=["copied", "sendfile"])
async def test_a_truncated_file_for_a_node_ends_the_connection(
    tmp_path: Path, is_local: bool
) -> None:
    ours, theirs = socket_pair()
    stream = SocketNodeStream(ours)
    stream.is_local = is_local
    left = stream.send_now([b"head", payload(tmp_path / "f", bytes(100_000), 0, 200_000)])
    assert sum(map(len, left)) == 100_000
    with pytest.raises(ConnectionLostError, match="early"):
        await stream.send(left)
    stream.close()
    theirs.close()


@pytest.mark.parametrize("is_local", [True, False], ids=["copied", "sendfile"])
@pytest.mark.parametrize("size", [10, SENDFILE_SIZE_BYTES_MIN, 3_000_000])
async def test_file_slices_arrive_between_buffers(
    tmp_path: Path, size: int, is_local: bool
) -> None:
    content = random.Random(size).randbytes(size + 20)
    transport, theirs = pair()
    transport.is_local = is_local
    parts = [b"before", payload(tmp_path / "f", content, 7, size), b"after"]
    expected = b"before" + content[7 : 7 + size] + b"after"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(transport.send, parts)
        assert await receive_all(theirs, len(expected)) == expected
    transport.close()
    theirs.close()


@pytest.mark.parametrize("is_local", [True, False], ids=["copied", "sendfile"])
@pytest.mark.parametrize("size", [1000, SENDFILE_SIZE_BYTES_MIN * 2])
async def test_a_truncated_file_ends_the_connection(
    tmp_path: Path, size: int, is_local: bool
) -> None:
    transport, theirs = pair()
    transport.is_local = is_local
    slice_ = payload(tmp_path / "f", bytes(size), 0, size)
    os.truncate(tmp_path / "f", size // 2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive_all, theirs, size // 2 if size > 1000 else 0)
        with pytest.raises(ConnectionLostError):
            await transport.send([slice_])
    transport.close()
    theirs.close()


async def test_two_transports_of_a_thread_share_a_buffer_and_mix_nothing_up(
    tmp_path: Path,
) -> None:
    """What a socket does not take at once is read again, whatever was sent elsewhere meanwhile."""

    async def carry(content: bytes, path: Path) -> None:
        transport, theirs = pair(buffer_size_bytes=50_000)
        assert transport.is_local
        async with trio.open_nursery() as nursery:
            nursery.start_soon(transport.send, [payload(path, content, 0, len(content))])
            assert await receive_all(theirs, len(content)) == content
        transport.close()
        theirs.close()

    async with trio.open_nursery() as nursery:
        for seed in (1, 2):
            content = random.Random(seed).randbytes(2_500_000)
            nursery.start_soon(carry, content, tmp_path / str(seed))


async def test_little_is_read_for_nothing_for_a_client_that_takes_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    preadv = os.preadv

    def counting(source: int, buffers: Sequence[memoryview], position: int) -> int:
        read.append(preadv(source, buffers, position))
        return read[-1]

    monkeypatch.setattr(os, "preadv", counting)
    content = bytes(5_000_000)
    transport, theirs = pair(buffer_size_bytes=50_000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(transport.send, [payload(tmp_path / "f", content, 0, len(content))])
        await receive_all(theirs, len(content))
    assert read[0] == 1 << 20
    assert len(content) <= sum(read) < 3 * len(content)
    transport.close()
    theirs.close()


async def test_a_peer_is_local_when_both_ends_have_one_address() -> None:
    for here, is_local in (("127.0.0.1", True), ("127.0.0.2", False)):
        with (
            socket.create_server(("127.0.0.1", 0)) as listener,
            socket.create_connection(listener.getsockname(), source_address=(here, 0)),
        ):
            accepted, _ = listener.accept()
            with accepted:
                assert SocketTransport(accepted).is_local is is_local


async def test_receive_returns_bytes_and_then_the_end() -> None:
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


async def test_closing_wakes_waiting_tasks() -> None:
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


async def test_sending_to_a_disconnected_client_is_a_lost_connection() -> None:
    transport, theirs = pair()
    theirs.close()
    with pytest.raises(ConnectionLostError):
        await transport.send([b"x" * 100] * 3)
    transport.close()
    with pytest.raises(ConnectionLostError):
        await transport.send([b"x"])
    with pytest.raises(ConnectionLostError):
        await transport.receive_into(memoryview(bytearray(1)))


async def test_a_disconnected_peer_is_noticed_without_reading() -> None:
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


async def test_connections_closed_before_they_are_served_are_lost_one_by_one() -> None:
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
