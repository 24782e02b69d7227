"""This node's end of all connections between nodes: listener, peers, and who is notified of what.

Nodes outside the quorum are found by their hello or by their registration: both carry the address
of their listener. The cluster id is in the metadata log, where the first active controller puts it;
a node that reads it there belongs to that cluster from then on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from ...consensus.messages import (
    LeaderHint,
    MalformedQuorumMessage,
    Message,
    join_message,
    split_message,
)
from ...metadata.records import BrokerRecord, MetadataRecord, UnregisterBrokerRecord
from ...storage.directory_meta import write_meta
from ..rpc import operations
from ..rpc.client import Loss
from ..rpc.codec import Respond
from ..rpc.errors import RpcError, RpcLostError, RpcProtocolError, RpcTimeoutError
from ..rpc.identity import Hello, Identity
from ..rpc.peers import Peers
from ..rpc.server import RpcServer
from ..security.internal import UNPROTECTED, InternalSecurity, InternalTls
from ..settings.topology import with_voters
from ..system.start_error import StartError
from ..system.workers import run_in_worker_thread
from ..transport.sockets import connect, listen, tls_stream_of

if TYPE_CHECKING:
    from ...consensus.voters import VoterSet
    from ...storage.log_directory import LogDirectory
    from ..quorum.quorum import Quorum
    from ..settings.node import Node
    from .metadata_store import MetadataStore

logger = logging.getLogger(__name__)

CHECK_VALID_SECONDS = 0.01
CHECK_SECONDS_MAX = 0.05
SUSPECT_SECONDS = 1.0
"""How long clients are not sent to a node to which the connection ended, unless it comes back."""

_RELOAD_INTERVAL_SECONDS = 1.0
_ANY_ADDRESS = ("0.0.0.0", "::", "")


class Interconnect:
    """Connections to and from other nodes.

    Attributes:
        identity: who this node is to others.
        peers: connections to others.
        server: answers others.
    """

    def __init__(
        self,
        node: Node,
        store: MetadataStore,
        quorum: Quorum,
        directory: LogDirectory,
        dice: Callable[[], float],
        security: InternalSecurity = UNPROTECTED,
    ) -> None:
        topology = node.topology
        self._tls = security.tls
        self.identity = Identity(node.node_id, node.incarnation, store.cluster_id, security.secret)
        others = {one: at for one, at in topology.voters.items() if one != node.node_id}
        if security.tls is None:
            self.peers = Peers(self.identity, others, dice=dice)
            self.server = RpcServer(self.identity, on_hello=self._hello_from)
        else:
            tls = security.tls
            self.peers = Peers(
                self.identity,
                others,
                dice=dice,
                connect_to=partial(connect, context=lambda: tls.connecting),
            )
            self.server = RpcServer(
                self.identity,
                on_hello=self._hello_from,
                make_stream=lambda accepted: tls_stream_of(
                    accepted, tls.accepting, is_client=False
                ),
            )
        if topology.is_recorded:
            self.peers.use_voters(others)
        quorum.on_voters = self._use_voters
        self._node = node
        self._store = store
        self._quorum = quorum
        self._directory = directory
        self._listener: trio.socket.SocketType | None = None
        self._suspects: dict[int, float] = {}
        self._checked: dict[int, float] = {}
        self._waiting_addresses: dict[int, tuple[str, int]] = {}
        self.peers.on_lost.append(self._lost)
        self.peers.on_broken.append(self._broken)
        self.peers.on_connected.append(self._connected)
        self.server.register_one_way(operations.QUORUM, self._receive)
        self.server.register_deferred(operations.PING, _answer_ping)
        self.server.open_to_joining(
            operations.QUORUM, operations.PING, operations.REGISTER, operations.HEARTBEAT
        )

    # --- the listener --------------------------------------------------------------------------

    async def listen(self) -> tuple[str, int]:
        """Open the internal listener; returns where other nodes find this one.

        Raises:
            StartError: the address is in use or not this machine's.
        """
        topology = self._node.topology
        host, port = topology.internal
        try:
            self._listener = self._listener or await listen(host, port)
        except OSError as error:
            raise StartError(
                f"cannot listen for other nodes on {host}:{port}: {error.strerror or error}; "
                "correct --quorum, or set minikafka.internal.listener to an address of this machine"
            ) from None
        bound_port: int = self._listener.getsockname()[1]
        address = topology.voters.get(topology.node_id)
        if address is None or (topology.is_recorded and address[1] != bound_port):
            address = (self._node.endpoint.host if host in _ANY_ADDRESS else host, bound_port)
        self.identity.address = address
        return address

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        assert self._listener is not None
        async with trio.open_nursery() as nursery:
            await nursery.start(self.peers.run)
            nursery.start_soon(self.server.serve, self._listener)
            if self._tls is not None:
                nursery.start_soon(_reload, self._tls)
            topology = self._node.topology
            if topology.node_id in topology.voters:
                # The first election soon begins, and what is sent before there is a connection is
                # lost: without this every start waited for the second election.
                for node_id in sorted(topology.voters.keys() - {topology.node_id}):
                    self.peers.client(node_id)
            task_status.started()

    def leader_lost(self, node_id: int) -> None:
        """Fail the requests to a deposed leader of the quorum: they may never be answered."""
        if node_id != self.identity.node_id:
            self.peers.give_up_deposed(node_id, "it is no longer the controller")

    # --- events and messages -------------------------------------------------------------------

    def send(self, node_id: int, message: Message) -> None:
        """Send a message of the quorum, or drop it."""
        fields, attached = split_message(message)
        self.peers.client(node_id).send(operations.QUORUM, fields, (attached,) if attached else ())

    def _receive(self, node_id: int, fields: Any, attachments: Sequence[memoryview]) -> None:
        try:
            message = join_message(fields, attachments[0] if attachments else b"")
        except MalformedQuorumMessage as error:
            raise RpcProtocolError(f"a message to the quorum is malformed: {error}") from None
        if isinstance(message, LeaderHint) and message.leader_id not in self.peers.addresses:
            self.peers.set_address(message.leader_id, (message.host, message.port))
        self._quorum.receive(node_id, message)

    def _use_voters(self, voters: VoterSet) -> None:
        """The log has other voters: reach them where it says, until they say otherwise."""
        node = self._node
        addresses = {one.node_id: (one.host, one.port) for one in voters.voters}
        node.topology = with_voters(node.topology, addresses)
        others = {one: at for one, at in addresses.items() if one != node.node_id}
        self.peers.use_voters(others)

    def suspects(self) -> set[int]:
        """Nodes to which the connection ended a moment ago, and which have not shown themselves.

        Most likely their process is gone. The controller finds that out, too; until then clients
        should not be sent there. It is a matter of moments: a node that only this one cannot reach
        is no reason to send clients away for long.
        """
        if not self._suspects:
            return set()
        now = trio.current_time()
        self._suspects = {one: until for one, until in self._suspects.items() if until > now}
        return set(self._suspects)

    async def check(self, node_ids: Iterable[int]) -> None:
        """Find out whether nodes live before a client is sent there.

        A client mostly asks where something is because the connection to a node ended, and it may
        ask before this node has noticed that its own one did. So each node is asked for a sign of
        life: what kept it alive a moment ago need not be asked again, one that does not answer
        soon is busy, and from one that is gone the end of the connection comes at once.
        """
        now = trio.current_time()
        due = {one for one in node_ids if self._checked.get(one, -1.0) < now - CHECK_VALID_SECONDS}
        due -= {self.identity.node_id, *self._suspects}
        if due:
            with trio.move_on_after(CHECK_SECONDS_MAX):
                async with trio.open_nursery() as nursery:
                    for node_id in due:
                        nursery.start_soon(self._check_one, node_id)

    async def _check_one(self, node_id: int) -> None:
        try:
            await self.peers.client(node_id).call(
                operations.PING, None, timeout_s=CHECK_SECONDS_MAX
            )
        except RpcTimeoutError:
            pass
        except RpcLostError:
            self.peers.report_broken(node_id)
        except RpcError as error:
            logger.debug("node %d: %s", node_id, error)
        # Also one that is busy: asking it more often does not help it.
        self._checked[node_id] = trio.current_time()

    def _broken(self, node_id: int) -> None:
        self._suspects[node_id] = trio.current_time() + SUSPECT_SECONDS

    def _connected(self, hello: Hello) -> None:
        self._suspects.pop(hello.node_id, None)

    def _hello_from(self, hello: Hello) -> None:
        node_id = hello.node_id
        self._suspects.pop(node_id, None)
        if hello.host:
            address = (hello.host, hello.port)
            if self.peers.is_connected(node_id) and address != self.peers.addresses.get(node_id):
                # A process that was restarted at once, or two with one number: the one that was
                # here first keeps its place until it is gone.
                logger.warning(
                    "another process says at %s:%d that it is node %d, to which there is a "
                    "connection; give every node a --node-id of its own",
                    *(*address, node_id),
                )
                self._waiting_addresses[node_id] = address
            else:
                self.peers.set_address(node_id, address)
        self.peers.kick(node_id)

    def _lost(self, loss: Loss) -> None:
        if loss.is_gone:
            self.peers.report_broken(loss.node_id)
            self._quorum.peer_lost(loss.node_id)
            address = self._waiting_addresses.pop(loss.node_id, None)
            if address is not None:
                self.peers.set_address(loss.node_id, address)

    def follow(self, records: Iterable[MetadataRecord]) -> None:
        """Take what the metadata says about nodes, and about the cluster."""
        for record in records:
            match record:
                case BrokerRecord(broker_id=node_id, rpc_host=host, rpc_port=port):
                    self._register(node_id, host, port)
                case UnregisterBrokerRecord(broker_id=node_id):
                    self.peers.forget(node_id)
                case _:
                    pass
        cluster_id = self._store.cluster_id
        if cluster_id and not self.identity.cluster_id:
            self.identity.cluster_id = cluster_id
            self.peers.introduce()
            directory = self._directory
            try:
                write_meta(directory.disk, directory.path, self.identity.node_id, cluster_id)
            except OSError as error:  # the next start learns it again
                logger.error("cannot note which cluster this node belongs to: %s", error)
            logger.info("this node belongs to cluster %s", cluster_id)

    def image_replaced(self) -> None:
        """Follow an image that was loaded, at start or from a snapshot."""
        for one in self._store.image.brokers.values():
            self._register(one.broker_id, one.rpc_host, one.rpc_port)
        self.follow(())

    def _register(self, node_id: int, host: str, port: int) -> None:
        if node_id != self.identity.node_id and port:
            self.peers.set_address(node_id, (host, port))


async def _reload(tls: InternalTls) -> None:
    """Read certificates again when their files change."""
    while True:
        await trio.sleep(_RELOAD_INTERVAL_SECONDS)
        reload = tls.files.change(tls.build)
        if reload is not None:
            await run_in_worker_thread(reload)


def _answer_ping(
    node_id: int, message: None, attachments: Sequence[memoryview], respond: Respond[None]
) -> None:
    del node_id, message, attachments
    respond(None, ())
