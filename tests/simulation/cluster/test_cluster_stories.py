"""Scripted failures of simulated clusters; the invariants are checked throughout."""

import logging
from collections.abc import Iterator

import pytest

from minikafka.lab.simulation.cluster.clients import Producer
from minikafka.lab.simulation.cluster.cluster import Cluster, Plan
from minikafka.lab.simulation.cluster.node import SimulatedNode
from minikafka.metadata.records import NO_LEADER

SEEDS = range(6)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def begun(seed: int, **plan: object) -> Cluster:
    """A cluster of three with one partition on all of them, and writers at work."""
    wanted: dict[str, object] = {
        "broker_count": 3,
        "replica_count": 3,
        "partition_count": 1,
        "min_insync": 2,
    }
    cluster = Cluster(seed, Plan(**(wanted | plan)))  # type: ignore[arg-type]  # by name
    cluster.guarded(cluster.begin)
    cluster.run_for(5)
    return cluster


def leader_of(cluster: Cluster) -> SimulatedNode:
    return cluster.nodes[cluster.truth.partitions[0].image.leader]


def isolate(cluster: Cluster, node: SimulatedNode, seconds: float = 1000) -> None:
    others = [one for one in range(len(cluster.nodes) + 1) if one != node.node_id]
    pairs = {(node.node_id, one) for one in others} | {(one, node.node_id) for one in others}
    cluster.world.cut(pairs, seconds)


def acknowledged(cluster: Cluster) -> int:
    return len(cluster.truth.partitions[0].acknowledged)


def finish(cluster: Cluster) -> None:
    cluster.become_calm()
    cluster.guarded(cluster.require_convergence)


def values(cluster: Cluster) -> list[str]:
    return [entry.value for entry in cluster.truth.partitions[0].committed]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("is_leader_hit", [False, True])
def test_a_majority_of_a_powerless_node_and_a_stale_one(seed: int, is_leader_hit: bool) -> None:
    """Cut a minority, write for 30 s, power-fail one of the majority, let it meet the minority.

    The two are a majority of the metadata quorum, but neither has every acknowledged record: they
    have to wait for the third.
    """
    cluster = begun(seed, has_quorum=True)
    leader = leader_of(cluster)
    stale, other = (one for one in cluster.nodes.values() if one is not leader)
    isolate(cluster, stale)
    cluster.run_for(30)
    assert acknowledged(cluster) > 3
    hit, kept = (leader, other) if is_leader_hit else (other, leader)
    cluster.kill(hit, power_loss=True)
    cluster.world.cuts.clear()
    isolate(cluster, kept)
    before = acknowledged(cluster)
    hit.start()
    cluster.run_for(30)
    assert cluster.truth.partitions[0].image.leader in {NO_LEADER, kept.node_id}
    assert acknowledged(cluster) == before
    finish(cluster)
    assert cluster.truth.partitions[0].forgiven == 0
    assert acknowledged(cluster) > before


@pytest.mark.parametrize("seed", SEEDS)
def test_planned_moves_lose_nothing_not_even_with_one_ack(seed: int) -> None:
    """Rolling restarts, preferred leaders, reassignments; nothing else goes wrong (KAFKA-20554)."""
    cluster = begun(seed, broker_count=4, producers=((1, False), (1, False), (-1, True)))
    dice = cluster.world.dice
    for node in [*cluster.nodes.values()] * 2:
        node.begin_stop()
        cluster.run_for(dice.uniform(3, 6))
        node.start()
        cluster.run_for(dice.uniform(1, 4))
        controller = cluster.active_controller()
        assert controller is not None
        controller.elect_preferred()
        cluster.run_for(dice.uniform(1, 3))
        controller.reassign(0, dice.sample(sorted(cluster.nodes), 3))
        cluster.run_for(dice.uniform(1, 6))
    finish(cluster)
    one = cluster.truth.partitions[0]
    assert len(one.leaders) > 5
    kept = {(entry.base_offset, entry.value) for entry in one.committed}
    for client in cluster.clients.values():
        if isinstance(client, Producer):
            assert len(client.acknowledged) > 10
            assert kept.issuperset(client.acknowledged)


def test_one_ack_may_be_lost_with_the_leader_and_all_acks_are_not() -> None:
    """What the lab shows: the leader dies with records that no follower has fetched."""
    cluster = begun(1, min_insync=1, producers=((1, False), (-1, True)))
    leader = leader_of(cluster)
    others = [one for one in cluster.nodes if one != leader.node_id]
    cluster.world.cut({(leader.node_id, one) for one in others}, 1000)
    cluster.run_for(3)
    cluster.kill(leader)
    cluster.world.cuts.clear()
    cluster.run_for(10)
    assert leader_of(cluster) is not leader
    finish(cluster)
    one_ack, all_acks = (
        client for client in cluster.clients.values() if isinstance(client, Producer)
    )
    there = set(values(cluster))
    lost = [value for _, value in one_ack.acknowledged if value not in there]
    assert lost
    assert there.issuperset(value for _, value in all_acks.acknowledged)


def test_a_paused_leader_that_wakes_up_does_no_harm() -> None:
    cluster = begun(2, producers=((-1, True), (1, False)))
    leader = leader_of(cluster)
    leader.pause()
    cluster.run_for(12)
    assert leader_of(cluster) is not leader
    before = acknowledged(cluster)
    leader.resume()
    cluster.run_for(10)
    assert acknowledged(cluster) > before
    finish(cluster)
    assert cluster.truth.partitions[0].forgiven == 0


def test_with_one_node_left_all_acks_wait_for_a_second() -> None:
    """min.insync.replicas=2: nothing is acknowledged that one disk alone has."""
    cluster = begun(3, producers=((-1, True),))
    leader = leader_of(cluster)
    for node in cluster.nodes.values():
        if node is not leader:
            cluster.kill(node)
    cluster.run_for(10)
    before = acknowledged(cluster)
    cluster.run_for(20)
    assert acknowledged(cluster) == before
    finish(cluster)
    assert acknowledged(cluster) > before
    assert cluster.truth.partitions[0].forgiven == 0


def test_a_broker_that_is_added_gets_everything() -> None:
    cluster = begun(4, broker_count=4)
    newcomer = next(
        one for one in cluster.nodes if one not in cluster.truth.partitions[0].image.replicas
    )
    controller = cluster.active_controller()
    assert controller is not None
    stays = cluster.truth.partitions[0].image.replicas[1:]
    controller.reassign(0, [newcomer, *stays])
    cluster.run_for(15)
    image = cluster.truth.partitions[0].image
    assert set(image.replicas) == set(image.in_sync_replicas) == {newcomer, *stays}
    assert image.leader != NO_LEADER
    finish(cluster)
    assert cluster.nodes[newcomer].entries(0) == cluster.truth.partitions[0].committed
