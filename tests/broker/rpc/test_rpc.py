"""Requests between two nodes over loopback: answers, failures, and connections that end."""

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from minikafka.broker.rpc import client, link, server
from minikafka.broker.rpc import peers as peers_module
from minikafka.broker.rpc.codec import Reply
from minikafka.broker.rpc.errors import (
    RpcBusyError,
    RpcFailure,
    RpcLostError,
    RpcRemoteError,
    RpcTimeoutError,
)
from minikafka.broker.rpc.frames import FrameKind, encode_frame
from minikafka.broker.rpc.identity import Hello, Identity
from minikafka.broker.rpc.lanes import Lane
from minikafka.broker.rpc.peers import Peers
from minikafka.broker.transport.transport import FilePayload
from minikafka.storage.disk import FileSlice, RealDisk
from tests.broker.rpc.rpc_pair import Asking, Node, asking, raw, raw_one_way


async def echo(node_id: int, fields: Any, attachments: Sequence[memoryview]) -> Reply[Any]:
    return Reply([node_id, fields], attachments)


async def test_fields_and_attachments_travel_both_ways() -> None:
    node = Node(1)
    node.server.register(raw("echo"), echo)
    async with asking(node) as one:
        large = bytes(range(256)) * 40_000
        reply = await one.client.call(
            raw("echo"), {"a": [1, b"x"]}, [b"", large, b"z"], timeout_s=5
        )
        assert reply.message == (2, {"a": (1, b"x")})
        assert list(map(bytes, reply.attachments)) == [b"", large, b"z"]
        assert one.client.hello == (1, "c", 1, b"i", "", 0)


async def test_slices_of_files_leave_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(bytes(range(250)) * 1000)
    file = RealDisk().open(str(path))

    async def read(node_id: int, fields: Any, attachments: Sequence[memoryview]) -> Reply[Any]:
        position, size = fields
        part = FileSlice(file, position, size)
        return Reply(None, [part if size < 200 else FilePayload(part), b"end"])

    node = Node(1)
    node.server.register(raw("read"), read)
    async with asking(node) as one:
        for position, size in [(0, 100), (7, 40_000), (1, 249_999)]:
            reply = await one.client.call(raw("read"), [position, size], timeout_s=5)
            whole = path.read_bytes()[position : position + size]
            assert list(map(bytes, reply.attachments)) == [whole, b"end"]
        with pytest.raises(RpcRemoteError, match="bytes expected"):
            await one.client.call(raw("read"), [249_990, 100], timeout_s=5)
        with pytest.raises(RpcLostError):  # it was promised, so only the connection can end
            await one.client.call(raw("read"), [240_000, 100_000], timeout_s=5)
    file.close()


async def test_answers_come_in_any_order() -> None:
    first_may_end = trio.Event()

    async def first(node_id: int, fields: Any, attachments: Sequence[memoryview]) -> Reply[Any]:
        await first_may_end.wait()
        return Reply("first")

    node = Node(1)
    node.server.register(raw("first"), first)
    node.server.register(raw("echo"), echo)
    answers: list[Any] = []
    async with asking(node) as one:

        async def ask_first() -> None:
            answers.append((await one.client.call(raw("first"), None, timeout_s=5)).message)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_first)
            await trio.testing.wait_all_tasks_blocked()
            answers.append((await one.client.call(raw("echo"), 1, timeout_s=5)).message)
            first_may_end.set()
    assert answers == [(2, 1), "first"]


async def test_messages_without_answer_come_in_order() -> None:
    heard: list[Any] = []
    all_heard = trio.Event()

    def hear(node_id: int, fields: Any, attachments: Sequence[memoryview]) -> None:
        heard.append((node_id, fields, bytes(attachments[0])))
        if fields == 199:
            all_heard.set()
        if fields == 3:
            raise ValueError("a bug")

    node = Node(1)
    node.server.register_one_way(raw_one_way("hear"), hear)
    async with asking(node) as one:
        assert not one.client.send(
            raw_one_way("hear"), -1, [b""]
        )  # nobody is connected yet: it is dropped
        await one.hears(connected=1)
        assert all(
            one.client.send(raw_one_way("hear"), number, [b"x" * 1000]) for number in range(200)
        )
        await all_heard.wait()
    assert heard == [(2, number, b"x" * 1000) for number in range(200)]


async def test_a_message_that_only_newer_nodes_know_is_ignored() -> None:
    node = Node(1)
    node.server.register(raw("echo"), echo)
    async with asking(node) as one:
        await one.hears(connected=1)
        assert one.client.send(raw_one_way("news of tomorrow"), 1)
        assert (await one.client.call(raw("echo"), 2, timeout_s=5)).message == (2, 2)
        assert not one.losses


async def test_failures_say_what_is_wrong(caplog: pytest.LogCaptureFixture) -> None:
    async def refuse(node_id: int, fields: Any, attachments: Sequence[memoryview]) -> Reply[Any]:
        raise RpcFailure("NotController", "ask node 3")

    async def stumble(node_id: int, fields: Any, attachments: Sequence[memoryview]) -> Reply[Any]:
        raise KeyError("oops")

    async def too_much(node_id: int, fields: Any, attachments: Sequence[memoryview]) -> Reply[Any]:
        return Reply(None, [b"x"] * 30_000)

    node = Node(1)
    node.server.register(raw("refuse"), refuse)
    node.server.register(raw("stumble"), stumble)
    node.server.register(raw("too-much"), too_much)
    async with asking(node) as one:
        with pytest.raises(RpcRemoteError, match="ask node 3") as caught:
            await one.client.call(raw("refuse"), None, timeout_s=5)
        assert caught.value.kind == "NotController"
        with pytest.raises(RpcRemoteError, match="does not know 'other'"):
            await one.client.call(raw("other"), None, timeout_s=5)
        with pytest.raises(RpcRemoteError, match="oops"):
            await one.client.call(raw("stumble"), None, timeout_s=5)
        with pytest.raises(RpcRemoteError, match="attachments"):
            await one.client.call(raw("too-much"), None, timeout_s=5)
        with pytest.raises(ValueError, match="attachments"):
            await one.client.call(raw("refuse"), None, [b"x"] * 30_000, timeout_s=5)
        assert len(one.connected) == 1  # none of it ended the connection
    assert "a bug in 'stumble'" in caplog.text


async def test_a_caller_that_gives_up_ends_the_request() -> None:
    begun, ended = trio.Event(), trio.Event()

    async def wait(node_id: int, fields: Any, attachments: Sequence[memoryview]) -> Reply[Any]:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError

    node = Node(1)
    node.server.register(raw("wait"), wait)
    node.server.register(raw("echo"), echo)
    async with asking(node) as one:
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                await one.client.call(raw("wait"), None, timeout_s=60)

            nursery.start_soon(ask)
            await begun.wait()
            nursery.cancel_scope.cancel()
        await ended.wait()
        await one.client.call(raw("echo"), None, timeout_s=5)
        with pytest.raises(RpcTimeoutError, match="'wait'"):
            await one.client.call(raw("wait"), None, timeout_s=0.01)


async def test_a_killed_process_is_told_from_one_that_cannot_be_reached() -> None:
    node = Node(1)
    async with asking(node) as one:
        await one.hears(connected=1)
        await node.kill()
        await one.hears(losses=1)
        assert one.losses[0] == (1, b"i", True)
        with pytest.raises(RpcLostError, match="refused"):
            await one.client.call(raw("echo"), None, timeout_s=5)


async def test_requests_that_wait_fail_when_the_connection_ends() -> None:
    node = Node(1)
    failures: list[Exception] = []

    async def wait(node_id: int, fields: Any, attachments: Sequence[memoryview]) -> Reply[Any]:
        await trio.sleep_forever()
        raise AssertionError

    node.server.register(raw("wait"), wait)
    async with asking(node) as one, trio.open_nursery() as nursery:
        await one.hears(connected=1)

        async def ask() -> None:
            with pytest.raises(RpcLostError) as caught:
                await one.client.call(raw("wait"), None, timeout_s=60)
            failures.append(caught.value)

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        await node.kill()
    assert len(failures) == 1


async def test_a_node_that_comes_back_is_connected_and_known_as_another_process() -> None:
    node = Node(1)
    async with asking(node) as one, trio.open_nursery() as nursery:
        await one.hears(connected=1)
        await node.kill()
        await one.hears(losses=1)
        again = Node(1, incarnation=b"another")
        again.server.register(raw("echo"), echo)
        await nursery.start(again.run, node.port)
        one.client.kick()
        await one.hears(connected=2)
        assert [hello.incarnation for hello in one.connected] == [b"i", b"another"]
        assert (await one.client.call(raw("echo"), 5, timeout_s=5)).message == (2, 5)
        # A connection that ends while the process lives is no reason to think it is gone.
        one.client.disconnect()
        await one.hears(connected=3)
        ended = [loss for loss in one.losses if loss.incarnation]
        assert ended == [(1, b"i", True), (1, b"another", False)]
        nursery.cancel_scope.cancel()


async def test_a_request_does_not_wait_for_the_next_attempt() -> None:
    node = Node(1)
    async with asking(node) as one, trio.open_nursery() as nursery:
        await one.hears(connected=1)
        await node.kill()
        await one.hears(losses=1)
        for _ in range(20):
            with pytest.raises(RpcLostError):
                await one.client.call(raw("echo"), None, timeout_s=60)
        again = Node(1)
        again.server.register(raw("echo"), echo)
        await nursery.start(again.run, node.port)
        assert (await one.client.call(raw("echo"), 5, timeout_s=60)).message == (2, 5)
        nursery.cancel_scope.cancel()


async def test_a_request_to_nowhere_says_why() -> None:
    one = client.RpcClient(Identity(2, b""), 1, None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        with pytest.raises(RpcLostError, match="address is not known"):
            await one.call(raw("echo"), None, timeout_s=5)
        nursery.cancel_scope.cancel()
    with pytest.raises(RpcLostError, match="is stopping"):
        await one.call(raw("echo"), None, timeout_s=5)


@pytest.mark.parametrize(
    ("node", "cluster", "words"),
    [
        (2, "other", "belongs to cluster 'c'"),
        (1, "c", "this node's number 1"),
    ],
)
async def test_nodes_that_do_not_belong_together_do_not_talk(
    node: int, cluster: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        async with asking(Node(1), node, cluster) as one:
            for _ in range(2):
                with pytest.raises(RpcLostError, match=words):
                    await one.client.call(raw("echo"), None, timeout_s=5)
            assert not one.connected
    assert caplog.text.count("refused an internal connection") == 1


async def test_a_node_at_a_wrong_address_is_not_taken_for_another() -> None:
    node = Node(1)
    async with trio.open_nursery() as nursery:
        await nursery.start(node.run)
        one = client.RpcClient(Identity(2, b""), 3, node.address)
        nursery.start_soon(one.run)
        with pytest.raises(RpcLostError, match="it is node 1"):
            await one.call(raw("echo"), None, timeout_s=5)
        nursery.cancel_scope.cancel()


async def test_a_node_without_a_cluster_may_talk_to_all() -> None:
    node = Node(1, cluster_id="")
    node.server.register(raw("echo"), echo)
    async with asking(node, cluster_id="c") as one:
        assert (await one.client.call(raw("echo"), None, timeout_s=5)).message == (2, None)


async def test_more_requests_than_allowed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CALLS_AT_ONCE_MAX", 2)
    node = Node(1)

    async def wait(node_id: int, fields: Any, attachments: Sequence[memoryview]) -> Reply[Any]:
        await trio.sleep_forever()
        raise AssertionError

    node.server.register(raw("wait"), wait)
    async with asking(node) as one, trio.open_nursery() as nursery:

        async def ask() -> None:
            await one.client.call(raw("wait"), None, timeout_s=60)

        nursery.start_soon(ask)
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(RpcBusyError):
            await one.client.call(raw("wait"), None, timeout_s=60)
        nursery.cancel_scope.cancel()


async def test_a_node_that_does_not_read_costs_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link, "QUEUE_SIZE_BYTES_MAX", 10_000)
    listening = trio.socket.socket()
    await listening.bind(("127.0.0.1", 0))
    listening.listen()
    one = client.RpcClient(Identity(2, b""), 1, listening.getsockname())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        accepted, _ = await listening.accept()
        with listening, accepted:
            hello = encode_frame(FrameKind.HELLO, 0, "", Hello(1, "", 1, b""), ())
            await accepted.send(hello)
            while not one.is_connected:
                await trio.testing.wait_all_tasks_blocked()
            sent = 0
            while one.send(raw_one_way("hear"), b"x" * 60_000):
                sent += 1
            assert sent < 1000
            with pytest.raises(RpcTimeoutError):
                await one.call(raw("echo"), None, timeout_s=0.01)
        nursery.cancel_scope.cancel()


async def test_requests_in_hand_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUESTS_SIZE_BYTES_MAX", 100_000)
    may_end = trio.Event()
    begun: list[int] = []

    async def hold(node_id: int, fields: Any, attachments: Sequence[memoryview]) -> Reply[Any]:
        begun.append(fields)
        await may_end.wait()
        return Reply(fields)

    node = Node(1)
    node.server.register(raw("hold"), hold)
    async with asking(node) as one, trio.open_nursery() as nursery:
        await one.hears(connected=1)
        answers: list[int] = []

        async def ask(number: int) -> None:
            reply = await one.client.call(raw("hold"), number, [bytes(60_000)], timeout_s=60)
            answers.append(reply.message)

        for number in range(6):
            nursery.start_soon(ask, number)
        while len(begun) < 2:
            await trio.testing.wait_all_tasks_blocked(0.01)
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert len(begun) == 2
        may_end.set()
    assert sorted(answers) == list(range(6))


# --- peers -------------------------------------------------------------------------------------


async def test_peers_connect_on_demand_and_follow_registrations() -> None:
    first, second = Node(1), Node(5)
    for node in (first, second):
        node.server.register(raw("echo"), echo)
    async with trio.open_nursery() as nursery:
        await nursery.start(first.run)
        await nursery.start(second.run)
        peers = Peers(Identity(2, b"me", "c"), {1: first.address})
        losses: list[Any] = []
        connected: list[Hello] = []
        broken: list[int] = []
        peers.on_lost.append(losses.append)
        peers.on_broken.append(broken.append)
        peers.on_connected.append(connected.append)
        early = peers.client(1)
        await nursery.start(peers.run)
        assert (await early.call(raw("echo"), None, timeout_s=5)).message == (2, None)
        assert peers.client(1) is early
        assert (peers.is_connected(1), peers.is_connected(7)) == (True, False)
        assert peers.client(1, Lane.RECORDS) is not early
        later = peers.client(5)
        with pytest.raises(RpcLostError):
            await later.call(raw("echo"), None, timeout_s=5)
        peers.set_address(5, second.address)
        assert (await later.call(raw("echo"), None, timeout_s=5)).message == (2, None)
        peers.set_address(1, ("127.0.0.1", 1))  # a voter stays where the configuration says
        assert peers.addresses[1] == first.address
        await second.kill()
        while not losses:
            await trio.testing.wait_all_tasks_blocked(0.001)
        assert losses[0] == (5, b"i", True)
        assert broken == [5]
        assert [hello.node_id for hello in connected] == [1, 5]
        peers.kick(5)
        peers.forget(5)
        peers.forget(1)
        assert set(peers.addresses) == {1}
        with pytest.raises(RpcLostError, match="stopping"):
            await later.call(raw("echo"), None, timeout_s=5)
        nursery.cancel_scope.cancel()


async def test_a_listener_on_a_port_in_use_is_an_error() -> None:
    node = Node(1)
    async with asking(node) as one:
        assert isinstance(one, Asking)
        with pytest.raises(OSError, match=r"in use"):
            await Node(2).run(node.port)


def test_strangers_that_say_hello_are_forgotten_when_they_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peers_module, "NODES_MAX", 3)
    peers = Peers(Identity(1, b"me"), {2: ("h", 2)})
    for number in range(3, 10):
        peers.set_address(number, ("h", number))
    peers.set_address(4, ("elsewhere", 4))
    assert peers.addresses == {2: ("h", 2), 3: ("h", 3), 4: ("elsewhere", 4)}


# --- nodes that do not know their cluster --------------------------------------------------------


async def test_a_node_that_knows_no_cluster_may_only_do_what_it_needs_to_join() -> None:
    node = Node(1)
    node.server.register(raw("echo"), echo)
    node.server.register(raw("join"), echo)
    node.server.open_to_joining(raw("join"))
    async with asking(node, cluster_id="") as one:
        assert (await one.client.call(raw("join"), 1, timeout_s=5)).message
        with pytest.raises(RpcRemoteError, match="know which cluster they belong to"):
            await one.client.call(raw("echo"), 1, timeout_s=5)
        one.identity.cluster_id = "c"
        one.client.introduce()
        assert (await one.client.call(raw("echo"), 1, timeout_s=5)).message
        assert len(one.connected) == 1


async def test_a_node_cannot_become_another_one() -> None:
    node = Node(1)
    async with asking(node) as one:
        await one.hears(connected=1)
        one.identity.incarnation = b"another process"
        one.client.introduce()
        await one.hears(connected=2)
        assert len(one.losses) == 1


async def test_a_lasting_request_outlives_the_office_of_the_node_that_it_asks() -> None:
    node = Node(1)
    asked: list[str] = []
    may_answer = trio.Event()

    async def answer(node_id: int, fields: Any, attachments: Sequence[memoryview]) -> Reply[Any]:
        asked.append(fields)
        await may_answer.wait()
        return Reply(fields)

    node.server.register(raw("ask"), answer)
    failed: list[str] = []
    answered: list[Any] = []
    async with asking(node) as one:

        async def ask(what: str, *, is_lasting: bool) -> None:
            try:
                reply = await one.client.call(raw("ask"), what, timeout_s=60, is_lasting=is_lasting)
            except RpcLostError as error:
                failed.append(str(error))
            else:
                answered.append(reply.message)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(ask, "topics", is_lasting=False))
            nursery.start_soon(partial(ask, "voters", is_lasting=True))
            while len(asked) < 2:
                await trio.testing.wait_all_tasks_blocked(0.001)
            one.client.give_up_deposed("it was replaced")
            may_answer.set()
    assert (failed, answered) == (["node 1: it was replaced"], ["voters"])
