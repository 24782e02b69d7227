"""RPC over sockets that are none of the operating system's, as simulations have them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import trio
import trio.testing

from minikafka.broker.rpc.client import RpcClient
from minikafka.broker.rpc.codec import Reply
from minikafka.broker.rpc.errors import RpcLostError
from minikafka.broker.rpc.identity import Identity
from minikafka.broker.rpc.link import Link
from minikafka.broker.rpc.server import RpcServer
from minikafka.broker.transport.sockets import stream_of
from minikafka.broker.transport.transport import NodeStream, TrioSocketTransport
from minikafka.storage.disk import FileSlice, RealDisk
from tests.broker.rpc.rpc_pair import raw


class MemorySocket:
    """As much of a trio socket as a stream needs; it sends a few bytes at a time."""

    def __init__(self, stream: trio.StapledStream[Any, Any]) -> None:
        self._stream = stream
        self.is_closed = False

    def setsockopt(self, *_: object) -> None:
        """There is nothing to set."""

    def fileno(self) -> int:
        return -1

    async def recv(self, size: int) -> bytes:
        return bytes(await self._stream.receive_some(min(size, 1000)))

    async def send(self, content: memoryview) -> int:
        part = bytes(content[:700])
        try:
            await self._stream.send_all(part)
        except trio.BrokenResourceError as error:
            raise BrokenPipeError(32, str(error)) from None
        return len(part)

    def close(self) -> None:
        self.is_closed = True
        self._stream.send_stream.close()
        self._stream.receive_stream.close()


def pair() -> tuple[MemorySocket, MemorySocket]:
    one, other = trio.testing.memory_stream_pair()
    return MemorySocket(one), MemorySocket(other)


def stream(memory: MemorySocket) -> NodeStream:
    return stream_of(cast("trio.socket.SocketType", memory))


async def echo(node_id: int, fields: Any, attachments: Sequence[memoryview]) -> Reply[Any]:
    return Reply(fields, attachments)


async def test_requests_and_records_travel_over_a_simulated_network(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(bytes(range(250)) * 400)
    file = RealDisk().open(str(path))

    async def read(node_id: int, fields: Any, attachments: Sequence[memoryview]) -> Reply[Any]:
        return Reply(None, [FileSlice(file, 0, 100_000)])

    server = RpcServer(Identity(1, b"i", "c"))
    server.register(raw("echo"), echo)
    server.register(raw("read"), read)
    sockets: list[MemorySocket] = []
    async with trio.open_nursery() as nursery:

        async def connect(host: str, port: int) -> NodeStream:
            ours, theirs = pair()
            sockets.extend((ours, theirs))
            nursery.start_soon(server.serve_link, Link(stream(theirs)), host)
            return stream(ours)

        client = RpcClient(Identity(2, b"j", "c"), 1, ("anywhere", 1), connect_to=connect)
        nursery.start_soon(client.run)
        large = bytes(50_000)
        reply = await client.call(raw("echo"), 7, [b"a", large], timeout_s=10)
        assert (reply.message, [bytes(one) for one in reply.attachments]) == (7, [b"a", large])
        reply = await client.call(raw("read"), None, timeout_s=10)
        assert bytes(reply.attachments[0]) == path.read_bytes()
        nursery.cancel_scope.cancel()
    assert all(one.is_closed for one in sockets)
    file.close()


async def test_a_simulated_connection_that_breaks_is_lost() -> None:
    ours, theirs = pair()
    broken = stream(ours)
    assert isinstance(broken, TrioSocketTransport)
    async with trio.open_nursery() as nursery:

        async def connect(host: str, port: int) -> NodeStream:
            return broken

        client = RpcClient(Identity(2, b"j", "c"), 1, ("anywhere", 1), connect_to=connect)
        theirs.close()
        nursery.start_soon(client.run)
        with pytest.raises(RpcLostError):
            await client.call(raw("echo"), None, timeout_s=10)
        nursery.cancel_scope.cancel()
