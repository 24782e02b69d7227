"""Keys and values that are not bytes, through our broker, in both APIs."""

from __future__ import annotations

import sys
from typing import Any, assert_type

import pytest
import trio

import minikafka_client as mk
from minikafka.testing import Broker
from minikafka_client.patterns import AtLeastOnce
from minikafka_client.patterns.blocking import AtLeastOnce as BlockingAtLeastOnce
from minikafka_client.serializers import Json, MsgPack, Text
from minikafka_client.sync import Consumer as BlockingConsumer
from minikafka_client.sync import Producer as BlockingProducer
from tests.client.trio_api.topics import NewName

VALUES: list[Any] = [{"apples": 42}, [1, 2, 3], "text", 7, None, {"nested": {"é": None}}]


async def test_values_come_back_by_every_way_of_sending_and_reading(
    bootstrap: str, topic: str
) -> None:
    where = mk.TopicPartition(topic, 0)
    async with mk.Producer(bootstrap, key_serializer=Text(), value_serializer=Json()) as producer:
        for value in VALUES:
            await producer.send(topic, value, key="k")
        producer.send_nowait(topic, {"now": True})
        await producer.send_many(topic, ["many", mk.ProducerRecord({"a": 1}, key="ü")])
        with pytest.raises(mk.SerializationError, match="is set"):
            await producer.send(topic, {1})
        with pytest.raises(mk.SerializationError, match="is complex"):
            producer.send_nowait(topic, 1j)
    wanted = [*VALUES, {"now": True}, "many", {"a": 1}]
    async with mk.Consumer(
        bootstrap, auto_offset_reset="earliest", key_deserializer=Text(), value_deserializer=Json()
    ) as consumer:
        await consumer.assign([where])
        records: list[mk.ConsumerRecord[str, Any]] = []
        while len(records) < len(wanted):
            records += await consumer.poll()
        assert [record.value for record in records] == wanted
        assert [record.key for record in records] == ["k"] * len(VALUES) + [None, None, "ü"]
        await consumer.seek_to_beginning()
        async for batch in consumer.batches():
            assert batch.values[0] == {"apples": 42}
            assert batch.keys[0] == "k"
            break
    async with mk.Consumer(bootstrap, auto_offset_reset="earliest") as consumer_of_bytes:
        await consumer_of_bytes.assign([where])
        assert (await consumer_of_bytes.poll(1))[0].value == b'{"apples":42}'


async def read_into(received: list[Any], consumer: mk.Consumer[Any, Any]) -> None:
    async for record in consumer:
        received.append(record.value)  # noqa: PERF401 - what came before an error must stay


async def test_what_cannot_be_deserialized_stops_the_partition_until_it_is_skipped(
    bootstrap: str, topic: str
) -> None:
    where = mk.TopicPartition(topic, 0)
    async with mk.Producer(bootstrap) as producer:
        await producer.send_many(topic, [b"0", b"1", b"{oops", b"3", b"4"])
    async with mk.Consumer(
        bootstrap, auto_offset_reset="earliest", value_deserializer=Json()
    ) as consumer:
        await consumer.assign([where])
        received: list[Any] = []
        with pytest.raises(mk.DeserializationError) as caught:
            await read_into(received, consumer)
        assert received == [0, 1]
        assert caught.value.offset == await consumer.position(where) == 2
        for _ in range(2):
            with pytest.raises(mk.DeserializationError):
                await consumer.poll()
        consumer.seek(where, 0)
        assert [record.value for record in await consumer.poll()] == [0, 1]
        with pytest.raises(mk.DeserializationError) as caught:
            await consumer.poll()
        consumer.seek(where, caught.value.offset + 1)
        assert [record.value for record in await consumer.poll()] == [3, 4]


async def test_records_before_damaged_ones_come_first_and_nothing_is_skipped(
    own_broker: Broker, new_name: NewName
) -> None:
    topic = new_name()
    where = mk.TopicPartition(topic, 0)
    async with mk.AdminClient(own_broker.bootstrap) as admin:
        await admin.create_topics([mk.NewTopic(topic, 1)])
    async with mk.Producer(own_broker.bootstrap) as producer:
        for number in range(3):
            await (await producer.send(topic, b"value %d" % number))
    [log] = (own_broker.data_dir).glob(f"{topic}-0/*.log")
    content = log.read_bytes()
    log.write_bytes(content.replace(b"value 1", b"VALUE 1"))  # its CRC is wrong now
    limits = {"max_partition_fetch_bytes": 1, "prefetch_size_bytes_max": 1_000_000}
    start = own_broker.bootstrap
    async with mk.Consumer(start, auto_offset_reset="earliest", **limits) as consumer:  # type: ignore[arg-type]  # all by name
        await consumer.assign([where])
        with trio.fail_after(30):
            assert [record.value for record in await consumer.poll()] == [b"value 0"]
            for _ in range(3):
                with pytest.raises(mk.CorruptRecordsError):
                    await consumer.poll()
                assert await consumer.position(where) == 1
            batches = consumer.batches()
            for _ in range(2):
                with pytest.raises(mk.CorruptRecordsError):
                    await anext(batches)
            consumer.seek(where, 2)
            assert [record.value for record in await consumer.poll()] == [b"value 2"]


async def test_the_blocking_api_and_the_patterns_have_them_too(
    bootstrap: str, topic: str, group: str
) -> None:

    def use() -> None:
        with BlockingProducer(bootstrap, value_serializer=MsgPack()) as producer:
            producer.send(topic, {"a": b"bytes"}, key=b"k").result()
            producer.send_nowait(topic, [1])
            producer.send_many(topic, [None, mk.ProducerRecord("x")])
            with pytest.raises(mk.SerializationError):
                producer.send(topic, object())
        with BlockingConsumer(
            bootstrap, auto_offset_reset="earliest", value_deserializer=MsgPack()
        ) as consumer:
            consumer.assign([mk.TopicPartition(topic, 0)])
            values = [next(iter(consumer)).value for _ in range(4)]
        assert values == [{"a": b"bytes"}, [1], None, "x"]
        with BlockingAtLeastOnce(
            bootstrap, [topic], group_id=f"{group}-blocking", value_deserializer=MsgPack()
        ) as pattern:
            assert next(iter(pattern)).value == {"a": b"bytes"}

    await trio.to_thread.run_sync(use)
    async with AtLeastOnce(
        bootstrap, [topic], group_id=group, value_deserializer=MsgPack()
    ) as records:
        async for record in records:
            assert record.value == {"a": b"bytes"}
            break


def test_types_follow_the_serializers() -> None:
    """For the type checker: nothing is connected here."""
    of_bytes = mk.Consumer("localhost:1")
    assert_type(of_bytes, mk.Consumer[bytes, bytes])
    of_texts = mk.Consumer("localhost:1", key_deserializer=Text(), value_deserializer=Text())
    assert_type(of_texts, mk.Consumer[str, str])
    to_bytes = mk.Producer("localhost:1")
    assert_type(to_bytes, mk.Producer[bytes, bytes])
    to_texts = mk.Producer("localhost:1", value_serializer=Text())
    assert_type(to_texts, mk.Producer[bytes, str])
    assert sys.getrefcount(of_texts) > 0
