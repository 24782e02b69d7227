"""This node's identity: its id, its place in the cluster, and its addresses."""

from __future__ import annotations

from typing import NamedTuple

from .topology import Topology


class Endpoint(NamedTuple):
    host: str
    port: int


_NOT_BOUND = Endpoint("", 0)


class Node:
    """This node's identity.

    Attributes:
        incarnation: sixteen random bytes, different in each process.
        endpoint: the address in Metadata, set once the listener is bound; of the first listener
            that is advertised.
        listeners: name, host and port of all listeners that are advertised; empty if there is only
            a plain one, at ``endpoint``.
        internal_endpoint: the address for other nodes, set once the internal listener is bound.
        is_stopping: the server is draining, so waits should end.
        broker_epoch: of the registration for which the partitions have their roles; -1 before.
    """

    __slots__ = (
        "broker_epoch",
        "endpoint",
        "incarnation",
        "internal_endpoint",
        "is_stopping",
        "listeners",
        "topology",
    )

    def __init__(self, topology: Topology, incarnation: bytes) -> None:
        self.topology = topology
        self.incarnation = incarnation
        self.endpoint = _NOT_BOUND
        self.listeners: tuple[tuple[str, str, int], ...] = ()
        self.internal_endpoint = _NOT_BOUND
        self.is_stopping = False
        self.broker_epoch = -1

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
