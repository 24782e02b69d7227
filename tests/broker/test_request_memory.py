"""Connections that receive large requests share one budget of memory."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import trio
import trio.testing

from minikafka.broker.system.request_memory import RequestMemory, Reservation
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import encode_batch
from tests.kit.in_process import running_broker

MIB = 1024 * 1024
HALF_SENT_PRODUCE = struct.pack(">ihhi", 100 * MIB, 0, 9, 1) + bytes(5 * MIB)


async def test_many_half_sent_frames_take_no_more_than_the_budget(tmp_path: Path) -> None:
    settings = (f"queued.max.request.bytes={16 * MIB}", "message.max.bytes=20000000")
    async with running_broker(tmp_path, *settings) as under_test:
        memory = under_test.broker.request_memory
        client = under_test.connect()
        await client.create_topic("t")
        async with trio.open_nursery() as nursery:
            for _ in range(30):
                nursery.start_soon(under_test.connect().send_bytes, HALF_SENT_PRODUCE)
            await trio.testing.wait_all_tasks_blocked(0.5)
            assert memory.waiting >= 20
            assert memory.used_bytes <= (16 + 8) * MIB
            # Requests of up to 64 KiB need none of it.
            assert (await client.produce("t", b"small")).error_code == ErrorCode.NONE
            nursery.cancel_scope.cancel()


async def test_large_requests_of_many_connections_are_all_served(tmp_path: Path) -> None:
    """Together they do not fit, so they wait for each other."""
    batch = bytes(encode_batch([(b"k", bytes(3 * MIB), (), 5)]))
    settings = (f"queued.max.request.bytes={4 * MIB}", f"message.max.bytes={5 * MIB}")
    async with running_broker(tmp_path, *settings) as under_test:
        await under_test.connect().create_topic("t")
        offsets: list[int] = []

        async def produce() -> None:
            answer = await under_test.connect().produce("t", batch=batch)
            offsets.append(answer.base_offset)

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                for _ in range(10):
                    nursery.start_soon(produce)
        assert sorted(offsets) == list(range(10))
        memory = under_test.broker.request_memory
        assert (memory.used_bytes, memory.waiting) == (0, 0)


async def test_one_may_exceed_the_budget_and_the_others_wait_in_order() -> None:
    memory = RequestMemory(10)
    first, second, third = Reservation(), Reservation(), Reservation()
    assert memory.take(first, 6)
    assert memory.take(second, 4)
    assert not memory.take(first, 5)
    await memory.wait(first, 5)  # exceeds the budget, because nobody else does
    assert memory.take(first, 100)
    got: list[str] = []

    async def wait(name: str, reservation: Reservation, size_bytes: int) -> None:
        await memory.wait(reservation, size_bytes)
        got.append(name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, "second", second, 20)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(wait, "third", third, 1)
        await trio.testing.wait_all_tasks_blocked()
        assert (got, memory.waiting) == ([], 2)
        memory.give_back(first)
        await trio.testing.wait_all_tasks_blocked()
        assert (got, memory.waiting) == (["second"], 1)
        memory.give_back(second)
    assert got == ["second", "third"]


async def test_who_stops_waiting_gets_nothing() -> None:
    memory = RequestMemory(10)
    first, second, third = Reservation(), Reservation(), Reservation()
    assert memory.take(first, 10)
    await memory.wait(second, 10)
    with trio.move_on_after(0):
        await memory.wait(third, 1)
    assert (memory.waiting, third.size_bytes) == (0, 0)
    memory.give_back(second)
    memory.give_back(first)
    assert memory.used_bytes == 0


@pytest.mark.parametrize("limit", [-1, 10])
def test_a_budget_without_a_limit_takes_everything(limit: int) -> None:
    assert RequestMemory(limit).take(Reservation(), 10**12) is (limit == -1)
