"""The quorum's driver with a single voter: durable decisions, applied in order, no timers."""

from __future__ import annotations

import errno
import random
from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from minikafka.broker.quorum.quorum import NotControllerError, Quorum
from minikafka.broker.system.workers import run_inline
from minikafka.consensus import QuorumConfig
from minikafka.storage.disk import RealDisk
from minikafka.storage.errors import StorageError
from minikafka.storage.memory_disk import MemoryDisk

ALONE = QuorumConfig(1, frozenset({1}))


class Applied:
    """Stands for a broker: the payloads that were applied."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.indexes: list[int] = []

    async def on_committed(self, index: int, payload: bytes) -> None:
        self.indexes.append(index)
        self.payloads.append(payload)

    def make_snapshot(self) -> list[bytes]:
        return list(self.payloads)

    async def load_snapshot(self, index: int, payloads: list[bytes]) -> None:
        self.payloads = list(payloads)


def open_alone(
    path: Path, *, sync: bool = True, snapshot_size_bytes_min: int = 10**9
) -> tuple[Quorum, Applied]:
    quorum = Quorum.open(
        RealDisk(),
        str(path),
        ALONE,
        dice=random.Random(1).uniform,
        new_directory_id=partial(random.randbytes, 16),
        sync=sync,
        snapshot_size_bytes_min=snapshot_size_bytes_min,
    )
    applied = Applied()
    stored = quorum.stored()
    applied.payloads = stored.snapshot + [payload for _, payload in stored.entries]
    return quorum, applied


async def start(nursery: trio.Nursery, quorum: Quorum, applied: Applied) -> None:
    await nursery.start(
        partial(
            quorum.run,
            send=lambda node_id, message: None,
            on_committed=applied.on_committed,
            make_snapshot=applied.make_snapshot,
            load_snapshot=applied.load_snapshot,
        )
    )


async def until_it_leads(quorum: Quorum) -> None:
    while not quorum.is_leader:
        await quorum.wait_changed()


@pytest.mark.parametrize("sync", [True, False])
async def test_decisions_survive_a_restart(tmp_path: Path, sync: bool) -> None:
    quorum, applied = open_alone(tmp_path, sync=sync)
    async with trio.open_nursery() as nursery:
        await start(nursery, quorum, applied)
        assert quorum.is_leader
        assert quorum.leader_id == 1
        first = await quorum.propose(b"one")
        assert await quorum.propose(b"two") == first + 1
        assert applied.payloads == [b"one", b"two"]
        assert quorum.committed_index == quorum.applied_index == first + 1
        nursery.cancel_scope.cancel()
    epoch = quorum.epoch
    quorum.close()
    again, applied = open_alone(tmp_path)
    assert applied.payloads == [b"one", b"two"]
    async with trio.open_nursery() as nursery:
        await start(nursery, again, applied)
        assert again.epoch > epoch
        await again.propose(b"three")
        assert applied.payloads == [b"one", b"two", b"three"]
        nursery.cancel_scope.cancel()
    again.close()


async def test_nothing_is_proposed_before_the_quorum_runs_except_a_restore(tmp_path: Path) -> None:
    quorum, applied = open_alone(tmp_path)
    assert quorum.may_have_lost
    with pytest.raises(NotControllerError):
        await quorum.propose(b"too early")
    quorum.restore(b"restored")
    async with trio.open_nursery() as nursery:
        await start(nursery, quorum, applied)
        await quorum.propose(b"next")
        nursery.cancel_scope.cancel()
    assert applied.payloads == [b"next"]
    quorum.close()
    again, applied = open_alone(tmp_path)
    assert applied.payloads == [b"restored", b"next"]
    assert not again.may_have_lost
    again.close()


async def test_a_log_that_is_mostly_history_is_rewritten_while_it_is_used(tmp_path: Path) -> None:
    quorum, applied = open_alone(tmp_path, snapshot_size_bytes_min=2000)
    async with trio.open_nursery() as nursery:
        await start(nursery, quorum, applied)
        sizes: list[int] = []
        for number in range(200):
            await quorum.propose(b"%010d" % number)
            del applied.payloads[:-1]  # only the last one matters
            sizes.append((tmp_path / "quorum.log").stat().st_size)
        nursery.cancel_scope.cancel()
    assert max(sizes) < 2300
    quorum.close()
    again, applied = open_alone(tmp_path)
    assert applied.payloads[-1] == b"%010d" % 199
    assert again.stored().snapshot_index > 100
    again.close()


async def test_a_quorum_of_one_with_a_full_disk_continues_when_there_is_room_again(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    disk = MemoryDisk(random.Random(1))
    disk.make_directory("quorum")
    disk.sync_directory("quorum")

    def open_again() -> tuple[Quorum, Applied]:
        quorum = Quorum.open(
            disk,
            "quorum",
            QuorumConfig(1, frozenset({1}), log_memory_size_bytes_max=0),
            dice=random.Random(1).uniform,
            new_directory_id=partial(random.randbytes, 16),
            run_in_thread=run_inline,
            snapshot_size_bytes_min=3000,
        )
        return quorum, Applied()

    quorum, applied = open_again()
    async with trio.open_nursery() as nursery:
        await start(nursery, quorum, applied)
        for number in range(10):
            await quorum.propose(b"%0100d" % number)
        disk.fail("pwritev", code=errno.ENOSPC)
        with pytest.raises(StorageError, match="as long as that is so"):
            await quorum.propose(b"no room")
        assert not quorum.is_leader
        with pytest.raises(StorageError, match="as long as that is so"):
            await quorum.propose(b"no room")
        await trio.sleep(10)
        assert "cannot be opened" in caplog.text
        disk.heal()
        await until_it_leads(quorum)
        for number in range(10, 50):
            await quorum.propose(b"%0100d" % number)
        nursery.cancel_scope.cancel()
    assert applied.payloads == [b"%0100d" % number for number in range(50)]
    quorum.close()
    disk.crash()
    disk.fail("pwritev", "quorum.log")
    quorum, applied = open_again()
    async with trio.open_nursery() as nursery:
        await start(nursery, quorum, applied)  # it serves its metadata, and changes nothing
        assert quorum.failure is not None
        assert quorum.statistics().leader_id is None
        assert await quorum.transfer_leadership()  # it does not lead
        nursery.cancel_scope.cancel()


async def test_concurrent_proposals_share_an_fsync_and_keep_their_order(tmp_path: Path) -> None:
    quorum, applied = open_alone(tmp_path)
    payloads = [str(number).encode() for number in range(100)]

    async def propose_all(nursery: trio.Nursery) -> None:
        async with trio.open_nursery() as proposers:
            for payload in payloads:
                proposers.start_soon(quorum.propose, payload)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        await start(nursery, quorum, applied)
        nursery.start_soon(propose_all, nursery)
    assert sorted(applied.payloads) == sorted(payloads)
    assert applied.indexes == sorted(applied.indexes)
    quorum.close()
