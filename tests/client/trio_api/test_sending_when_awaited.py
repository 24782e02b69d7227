"""Without linger, waiting for a record sends it; concurrent waiters still share a request."""

from __future__ import annotations

import trio

from minikafka_client import Producer
from tests.client.trio_api.topics import new_topic, read_all

TASKS = 100


def requests(producer: Producer) -> int:
    return producer._engine.loop.meter.requests


async def test_a_record_is_under_way_before_its_sender_is_parked(
    bootstrap: str, topic: str
) -> None:
    async with Producer(bootstrap, linger_ms=0) as producer:
        await (await producer.send(topic, b"connects"))
        before = requests(producer)
        delivery = await producer.send(topic, b"waits")
        assert requests(producer) == before
        batch, _ = delivery
        assert batch.on_awaited is not None
        batch.on_awaited()
        assert requests(producer) == before + 1
        batch.on_awaited()
        assert requests(producer) == before + 1
        assert (await delivery).offset == 1


async def test_what_lingers_is_not_hurried_by_those_who_wait(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap, linger_ms=60_000) as producer:
        delivery = await producer.send(topic, b"a")
        batch, _ = delivery
        assert batch.on_awaited is None
        await producer.flush()
        assert (await delivery).offset == 0


async def test_what_many_tasks_wait_for_goes_together(bootstrap: str, topic: str) -> None:
    offsets: list[int] = []
    async with Producer(bootstrap, linger_ms=0) as producer:
        await (await producer.send(topic, b"connects"))
        before = requests(producer)

        async def send_one(number: int) -> None:
            offsets.append((await (await producer.send(topic, b"%d" % number))).offset)

        async with trio.open_nursery() as nursery:
            for number in range(TASKS):
                nursery.start_soon(send_one, number)
        assert requests(producer) - before == 2  # the first alone, while nothing was under way
    assert sorted(offsets) == list(range(1, TASKS + 1))
    assert len(await read_all(bootstrap, topic)) == TASKS + 1


async def test_a_flush_sends_immediately_and_waits(bootstrap: str, name: str) -> None:
    topic = await new_topic(bootstrap, name, 3)
    async with Producer(bootstrap, linger_ms=60_000) as producer:
        deliveries = [
            await producer.send(topic, b"%d" % number, partition=number % 3) for number in range(9)
        ]
        await producer.flush()
        assert all(delivery.error is None and delivery.is_done for delivery in deliveries)
