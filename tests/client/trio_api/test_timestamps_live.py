"""Records without a timestamp have the present one, whatever those before them had."""

from __future__ import annotations

from time import time_ns

import trio

from minikafka_client import Producer, sync
from tests.client.trio_api.topics import read_all

FUTURE_MS = time_ns() // 1_000_000 + 3_000_000  # brokers refuse timestamps an hour ahead


def now_ms() -> int:
    return time_ns() // 1_000_000


async def test_a_timestamp_in_the_future_is_for_one_record_only(bootstrap: str, topic: str) -> None:
    started = now_ms()
    async with Producer(bootstrap) as producer:
        await producer.partitions_for(topic)
        for given in (None, None, FUTURE_MS, None, None, 5, None, None):
            producer.send_nowait(topic, b"a", timestamp_ms=given)
            producer.send_nowait(topic, b"b")
            await producer.send(topic, b"c", timestamp_ms=given)
            await producer.send(topic, b"d")
    times = [record.timestamp_ms for record in await read_all(bootstrap, topic)]
    given_times = [each for each in times if each in (5, FUTURE_MS)]
    assert given_times == [FUTURE_MS, FUTURE_MS, 5, 5]
    others = [each for each in times if each not in (5, FUTURE_MS)]
    assert all(started <= each <= now_ms() for each in others)
    assert others == sorted(others)


async def test_the_present_continues_while_a_batch_is_open(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap, linger_ms=60_000) as producer:
        await producer.send(topic, b"first")
        before = now_ms()
        while now_ms() == before:  # a millisecond at most
            pass
        after = now_ms()
        producer.send_nowait(topic, b"second")
        await producer.send(topic, b"third")
    times = [record.timestamp_ms for record in await read_all(bootstrap, topic)]
    assert times[0] <= before
    assert after <= times[1] <= times[2] <= now_ms()


async def test_the_blocking_producer_does_the_same(bootstrap: str, topic: str) -> None:
    started = now_ms()

    def send_all() -> list[int]:
        with sync.Producer(bootstrap) as producer:
            given = (None, None, FUTURE_MS, None, None)
            sent = [producer.send(topic, b"a", timestamp_ms=each) for each in given]
            return [delivery.result().timestamp_ms for delivery in sent]

    times = await trio.to_thread.run_sync(send_all)
    assert times.pop(2) == FUTURE_MS
    assert times == sorted(times)
    assert started <= times[0] <= times[-1] <= now_ms()
