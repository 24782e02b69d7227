"""This node's identity: its id, its place in the cluster, and its addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .topology import Topology


class Endpoint(NamedTuple):
    host: str
    port: int


_NOT_BOUND = Endpoint("", 0)


@dataclass(slots=True, eq=False)
class Node:
    """This node's identity.

    Attributes:
        incarnation: sixteen random bytes, different in each process.
        endpoint: the address in Metadata, set once the listener is bound.
        internal_endpoint: the address for other nodes, set once the internal listener is bound.
        is_stopping: the server is draining, so waits should end.
        broker_epoch: of the registration for which the partitions have their roles; -1 before.
    """

    topology: Topology
    incarnation: bytes
    endpoint: Endpoint = _NOT_BOUND
    internal_endpoint: Endpoint = _NOT_BOUND
    is_stopping: bool = False
    broker_epoch: int = -1

    @property
    def node_id(self) -> int:
        return self.topology.node_id

    @property
    def is_clustered(self) -> bool:
        """Whether there may be other nodes, so that this one has an internal listener."""
        return self.topology.is_clustered

    @property
    def is_alone(self) -> bool:
        """Whether this node is the only voter of the metadata quorum."""
        return self.topology.is_alone
