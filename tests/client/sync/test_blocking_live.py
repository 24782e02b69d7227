"""The blocking producer and consumer against our broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from minikafka_client import (
    LATEST,
    BrokerError,
    BufferFullError,
    ClosedError,
    NewTopic,
    NotDeliveredError,
    OffsetAndMetadata,
    ProducerRecord,
    TopicPartition,
    UnknownTopicError,
)
from minikafka_client.sync import AdminClient, Consumer, Delivery, Producer

NewName = Callable[[], str]


@pytest.fixture
def topic(bootstrap: str, new_name: NewName) -> str:
    """A topic with two partitions."""
    name = new_name()
    with AdminClient(bootstrap) as admin:
        admin.create_topics([NewTopic(name, 2)])
    return name


@pytest.fixture
def filled(bootstrap: str, topic: str) -> str:
    """The same with 1,500 records in its first partition; their values are their offsets."""
    with Producer(bootstrap) as producer:
        for number in range(1_500):
            producer.send(topic, b"%d" % number, partition=0)
    return topic


def end_offsets(bootstrap: str, topic: str) -> list[int]:
    with AdminClient(bootstrap) as admin:
        found = admin.list_offsets({TopicPartition(topic, p): LATEST for p in range(2)})
    return [found[TopicPartition(topic, p)].offset for p in range(2)]


# --- the producer -------------------------------------------------------------------------------


def test_a_delivery_tells_where_the_record_went(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer:
        assert producer.partitions_for(topic) == [0, 1]
        delivery = producer.send(topic, b"v", b"k", partition=1, timestamp_ms=5)
        assert delivery.result() == (topic, 1, 0, 5)
        assert delivery.is_done
        assert delivery.error is None
        assert delivery.result(0) == (topic, 1, 0, 5)


def test_without_acks_the_offset_stays_unknown(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, acks=0) as producer:
        assert producer.send(topic, b"v").result().offset == -1


def test_several_threads_share_a_producer(bootstrap: str, topic: str) -> None:
    def send(number: int) -> None:
        for each in range(500):
            producer.send(topic, b"%d-%d" % (number, each))

    with Producer(bootstrap, batch_size_bytes=1_000, buffer_memory_bytes=50_000) as producer:
        threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush()
        assert sum(end_offsets(bootstrap, topic)) == 2_000


def test_many_records_at_once(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer:
        sent = producer.send_many(topic, [b"a", None, ProducerRecord(b"c", partition=1)])
        assert [each.result().topic for each in sent] == [topic] * 3
        assert sent[2].result().partition == 1


def test_send_nowait_waits_for_nothing(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, buffer_memory_bytes=20_000, linger_ms=60_000) as producer:
        with pytest.raises(BufferFullError, match="not known yet; use send"):
            producer.send_nowait(topic, b"v")
        producer.partitions_for(topic)
        sent = fill(producer, topic)
        assert 50 < sent < 400
        producer.send(topic, b"waits until there is room")
    assert sum(end_offsets(bootstrap, topic)) == sent + 1


def fill(producer: Producer, topic: str) -> int:
    """Send until the buffer is full; returns how many records fit."""
    sent = 0
    while True:
        try:
            producer.send_nowait(topic, bytes(100))
        except BufferFullError:
            return sent
        sent += 1


def test_a_result_may_take_too_long(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, linger_ms=60_000) as producer:
        delivery = producer.send(topic, b"v")
        with pytest.raises(TimeoutError):
            delivery.result(0.01)
        producer.flush()
        assert delivery.result(0).offset == 0


def test_failures_are_told_one_way_or_the_other(bootstrap: str, new_name: NewName) -> None:
    name = new_name()
    with AdminClient(bootstrap) as admin:
        admin.create_topics([NewTopic(name, configs={"max.message.bytes": "1000"})])
    with Producer(bootstrap) as producer:
        delivery = producer.send(name, bytes(5_000))
        with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
            delivery.result()
        assert isinstance(delivery.error, BrokerError)
    with pytest.raises(NotDeliveredError), Producer(bootstrap) as producer:
        producer.send(name, bytes(5_000))


def test_an_unknown_topic_is_told_when_its_time_is_over(bootstrap: str, new_name: NewName) -> None:
    with (
        Producer(bootstrap, max_block_ms=300) as producer,
        pytest.raises(UnknownTopicError),
    ):
        producer.send(new_name(), b"v")


def test_leaving_with_an_exception_drops_what_is_not_sent(bootstrap: str, topic: str) -> None:
    producer = Producer(bootstrap, linger_ms=60_000)
    deliveries: list[Delivery] = []

    def fail_inside() -> None:
        with producer:
            deliveries.append(producer.send(topic, b"v"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()
    with pytest.raises(ClosedError, match="closed before 1 records"):
        deliveries[0].result()
    with pytest.raises(ClosedError):
        producer.send(topic, b"v")
    with pytest.raises(ClosedError, match="opened before"), producer:
        pass


# --- the consumer -------------------------------------------------------------------------------


def take(consumer: Consumer, count: int) -> list[int]:
    offsets: list[int] = []
    for record in consumer:
        offsets.append(record.offset)
        if len(offsets) == count:
            break
    return offsets


@pytest.fixture
def assigned(bootstrap: str, filled: str) -> Iterator[Consumer]:
    """A consumer of the filled partition, without a group."""
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(filled, 0)])
        yield consumer


def test_records_come_in_order_by_every_way_of_reading(assigned: Consumer, filled: str) -> None:
    where = TopicPartition(filled, 0)
    assert take(assigned, 10) == list(range(10))
    assert assigned.position(where) == 10
    assert take(assigned, 600) == list(range(10, 610))
    assert [record.offset for record in assigned.poll(5)] == list(range(610, 615))
    offsets: list[int] = []
    for batch in assigned.batches():
        offsets += batch.offsets
        if offsets[-1] == 1_499:
            break
    assert offsets == list(range(615, 1_500))
    assert assigned.lag(where) == 0
    assert assigned.poll(5, 50) == []


def test_lag_and_position_do_not_count_what_waits_to_be_handed_out(
    assigned: Consumer, filled: str
) -> None:
    where = TopicPartition(filled, 0)
    take(assigned, 5)
    assert (assigned.position(where), assigned.lag(where)) == (5, 1_495)


def test_seeking_and_pausing(assigned: Consumer, filled: str) -> None:
    where = TopicPartition(filled, 0)
    take(assigned, 5)
    assigned.seek(where, 100)
    assert take(assigned, 2) == [100, 101]
    assigned.seek_to_beginning()
    assert take(assigned, 2) == [0, 1]
    assigned.pause([where])
    assert assigned.poll(5, 50) == []
    assigned.resume([where])
    assert take(assigned, 2) == [2, 3]
    assigned.seek_to_end([where])
    assert assigned.position(where) == 1_500
    assigned.unsubscribe()
    assert assigned.assignment == frozenset()


def test_offsets_can_be_looked_up(assigned: Consumer, filled: str) -> None:
    where = TopicPartition(filled, 0)
    assert assigned.beginning_offsets([where]) == {where: 0}
    assert assigned.end_offsets([where]) == {where: 1_500}
    found = assigned.offsets_for_times({where: 0})[where]
    assert found is not None
    assert found.offset == 0
    assert assigned.partitions_for(filled) == [0, 1]


def test_commits_are_of_what_was_handed_out(bootstrap: str, filled: str, new_name: NewName) -> None:
    group, where = new_name(), TopicPartition(filled, 0)
    is_told = threading.Event()
    with Consumer(
        bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        consumer.subscribe([filled])
        assert take(consumer, 7) == list(range(7))
        consumer.commit()
        assert consumer.committed([where])[where] == OffsetAndMetadata(7, "", -1)
        assert take(consumer, 3) == [7, 8, 9]
        consumer.commit_nowait(callback=lambda _offsets, _error: is_told.set())
        assert is_told.wait(30)
        assert consumer.committed([where])[where] == OffsetAndMetadata(10, "", -1)
        consumer.commit({where: 3})
        assert consumer.committed([where])[where] == OffsetAndMetadata(3, "", -1)


def test_leaving_commits_what_was_handed_out(
    bootstrap: str, filled: str, new_name: NewName
) -> None:
    group = new_name()
    for first in (0, 7, 14):
        with Consumer(bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
            consumer.subscribe([filled])
            assert take(consumer, 7) == list(range(first, first + 7))


def test_a_record_whose_processing_fails_is_read_again(
    bootstrap: str, filled: str, new_name: NewName
) -> None:
    group = new_name()

    def process_until(bad: int) -> None:
        with Consumer(bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
            consumer.subscribe([filled])
            for record in consumer:
                if record.offset == bad:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        process_until(5)
    with Consumer(bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([filled])
        assert take(consumer, 1) == [5]


def test_callbacks_run_in_the_thread_that_reads_and_may_commit(
    bootstrap: str, filled: str, new_name: NewName
) -> None:
    events: list[tuple[str, str, int]] = []
    me = threading.current_thread().name

    def assigned(partitions: Sequence[TopicPartition]) -> None:
        events.append(("assigned", threading.current_thread().name, len(partitions)))

    def revoked(partitions: Sequence[TopicPartition]) -> None:
        consumer.commit()
        events.append(("revoked", threading.current_thread().name, len(partitions)))

    with Consumer(
        bootstrap,
        group_id=new_name(),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        on_partitions_assigned=assigned,
        on_partitions_revoked=revoked,
    ) as consumer:
        consumer.subscribe([filled])
        take(consumer, 3)
        assert events == [("assigned", me, 2)]
    assert events == [("assigned", me, 2), ("revoked", me, 2)]


def test_a_callback_that_fails_fails_the_reading(
    bootstrap: str, filled: str, new_name: NewName
) -> None:
    def assigned(_partitions: Sequence[TopicPartition]) -> None:
        raise ZeroDivisionError

    with Consumer(bootstrap, group_id=new_name(), on_partitions_assigned=assigned) as consumer:
        consumer.subscribe([filled])
        with pytest.raises(ZeroDivisionError):
            consumer.poll(1, 30_000)


def test_outside_its_block_it_is_closed(bootstrap: str) -> None:
    consumer = Consumer(bootstrap)
    with pytest.raises(ClosedError):
        consumer.poll()
    consumer.__exit__(None, None, None)
    with consumer:
        assert consumer.poll(1, 10) == []
    with pytest.raises(ClosedError):
        consumer.poll()


def test_an_error_of_the_application_comes_out_as_it_is(assigned: Consumer) -> None:
    with pytest.raises(ValueError, match="is not assigned"):
        assigned.seek(TopicPartition("other", 0), 1)
