"""A broker whose disk is full, in a cluster whose other disks are not.

As in `test_full_disk`, the limit of file sizes of one broker is lowered while it runs.
"""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tests.faults.campaign import with_seed
from tests.faults.cluster_campaign import FIRST, TOPIC, Broken, broken_cluster
from tests.live_cluster import LiveCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_GO_ON_RECORDS = 20
_ROOM_BYTES = 2_000
_SETTINGS = {"replica.lag.time.max.ms": "1500", "minikafka.log.reopen.interval.ms": "1000"}


def fill_disk(broken: Broken[LiveCluster], node_id: int) -> None:
    """Let the largest log of a node grow by next to nothing more."""
    logs = broken.cluster.files.data_directory(node_id).glob(f"{TOPIC}-*/*.log")
    largest_bytes = max(log.stat().st_size for log in logs)
    limit_files(broken, node_id, largest_bytes + _ROOM_BYTES)


def limit_files(broken: Broken[LiveCluster], node_id: int, size_bytes: int) -> None:
    pid = broken.cluster.node(node_id).pid
    assert pid is not None
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size_bytes, hard))


@with_seed
def test_a_follower_with_a_full_disk_is_left_behind_and_catches_up(
    tmp_path: Path, seed: int
) -> None:
    with broken_cluster(tmp_path, seed, settings=_SETTINGS) as broken:
        leader = broken.nemesis.leader_of(FIRST)
        follower = next(number for number in (1, 2, 3) if number != leader)
        fill_disk(broken, follower)
        broken.load.go_on(20 * _GO_ON_RECORDS, partitions=[FIRST])
        limit_files(broken, follower, resource.RLIM_INFINITY)
        broken.load.go_on(_GO_ON_RECORDS)
        broken.check_promises()


@with_seed
def test_a_leader_with_a_full_disk_acknowledges_nothing_that_it_lacks(
    tmp_path: Path, seed: int
) -> None:
    with broken_cluster(tmp_path, seed, settings=_SETTINGS) as broken:
        leader = broken.nemesis.leader_of(FIRST)
        led = [key for key in broken.load.partitions if broken.nemesis.leader_of(key) == leader]
        fill_disk(broken, leader)
        # Whether its own partitions go on under somebody else is not our business here.
        broken.load.go_on(
            10 * _GO_ON_RECORDS,
            partitions=[key for key in broken.load.partitions if key not in led],
        )
        limit_files(broken, leader, resource.RLIM_INFINITY)
        broken.load.go_on(_GO_ON_RECORDS)
        broken.check_promises()
