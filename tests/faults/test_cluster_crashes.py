"""kill -9 and restarts of brokers under load: what was acknowledged stays, once and in order.

    MINIKAFKA_FAULTS_SEED=7 MINIKAFKA_FAULTS_ROUNDS=200 pytest tests/faults/test_cluster_crashes.py

makes another campaign and a longer one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.campaign import rounds, with_seed
from tests.faults.cluster_campaign import FIRST, RETRIES_SHOW, Broken, broken_cluster
from tests.live_cluster import LiveCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(36_000)]

_ROUNDS = 3
_GO_ON_RECORDS = 20


def crash_a_leader(broken: Broken[LiveCluster]) -> None:
    """The others lead on at once; then it comes back."""
    victim = broken.nemesis.leader_of(FIRST)
    broken.cluster.kill(victim)
    broken.load.go_on(_GO_ON_RECORDS)
    broken.cluster.start_node(victim)


def crash_the_controller(broken: Broken[LiveCluster]) -> None:
    """The same for who leads the metadata quorum."""
    victim = broken.nemesis.controller()
    broken.cluster.kill(victim)
    broken.load.go_on(_GO_ON_RECORDS)
    broken.cluster.start_node(victim)


def crash_somebody_twice(broken: Broken[LiveCluster]) -> None:
    """Again while it still comes back."""
    victim = broken.nemesis.dice.randint(1, 3)
    broken.nemesis.crash(victim)
    broken.nemesis.crash(victim)


def crash_one_after_the_other(broken: Broken[LiveCluster]) -> None:
    """Each as soon as the one before serves again, in sync or not."""
    for victim in broken.nemesis.dice.sample([1, 2, 3], 3):
        broken.nemesis.crash(victim)


def crash_a_majority(broken: Broken[LiveCluster]) -> None:
    """Two of three: nothing goes on, and nothing is lost."""
    first, second, _ = broken.nemesis.dice.sample([1, 2, 3], 3)
    broken.cluster.kill(first)
    broken.cluster.kill(second)
    broken.cluster.request_start(first)
    broken.cluster.request_start(second)
    broken.cluster.wait_until_running(first)
    broken.cluster.wait_until_running(second)


def crash_all(broken: Broken[LiveCluster]) -> None:
    """Everybody at once."""
    for victim in (1, 2, 3):
        broken.cluster.kill(victim)
    for victim in (1, 2, 3):
        broken.cluster.request_start(victim)
    for victim in (1, 2, 3):
        broken.cluster.wait_until_running(victim)


DISASTERS: list[Callable[[Broken[LiveCluster]], None]] = [
    crash_a_leader,
    crash_the_controller,
    crash_one_after_the_other,
    crash_a_majority,
    crash_somebody_twice,
    crash_all,
]


@with_seed
def test_nothing_acknowledged_is_lost_or_doubled_by_crashes(tmp_path: Path, seed: int) -> None:
    with broken_cluster(tmp_path, seed) as broken:
        for number in range(rounds(_ROUNDS)):
            disaster = DISASTERS[number % len(DISASTERS)]
            disaster(broken)
            broken.load.go_on(_GO_ON_RECORDS)
        broken.check_promises()


@with_seed
def test_without_idempotence_crashes_may_double_but_never_lose(tmp_path: Path, seed: int) -> None:
    with broken_cluster(tmp_path, seed, is_idempotent=False) as broken:
        for _ in range(rounds(1)):
            crash_a_leader(broken)
            broken.load.go_on(_GO_ON_RECORDS)
        broken.check_promises(allowed=RETRIES_SHOW)


@with_seed
def test_a_rolling_restart_is_noticed_by_no_producer(tmp_path: Path, seed: int) -> None:
    with broken_cluster(tmp_path, seed) as broken:
        for _ in range(rounds(1)):
            for node_id in (1, 2, 3):
                broken.cluster.restart(node_id)
                broken.nemesis.wait_until_healthy()
                broken.load.go_on(_GO_ON_RECORDS)
        broken.check_promises()
