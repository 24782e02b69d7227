"""The identity of a node, which both sides of an internal connection send first."""

from __future__ import annotations

from typing import Final, NamedTuple, cast

from ...metadata.settings import Password
from ...security.node_proof import NONCE_SIZE_BYTES
from ..settings.addresses import NODE_ID_MAX
from .errors import RpcProtocolError
from .frames import PROTOCOL_VERSION

NO_SECRET: Final = Password()
_CLUSTER_ID_LENGTH_MAX = 64
_INCARNATION_SIZE_BYTES_MAX = 64
_HOST_LENGTH_MAX = 1000
_PORT_MAX = 65_535


class Hello(NamedTuple):
    """The first message in each direction.

    Attributes:
        protocol_version: of the frames and operations.
        cluster_id: empty as long as the node belongs to none.
        node_id: its number.
        incarnation: bytes that are new each time its process starts.
        host: where its internal listener is; empty when it has none.
        port: where its internal listener is.
    """

    protocol_version: int
    cluster_id: str
    node_id: int
    incarnation: bytes
    host: str = ""
    port: int = 0


class Challenge(NamedTuple):
    """A node that shares a secret with others wants to see that the other side knows it.

    Attributes:
        nonce: random bytes.
    """

    nonce: bytes


class Proof(NamedTuple):
    """One side knows the secret.

    Attributes:
        proof: see `minikafka.security.node_proof`.
        nonce: random bytes of the side that connected; empty from the other one.
    """

    proof: bytes
    nonce: bytes = b""


class Identity:
    """This node's identity.

    Attributes:
        cluster_id: empty until the node knows which cluster it belongs to.
        address: where its internal listener is.
        secret: what other nodes have to know; empty if they need not know anything.
    """

    __slots__ = ("address", "cluster_id", "incarnation", "node_id", "secret")

    def __init__(
        self,
        node_id: int,
        incarnation: bytes,
        cluster_id: str = "",
        secret: Password = NO_SECRET,
    ) -> None:
        self.secret = secret
        self.node_id = node_id
        self.incarnation = incarnation
        self.cluster_id = cluster_id
        self.address: tuple[str, int] = ("", 0)

    def hello(self) -> Hello:
        return Hello(
            PROTOCOL_VERSION, self.cluster_id, self.node_id, self.incarnation, *self.address
        )

    def problem_with(self, other: Hello) -> str | None:
        """Why this node does not talk to that one, or None."""
        if other.protocol_version != PROTOCOL_VERSION:
            return (
                f"it speaks version {other.protocol_version} of the internal protocol, this node "
                f"{PROTOCOL_VERSION}; run the same minikafka on both"
            )
        if self.cluster_id and other.cluster_id and other.cluster_id != self.cluster_id:
            return (
                f"it belongs to cluster {other.cluster_id!r}, this node to {self.cluster_id!r}; "
                "one of them has the wrong --quorum or the wrong --data-dir"
            )
        if other.node_id == self.node_id and other.incarnation != self.incarnation:
            return (
                f"it has this node's number {self.node_id}; give each node a --node-id of its own"
            )
        return None


def decode_hello(fields: object) -> Hello:
    """Read a hello from the fields of its frame.

    Raises:
        RpcProtocolError: it is malformed.
    """
    if type(fields) is tuple:
        match cast("tuple[object, ...]", fields):
            case (
                int(version),
                str(cluster_id),
                int(node_id),
                bytes(incarnation),
                str(host),
                int(port),
                *_,
            ) if (
                len(cluster_id) <= _CLUSTER_ID_LENGTH_MAX
                and 0 <= node_id <= NODE_ID_MAX
                and len(incarnation) <= _INCARNATION_SIZE_BYTES_MAX
                and len(host) <= _HOST_LENGTH_MAX
                and 0 <= port <= _PORT_MAX
            ):
                return Hello(version, cluster_id, node_id, incarnation, host, port)
            case _:
                pass
    raise RpcProtocolError("the first frame is not a hello; is another service at that address?")


def decode_challenge(fields: object) -> Challenge:
    """Read a challenge from the fields of its frame.

    Raises:
        RpcProtocolError: it is malformed.
    """
    if type(fields) is tuple:
        match cast("tuple[object, ...]", fields):
            case (bytes(nonce), *_) if len(nonce) == NONCE_SIZE_BYTES:
                return Challenge(nonce)
            case _:
                pass
    raise RpcProtocolError("a challenge is malformed")


def decode_proof(fields: object) -> Proof:
    """Read a proof from the fields of its frame.

    Raises:
        RpcProtocolError: it is malformed.
    """
    if type(fields) is tuple:
        match cast("tuple[object, ...]", fields):
            case (bytes(proof), bytes(nonce), *_) if len(nonce) in (0, NONCE_SIZE_BYTES):
                return Proof(proof, nonce)
            case _:
                pass
    raise RpcProtocolError("a proof is malformed")
