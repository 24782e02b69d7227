"""Statistics and log lines of clients, against our broker."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
import trio

from minikafka.testing import Broker
from minikafka_client import ClosedError, Consumer, Producer, TopicPartition
from minikafka_client.log_events import LogEvent
from minikafka_client.sync import Consumer as BlockingConsumer
from minikafka_client.sync import Producer as BlockingProducer
from tests.client.trio_api.topics import NewName, fill_topic, new_topic


def events(records: Sequence[logging.LogRecord]) -> list[str]:
    """What the client's log lines are about; every one of them is about something."""
    ours = [record for record in records if record.name.startswith("minikafka_client")]
    known = {event.value for event in LogEvent}
    assert all(vars(record)["event"] in known for record in ours), [r.getMessage() for r in ours]
    return [vars(record)["event"] for record in ours]


def told_of(event: LogEvent) -> trio.Event:
    """Set when the client next logs this."""
    told = trio.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if vars(record).get("event") == event.value:
                told.set()
                logging.getLogger("minikafka_client").removeHandler(self)

    logging.getLogger("minikafka_client").addHandler(Listener())
    return told


async def test_a_producer_counts_what_it_has_done_and_has_to_do(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap, linger_ms=60_000) as producer:
        empty = producer.statistics()
        assert (empty.buffered_records, empty.delivered_records, empty.requests) == (0, 0, 0)
        for _ in range(10):
            await producer.send(topic, b"value")
        waiting = producer.statistics()
        assert (waiting.buffered_records, waiting.buffered_batches) == (10, 1)
        assert 0 < waiting.buffered_bytes <= waiting.buffer_memory
        await producer.flush()
        done = producer.statistics()
    assert (done.buffered_records, done.buffered_bytes, done.in_flight_requests) == (0, 0, 0)
    assert (done.delivered_records, done.failed_records, done.retries) == (10, 0, 0)
    assert done.delivered.records_per_s == 10
    assert done.delivered_bytes > 10 * len(b"value")
    assert done.requests == done.latency.request_count == 1
    [broker] = done.brokers.values()
    assert broker.latency == done.latency
    assert 0 < done.latency.p50_ms <= done.latency.p95_ms <= done.latency.max_ms
    assert done.errors == {}
    assert done.connections.open_connections == done.connections.connects >= 2
    assert done.connections.metadata_age_s is not None


async def test_statistics_are_those_of_an_open_client(bootstrap: str) -> None:
    with pytest.raises(ClosedError):
        Producer(bootstrap).statistics()
    with pytest.raises(ClosedError):
        Consumer(bootstrap).statistics()


async def test_retries_are_counted_and_logged(
    own_broker: Broker, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await new_topic(own_broker.bootstrap, name)
    with caplog.at_level(logging.DEBUG, "minikafka_client"):
        async with Producer(own_broker.bootstrap, linger_ms=0) as producer:
            await (await producer.send(topic, b"before"))
            own_broker.kill()
            failure = told_of(LogEvent.CONNECT_FAILED)
            during = await producer.send(topic, b"during")
            with trio.fail_after(60):
                await failure.wait()
                await trio.to_thread.run_sync(own_broker.start)
                await during
            found = producer.statistics()
    assert found.delivered_records == 2
    assert found.connections.disconnects >= 1
    assert found.connections.connects > found.connections.open_connections >= 1
    seen = events(caplog.records)
    for event in (LogEvent.CONNECTED, LogEvent.DISCONNECTED, LogEvent.CONNECT_FAILED):
        assert event.value in seen
    [granted] = [r for r in caplog.records if vars(r).get("event") == "producer_id_granted"]
    assert vars(granted)["producer_epoch"] == 0


async def test_a_consumer_counts_what_it_has_read_and_how_far_it_is(
    bootstrap: str, new_name: NewName, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = await new_topic(bootstrap, new_name(), 2), new_name()
    await fill_topic(bootstrap, topic, 0, 20)
    with caplog.at_level(logging.INFO, "minikafka_client"):
        async with Consumer(bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
            assert consumer.statistics().lag == 0
            await consumer.subscribe([topic])
            before = consumer.statistics().group
            assert before is not None
            assert (before.state, before.last_poll_age_s) == ("unjoined", None)
            read = 0
            while read < 5:
                read += len(await consumer.poll(5 - read))
            await consumer.position(TopicPartition(topic, 1))
            found = consumer.statistics()
            while found.lag is None:
                await consumer.end_offsets([TopicPartition(topic, 1)])
                found = consumer.statistics()
    assert found.lag == 15
    partition = found.partitions[TopicPartition(topic, 0)]
    assert (partition.position, partition.end_offset, partition.lag) == (5, 20, 15)
    assert found.consumed_records >= 5
    assert found.consumed.records_per_s >= 5
    assert found.fetched_bytes >= found.consumed_bytes > 0
    assert found.prefetched_bytes <= found.prefetch_size_bytes_max
    assert found.fetches >= found.latency.request_count >= 1
    assert found.group is not None
    assert (found.group.state, found.group.rebalances) == ("stable", 1)
    assert found.group.member_id
    assert found.group.last_poll_age_s is not None
    seen = events(caplog.records)
    assert [each for each in seen if each in ("coordinator_found", "group_joined")] == [
        "coordinator_found",
        "group_joined",
    ]
    assert "partitions_assigned" in seen


async def test_the_blocking_api_has_them_too(bootstrap: str, topic: str) -> None:

    def use() -> None:
        with BlockingProducer(bootstrap) as producer:
            producer.send(topic, b"v").result()
            assert producer.statistics().delivered_records == 1
        with BlockingConsumer(bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            assert len(consumer.poll()) == 1
            assert consumer.statistics().consumed_records == 1
        with pytest.raises(ClosedError):
            producer.statistics()

    await trio.to_thread.run_sync(use)
