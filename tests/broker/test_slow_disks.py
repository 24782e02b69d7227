"""A stop ends in time even when the disk does not answer."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
import trio

from minikafka.broker.replicas.flusher import Flusher
from minikafka.broker.system.workers import run_in_worker_thread
from minikafka.storage.disk import RealFile
from tests.kit.in_process import running_broker

_T = TypeVar("_T")


async def test_the_last_flush_does_not_wait_for_a_disk_that_hangs(tmp_path: Path) -> None:
    answers = threading.Event()

    async def hang(function: Callable[[], _T], /, *, abandon_on_cancel: bool = False) -> _T:
        def wait_and_call() -> _T:
            answers.wait(60)
            return function()

        return await run_in_worker_thread(wait_and_call, abandon_on_cancel=abandon_on_cancel)

    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=20)
        for number in range(20):
            await client.produce("t", b"x", partition=number)
        try:
            with trio.fail_after(20):
                directory = under_test.broker.directory
                await Flusher(hang).flush_all(directory.disk, directory.logs.values(), 0.1)
        finally:
            answers.set()


async def test_the_last_flush_syncs_every_log_but_those_that_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = RealFile.fsync

    def fail_one(file: RealFile) -> None:
        if "/t-7/" in file.path:
            raise OSError(errno.EIO, "on purpose", file.path)
        fsync(file)

    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t", partitions=80)
        for number in range(80):
            await client.produce("t", b"x", partition=number)
        monkeypatch.setattr(RealFile, "fsync", fail_one)
        directory = under_test.broker.directory
        await under_test.broker.flusher.flush_all(directory.disk, directory.logs.values(), 60)
        for (_, number), log in directory.logs.items():
            assert log.recovery_point == (0 if number == 7 else 1)
            assert (log.is_offline is not None) == (number == 7)


async def test_a_flush_that_was_given_up_leaves_its_names_to_the_next(tmp_path: Path) -> None:
    async def never(function: Callable[[], _T], /, *, abandon_on_cancel: bool = False) -> _T:
        del function, abandon_on_cancel
        await trio.sleep_forever()
        raise AssertionError

    async with running_broker(tmp_path) as under_test:
        client = under_test.connect()
        await client.create_topic("t")
        await client.produce("t", b"x")
        directory = under_test.broker.directory
        (log,) = directory.logs.values()
        await Flusher(never).flush_all(directory.disk, [log], 0.01)
        work = log.prepare_flush()
        assert work is not None
        assert f"{log.directory}/partition.metadata" in work.paths
        assert {log.directory, directory.path} <= set(work.directories)
        log.drop_flush(work)
