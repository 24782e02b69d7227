"""Bytes on the internal listener that no node would send: they cost little and harm nobody."""

from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from minikafka.broker.rpc import client, server
from minikafka.broker.rpc.codec import Reply
from minikafka.broker.rpc.frames import (
    FRAME_SIZE_BYTES_MAX,
    HEAD,
    HELLO_SIZE_BYTES_MAX,
    FrameKind,
    encode_frame,
)
from minikafka.broker.rpc.identity import Hello, Identity
from tests.broker.rpc.rpc_pair import Node, asking, raw, raw_one_way


async def echo(node_id: int, fields: Any, attachments: Sequence[memoryview]) -> Reply[Any]:
    return Reply([node_id, fields], attachments)


class Hostile:
    """A connection that says what it likes."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def say(self, *chunks: bytes) -> bytes:
        """Send, and return everything until the other side closes."""
        stream = await trio.open_tcp_stream(*self._node.address)
        answer = b""
        async with stream:
            try:
                for chunk in chunks:
                    await stream.send_all(chunk)
                while part := await stream.receive_some():
                    answer += part
            except trio.BrokenResourceError:
                pass
        return answer


HELLO = encode_frame(FrameKind.HELLO, 0, "", Hello(1, "c", 7, b"x"), ())


@pytest.mark.parametrize(
    "content",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        HEAD.pack(HELLO_SIZE_BYTES_MAX + 1, 10),
        HEAD.pack(2**32 - 1, 2**32 - 1),
        HEAD.pack(10, 6) + b"\xc1" * 6,
        encode_frame(FrameKind.REQUEST, 1, "echo", None, ()),
        encode_frame(FrameKind.HELLO, 0, "", None, ()),
        HELLO + HEAD.pack(FRAME_SIZE_BYTES_MAX + 1, 10),
        HELLO + encode_frame(FrameKind.ANSWER, 1, "", None, ()),
        HELLO + encode_frame(FrameKind.REQUEST, 1, "wait", None, ()) * 2,
        HELLO + encode_frame(FrameKind.REQUEST, 1, "wait", (), ()).replace(b"wait", b"\xff" * 4),
    ],
)  # fmt: skip
async def test_bytes_that_are_not_the_protocol_end_the_connection(
    content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def wait(node_id: int, fields: Any, attachments: Sequence[memoryview]) -> Reply[Any]:
        await trio.sleep_forever()
        raise AssertionError

    node = Node(1)
    node.server.register(raw("wait"), wait)
    node.server.register(raw("echo"), echo)
    async with asking(node) as one:
        await Hostile(node).say(content)
        # Others are not disturbed.
        assert (await one.client.call(raw("echo"), 1, timeout_s=5)).message == (2, 1)
    assert "refused an internal connection from 127.0.0.1" in caplog.text


async def test_a_connection_that_says_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HELLO_SECONDS_MAX", 0.01)
    node = Node(1)
    async with asking(node):
        assert await Hostile(node).say(HELLO[:5]) == b""


async def test_a_frame_that_comes_byte_by_byte_is_a_frame() -> None:
    node = Node(1)
    heard: list[Any] = []
    node.server.register_one_way(
        raw_one_way("hear"), lambda node_id, fields, _: heard.append(fields)
    )
    async with asking(node):
        message = encode_frame(FrameKind.ONE_WAY, 0, "hear", [1, 2], ())
        stream = await trio.open_tcp_stream(*node.address)
        async with stream:
            for byte in HELLO + message:
                await stream.send_all(bytes([byte]))
            while not heard:
                await trio.testing.wait_all_tasks_blocked(0.001)
    assert heard == [(1, 2)]


async def test_connections_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 1)
    node = Node(1)
    node.server.register(raw("echo"), echo)
    async with asking(node) as one:
        await one.hears(connected=1)
        assert await Hostile(node).say() == b""
        assert node.server.connections == 1


async def test_an_answer_nobody_asked_for_ends_the_connection() -> None:
    listening = trio.socket.socket()
    await listening.bind(("127.0.0.1", 0))
    listening.listen()
    one = client.RpcClient(Identity(2, b""), 1, listening.getsockname())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        with listening:
            accepted, _ = await listening.accept()
            with accepted:
                hello = encode_frame(FrameKind.HELLO, 0, "", Hello(1, "", 1, b""), ())
                await accepted.send(hello + encode_frame(FrameKind.ANSWER, 99, "", None, ()))
                request = encode_frame(FrameKind.REQUEST, 1, "x", None, ())
                await accepted.send(request)
                received = b""
                while part := await accepted.recv(1000):
                    received += part
                assert b"asking" not in received  # its hello, and nothing else
            accepted, _ = await listening.accept()  # and tries again
            accepted.close()
        nursery.cancel_scope.cancel()
