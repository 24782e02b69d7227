"""The TLS transport: order, slices of files, slow readers, hostile and plain clients."""

from __future__ import annotations

import random
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from minikafka.broker.system.workers import run_inline
from minikafka.broker.transport.tls import NotTlsError, TlsHandshakeError, TlsTransport
from minikafka.broker.transport.transport import ConnectionLostError, FilePayload
from minikafka.storage.disk import FileSlice, RealDisk
from tests.broker.test_transport import socket_pair
from tests.kit.certificates import Certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def context(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.keystore("broker"))
    return context


class Client:
    """The other end: trio's own TLS."""

    def __init__(self, theirs: socket.socket, context: ssl.SSLContext) -> None:
        self.plain = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))
        self.stream = trio.SSLStream(self.plain, context, server_hostname="localhost")

    async def receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            chunk = await self.stream.receive_some(65_536)
            assert chunk, "the transport closed early"
            received += chunk
        return bytes(received)


@asynccontextmanager
async def connected(
    context: ssl.SSLContext, certificates: Certificates, buffer_size_bytes: int = 0
) -> AsyncGenerator[tuple[TlsTransport, Client]]:
    ours, theirs = socket_pair(buffer_size_bytes)
    transport = TlsTransport(ours, context, "/test")
    client = Client(theirs, certificates.client_context())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(transport.handshake, run_inline)
        await client.stream.do_handshake()
    try:
        yield transport, client
    finally:
        transport.close()
        await trio.aclose_forcefully(client.plain)


async def test_buffers_and_slices_arrive_in_order_through_a_small_socket_buffer(
    context: ssl.SSLContext, certificates: Certificates, tmp_path: Path
) -> None:
    content = random.Random(14).randbytes(700_000)
    (tmp_path / "log").write_bytes(content)
    file = RealDisk().open(str(tmp_path / "log"))
    small = [bytes([number % 251]) * (number * 37 % 400) for number in range(500)]
    parts = [*small, FilePayload(FileSlice(file, 5, 600_000)), b"", b"x" * 300_000, *small]
    expected = b"".join(small) + content[5:600_005] + b"x" * 300_000 + b"".join(small)
    async with connected(context, certificates, 8192) as (transport, client):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(transport.send, parts)
            assert await client.receive(len(expected)) == expected
        assert transport.moves


async def test_what_send_now_leaves_is_sent_in_order(
    context: ssl.SSLContext, certificates: Certificates
) -> None:
    """The client reads nothing: some is encrypted and unsent, and some is not even encrypted."""
    parts = [bytes([number]) * 100_000 for number in range(100)]
    async with connected(context, certificates, 8192) as (transport, client):
        left = transport.send_now(list(parts))
        assert 0 < len(left) < len(parts)
        assert transport.send_now(list(left)) == left
        async with trio.open_nursery() as nursery:
            nursery.start_soon(transport.send, left)
            assert await client.receive(10_000_000) == b"".join(parts)
        assert transport.send_now([b"end"]) == []
        assert await client.receive(3) == b"end"


async def test_one_buffer_that_does_not_fit_is_not_forgotten(
    context: ssl.SSLContext, certificates: Certificates
) -> None:
    async with connected(context, certificates, 4096) as (transport, client):
        left = transport.send_now([b"x" * 5_000_000])
        assert left == [b""]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(transport.send, left)
            assert await client.receive(5_000_000) == b"x" * 5_000_000


async def test_large_frames_are_received_into_a_buffer(
    context: ssl.SSLContext, certificates: Certificates
) -> None:
    sent = random.Random(14).randbytes(1_000_000)
    async with (
        connected(context, certificates) as (transport, client),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(client.stream.send_all, sent)
        received = bytearray(await transport.receive())
        buffer = bytearray(300_000)
        while len(received) < len(sent) - len(buffer):
            with memoryview(buffer) as view:
                count = await transport.receive_into(view)
            received += buffer[:count]
        while len(received) < len(sent):  # what is left was decrypted before it was asked for
            received += await transport.receive()
        assert bytes(received) == sent


async def test_the_end_of_the_stream_is_seen_with_and_without_reading(
    context: ssl.SSLContext, certificates: Certificates
) -> None:
    async with connected(context, certificates) as (transport, client):
        assert not transport.has_peer_left()
        await client.stream.send_all(b"last")
        await client.stream.aclose()
        while not transport.has_peer_left():
            await trio.testing.wait_all_tasks_blocked()
        assert await transport.receive() == b"last"
        assert await transport.receive() == b""
        assert await transport.receive_into(memoryview(bytearray(10))) == 0


async def test_a_peer_that_leaves_without_a_goodbye_is_no_bug(
    context: ssl.SSLContext, certificates: Certificates
) -> None:
    async with connected(context, certificates) as (transport, client):
        await transport.send([b"read"])
        await client.receive(4)
        await client.stream.send_all(b"last")
        await client.plain.aclose()  # which TLS answers with an alert that nobody receives
        assert await transport.receive() == b"last"
        assert await transport.receive() == b""


async def test_closing_says_goodbye_and_wakes_who_waits(
    context: ssl.SSLContext, certificates: Certificates
) -> None:
    async with connected(context, certificates) as (transport, client):

        async def wait() -> None:
            with pytest.raises(ConnectionLostError):
                await transport.receive()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            transport.close()
        assert await client.stream.receive_some(10) == b""  # and not a broken stream
        assert transport.send_now([b"x"]) == []


async def test_damaged_records_end_the_connection(
    context: ssl.SSLContext, certificates: Certificates
) -> None:
    async with connected(context, certificates) as (transport, client):
        await client.plain.send_all(b"\x17\x03\x03\x00\x20" + bytes(32))
        with pytest.raises(ConnectionLostError):
            await transport.receive()


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"\x00\x00\x00\x20\x00\x12\x00\x03\x00\x00\x00\x01", NotTlsError),
        (b"GET / HTTP/1.1\r\n\r\n", NotTlsError),
        (b"\x16\x03\x01\x00\x05hello", TlsHandshakeError),
        (b"\x16\x03\x01\xff\xff" + bytes(100), TlsHandshakeError),
        (b"", ConnectionLostError),
        (b"\x16\x03\x01\x02\x00\x01", ConnectionLostError),
    ],
)
async def test_what_is_no_handshake_is_refused(
    context: ssl.SSLContext, said: bytes, error: type[Exception]
) -> None:
    ours, theirs = socket_pair()
    transport = TlsTransport(ours, context)
    with theirs:
        theirs.sendall(said)
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(error):
            await transport.handshake(run_inline)
    transport.close()


async def test_a_client_that_is_refused_hears_why(
    context: ssl.SSLContext, certificates: Certificates
) -> None:
    ours, theirs = socket_pair()
    transport = TlsTransport(ours, context)
    old = certificates.client_context()
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_2
    strict = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    strict.minimum_version = ssl.TLSVersion.TLSv1_3
    strict.load_cert_chain(certificates.keystore("strict"))
    transport = TlsTransport(ours, strict)
    client = Client(theirs, old)

    async def refuse() -> None:
        with pytest.raises(TlsHandshakeError, match="unsupported protocol"):
            await transport.handshake(run_inline)
        transport.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(refuse)
        with pytest.raises(trio.BrokenResourceError) as caught:
            await client.stream.do_handshake()
        assert "PROTOCOL_VERSION" in str(caught.value.__cause__)
        await trio.aclose_forcefully(client.plain)


async def test_plain_bytes_are_never_sent_before_the_handshake(context: ssl.SSLContext) -> None:
    ours, theirs = socket_pair()
    transport = TlsTransport(ours, context)
    assert transport.send_now([b"secret"]) == []
    with pytest.raises(ConnectionLostError):
        await transport.send([b"secret"])
    transport.close()
    assert await receive_nothing(theirs)
    theirs.close()


async def receive_nothing(plain: socket.socket) -> bool:
    await trio.lowlevel.wait_readable(plain)
    return not plain.recv(100)
