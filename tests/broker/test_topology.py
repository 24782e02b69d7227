"""The topology: valid settings, and errors that say what to do."""

import pytest

from minikafka.broker.settings.config import load_config
from minikafka.broker.settings.topology import Topology, topology_of
from minikafka.metadata.settings import InvalidSettingError

THREE = "controller.quorum.voters=1@a:9093,2@b:9093,3@[::1]:9093"
VOTERS = {1: ("a", 9093), 2: ("b", 9093), 3: ("::1", 9093)}


def topology(*assignments: str) -> Topology:
    return topology_of(load_config(None, assignments, {}))


def test_a_broker_without_a_quorum_is_a_cluster_of_one() -> None:
    alone = topology("node.id=7")
    assert alone.is_alone
    assert alone[:-1] == (7, {7: ("", 0)}, True, True, False, ("", 0))
    assert not alone.is_recorded


@pytest.mark.parametrize(
    ("assignments", "expected"),
    [
        ([THREE, "node.id=2"], (2, VOTERS, True, True, True, ("b", 9093))),
        (
            [THREE, "node.id=2", "process.roles=controller"],
            (2, VOTERS, False, True, True, ("b", 9093)),
        ),
        (
            [THREE, "node.id=1", "minikafka.internal.listener=0.0.0.0:9999"],
            (1, VOTERS, True, True, True, ("0.0.0.0", 9999)),
        ),
        (
            [THREE, "node.id=4", "listeners=PLAINTEXT://10.0.0.4:9092"],
            (4, VOTERS, True, False, True, ("10.0.0.4", 0)),
        ),
        (
            [THREE, "node.id=4", "process.roles=broker", "minikafka.internal.listener=h:7"],
            (4, VOTERS, True, False, True, ("h", 7)),
        ),
        (
            ["controller.quorum.voters=1@a:9093", "node.id=1"],
            (1, {1: ("a", 9093)}, True, True, True, ("a", 9093)),
        ),
    ],
)
def test_a_node_knows_its_place(assignments: list[str], expected: object) -> None:
    assert topology(*assignments)[:-1] == expected


def test_a_node_is_alone_only_if_it_is_the_only_voter() -> None:
    assert topology("controller.quorum.voters=1@a:9093").is_alone
    assert not topology(THREE).is_alone
    assert not topology("controller.quorum.voters=1@a:9093", "node.id=2").is_alone


@pytest.mark.parametrize(
    ("assignments", "words"),
    [
        (["process.roles="], "is empty"),
        (["process.roles=controller"], "requires other nodes"),
        (["process.roles=broker"], "requires other nodes"),
        ([THREE, "node.id=2", "process.roles=broker"], "has no controller"),
        ([THREE, "node.id=4", "process.roles=controller"], "names only 1, 2, 3"),
        (["controller.quorum.voters=a:9093"], "is malformed"),
        (["controller.quorum.voters=one@a:9093"], "is malformed"),
        (["controller.quorum.voters=-1@a:9093"], "is malformed"),
        (["controller.quorum.voters=1@a"], "HOST:PORT"),
        (["controller.quorum.voters=1@a:0"], "a port above 0"),
        (["controller.quorum.voters=1@:9093"], "a host"),
        (["controller.quorum.voters=2147483648@a:1"], "up to 2147483647"),
        (["controller.quorum.voters=1@a:1,1@b:1"], "node 1 twice"),
        (["controller.quorum.voters=1@a:1,2@a:1"], "two nodes at a:1"),
        (
            ["controller.quorum.voters=" + ",".join(f"{n}@a:{n}" for n in range(1, 102))],
            "101 nodes",
        ),
        ([THREE, "minikafka.internal.listener=nowhere"], "HOST:PORT"),
    ],
)
def test_contradictory_settings_are_refused(assignments: list[str], words: str) -> None:
    with pytest.raises(InvalidSettingError, match=words):
        topology(*assignments)
