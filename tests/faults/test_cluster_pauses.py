"""SIGSTOP: a broker that hangs keeps its connections, and wakes up into a world that went on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.campaign import rounds, with_seed
from tests.faults.cluster_campaign import FIRST, broken_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(36_000)]

# A broker that hangs is only noticed by its silence.
_IMPATIENT = {
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "200",
    "replica.lag.time.max.ms": "1500",
}
_GO_ON_RECORDS = 20


@with_seed
def test_an_old_leader_that_wakes_up_harms_nobody(tmp_path: Path, seed: int) -> None:
    with broken_cluster(tmp_path, seed, settings=_IMPATIENT) as broken:
        for number in range(rounds(1)):
            nemesis = broken.nemesis
            victim = nemesis.controller() if number % 2 else nemesis.leader_of(FIRST)
            broken.cluster.pause(victim)
            # Its partitions go on under others, which takes a new leader for each of them.
            broken.load.go_on(_GO_ON_RECORDS)
            broken.cluster.resume(victim)
            broken.load.go_on(_GO_ON_RECORDS)
        broken.check_promises()


@with_seed
def test_followers_that_hang_leave_the_isr_and_come_back(tmp_path: Path, seed: int) -> None:
    settings = _IMPATIENT | {"broker.session.timeout.ms": "60000"}
    with broken_cluster(tmp_path, seed, settings=settings) as broken:
        leader = broken.nemesis.leader_of(FIRST)
        follower = next(number for number in (1, 2, 3) if number != leader)
        broken.cluster.pause(follower)
        # acks=all waits until the ISR has shrunk to the two that are awake; what the follower led
        # itself stands still, for nobody has found out yet that it hangs.
        broken.load.go_on(_GO_ON_RECORDS, partitions=[FIRST])
        broken.cluster.resume(follower)
        broken.load.go_on(_GO_ON_RECORDS)
        broken.check_promises()
