"""SIGSTOP: a broker that hangs keeps its connections, and wakes up when others have taken over."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.campaign import rounds, with_seed
from tests.faults.cluster_campaign import FIRST, GO_ON_RECORDS, IMPATIENT, broken_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(36_000)]


@with_seed
def test_a_deposed_leader_that_wakes_up_does_no_harm(tmp_path: Path, seed: int) -> None:
    with broken_cluster(tmp_path, seed, settings=IMPATIENT) as broken:
        for number in range(rounds(1)):
            nemesis = broken.nemesis
            victim = nemesis.controller() if number % 2 else nemesis.leader_of(FIRST)
            broken.cluster.pause(victim)
            # Its partitions continue elsewhere, which takes a new leader for each of them.
            broken.load.go_on(GO_ON_RECORDS)
            broken.cluster.resume(victim)
            broken.load.go_on(GO_ON_RECORDS)
        broken.check_promises()


@with_seed
def test_followers_that_hang_leave_the_isr_and_come_back(tmp_path: Path, seed: int) -> None:
    settings = IMPATIENT | {"broker.session.timeout.ms": "60000"}
    with broken_cluster(tmp_path, seed, settings=settings) as broken:
        leader = broken.nemesis.leader_of(FIRST)
        follower = next(number for number in (1, 2, 3) if number != leader)
        broken.cluster.pause(follower)
        # acks=all waits until the ISR has shrunk to the two that are awake; what the follower led
        # itself stands still, because it has not yet been found to hang.
        broken.load.go_on(GO_ON_RECORDS, partitions=[FIRST])
        broken.cluster.resume(follower)
        broken.load.go_on(GO_ON_RECORDS)
        broken.check_promises()
