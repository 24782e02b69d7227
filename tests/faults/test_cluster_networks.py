"""Links between brokers that are cut, in one direction or both, and links that are slow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.campaign import rounds, with_seed
from tests.faults.cluster_campaign import FIRST, GO_ON_RECORDS, IMPATIENT, Broken, under_load
from tests.faults.cluster_clients import OurWriter
from tests.faults.network import Network, missing
from tests.faults.networked_cluster import networked_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(36_000)]


@pytest.fixture
def network() -> Iterator[Network]:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with Network(3) as network:
        yield network


def isolate_a_leader(broken: Broken, network: Network) -> None:
    """It is cut off and does not know that others lead."""
    victim = broken.nemesis.leader_of(FIRST)
    network.isolate(victim)
    broken.load.go_on(GO_ON_RECORDS)
    network.heal()


def isolate_the_controller(broken: Broken, network: Network) -> None:
    """The same."""
    victim = broken.nemesis.controller()
    network.isolate(victim)
    broken.load.go_on(GO_ON_RECORDS)
    network.heal()


def cut_a_leader_off_from_the_other_brokers(broken: Broken, network: Network) -> None:
    """Clients still reach it; it must not acknowledge anything on its own.

    It still says that it leads, and librdkafka believes it if it knows no other broker.
    """
    victim = broken.nemesis.leader_of(FIRST)
    for other in {1, 2, 3} - {victim}:
        network.cut_both_ways(victim, other)
    broken.load.go_on(GO_ON_RECORDS, kind=OurWriter)
    network.heal()


def let_a_leader_only_listen(broken: Broken, network: Network) -> None:
    """What it sends to other brokers is lost; what they send arrives."""
    victim = broken.nemesis.leader_of(FIRST)
    for other in {1, 2, 3} - {victim}:
        network.cut(victim, other)
    broken.load.go_on(GO_ON_RECORDS, kind=OurWriter)
    network.heal()


def cut_two_off_from_each_other(broken: Broken, network: Network) -> None:
    """The third one reaches both."""
    first, second, _ = broken.nemesis.dice.sample([1, 2, 3], 3)
    network.cut_both_ways(first, second)
    broken.load.go_on(GO_ON_RECORDS)
    network.heal()


def kill_the_leader_behind_a_cut(broken: Broken, network: Network) -> None:
    """The minority that was cut off lacks records: it must not lead when the majority shrinks."""
    leader = broken.nemesis.leader_of(FIRST)
    stale = broken.nemesis.dice.choice(sorted({1, 2, 3} - {leader}))
    network.isolate(stale)
    broken.load.go_on(GO_ON_RECORDS)
    broken.cluster.kill(leader)
    network.heal()
    broken.load.go_on(GO_ON_RECORDS)
    broken.cluster.start(leader)


DISASTERS = [
    cut_a_leader_off_from_the_other_brokers,
    kill_the_leader_behind_a_cut,
    isolate_a_leader,
    isolate_the_controller,
    let_a_leader_only_listen,
    cut_two_off_from_each_other,
]


@with_seed
def test_nothing_acknowledged_is_lost_or_doubled_by_partitions(
    tmp_path: Path, network: Network, seed: int
) -> None:
    with (
        networked_cluster(tmp_path, network, IMPATIENT) as cluster,
        under_load(cluster, tmp_path, seed) as broken,
    ):
        for number in range(rounds(2)):
            DISASTERS[number % len(DISASTERS)](broken, network)
            broken.load.go_on(GO_ON_RECORDS)
        broken.check_promises()


@with_seed
def test_a_slow_link_does_no_harm(tmp_path: Path, network: Network, seed: int) -> None:
    with (
        networked_cluster(tmp_path, network, IMPATIENT) as cluster,
        under_load(cluster, tmp_path, seed) as broken,
    ):
        slow = next(n for n in (1, 2, 3) if n != broken.nemesis.leader_of(FIRST))
        network.slow_down(slow, "2mbit")
        broken.load.go_on(GO_ON_RECORDS)
        network.heal()
        broken.check_promises()
