"""Positions: committed, sought, reset, found by time; and the ends of a log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.interop import clients
from tests.kit.live import JudgedBroker
from tests.kit.waiting import SECONDS_MAX, work_until
from tests.kit.wire import MakeTopic, Wire

pytestmark = pytest.mark.interop

RECORDS = [
    clients.Outgoing(b"%d" % number, timestamp_ms=1000 + 10 * number) for number in range(20)
]
NOTE = "a note"
TIMEOUT = {"timeout": SECONDS_MAX}


def confluent_consumer(bootstrap: str, group: str, **settings: object) -> Any:
    return clients.confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )


def confluent_place(topic: str, offset: int = -1001, **parts: Any) -> Any:
    return clients.confluent_kafka.TopicPartition(topic, 0, offset, **parts)


# --- committed offsets --------------------------------------------------------------------------


def commit_with_confluent(bootstrap: str, group: str, topic: str) -> None:
    consumer = confluent_consumer(bootstrap, group)
    place = confluent_place(topic, 7, metadata=NOTE)
    (answer,) = consumer.commit(offsets=[place], asynchronous=False)
    assert answer.error is None
    consumer.close()


def commit_with_kafka_python(bootstrap: str, group: str, topic: str) -> None:
    consumer = clients.kafka.KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False
    )
    one = clients.kafka.TopicPartition(topic, 0)
    consumer.assign([one])
    consumer.commit({one: clients.kafka.OffsetAndMetadata(7, NOTE, -1)})
    consumer.close()


def commit_with_aiokafka(bootstrap: str, group: str, topic: str) -> None:
    async def main() -> None:
        consumer = clients.aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False
        )
        await consumer.start()
        one = clients.aiokafka.TopicPartition(topic, 0)
        consumer.assign([one])
        await consumer.commit({one: (7, NOTE)})
        await consumer.stop()

    clients.run_async(main())


def committed_with_confluent(bootstrap: str, group: str, topic: str) -> int | None:
    consumer = confluent_consumer(bootstrap, group)
    (found,) = consumer.committed([confluent_place(topic)], **TIMEOUT)
    consumer.close()
    if found.offset >= 0:
        assert found.metadata == NOTE
        return int(found.offset)
    return None


def committed_with_kafka_python(bootstrap: str, group: str, topic: str) -> int | None:
    consumer = clients.kafka.KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False
    )
    found = consumer.committed(clients.kafka.TopicPartition(topic, 0), metadata=True)
    consumer.close()
    if found is None:
        return None
    # librdkafka's binding for Python sends the zero byte at the end of its string with it.
    assert found.metadata.removesuffix("\0") == NOTE
    return int(found.offset)


def committed_with_aiokafka(bootstrap: str, group: str, topic: str) -> int | None:
    async def main() -> int | None:
        consumer = clients.aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False
        )
        await consumer.start()
        one = clients.aiokafka.TopicPartition(topic, 0)
        consumer.assign([one])
        found: int | None = await consumer.committed(one)
        await consumer.stop()
        return found

    return clients.run_async(main())


COMMIT: dict[str, Callable[[str, str, str], None]] = {
    clients.CONFLUENT: commit_with_confluent,
    clients.KAFKA_PYTHON: commit_with_kafka_python,
    clients.AIOKAFKA: commit_with_aiokafka,
}
COMMITTED: dict[str, Callable[[str, str, str], int | None]] = {
    clients.CONFLUENT: committed_with_confluent,
    clients.KAFKA_PYTHON: committed_with_kafka_python,
    clients.AIOKAFKA: committed_with_aiokafka,
}


@pytest.mark.parametrize("client", clients.CLIENTS)
def test_every_client_sees_the_offset_that_this_one_committed(
    client: str, broker: JudgedBroker, topic: str
) -> None:
    clients.produce(clients.CONFLUENT, broker.bootstrap, topic, RECORDS)
    for reader in clients.CLIENTS:
        assert COMMITTED[reader](broker.bootstrap, topic, topic) is None
    COMMIT[client](broker.bootstrap, topic, topic)
    for reader in clients.CLIENTS:
        assert COMMITTED[reader](broker.bootstrap, topic, topic) == 7


def first_value(consumer: Any) -> bytes:
    """The value of the first record that a confluent consumer gets."""
    found: list[Any] = []
    work_until(lambda: bool(found), lambda: found.extend(consumer.consume(1, 0.5)), what="a record")
    assert found[0].error() is None, found[0].error()
    value: bytes = found[0].value()
    return value


def test_a_group_resumes_where_it_committed_regardless_of_its_reset_policy(
    broker: JudgedBroker, topic: str
) -> None:
    clients.produce(clients.CONFLUENT, broker.bootstrap, topic, RECORDS)
    commit_with_confluent(broker.bootstrap, topic, topic)
    for policy in ("earliest", "latest", "error"):
        consumer = confluent_consumer(broker.bootstrap, topic, auto_offset_reset=policy)
        consumer.subscribe([topic])
        assert first_value(consumer) == b"7"
        consumer.close()


# --- reset --------------------------------------------------------------------------------------


def test_earliest_begins_at_the_first_record_that_is_left(broker: JudgedBroker, topic: str) -> None:
    clients.produce(clients.CONFLUENT, broker.bootstrap, topic, RECORDS)
    with Wire(broker.bootstrap) as wire:
        assert wire.delete_records(topic, 5) == 5
    consumer = confluent_consumer(broker.bootstrap, topic, auto_offset_reset="earliest")
    consumer.subscribe([topic])
    assert first_value(consumer) == b"5"
    consumer.close()


def test_latest_begins_after_the_last_record(broker: JudgedBroker, topic: str) -> None:
    clients.produce(clients.CONFLUENT, broker.bootstrap, topic, RECORDS)
    consumer = confluent_consumer(broker.bootstrap, topic, auto_offset_reset="latest")
    consumer.subscribe([topic])

    def knows_the_end() -> bool:
        assigned = consumer.assignment()
        return bool(assigned) and consumer.get_watermark_offsets(assigned[0], cached=True)[1] == 20

    work_until(knows_the_end, lambda: consumer.poll(0.1), what="the end of the log")
    clients.produce(clients.KAFKA_PYTHON, broker.bootstrap, topic, [clients.Outgoing(b"new")])
    assert first_value(consumer) == b"new"
    consumer.close()


def test_without_a_reset_policy_a_missing_offset_is_an_error(
    broker: JudgedBroker, topic: str
) -> None:
    clients.produce(clients.CONFLUENT, broker.bootstrap, topic, RECORDS)
    consumer = confluent_consumer(broker.bootstrap, topic, auto_offset_reset="error")
    consumer.subscribe([topic])
    found: list[Any] = []
    work_until(lambda: bool(found), lambda: found.extend(consumer.consume(1, 0.5)), what="an error")
    assert found[0].error().code() == clients.confluent_kafka.KafkaError._AUTO_OFFSET_RESET
    consumer.close()


@pytest.mark.parametrize(("policy", "value"), [("earliest", b"5"), ("latest", b"new")])
def test_an_offset_that_was_deleted_is_reset(
    policy: str, value: bytes, broker: JudgedBroker, topic: str
) -> None:
    clients.produce(clients.CONFLUENT, broker.bootstrap, topic, RECORDS)
    with Wire(broker.bootstrap) as wire:
        assert wire.delete_records(topic, 5) == 5

    async def main() -> Any:
        consumer = clients.aiokafka.AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap, auto_offset_reset=policy
        )
        await consumer.start()
        one = clients.aiokafka.TopicPartition(topic, 0)
        consumer.assign([one])
        consumer.seek(one, 2)
        first = asyncio.create_task(consumer.getone())
        producer = clients.aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
        await producer.start()
        while not first.done():
            # With latest, only what comes after the reset is seen.
            await producer.send_and_wait(topic, b"new")
            await asyncio.wait([first], timeout=0.2)
        await producer.stop()
        await consumer.stop()
        return first.result().value

    assert clients.run_async(main()) == value


def test_an_offset_beyond_the_end_without_a_policy_is_an_error(
    broker: JudgedBroker, topic: str
) -> None:
    clients.produce(clients.CONFLUENT, broker.bootstrap, topic, RECORDS)
    consumer = clients.kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="none", enable_auto_commit=False
    )
    one = clients.kafka.TopicPartition(topic, 0)
    consumer.assign([one])
    consumer.seek(one, 1000)
    errors: list[dict[Any, int]] = []

    def poll() -> None:
        try:
            consumer.poll(timeout_ms=500)
        except clients.kafka.errors.OffsetOutOfRangeError as error:
            errors.append(error.args[0])

    work_until(lambda: bool(errors), poll, what="OffsetOutOfRangeError")
    assert errors[0] == {one: 1000}
    consumer.close()


# --- seek, time, ends ---------------------------------------------------------------------------


def test_seek_goes_back_forward_and_to_both_ends(broker: JudgedBroker, topic: str) -> None:
    clients.produce(clients.CONFLUENT, broker.bootstrap, topic, RECORDS)
    consumer = confluent_consumer(broker.bootstrap, topic, enable_partition_eof=True)
    consumer.assign([confluent_place(topic, 0)])
    assert first_value(consumer) == b"0"
    for offset in (15, 3, 19, 0):
        consumer.seek(confluent_place(topic, offset))
        assert first_value(consumer) == b"%d" % offset
    consumer.close()

    reader = clients.kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap)
    one = clients.kafka.TopicPartition(topic, 0)
    reader.assign([one])
    reader.seek_to_end(one)
    assert reader.position(one) == 20
    reader.seek_to_beginning(one)
    assert reader.position(one) == 0
    reader.close()


TIMES = [(0, 0), (1000, 0), (1001, 1), (1105, 11), (1190, 19), (1191, None)]


def test_offsets_are_found_by_time_by_every_client(broker: JudgedBroker, topic: str) -> None:
    clients.produce(clients.CONFLUENT, broker.bootstrap, topic, RECORDS)

    consumer = confluent_consumer(broker.bootstrap, topic)
    for time_ms, offset in TIMES:
        (found,) = consumer.offsets_for_times([confluent_place(topic, time_ms)], **TIMEOUT)
        assert found.offset == (-1 if offset is None else offset), time_ms
    consumer.close()

    reader = clients.kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap)
    one = clients.kafka.TopicPartition(topic, 0)
    for time_ms, offset in TIMES:
        place = reader.offsets_for_times({one: time_ms})[one]
        assert (place and place.offset) == offset, time_ms
        assert place is None or place.timestamp == 1000 + 10 * place.offset
    reader.close()

    async def main() -> dict[int, int | None]:
        consumer = clients.aiokafka.AIOKafkaConsumer(bootstrap_servers=broker.bootstrap)
        await consumer.start()
        one = clients.aiokafka.TopicPartition(topic, 0)
        found = {}
        for time_ms, _ in TIMES:
            place = (await consumer.offsets_for_times({one: time_ms}))[one]
            found[time_ms] = place and place.offset
        await consumer.stop()
        return found

    assert clients.run_async(main()) == dict(TIMES)


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_offsets_are_found_by_time_inside_compressed_batches(
    codec: str, broker: JudgedBroker, make_topic: MakeTopic
) -> None:
    topic = make_topic(segment_bytes=2000, index_interval_bytes=0)
    for start in range(0, 200, 20):
        records = [
            clients.Outgoing(b"%d " % number * 50, timestamp_ms=1000 + 10 * number)
            for number in range(start, start + 20)
        ]
        clients.produce(clients.KAFKA_PYTHON, broker.bootstrap, topic, records, codec)
    consumer = confluent_consumer(broker.bootstrap, topic)
    for offset in (0, 1, 19, 20, 21, 77, 199):
        place = confluent_place(topic, 1000 + 10 * offset - 3)
        (found,) = consumer.offsets_for_times([place], **TIMEOUT)
        assert found.offset == offset
    consumer.close()


def test_every_client_sees_the_ends_of_a_log_and_its_lag(broker: JudgedBroker, topic: str) -> None:
    clients.produce(clients.CONFLUENT, broker.bootstrap, topic, RECORDS)
    with Wire(broker.bootstrap) as wire:
        assert wire.delete_records(topic, 3) == 3
    consumer = confluent_consumer(broker.bootstrap, topic)
    assert consumer.get_watermark_offsets(confluent_place(topic), **TIMEOUT) == (3, 20)
    consumer.close()

    reader = clients.kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", max_poll_records=4
    )
    one = clients.kafka.TopicPartition(topic, 0)
    assert reader.beginning_offsets([one]) == {one: 3}
    assert reader.end_offsets([one]) == {one: 20}
    reader.assign([one])
    found: list[Any] = []
    work_until(
        lambda: bool(found),
        lambda: found.extend(reader.poll(timeout_ms=500).get(one, [])),
        what="records",
    )
    assert reader.highwater(one) - reader.position(one) == 20 - 3 - len(found)
    reader.close()

    async def main() -> tuple[Any, Any]:
        consumer = clients.aiokafka.AIOKafkaConsumer(bootstrap_servers=broker.bootstrap)
        await consumer.start()
        one = clients.aiokafka.TopicPartition(topic, 0)
        ends = await consumer.beginning_offsets([one]), await consumer.end_offsets([one])
        await consumer.stop()
        return ends[0][one], ends[1][one]

    assert clients.run_async(main()) == (3, 20)
