"""The other nodes: who is where, and connections to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio

from ..transport.sockets import connect
from .client import Address, Connect, Loss, RpcClient
from .identity import Hello, Identity
from .lanes import Lane

NODES_MAX = 4096
"""Nodes whose addresses are remembered; a stranger may say hello, too."""


class Peers:
    """Clients for other nodes, made when they are first wanted.

    Attributes:
        addresses: where each node's internal listener is: the voters by configuration, or by the
            metadata log; others by their registration.
        on_lost: called for each control connection that ended, after the first attempt to restore
            it (`Loss.is_gone` says what that attempt found), and for each attempt that was
            refused.
        on_broken: called with the node id when any connection ends, before anything is known about
            why.
        on_connected: called for each control connection that was made.
    """

    def __init__(
        self,
        identity: Identity,
        addresses: Mapping[int, Address],
        *,
        connect_to: Connect = connect,
        dice: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._identity = identity
        self.addresses: dict[int, Address] = dict(addresses)
        self._fixed = frozenset(addresses)
        self._kept = self._fixed
        self.on_lost: list[Callable[[Loss], None]] = []
        self.on_broken: list[Callable[[int], None]] = []
        self.on_connected: list[Callable[[Hello], None]] = []
        self._connect_to = connect_to
        self._dice = dice
        self._clients: dict[tuple[int, Lane], RpcClient] = {}
        self._scopes: dict[tuple[int, Lane], trio.CancelScope] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for key in self._clients:
                nursery.start_soon(self._run_client, key)
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None  # it takes no more clients

    def client(self, node_id: int, lane: Lane = Lane.CONTROL) -> RpcClient:
        """The client for a node; it begins to connect when it is first asked for."""
        key = (node_id, lane)
        client = self._clients.get(key)
        if client is None:
            is_reported = lane is Lane.CONTROL
            client = self._clients[key] = RpcClient(
                self._identity,
                node_id,
                self.addresses.get(node_id),
                on_connected=self._connected if is_reported else None,
                on_broken=self.report_broken,
                on_lost=self._lost if is_reported else None,
                connect_to=self._connect_to,
                dice=self._dice,
            )
            if self._nursery is not None:
                self._nursery.start_soon(self._run_client, key)
        return client

    async def _run_client(self, key: tuple[int, Lane]) -> None:
        client = self._clients.get(key)
        if client is None:  # forgotten before it began
            return
        with trio.CancelScope() as self._scopes[key]:
            await client.run()

    def _connected(self, hello: Hello) -> None:
        for listener in self.on_connected:
            listener(hello)

    def report_broken(self, node_id: int) -> None:
        """A node cannot be reached: a connection ended, or a request over it failed."""
        for listener in self.on_broken:
            listener(node_id)

    def _lost(self, loss: Loss) -> None:
        for listener in self.on_lost:
            listener(loss)

    def set_address(self, node_id: int, address: Address) -> None:
        """A node registered with an address; that of a voter is fixed by configuration."""
        if node_id in self._fixed or (
            node_id not in self.addresses and len(self.addresses) >= NODES_MAX
        ):
            return
        self.addresses[node_id] = address
        for lane in Lane:
            client = self._clients.get((node_id, lane))
            if client is not None:
                client.move(address)

    def use_voters(self, addresses: Mapping[int, Address]) -> None:
        """The metadata log says who votes, and where: no longer the configuration.

        What a node itself has said since is newer than the log.
        """
        configured, self._fixed = self._fixed, frozenset[int]()
        self._kept = frozenset(addresses)
        for node_id, address in addresses.items():
            if node_id in configured or node_id not in self.addresses:
                self.set_address(node_id, address)

    def is_connected(self, node_id: int) -> bool:
        client = self._clients.get((node_id, Lane.CONTROL))
        return client is not None and client.is_connected

    def give_up_deposed(self, node_id: int, reason: str) -> None:
        """Fail what a node was asked as the controller; the outcome is unknown."""
        for lane in (Lane.CONTROL, Lane.FORWARDED):
            client = self._clients.get((node_id, lane))
            if client is not None:
                client.give_up_deposed(reason)

    def forget(self, node_id: int) -> None:
        """A node left the cluster; a voter is not forgotten."""
        if node_id in self._kept:
            return
        self.addresses.pop(node_id, None)
        for lane in Lane:
            self._clients.pop((node_id, lane), None)
            scope = self._scopes.pop((node_id, lane), None)
            if scope is not None:
                scope.cancel()

    def introduce(self) -> None:
        """Tell all nodes which cluster this one belongs to."""
        for client in self._clients.values():
            client.introduce()

    def kick(self, node_id: int) -> None:
        """A node is there (it just said hello): connect to it without a pause."""
        for lane in Lane:
            client = self._clients.get((node_id, lane))
            if client is not None:
                client.kick()
