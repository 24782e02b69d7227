"""Connections that are cut in the middle of whatever the broker answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from minikafka import testing
from minikafka_client import Consumer, Producer, TopicPartition
from tests.client.conftest import SETTINGS
from tests.client.trio_api.cutting_proxy import CuttingProxy
from tests.client.trio_api.topics import fill_topic, new_topic, read_all

QUICKLY = {"reconnect_backoff_ms": 1, "retry_backoff_ms": 1}
TOPIC = "topic"


@asynccontextmanager
async def proxied_broker(directory: Path) -> AsyncGenerator[tuple[CuttingProxy, str]]:
    """A broker that is only reached through a proxy: (the proxy, its address)."""
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    proxy = CuttingProxy(listener)
    address = f"127.0.0.1:{proxy.port}"
    advertised = ["--advertise", address]
    async with (
        testing.broker(SETTINGS, directory=directory, arguments=advertised) as broker,
        trio.open_nursery() as nursery,
    ):
        proxy.forward_to(broker.bootstrap)
        nursery.start_soon(proxy.run)
        await new_topic(address, TOPIC)
        yield proxy, address
        nursery.cancel_scope.cancel()


async def produce(address: str, run: int) -> None:
    async with Producer(address, linger_ms=0, **QUICKLY) as producer:  # type: ignore[arg-type]  # ints
        for number in range(3):
            delivery = await producer.send(TOPIC, b"%d-%d" % (run, number))
            assert (await delivery).offset == 3 * run + number


async def test_a_producer_delivers_exactly_once_wherever_its_answers_are_cut(
    tmp_path: Path,
) -> None:
    async with proxied_broker(tmp_path) as (proxy, address):
        proxy.cut_after(None)
        await produce(address, 0)
        size_bytes = proxy.answered_bytes
        run = 1
        for cut in range(0, size_bytes, 11):
            proxy.cut_after(cut)
            await produce(address, run)
            run += 1
        proxy.cut_after(None)
        assert proxy.cuts == run - 1 > 50
        values = [record.value for record in await read_all(address, TOPIC)]
        assert values == [b"%d-%d" % (each, n) for each in range(run) for n in range(3)]


async def consume(address: str, count: int) -> list[int]:
    offsets: list[int] = []
    async with Consumer(
        address,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=400,
        **QUICKLY,  # type: ignore[arg-type]  # ints
    ) as consumer:
        await consumer.assign([TopicPartition(TOPIC, 0)])
        async for record in consumer:
            offsets.append(record.offset)
            if len(offsets) == count:
                return offsets
    raise AssertionError("a consumer reads without end")


async def test_a_consumer_reads_on_wherever_its_answers_are_cut(tmp_path: Path) -> None:
    async with proxied_broker(tmp_path) as (proxy, address):
        for _ in range(10):
            await fill_topic(address, TOPIC, 0, 10)
        proxy.cut_after(None)
        assert await consume(address, 100) == list(range(100))
        size_bytes = proxy.answered_bytes
        for cut in range(0, size_bytes, 37):
            proxy.cut_after(cut)
            assert await consume(address, 100) == list(range(100))
        assert proxy.cuts > 50


@pytest.mark.parametrize("cut", [0, 3, 50])
async def test_a_group_survives_a_cut(tmp_path: Path, cut: int) -> None:
    async with proxied_broker(tmp_path) as (proxy, address):
        await fill_topic(address, TOPIC, 0, 10)
        async with Consumer(
            address,
            group_id="g",
            auto_offset_reset="earliest",
            heartbeat_interval_ms=20,
            **QUICKLY,  # type: ignore[arg-type]  # ints
        ) as consumer:
            await consumer.subscribe([TOPIC])
            offsets: list[int] = []
            async for record in consumer:
                offsets.append(record.offset)
                proxy.cut_after(cut)
                while proxy.cuts < record.offset + 1:  # a heartbeat at the latest
                    await trio.lowlevel.checkpoint()
                if len(offsets) == 5:
                    break
            assert offsets == [0, 1, 2, 3, 4]
            await consumer.commit()
