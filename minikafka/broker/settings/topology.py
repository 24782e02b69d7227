"""The cluster according to this node's settings: voters, roles, internal addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...metadata.setting_table import BrokerConfig
from ...metadata.settings import InvalidSettingError
from .addresses import NODE_ID_MAX, parse_address

VOTERS_MAX = 99
_FLAG = "--quorum (controller.quorum.voters)"

Address = tuple[str, int]


class Topology(NamedTuple):
    """This node's place in the cluster.

    Attributes:
        voters: the addresses of the controllers' internal listeners, by node id; only this node if
            none are configured.
        is_broker: it serves clients.
        is_controller: it votes in the metadata quorum, and may lead it.
        is_clustered: there may be other nodes, so it has an internal listener.
        internal: the address of the internal listener; port 0 picks a free one.
        is_recorded: the voters are those of the metadata log, and not configured.
    """

    node_id: int
    voters: Mapping[int, Address]
    is_broker: bool
    is_controller: bool
    is_clustered: bool
    internal: Address
    is_recorded: bool = False

    @property
    def is_alone(self) -> bool:
        """Whether this node is the only voter of the metadata quorum."""
        return set(self.voters) == {self.node_id}


def topology_of(config: BrokerConfig) -> Topology:
    """Derive the topology from the settings.

    Raises:
        InvalidSettingError: settings contradict each other.
    """
    node_id = config.node_id
    roles = config.process_roles
    if not roles:
        raise InvalidSettingError("process.roles is empty; use broker, controller, or both")
    is_clustered = bool(config.controller_quorum_voters)
    if not is_clustered:
        if set(roles) != {"broker", "controller"}:
            raise InvalidSettingError(
                f"process.roles={','.join(roles)} requires other nodes; name the controllers with "
                f"{_FLAG}, or remove process.roles"
            )
        return Topology(node_id, {node_id: ("", 0)}, True, True, False, ("", 0))
    voters = parse_voters(config.controller_quorum_voters)
    is_controller = node_id in voters
    if is_controller and "controller" not in roles:
        raise InvalidSettingError(
            f"node {node_id} is named in {_FLAG}, but process.roles={','.join(roles)} has no "
            "controller; add it, or give this broker another --node-id"
        )
    if not is_controller and "broker" not in roles:
        known = ", ".join(map(str, sorted(voters)))
        raise InvalidSettingError(
            f"node {node_id} has the role of a controller, but {_FLAG} names only {known}; "
            "add it there on every node, or correct --node-id"
        )
    return Topology(
        node_id, voters, "broker" in roles, is_controller, True, _internal(config, voters)
    )


def with_voters(topology: Topology, voters: Mapping[int, Address]) -> Topology:
    """The topology with the voters of the metadata log, which count instead of configured ones.

    A voter without a configured internal listener listens where the log says that it does.
    """
    internal = topology.internal
    if topology.node_id in voters and not internal[1]:
        internal = internal[0], voters[topology.node_id][1]
    return topology._replace(
        voters=voters,
        is_controller=topology.node_id in voters,
        internal=internal,
        is_recorded=True,
    )


def parse_voters(texts: tuple[str, ...]) -> dict[int, Address]:
    """Parse ``id@host:port`` texts.

    Raises:
        InvalidSettingError: one is malformed, or two have the same id or address.
    """
    voters: dict[int, Address] = {}
    if len(texts) > VOTERS_MAX:
        raise InvalidSettingError(f"{_FLAG} names {len(texts)} nodes; at most {VOTERS_MAX} vote")
    for text in texts:
        number, separator, address = text.strip().partition("@")
        if not separator or not number.isascii() or not number.isdigit():
            raise InvalidSettingError(
                f"{_FLAG} takes id@host:port,id@host:port,...; {text!r} is malformed"
            )
        node_id, (host, port) = int(number), parse_address(address)
        if node_id > NODE_ID_MAX or not host or not port:
            raise InvalidSettingError(
                f"{_FLAG}: {text!r} needs an id up to {NODE_ID_MAX}, a host and a port above 0, "
                "so that other nodes can reach it"
            )
        if node_id in voters:
            raise InvalidSettingError(f"{_FLAG} names node {node_id} twice")
        if (host, port) in voters.values():
            raise InvalidSettingError(f"{_FLAG} names two nodes at {host}:{port}")
        voters[node_id] = (host, port)
    return voters


def _internal(config: BrokerConfig, voters: Mapping[int, Address]) -> Address:
    if config.minikafka_internal_listener:
        return parse_address(config.minikafka_internal_listener)
    if config.node_id in voters:
        return voters[config.node_id]
    return parse_address(config.listeners[0].rpartition("://")[2])[0], 0
