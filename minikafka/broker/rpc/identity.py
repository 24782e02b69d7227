"""The identity of a node, which both sides of an internal connection send first."""

from __future__ import annotations

from typing import NamedTuple, cast

from ..settings.addresses import NODE_ID_MAX
from .errors import RpcProtocolError
from .frames import PROTOCOL_VERSION

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


class Identity:
    """This node's identity.

    Attributes:
        cluster_id: empty until the node knows which cluster it belongs to.
        address: where its internal listener is.
    """

    __slots__ = ("address", "cluster_id", "incarnation", "node_id")

    def __init__(self, node_id: int, incarnation: bytes, cluster_id: str = "") -> None:
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
