"""A broker whose disk is full, in a cluster whose other disks are not.

As in `test_full_disk`, the limit of file sizes of one broker is lowered while it runs.
"""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tests.faults.campaign import with_seed
from tests.faults.cluster_campaign import FIRST, GO_ON_RECORDS, TOPIC, Broken, broken_cluster
from tests.faults.damage import limit_files

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_ROOM_BYTES = 2_000
_SETTINGS = {"replica.lag.time.max.ms": "1500", "minikafka.log.reopen.interval.ms": "1000"}


def fill_disk(broken: Broken, node_id: int) -> None:
    """Let the largest log of a node grow by next to nothing more."""
    logs = broken.cluster.nodes[node_id].data_dir.glob(f"{TOPIC}-*/*.log")
    largest_bytes = max(log.stat().st_size for log in logs)
    limit_files(broken.cluster.nodes[node_id].pid, largest_bytes + _ROOM_BYTES)


@with_seed
def test_a_follower_with_a_full_disk_is_left_behind_and_catches_up(
    tmp_path: Path, seed: int
) -> None:
    with broken_cluster(tmp_path, seed, settings=_SETTINGS) as broken:
        leader = broken.nemesis.leader_of(FIRST)
        follower = next(number for number in (1, 2, 3) if number != leader)
        fill_disk(broken, follower)
        broken.load.go_on(20 * GO_ON_RECORDS, partitions=[FIRST])
        limit_files(broken.cluster.nodes[follower].pid, resource.RLIM_INFINITY)
        broken.load.go_on(GO_ON_RECORDS)
        broken.check_promises()


@with_seed
def test_a_leader_with_a_full_disk_acknowledges_only_what_it_has(tmp_path: Path, seed: int) -> None:
    with broken_cluster(tmp_path, seed, settings=_SETTINGS) as broken:
        leader = broken.nemesis.leader_of(FIRST)
        led = [key for key in broken.load.partitions if broken.nemesis.leader_of(key) == leader]
        fill_disk(broken, leader)
        # Whether another broker takes over its partitions does not matter here.
        broken.load.go_on(
            10 * GO_ON_RECORDS, partitions=[key for key in broken.load.partitions if key not in led]
        )
        limit_files(broken.cluster.nodes[leader].pid, resource.RLIM_INFINITY)
        broken.load.go_on(GO_ON_RECORDS)
        broken.check_promises()
