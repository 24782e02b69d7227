"""Requests that nobody waits for in a task: answered when it suits, heard by a plain function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from minikafka.broker.rpc import client
from minikafka.broker.rpc.codec import Reply, Respond
from minikafka.broker.rpc.errors import (
    RpcBusyError,
    RpcError,
    RpcFailure,
    RpcLostError,
    RpcRemoteError,
    RpcUnreachableError,
)
from tests.broker.rpc.rpc_pair import Asking, Node, asking, raw


class Heard:
    """Answers, as they come."""

    def __init__(self) -> None:
        self.answers: list[Reply[Any] | RpcError] = []
        self._news = trio.Event()

    def take(self, answer: Reply[Any] | RpcError) -> None:
        self.answers.append(answer)
        self._news.set()

    async def number(self, count: int) -> list[Reply[Any] | RpcError]:
        """Wait until so many have come."""
        while len(self.answers) < count:
            self._news = trio.Event()
            await self._news.wait()
        return self.answers


async def test_a_request_is_answered_when_it_suits() -> None:
    node, waiting = Node(1), list[Respond[Any]]()

    def keep(
        node_id: int, fields: Any, attachments: Sequence[memoryview], respond: Respond[Any]
    ) -> None:
        assert (node_id, fields, list(map(bytes, attachments))) == (2, (1, "x"), [b"abc"])
        waiting.append(respond)

    node.server.register_deferred(raw("keep"), keep)
    async with asking(node) as one:
        await one.client.connected(timeout_s=5)
        heard = Heard()
        for _ in range(2):
            one.client.ask(raw("keep"), [1, "x"], [b"abc"], on_answer=heard.take)
        while len(waiting) < 2:
            await trio.testing.wait_all_tasks_blocked(0.001)
        waiting[1]("second", [b"de"])
        waiting[0]("first", ())
        first, second = await heard.number(2)
        assert isinstance(first, Reply)
        assert isinstance(second, Reply)
        assert (first.message, list(map(bytes, first.attachments))) == ("second", [b"de"])
        assert second.message == "first"


async def test_failures_are_heard() -> None:
    node = Node(1)

    def refuse(
        node_id: int, fields: Any, attachments: Sequence[memoryview], respond: Respond[Any]
    ) -> None:
        del node_id, attachments
        if fields == "bug":
            raise KeyError("bug")
        if fields == "large":
            respond(bytes(5 * 1024 * 1024), ())  # a header has a limit
            return
        raise RpcFailure("No", "not that")

    node.server.register_deferred(raw("refuse"), refuse)
    async with asking(node) as one:
        await one.client.connected(timeout_s=5)
        heard = Heard()
        for fields in ("no", "bug", "large"):
            one.client.ask(raw("refuse"), fields, on_answer=heard.take)
        answers = await heard.number(3)
        assert [type(one) for one in answers] == [RpcRemoteError] * 3
        assert [getattr(one, "kind", "") for one in answers] == ["No", "Bug", "ValueError"]


async def test_who_asked_hears_that_the_connection_ended() -> None:
    node, waiting = Node(1), list[Respond[Any]]()

    def keep(
        node_id: int, fields: Any, attachments: Sequence[memoryview], respond: Respond[Any]
    ) -> None:
        waiting.append(respond)

    node.server.register_deferred(raw("keep"), keep)
    async with asking(node) as one:
        await one.client.connected(timeout_s=5)
        heard = Heard()
        one.client.ask(raw("keep"), None, on_answer=heard.take)
        while not waiting:
            await trio.testing.wait_all_tasks_blocked(0.001)
        await node.kill()
        (answer,) = await heard.number(1)
        assert isinstance(answer, RpcLostError)
        waiting[0]("too late", ())
        with pytest.raises(RpcUnreachableError):
            one.client.ask(raw("keep"), None, on_answer=heard.take)
        with pytest.raises(RpcUnreachableError):
            await one.client.connected(timeout_s=5)
        assert len(heard.answers) == 1


async def test_no_more_is_asked_than_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CALLS_AT_ONCE_MAX", 2)
    node = Node(1)

    def ignore(
        node_id: int, fields: Any, attachments: Sequence[memoryview], respond: Respond[Any]
    ) -> None:
        """Never answer."""

    node.server.register_deferred(raw("keep"), ignore)
    async with asking(node) as one:
        await one.client.connected(timeout_s=5)
        for _ in range(2):
            one.client.ask(raw("keep"), None, on_answer=Heard().take)
        with pytest.raises(RpcBusyError):
            one.client.ask(raw("keep"), None, on_answer=Heard().take)
        one.client.give_up_calls("test")
        with pytest.raises(ValueError, match="can travel"):
            one.client.ask(raw("keep"), bytes(5 * 1024 * 1024), on_answer=Heard().take)


async def test_waiting_for_a_connection_has_an_end() -> None:
    node = Node(1)
    never = Asking(node)  # nobody runs it
    from minikafka.broker.rpc.errors import RpcTimeoutError

    with pytest.raises(RpcTimeoutError):
        await never.client.connected(timeout_s=0.01)
