"""A stop ends in time even when the disk does not answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import trio

from minikafka.broker.replicas.flusher import Flusher
from minikafka.broker.system.workers import run_in_worker_thread
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
                await Flusher(hang).flush_all(under_test.broker.directory.logs.values(), 0.1)
        finally:
            answers.set()
