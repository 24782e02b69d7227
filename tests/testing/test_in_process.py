"""A broker on the test's own event loop."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from minikafka import testing
from minikafka.testing.in_process import InProcessBroker
from minikafka_client import Consumer, KafkaError, Producer


async def send(kafka: InProcessBroker, *values: bytes) -> list[int]:
    async with Producer(kafka.bootstrap) as producer:
        return [(await producer.send_and_wait("t", value)).offset for value in values]


async def read(kafka: InProcessBroker, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    async with Consumer(kafka.bootstrap, group_id="g", auto_offset_reset="earliest") as consumer:
        await consumer.subscribe(["t"])
        async for record in consumer:
            values.append(record.value)
            if len(values) == count:
                break
    return values


async def test_records_go_through_a_broker_in_this_process() -> None:
    async with testing.in_process_broker(num_partitions=1) as kafka:
        assert await send(kafka, b"1", b"2") == [0, 1]
        assert await read(kafka, 2) == [b"1", b"2"]
        assert {"Produce", "Fetch", "JoinGroup"} < {one.api for one in kafka.requests}


async def test_faults_are_plain_calls() -> None:
    async with testing.in_process_broker() as kafka:
        fault = kafka.inject("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
        assert await send(kafka, b"1") == [0]
        assert fault.hits == 2
        with pytest.raises(testing.CommandError, match="no API 'Product'"):
            kafka.inject("Product", "NOT_LEADER_OR_FOLLOWER")


async def test_a_full_disk_gets_room() -> None:
    async with testing.in_process_broker() as kafka:
        assert await send(kafka, b"1") == [0]
        kafka.disk_full()
        async with Producer(
            kafka.bootstrap, delivery_timeout_ms=500, request_timeout_ms=400
        ) as producer:
            with pytest.raises(KafkaError):
                await producer.send_and_wait("t", b"2")
        await kafka.disk_has_room()
        assert await send(kafka, b"3") == [1]


async def test_a_killed_broker_starts_again_with_its_data() -> None:
    async with testing.in_process_broker() as kafka:
        assert await send(kafka, b"1") == [0]
        await kafka.kill()
        with pytest.raises(RuntimeError, match="does not run"):
            kafka.forget_requests()
        await kafka.start()
        assert await send(kafka, b"2") == [1]


async def test_a_reset_leaves_nothing() -> None:
    async with testing.in_process_broker() as kafka:
        assert await send(kafka, b"1", b"2") == [0, 1]
        await kafka.reset()
        assert kafka.requests == []
        assert await send(kafka, b"3") == [0]
        await kafka.stop()
        await kafka.restore()
        assert await send(kafka, b"4") == [1]


def test_time_is_that_of_the_event_loop() -> None:
    async def take_too_long(kafka: InProcessBroker, producer: Producer) -> None:
        async with producer.transaction():
            await producer.send_and_wait("t", b"never committed")
            await kafka.clock.advance(660)

    async def main() -> None:
        async with (
            testing.in_process_broker(transaction_max_timeout_ms=600_000) as kafka,
            Producer(
                kafka.bootstrap, transactional_id="x", transaction_timeout_ms=600_000
            ) as producer,
        ):
            with pytest.raises(KafkaError):
                await take_too_long(kafka, producer)

    trio.run(main, clock=trio.testing.MockClock(rate=1.0))


async def test_the_machines_time_does_not_move() -> None:
    async with testing.in_process_broker() as kafka:
        with pytest.raises(RuntimeError, match="runs on the machine's clock"):
            await kafka.clock.advance(1)


async def test_a_setting_that_is_unknown_is_named() -> None:
    with pytest.raises(testing.BrokerStartError, match=r"no\.such\.setting"):
        async with testing.in_process_broker(no_such_setting=1):
            pass


async def test_errors_of_the_block_come_out_as_they_are() -> None:
    with pytest.raises(ZeroDivisionError):
        async with testing.in_process_broker():
            _ = 1 / 0


async def test_a_directory_is_kept(tmp_path: Path) -> None:
    async with testing.in_process_broker(directory=tmp_path) as kafka:
        assert await send(kafka, b"1") == [0]
    async with testing.in_process_broker(directory=tmp_path) as kafka:
        assert await send(kafka, b"2") == [1]
