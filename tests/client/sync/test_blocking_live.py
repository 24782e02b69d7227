"""The blocking producer and consumer against our broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

import minikafka_client as mk
from minikafka_client.sync import AdminClient, Consumer, Delivery, Producer

NewName = Callable[[], str]

PARTITIONS = 2  # of each topic


@pytest.fixture
def filled(bootstrap: str, topic: str) -> str:
    """The same with 1,500 records in its first partition; their values are their offsets."""
    with Producer(bootstrap) as producer:
        for number in range(1_500):
            producer.send(topic, b"%d" % number, partition=0)
    return topic


def end_offsets(bootstrap: str, topic: str) -> list[int]:
    with AdminClient(bootstrap) as admin:
        found = admin.list_offsets({mk.TopicPartition(topic, p): mk.LATEST for p in range(2)})
    return [found[mk.TopicPartition(topic, p)].offset for p in range(2)]


# --- the producer -------------------------------------------------------------------------------


def test_a_delivery_has_the_partition_and_offset(bootstrap: str, topic: str) -> None:
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

    with Producer(bootstrap, batch_size=1_000, buffer_memory=50_000) as producer:
        threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush()
        assert sum(end_offsets(bootstrap, topic)) == 2_000


def test_many_records_at_once(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer:
        sent = producer.send_many(topic, [b"a", None, mk.ProducerRecord(b"c", partition=1)])
        assert [each.result().topic for each in sent] == [topic] * 3
        assert sent[2].result().partition == 1


def test_plain_values_go_into_batches_at_once(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, batch_size=1_000) as producer:
        producer.send(topic, b"opens a batch", partition=0)
        sent = producer.send_many(topic, (b"%d" % number for number in range(5_000)))
        assert len(sent) == 5_000
        with pytest.raises(TimeoutError):
            sent.result(0)
        found = sent.result()
        assert [each.result() for each in sent[10:20]] == found[10:20]
        assert len({(each.partition, each.offset) for each in found}) == 5_000


def test_many_records_fail_together(bootstrap: str, name: str) -> None:
    with AdminClient(bootstrap) as admin:
        admin.create_topics([mk.NewTopic(name, configs={"max.message.bytes": "1000"})])
    with Producer(bootstrap) as producer:
        deliveries = producer.send_many(name, [bytes(5_000)])
        with pytest.raises(mk.BrokerError, match="MESSAGE_TOO_LARGE"):
            deliveries.result()


def test_one_record_can_be_sent_and_waited_for(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer:
        assert producer.send_and_wait(topic, b"v", partition=1).offset == 0
        assert producer.send_and_wait(topic, b"v", b"k", partition=1).offset == 1


def test_send_nowait_waits_for_nothing(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, buffer_memory=20_000, linger_ms=60_000) as producer:
        with pytest.raises(mk.BufferFullError, match="not known yet; use send"):
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
        except mk.BufferFullError:
            return sent
        sent += 1


def test_a_result_may_take_too_long(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, linger_ms=60_000) as producer:
        delivery = producer.send(topic, b"v")
        with pytest.raises(TimeoutError):
            delivery.result(0.01)
        producer.flush()
        assert delivery.result(0).offset == 0


def test_failures_are_raised_by_handles_or_on_leaving(bootstrap: str, name: str) -> None:
    with AdminClient(bootstrap) as admin:
        admin.create_topics([mk.NewTopic(name, configs={"max.message.bytes": "1000"})])
    with Producer(bootstrap) as producer:
        delivery = producer.send(name, bytes(5_000))
        with pytest.raises(mk.BrokerError, match="MESSAGE_TOO_LARGE"):
            delivery.result()
        assert isinstance(delivery.error, mk.BrokerError)
    with pytest.raises(mk.NotDeliveredError), Producer(bootstrap) as producer:
        producer.send(name, bytes(5_000))


def test_an_unknown_topic_is_an_error_after_max_block_ms(bootstrap: str, name: str) -> None:
    with Producer(bootstrap, max_block_ms=300) as producer, pytest.raises(mk.UnknownTopicError):
        producer.send(name, b"v")


def test_leaving_with_an_exception_drops_what_is_not_sent(bootstrap: str, topic: str) -> None:
    producer = Producer(bootstrap, linger_ms=60_000)
    deliveries: list[Delivery] = []

    def fail_inside() -> None:
        with producer:
            deliveries.append(producer.send(topic, b"v"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()
    with pytest.raises(mk.ClosedError, match="closed before 1 records"):
        deliveries[0].result()
    with pytest.raises(mk.ClosedError):
        producer.send(topic, b"v")
    with pytest.raises(mk.ClosedError, match="opened before"), producer:
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
        consumer.assign([mk.TopicPartition(filled, 0)])
        yield consumer


def test_records_come_in_order_by_every_way_of_reading(assigned: Consumer, filled: str) -> None:
    where = mk.TopicPartition(filled, 0)
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
    where = mk.TopicPartition(filled, 0)
    take(assigned, 5)
    assert (assigned.position(where), assigned.lag(where)) == (5, 1_495)


def test_an_iterator_that_is_kept_goes_on_where_the_consumer_is(
    assigned: Consumer, filled: str
) -> None:
    where = mk.TopicPartition(filled, 0)
    records = iter(assigned)
    assert [next(records).offset for _ in range(3)] == [0, 1, 2]
    assert [record.offset for record in assigned.poll(2)] == [3, 4]
    assert next(records).offset == 5
    assigned.seek(where, 100)
    assert assigned.poll(1)[0].offset == 100
    assert next(records).offset == 101
    assert assigned.positions()[where] == mk.OffsetAndMetadata(102, "", 0)


def test_an_argument_may_be_an_iterator_that_uses_the_consumer(
    assigned: Consumer, filled: str
) -> None:
    here = threading.current_thread()

    def partitions() -> Iterator[mk.TopicPartition]:
        assert threading.current_thread() is here
        assert assigned.positions() == {}
        yield mk.TopicPartition(filled, 0)

    assert list(assigned.end_offsets(partitions()).values()) == [1_500]


def test_the_callback_of_a_commit_cannot_use_the_consumer(
    bootstrap: str, filled: str, group: str
) -> None:
    raised: list[BaseException] = []
    is_called = threading.Event()
    where = mk.TopicPartition(filled, 0)

    def use_it(_offsets: object, _error: object) -> None:
        try:
            consumer.positions()
        except RuntimeError as error:
            raised.append(error)
        is_called.set()

    with Consumer(bootstrap, group_id=group) as consumer:
        consumer.assign([where])
        consumer.commit_nowait({where: 3}, callback=use_it)
        assert is_called.wait(30)
    assert "this thread runs the Consumer" in str(raised[0])


def test_seeking_and_pausing(assigned: Consumer, filled: str) -> None:
    where = mk.TopicPartition(filled, 0)
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
    where = mk.TopicPartition(filled, 0)
    assert assigned.beginning_offsets([where]) == {where: 0}
    assert assigned.end_offsets([where]) == {where: 1_500}
    found = assigned.offsets_for_times({where: 0})[where]
    assert found is not None
    assert found.offset == 0
    assert assigned.partitions_for(filled) == [0, 1]


def test_commits_are_of_what_was_handed_out(bootstrap: str, filled: str, name: str) -> None:
    group, where = name, mk.TopicPartition(filled, 0)
    is_called = threading.Event()
    with Consumer(
        bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        consumer.subscribe([filled])
        assert take(consumer, 7) == list(range(7))
        consumer.commit()
        assert consumer.committed([where])[where] == mk.OffsetAndMetadata(7, "", 0)
        assert take(consumer, 3) == [7, 8, 9]
        consumer.commit_nowait(callback=lambda _offsets, _error: is_called.set())
        assert is_called.wait(30)
        assert consumer.committed([where])[where] == mk.OffsetAndMetadata(10, "", 0)
        consumer.commit({where: 3})
        assert consumer.committed([where])[where] == mk.OffsetAndMetadata(3, "", -1)


def test_leaving_commits_what_was_handed_out(bootstrap: str, filled: str, group: str) -> None:
    for first in (0, 7, 14):
        with Consumer(bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
            consumer.subscribe([filled])
            assert take(consumer, 7) == list(range(first, first + 7))


def test_a_record_whose_processing_fails_is_read_again(
    bootstrap: str, filled: str, group: str
) -> None:

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
    bootstrap: str, filled: str, group: str
) -> None:
    events: list[tuple[str, str, int]] = []
    me = threading.current_thread().name

    def assigned(partitions: Sequence[mk.TopicPartition]) -> None:
        events.append(("assigned", threading.current_thread().name, len(partitions)))

    def revoked(partitions: Sequence[mk.TopicPartition]) -> None:
        consumer.commit()
        events.append(("revoked", threading.current_thread().name, len(partitions)))

    with Consumer(
        bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        on_partitions_assigned=assigned,
        on_partitions_revoked=revoked,
    ) as consumer:
        consumer.subscribe([filled])
        take(consumer, 3)
        assert events == [("assigned", me, 2)]
    assert events == [("assigned", me, 2), ("revoked", me, 2)]


def test_a_callback_that_fails_fails_the_reading(bootstrap: str, filled: str, group: str) -> None:
    def assigned(_partitions: Sequence[mk.TopicPartition]) -> None:
        raise ZeroDivisionError

    with Consumer(bootstrap, group_id=group, on_partitions_assigned=assigned) as consumer:
        consumer.subscribe([filled])
        with pytest.raises(ZeroDivisionError):
            consumer.poll(1, 30_000)


def test_outside_its_block_it_is_closed(bootstrap: str) -> None:
    consumer = Consumer(bootstrap)
    with pytest.raises(mk.ClosedError):
        consumer.poll()
    consumer.__exit__(None, None, None)
    with consumer:
        assert consumer.poll(1, 10) == []
    with pytest.raises(mk.ClosedError):
        consumer.poll()


def test_an_error_of_the_application_comes_out_as_it_is(assigned: Consumer) -> None:
    with pytest.raises(ValueError, match="is not assigned"):
        assigned.seek(mk.TopicPartition("other", 0), 1)


def test_a_call_of_another_thread_ends_when_the_block_is_left(bootstrap: str, topic: str) -> None:
    raised: list[BaseException] = []
    is_waiting = threading.Event()

    def wait_for_records() -> None:
        is_waiting.set()
        try:
            consumer.poll()
        except mk.ClosedError as error:
            raised.append(error)

    with Consumer(bootstrap) as consumer:
        consumer.assign([mk.TopicPartition(topic, 0)])
        thread = threading.Thread(target=wait_for_records)
        thread.start()
        assert is_waiting.wait(30)
        assert consumer.position(mk.TopicPartition(topic, 0)) == 0
    thread.join(30)
    assert [type(error) for error in raised] == [mk.ClosedError]
