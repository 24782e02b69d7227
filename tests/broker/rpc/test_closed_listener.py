"""The internal listener keeps strangers out: by a secret that nodes share, and by certificates."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trio
import trio.testing

from minikafka.broker.rpc.errors import RpcError
from minikafka.broker.rpc.frames import HEAD, FrameKind, decode_frame, encode_frame
from minikafka.broker.rpc.identity import Hello, Proof
from minikafka.broker.rpc.server import GREETINGS_AT_ONCE_MAX
from tests.broker.rpc.rpc_pair import Asking, Node, asking
from tests.kit.certificates import Certificates

SECRET = "the secret that all nodes share"
HELLO = encode_frame(FrameKind.HELLO, 0, "", Hello(1, "c", 2, b"x"), ())


async def fails_to_connect(one: Asking) -> str:
    with pytest.raises(RpcError) as caught:
        await one.client.connected(timeout_s=30)
    return str(caught.value)


async def test_nodes_with_the_same_secret_meet() -> None:
    async with asking(Node(1, secret=SECRET), secret=SECRET) as one:
        await one.hears(connected=1)
        assert one.connected[0].node_id == 1


async def test_another_secret_is_not_enough(caplog: pytest.LogCaptureFixture) -> None:
    async with asking(Node(1, secret=SECRET), secret=SECRET + "!") as one:
        assert "does not know the same secret" in await fails_to_connect(one)
    assert "does not know the secret of this cluster" in caplog.text
    assert SECRET not in caplog.text


async def test_a_node_without_the_secret_is_told_what_it_lacks() -> None:
    async with asking(Node(1, secret=SECRET)) as one:
        assert "set minikafka.internal.secret.file" in await fails_to_connect(one)


async def test_a_node_with_a_secret_does_not_talk_to_one_that_does_not_ask_for_it() -> None:
    async with asking(Node(1), secret=SECRET) as one:
        assert "it may be anybody" in await fails_to_connect(one)


async def test_a_proof_for_another_node_is_not_taken() -> None:
    """Node 1 is asked at an address where node 3 is: a proof for one must not open the other."""
    async with trio.open_nursery() as nursery:
        node = Node(3, secret=SECRET)
        await nursery.start(node.run)
        one = Asking(node, secret=SECRET)
        one.client.node_id = 1
        nursery.start_soon(one.client.run)
        assert "wrong --quorum" in await fails_to_connect(one)
        nursery.cancel_scope.cancel()


async def test_a_stranger_gets_a_challenge_and_nothing_else_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    forged = encode_frame(FrameKind.PROOF, 0, "", Proof(b"p" * 32, b"n" * 32), ())
    attempts = [HELLO, HELLO + HELLO, HELLO + forged, HELLO + forged]
    async with trio.open_nursery() as nursery:
        node = Node(1, secret=SECRET)
        await nursery.start(node.run)
        for said in attempts:
            stream = await trio.open_tcp_stream(*node.address)
            async with stream:
                await stream.send_all(said)
                await stream.send_eof()
                heard = b"".join([chunk async for chunk in stream])
            size, header_size = HEAD.unpack_from(heard)
            frame = decode_frame(memoryview(heard)[HEAD.size :], header_size)
            assert (frame.kind, size + 4) == (FrameKind.CHALLENGE, len(heard))
        nursery.cancel_scope.cancel()
    assert caplog.text.count("does not know the secret") == 1


async def test_strangers_that_say_nothing_do_not_keep_nodes_out() -> None:
    async with trio.open_nursery() as nursery:
        node = Node(1, secret=SECRET)
        await nursery.start(node.run)
        silent = [await trio.open_tcp_stream(*node.address) for _ in range(GREETINGS_AT_ONCE_MAX)]
        while node.server.connections < len(silent):
            await trio.testing.wait_all_tasks_blocked()
        one = Asking(node, secret=SECRET)
        nursery.start_soon(one.client.run)
        await one.hears(connected=1)
        assert await silent[0].receive_some() == b""
        for stream in silent:
            await stream.aclose()
        nursery.cancel_scope.cancel()


# --- certificates --------------------------------------------------------------------------------


def mutual(certificates: Certificates, name: str, *, is_client: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT if is_client else ssl.PROTOCOL_TLS_SERVER)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(certificates.trusted)
    context.load_cert_chain(certificates.keystore(name))
    return context


async def test_nodes_meet_over_mutual_tls_and_share_a_secret_too(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    node = Node(1, secret=SECRET, tls=mutual(certificates, "one", is_client=False))
    client = mutual(certificates, "two", is_client=True)
    async with asking(node, secret=SECRET, tls=client) as one:
        await one.hears(connected=1)
        assert one.connected[0].node_id == 1


async def test_a_certificate_of_another_authority_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "other").mkdir()
    certificates, others = Certificates(tmp_path), Certificates(tmp_path / "other")
    node = Node(1, tls=mutual(certificates, "one", is_client=False))
    client = mutual(others, "two", is_client=True)
    client.load_verify_locations(certificates.trusted)
    async with asking(node, tls=client) as one:
        await fails_to_connect(one)
    assert "refused an internal connection from 127.0.0.1: TLS" in caplog.text


async def test_who_speaks_no_tls_gets_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(1, tls=mutual(Certificates(tmp_path), "one", is_client=False))
    async with trio.open_nursery() as nursery:
        await nursery.start(node.run)
        stream = await trio.open_tcp_stream(*node.address)
        async with stream:
            await stream.send_all(HELLO)
            heard = b"".join([chunk async for chunk in stream])
        nursery.cancel_scope.cancel()
    assert heard == b""
    assert "it does not speak TLS" in caplog.text
