"""Nodes of a quorum whose disk fails: they step down, and acknowledge nothing wrongly."""

from __future__ import annotations

import errno
import random
from functools import partial

import pytest
import trio
from trio.testing import MockClock

from minikafka.broker.quorum.quorum import Quorum
from minikafka.broker.system.workers import run_inline
from minikafka.consensus import LostEntries
from minikafka.storage.errors import StorageError
from tests.broker.quorum_network import network


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
async def test_a_leader_whose_disk_fails_is_replaced_and_comes_back(
    autojump_clock: MockClock, code: int
) -> None:
    async with network() as cluster:
        leader = await cluster.leader()
        epoch = leader.quorum.epoch
        await leader.quorum.propose(b"one")
        leader.disk.fail("pwritev", code=code)
        with pytest.raises(StorageError, match="on purpose"):
            await leader.quorum.propose(b"two")
        assert leader.is_failing()
        with pytest.raises(StorageError, match="on purpose"):
            await leader.quorum.propose(b"three")
        successor = await cluster.leader(after=epoch, within_s=0.5)
        await successor.quorum.propose(b"four")
        await trio.sleep(5)
        leader.disk.heal()
        await cluster.all_have(successor.applied)
        assert not leader.is_failing()
        assert leader.applied[-1] == b"four"


async def test_after_a_failed_fsync_a_node_is_silent_until_it_is_started_again(
    autojump_clock: MockClock,
) -> None:
    async with network() as cluster:
        leader = await cluster.leader()
        leader.disk.fail("fsync", "quorum.log")
        with pytest.raises(StorageError, match="started again"):
            await leader.quorum.propose(b"one")
        leader.disk.heal()
        successor = await cluster.leader(after=leader.quorum.epoch)
        await successor.quorum.propose(b"two")
        await trio.sleep(30)
        assert leader.is_failing()
        assert b"two" not in leader.applied
        leader.kill()
        await cluster.start(leader.node_id)
        await cluster.all_have(successor.applied)


async def test_a_log_that_cannot_be_read_makes_a_node_silent_for_a_while(
    autojump_clock: MockClock,
) -> None:
    async with network() as cluster:
        leader = await cluster.leader()
        follower = cluster.followers()[0]
        follower.may_apply = trio.Event()
        payloads = [b"%0100d" % number for number in range(10)]
        for payload in payloads:  # more than is kept in memory
            await leader.quorum.propose(payload)
        follower.disk.fail("pread")
        follower.may_apply.set()
        await trio.sleep(0.5)
        assert follower.is_failing()
        follower.disk.heal()
        await cluster.all_have(payloads)
        assert not follower.is_failing()


async def test_a_snapshot_that_cannot_be_written_leaves_the_log_as_it_is(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with network() as cluster:
        cluster.snapshot_size_bytes_min = 1000
        for node in cluster.living():
            node.kill()
        await cluster.start(1, 2, 3)
        leader = await cluster.leader()
        leader.disk.fail("rename")
        payloads = [b"%030d" % number for number in range(40)]
        for payload in payloads:
            await leader.quorum.propose(payload)
        assert "cannot be replaced by a snapshot" in caplog.text
        assert leader.quorum.is_leader
        await cluster.all_have(payloads)


async def test_a_voter_that_lost_synced_data_does_not_start(
    autojump_clock: MockClock,
) -> None:
    async with network() as cluster:
        leader = await cluster.leader()
        await leader.quorum.propose(b"one")
        follower = cluster.followers()[0]
        await follower.quorum.wait_applied(leader.quorum.applied_index)
        follower.kill()
        size_bytes = follower.disk.file_size("quorum/quorum.log")
        follower.disk.flip_bit("quorum/quorum.log", 8 * (size_bytes - 1))
        with pytest.raises(LostEntries, match="must not vote"):
            Quorum.open(
                follower.disk,
                "quorum",
                follower.quorum.config,
                dice=random.uniform,
                new_directory_id=partial(random.randbytes, 16),
                run_in_thread=run_inline,
            )
