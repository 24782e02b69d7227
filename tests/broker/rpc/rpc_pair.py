"""A node that answers and a node that asks, over loopback."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio

from minikafka.broker.rpc.client import Loss, RpcClient
from minikafka.broker.rpc.codec import AsItIs, OneWay, Operation
from minikafka.broker.rpc.identity import Hello, Identity
from minikafka.broker.rpc.server import RpcServer
from minikafka.broker.transport.sockets import connect, listen, tls_stream_of
from minikafka.metadata.settings import Password


def raw(name: str) -> Operation[Any, Any]:
    """An operation whose messages are any plain fields."""
    return Operation(name, AsItIs(), AsItIs())


def raw_one_way(name: str) -> OneWay[Any]:
    return OneWay(name, AsItIs())


class Node:
    """A server that can be stopped as if its process had been killed."""

    def __init__(
        self,
        node_id: int,
        cluster_id: str = "c",
        incarnation: bytes = b"i",
        *,
        secret: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.identity = Identity(node_id, incarnation, cluster_id, Password(secret))
        if tls is None:
            self.server = RpcServer(self.identity)
        else:
            self.server = RpcServer(
                self.identity, make_stream=partial(tls_stream_of, context=tls, is_client=False)
            )
        self.port = 0
        self._scope = trio.CancelScope()
        self._stopped = trio.Event()

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    async def run(
        self, port: int = 0, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        listener = await listen("127.0.0.1", port)
        self.port = listener.getsockname()[1]
        with self._scope:
            task_status.started()
            await self.server.serve(listener)
        self._stopped.set()

    async def kill(self) -> None:
        self._scope.cancel()
        await self._stopped.wait()


class Asking:
    """A client, and what it heard."""

    def __init__(
        self,
        node: Node,
        node_id: int = 2,
        cluster_id: str = "c",
        *,
        secret: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.connected: list[Hello] = []
        self.losses: list[Loss] = []
        self._heard = trio.Event()
        self.identity = Identity(node_id, b"asking", cluster_id, Password(secret))
        self.client = RpcClient(
            self.identity,
            node.identity.node_id,
            node.address,
            on_connected=self._on_connected,
            on_lost=self._on_lost,
            connect_to=connect if tls is None else partial(connect, context=lambda: tls),
        )

    def _on_connected(self, hello: Hello) -> None:
        self.connected.append(hello)
        self._heard.set()

    def _on_lost(self, loss: Loss) -> None:
        self.losses.append(loss)
        self._heard.set()

    async def hears(self, *, connected: int = 0, losses: int = 0) -> None:
        """Wait until so much was heard."""
        while len(self.connected) < connected or len(self.losses) < losses:
            self._heard = trio.Event()
            await self._heard.wait()


@asynccontextmanager
async def asking(
    node: Node,
    node_id: int = 2,
    cluster_id: str = "c",
    *,
    secret: str = "",
    tls: ssl.SSLContext | None = None,
) -> AsyncGenerator[Asking]:
    """Run a node and a client of it."""
    async with trio.open_nursery() as nursery:
        await nursery.start(node.run)
        one = Asking(node, node_id, cluster_id, secret=secret, tls=tls)
        nursery.start_soon(one.client.run)
        yield one
        nursery.cancel_scope.cancel()
