"""A topic on a cluster whose nodes come and go."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from random import Random
from types import MappingProxyType
from typing import Any

import pytest

from minikafka.lab.matrix import TopicMode
from minikafka.lab.processes.stage import Stage
from minikafka.lab.processes.target import Action, CannotError
from minikafka.protocol.messages import metadata


class Nodes:
    """A target of three nodes of which the brokers know some."""

    name = version = bootstrap = "nodes"
    nodes: Collection[int] = (1, 2, 3)
    can: frozenset[Action] = frozenset()
    properties: Mapping[str, str] = MappingProxyType({})
    session_ms = 1_000
    is_direct = True

    def __init__(self, *known: tuple[int, ...], patience_s: float) -> None:
        self.known = [*known]
        self.patience_s = patience_s

    def do(self, action: Action, node: int) -> None:
        raise AssertionError

    def restore(self) -> None:
        raise AssertionError

    def close(self) -> None:
        raise AssertionError


class Asked(Stage):
    """Answers questions itself."""

    target: Nodes

    def ask(self, request: Any, version: int, kind: Any) -> Any:
        assert isinstance(request, metadata.Request)
        known = self.target.known
        listed = known.pop(0) if len(known) > 1 else known[0]
        brokers = [metadata.Broker(node_id=node, host="h", port=node) for node in listed]
        return metadata.Response(brokers=brokers, controller_id=1, topics=[])

    def create_topic(self, *_: Any) -> None:
        """It is there."""


def stage(nodes: Nodes) -> Stage:
    mode = TopicMode(replicas=3, min_insync=2, is_synced=False)
    return Asked(nodes, "t", mode, 1, Random(1))


def test_a_node_that_has_just_started_is_waited_for() -> None:
    nodes = Nodes((1, 3), (3,), (1, 2, 3), patience_s=60)
    assert stage(nodes).addresses == {1: "h:1", 2: "h:2", 3: "h:3"}


def test_a_node_that_stays_unknown_is_named() -> None:
    with pytest.raises(CannotError, match="knows all of the nodes 1, 2, 3"):
        stage(Nodes((1, 3), patience_s=0))
