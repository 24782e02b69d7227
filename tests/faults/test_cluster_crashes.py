"""kill -9 and restarts of brokers under load: what was acknowledged stays, once and in order.

    MINIKAFKA_FAULTS_SEED=7 MINIKAFKA_FAULTS_ROUNDS=200 pytest tests/faults/test_cluster_crashes.py

makes another campaign and a longer one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.campaign import rounds, with_seed
from tests.faults.cluster_campaign import FIRST, GO_ON_RECORDS, RETRIES_SHOW, Broken, broken_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(36_000)]

_ROUNDS = 3


def crash_a_leader(broken: Broken) -> None:
    """The others take over immediately; then it comes back."""
    victim = broken.nemesis.leader_of(FIRST)
    broken.cluster.kill(victim)
    broken.load.go_on(GO_ON_RECORDS)
    broken.cluster.start(victim)


def crash_the_controller(broken: Broken) -> None:
    """The same for the leader of the metadata quorum."""
    victim = broken.nemesis.controller()
    broken.cluster.kill(victim)
    broken.load.go_on(GO_ON_RECORDS)
    broken.cluster.start(victim)


def crash_one_twice(broken: Broken) -> None:
    """Again while it still comes back."""
    victim = broken.nemesis.dice.randint(1, 3)
    broken.nemesis.crash(victim)
    broken.nemesis.crash(victim)


def crash_one_after_the_other(broken: Broken) -> None:
    """Each as soon as the previous one serves again, in sync or not."""
    for victim in broken.nemesis.dice.sample([1, 2, 3], 3):
        broken.nemesis.crash(victim)


def crash_a_majority(broken: Broken) -> None:
    """Two of three: nothing progresses, and nothing is lost."""
    first, second, _ = broken.nemesis.dice.sample([1, 2, 3], 3)
    broken.cluster.kill(first, second)
    broken.cluster.start(first, second)


def crash_all(broken: Broken) -> None:
    broken.cluster.kill()
    broken.cluster.start()


DISASTERS: list[Callable[[Broken], None]] = [
    crash_a_leader,
    crash_the_controller,
    crash_one_after_the_other,
    crash_a_majority,
    crash_one_twice,
    crash_all,
]


@with_seed
def test_nothing_acknowledged_is_lost_or_doubled_by_crashes(tmp_path: Path, seed: int) -> None:
    with broken_cluster(tmp_path, seed) as broken:
        for number in range(rounds(_ROUNDS)):
            disaster = DISASTERS[number % len(DISASTERS)]
            disaster(broken)
            broken.load.go_on(GO_ON_RECORDS)
        broken.check_promises()


@with_seed
def test_without_idempotence_crashes_may_double_but_never_lose(tmp_path: Path, seed: int) -> None:
    with broken_cluster(tmp_path, seed, is_idempotent=False) as broken:
        for _ in range(rounds(1)):
            crash_a_leader(broken)
            broken.load.go_on(GO_ON_RECORDS)
        broken.check_promises(allowed=RETRIES_SHOW)


@with_seed
def test_no_producer_notices_a_rolling_restart(tmp_path: Path, seed: int) -> None:
    with broken_cluster(tmp_path, seed) as broken:
        for _ in range(rounds(1)):
            for node_id in (1, 2, 3):
                assert broken.cluster.stop(node_id) == {node_id: 0}
                broken.cluster.start(node_id)
                broken.nemesis.wait_until_healthy()
                broken.load.go_on(GO_ON_RECORDS)
        broken.check_promises()
