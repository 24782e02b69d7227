"""The trio producer against our broker."""

from __future__ import annotations

import pytest
import trio

import minikafka_client as mk
from minikafka.testing import Broker
from minikafka_client.partitioner import partition_for_key
from minikafka_client.producer_options import CompressionType
from tests.client.trio_api.topics import new_topic, read_all


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_what_is_sent_is_what_is_read(
    bootstrap: str, topic: str, compression: CompressionType
) -> None:
    headers = [("a", b"1"), ("a", None), ("ü", b"")]
    async with mk.Producer(bootstrap, compression_type=compression) as producer:
        await producer.send(topic, b"value", b"key", timestamp_ms=123, headers=headers)
        await producer.send(topic, None, b"tombstone", timestamp_ms=124)
        await producer.send(topic, b"", timestamp_ms=125)
    assert await read_all(bootstrap, topic) == [
        mk.ConsumerRecord(topic, 0, 0, 123, b"key", b"value", tuple(headers)),
        mk.ConsumerRecord(topic, 0, 1, 124, b"tombstone", None, ()),
        mk.ConsumerRecord(topic, 0, 2, 125, None, b"", ()),
    ]


@pytest.mark.parametrize("acks", ["all", 1])
async def test_a_delivery_says_where_the_record_went(
    bootstrap: str, topic: str, acks: object
) -> None:
    async with mk.Producer(bootstrap, acks=acks) as producer:  # type: ignore[arg-type]  # parametrized
        first = await producer.send(topic, b"a", timestamp_ms=5)
        second = await producer.send(topic, b"b", timestamp_ms=6)
        assert await first == (topic, 0, 0, 5)
        assert await second == (topic, 0, 1, 6)
        assert first.is_done
        assert first.error is None


async def test_one_record_is_sent_and_waited_for(bootstrap: str, topic: str) -> None:
    async with mk.Producer(bootstrap) as producer:
        stored = await producer.send_and_wait(topic, b"a", b"k", partition=0, timestamp_ms=5)
        assert stored == (topic, 0, 0, 5)
        with pytest.raises(mk.RecordTooLargeError):
            await producer.send_and_wait(topic, bytes(2_000_000))


async def test_without_acks_the_offset_stays_unknown(bootstrap: str, topic: str) -> None:
    async with mk.Producer(bootstrap, acks=0) as producer:
        assert (await (await producer.send(topic, b"a"))).offset == -1
    while not await read_all(bootstrap, topic):
        await trio.lowlevel.checkpoint()


async def test_the_broker_may_set_the_time(bootstrap: str, name: str) -> None:
    topic = await new_topic(bootstrap, name, message_timestamp_type="LogAppendTime")
    async with mk.Producer(bootstrap) as producer:
        stored = await (await producer.send(topic, b"a", timestamp_ms=5))
    assert stored.timestamp_ms > 1_000_000
    assert (await read_all(bootstrap, topic))[0].timestamp_ms == stored.timestamp_ms


async def test_keys_go_where_javas_go_and_stay_in_order(bootstrap: str, name: str) -> None:
    topic = await new_topic(bootstrap, name, 5)
    async with mk.Producer(bootstrap, batch_size=500) as producer:
        for number in range(500):
            await producer.send(topic, b"%d" % number, b"key-%d" % (number % 7))
    records = await read_all(bootstrap, topic)
    assert len(records) == 500
    last: dict[bytes, int] = {}
    for record in records:
        assert record.key is not None
        assert record.value is not None
        assert record.partition == partition_for_key(record.key, 5)
        assert last.get(record.key, -1) < int(record.value)
        last[record.key] = int(record.value)


async def test_records_without_a_key_are_spread(bootstrap: str, name: str) -> None:
    topic = await new_topic(bootstrap, name, 3)
    async with mk.Producer(bootstrap, batch_size=1_000) as producer:
        await producer.send_many(topic, [b"x" * 100] * 2_000)
    counts = [0, 0, 0]
    for record in await read_all(bootstrap, topic):
        counts[record.partition] += 1
    assert sum(counts) == 2_000
    assert min(counts) > 100


async def test_the_application_may_choose_the_partition(bootstrap: str, name: str) -> None:
    topic = await new_topic(bootstrap, name, 4)

    def by_length(_topic: str, _key: bytes | None, value: bytes | None, count: int) -> int:
        return len(value or b"") % count

    async with mk.Producer(bootstrap, partitioner=by_length) as producer:
        assert (await (await producer.send(topic, b"123456"))).partition == 2
        assert (await (await producer.send(topic, b"1", partition=3))).partition == 3
        with pytest.raises(
            mk.UnknownTopicError, match=f"partition 4 of topic '{topic}', which has 4"
        ):
            await producer.send(topic, b"1", partition=4)


async def test_many_records_in_one_call(bootstrap: str, name: str) -> None:
    topic = await new_topic(bootstrap, name, 2)
    records = [b"a", mk.ProducerRecord(b"b", b"k", [("h", b"1")], 7, 1), None, b"c"]
    async with mk.Producer(bootstrap) as producer:
        deliveries = await producer.send_many(topic, records)
        assert isinstance(deliveries, mk.Deliveries)
        stored = await deliveries
        assert len(deliveries) == len(stored) == 4
        assert [await each for each in deliveries] == stored
        assert await deliveries[1] == stored[1]
        assert await deliveries[-1] == stored[3]
        assert [each.is_done for each in deliveries[1:3]] == [True, True]
        with pytest.raises(IndexError):
            deliveries[4]
    assert stored[1].partition == 1
    assert stored[1].timestamp_ms == 7
    assert len(await read_all(bootstrap, topic)) == 4


def fill(producer: mk.Producer, topic: str) -> int:
    """Send until the buffer is full; returns how many records fit."""
    sent = 0
    while True:
        try:
            producer.send_nowait(topic, bytes(100))
        except mk.BufferFullError:
            return sent
        sent += 1


async def test_send_nowait_waits_for_nothing(bootstrap: str, topic: str) -> None:
    async with mk.Producer(bootstrap, buffer_memory=20_000, linger_ms=10_000) as producer:
        with pytest.raises(mk.BufferFullError):
            producer.send_nowait(topic, b"the topic is not known yet")
        assert await producer.partitions_for(topic) == [0]
        sent = fill(producer, topic)
        assert 50 < sent < 200
        await producer.send(topic, b"waits until there is room")
    assert len(await read_all(bootstrap, topic)) == sent + 1


async def test_memory_bounds_what_waits(bootstrap: str, name: str) -> None:
    topic = await new_topic(bootstrap, name, 3)
    async with mk.Producer(bootstrap, buffer_memory=50_000) as producer:
        for number in range(3_000):
            await producer.send(topic, bytes(100), b"%d" % number)
    assert len(await read_all(bootstrap, topic)) == 3_000


async def test_what_can_never_be_sent_is_refused_immediately(bootstrap: str, topic: str) -> None:
    async with mk.Producer(bootstrap) as producer:
        with pytest.raises(mk.RecordTooLargeError, match="2000000 bytes"):
            await producer.send(topic, bytes(2_000_000))
        with pytest.raises(mk.SerializationError, match="the value is str 'text', not bytes"):
            await producer.send(topic, "text")  # type: ignore[arg-type]  # on purpose
        with pytest.raises(mk.SerializationError, match="the key is int"):
            await producer.send(topic, b"", 5)  # type: ignore[arg-type]  # on purpose
        await producer.send(topic, b"", b"")


async def test_a_record_that_the_broker_refuses_fails_alone(bootstrap: str, name: str) -> None:
    topic = await new_topic(bootstrap, name, max_message_bytes="1000")
    async with mk.Producer(bootstrap, linger_ms=0) as producer:
        before = await producer.send(topic, b"small")
        await before
        large = await producer.send(topic, bytes(5_000))
        with pytest.raises(mk.BrokerError, match="MESSAGE_TOO_LARGE"):
            await large
        assert large.error is not None
        after = await producer.send(topic, b"small again")
        assert (await after).offset == 1


async def test_failures_that_were_never_checked_are_reported_on_leaving(
    bootstrap: str, name: str
) -> None:
    topic = await new_topic(bootstrap, name, max_message_bytes="1000")
    with pytest.raises(
        mk.NotDeliveredError, match=r"1 records were not delivered.*MESSAGE_TOO_LARGE"
    ):
        async with mk.Producer(bootstrap) as producer:
            await producer.send(topic, bytes(5_000))


async def test_an_unknown_topic_is_an_error_after_the_timeout(bootstrap: str, name: str) -> None:
    async with mk.Producer(bootstrap, max_block_ms=400) as producer:
        with pytest.raises(mk.UnknownTopicError, match=name):
            await producer.send(name, b"")
        with pytest.raises(mk.UnknownTopicError):
            await producer.partitions_for(name)
    async with mk.Producer(bootstrap, max_block_ms=60_000) as producer:
        with pytest.raises(mk.BrokerError, match="INVALID_TOPIC_EXCEPTION"):
            await producer.send("no spaces, please", b"")


async def test_a_topic_that_appears_while_send_waits_is_found(bootstrap: str, name: str) -> None:
    async with mk.Producer(bootstrap) as producer, trio.open_nursery() as nursery:

        async def send() -> None:
            assert (await (await producer.send(name, b"v"))).offset == 0

        nursery.start_soon(send)
        with pytest.raises(mk.BufferFullError):
            producer.send_nowait(name, b"v")
        await new_topic(bootstrap, name)


async def test_leaving_with_an_exception_drops_what_is_not_sent(bootstrap: str, topic: str) -> None:
    producer = mk.Producer(bootstrap, linger_ms=60_000)
    deliveries: list[mk.Delivery] = []

    async def fail_inside() -> None:
        async with producer:
            deliveries.append(await producer.send(topic, b"v"))
            with pytest.raises(ValueError, match="not decided yet"):
                deliveries[0].result()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_inside()
    with pytest.raises(mk.ClosedError, match="closed before 1 records"):
        await deliveries[0]
    with pytest.raises(mk.ClosedError):
        await producer.send(topic, b"v")
    with pytest.raises(mk.ClosedError):
        producer.send_nowait(topic, b"v")
    with pytest.raises(mk.ClosedError):
        await producer.flush()


async def test_a_send_that_is_cancelled_while_it_waits_has_sent_nothing(
    bootstrap: str, name: str
) -> None:
    async with mk.Producer(bootstrap) as producer:
        with trio.move_on_after(0.1) as scope:
            await producer.send(name, b"the topic does not exist yet")
        assert scope.cancelled_caught
        await new_topic(bootstrap, name)
        await producer.send(name, b"v")
    assert [record.value for record in await read_all(bootstrap, name)] == [b"v"]


async def test_a_loop_of_sends_can_be_cancelled(bootstrap: str, topic: str) -> None:
    sent = 0
    async with mk.Producer(bootstrap) as producer:
        with trio.CancelScope() as scope:
            scope.cancel()
            while sent < 10_000:
                await producer.send(topic, b"v")
                sent += 1
        assert scope.cancelled_caught
    assert len(await read_all(bootstrap, topic)) == sent < 10_000


async def test_a_broker_that_is_killed_and_comes_back_loses_and_doubles_nothing(
    own_broker: Broker, name: str
) -> None:
    topic = await new_topic(own_broker.bootstrap, name, 2)
    sent = 3_000
    async with mk.Producer(own_broker.bootstrap, batch_size=2_000, linger_ms=1) as producer:
        deliveries: list[object] = []
        for number in range(sent):
            deliveries.append(await producer.send(topic, b"%d" % number, b"%d" % (number % 10)))
            if number == sent // 2:
                own_broker.kill()
                await trio.to_thread.run_sync(own_broker.start)
    records = await read_all(own_broker.bootstrap, topic)
    values = sorted(int(record.value or b"") for record in records)
    assert values == list(range(sent))
    last: dict[bytes | None, int] = {}
    for record in records:
        assert last.get(record.key, -1) < int(record.value or b"")
        last[record.key] = int(record.value or b"")
