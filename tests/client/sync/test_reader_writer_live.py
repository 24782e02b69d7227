"""The light reader and writer against our broker."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

import minikafka_client as mk
from minikafka.protocol.records import encode_batch
from minikafka.testing import Broker
from minikafka_client.producer_options import Acks
from minikafka_client.sync import AdminClient, Producer, Reader, Writer

NewName = Callable[[], str]

PARTITIONS = 3  # of each topic


def read(bootstrap: str, topic: str, *ranges: tuple[int, int, int]) -> list[tuple[int, int]]:
    """(partition, offset) of what a reader finds in ranges (partition, first, end)."""
    wanted = {mk.TopicPartition(topic, partition): (first, end) for partition, first, end in ranges}
    with Reader(bootstrap, wanted) as reader:
        return sorted((run.partition, offset) for run in reader for offset in run.offsets)


@pytest.mark.parametrize("acks", ["all", 1, 0])
def test_what_is_written_is_read(bootstrap: str, topic: str, acks: Acks) -> None:
    with Writer(bootstrap, acks=acks, batch_size=2_000) as writer:
        for number in range(1_000):
            writer.send(topic, b"%d" % number, partition=number % 3, headers=[("h", b"v")])
        writer.flush()
        assert writer.delivered_records == 1_000
    found = read(bootstrap, topic, (0, 0, 334), (1, 0, 333), (2, 0, 333))
    assert len(found) == 1_000


def test_a_writer_has_the_end_offsets(bootstrap: str, topic: str) -> None:
    with Writer(bootstrap) as writer:
        for _ in range(2):
            for number in range(5):
                writer.send(topic, b"%d" % number, partition=number % 2)
            writer.flush()
        assert writer.end_offsets == {(topic, 0): 6, (topic, 1): 4}


def test_a_range_is_read_exactly(bootstrap: str, topic: str) -> None:
    with Writer(bootstrap) as writer:
        for number in range(100):
            writer.send(topic, b"%d" % number, partition=0)
    assert read(bootstrap, topic, (0, 10, 20), (1, 0, 0)) == [(0, n) for n in range(10, 20)]
    assert read(bootstrap, topic) == []


def test_runs_hand_out_their_batches_undecoded(bootstrap: str, topic: str) -> None:
    with Writer(bootstrap) as writer:
        writer.send(topic, b"value", partition=0)
    with Reader(bootstrap, {mk.TopicPartition(topic, 0): (0, 1)}) as reader:
        [run] = reader
    assert run.batch_positions == [0]
    assert b"value" in bytes(run.payload)


def test_small_memory_reads_all_the_same(bootstrap: str, topic: str) -> None:
    with Writer(bootstrap, batch_size=1_000, buffer_memory=20_000) as writer:
        for number in range(2_000):
            writer.send(topic, b"%050d" % number, partition=number % 3)
    ranges = {mk.TopicPartition(topic, p): (0, 666) for p in range(3)}
    with Reader(
        bootstrap, ranges, max_partition_fetch_bytes=2_000, prefetch_size_bytes_max=5_000
    ) as reader:
        assert sum(len(run) for run in reader) == 3 * 666


def test_encoded_batches_are_sent_as_they_are(bootstrap: str, topic: str) -> None:
    def batch(*values: bytes) -> bytearray:
        return encode_batch([(None, value, (), 7) for value in values])

    with Writer(bootstrap) as writer:
        writer.send(topic, b"before", partition=1)
        writer.send_batch(topic, 1, batch(b"a", b"b"), 2)
        writer.send(topic, b"after", partition=1)
        with pytest.raises(mk.RecordTooLargeError):
            writer.send_batch(topic, 1, bytearray(2_000_000), 1)
    with Reader(bootstrap, {mk.TopicPartition(topic, 1): (0, 4)}) as reader:
        values = [value for run in reader for value in run.values]
    assert values == [b"before", b"a", b"b", b"after"]


def test_large_encoded_batches_wait_for_room(bootstrap: str, topic: str) -> None:
    with Writer(bootstrap, buffer_memory=25_000) as writer:
        for _ in range(10):
            writer.send_batch(topic, 0, encode_batch([(None, bytes(10_000), (), 7)]), 1)
        writer.flush()
        assert writer.delivered_records == 10


def test_an_offset_that_does_not_exist_is_an_error(bootstrap: str, topic: str) -> None:
    with pytest.raises(mk.NoOffsetError, match="has no offset 50"):
        read(bootstrap, topic, (0, 50, 60))


def test_an_end_that_never_comes_is_a_timeout(bootstrap: str, topic: str) -> None:
    ranges = {mk.TopicPartition(topic, 0): (0, 5)}
    with (
        Reader(bootstrap, ranges, patience_ms=300) as reader,
        pytest.raises(mk.RequestTimeoutError, match=f"{topic}-0 at 0 of 5"),
    ):
        list(reader)


def test_failures_come_out_of_flush(bootstrap: str, name: str) -> None:
    with AdminClient(bootstrap) as admin:
        admin.create_topics([mk.NewTopic(name, configs={"max.message.bytes": "1000"})])
    with Writer(bootstrap) as writer:
        writer.send(name, bytes(5_000))
        with pytest.raises(mk.BrokerError, match="MESSAGE_TOO_LARGE"):
            writer.flush()
        writer.send(name, b"small")
        writer.flush()
        assert writer.delivered_records == 1
    with pytest.raises(mk.ClosedError):
        writer.flush()


def test_an_unknown_topic_is_an_error_after_max_block_ms(bootstrap: str, name: str) -> None:
    with (
        Writer(bootstrap, max_block_ms=300) as writer,
        pytest.raises(mk.UnknownTopicError, match=name),
    ):
        writer.send(name, b"v")


def test_an_unreachable_broker_is_a_clear_error() -> None:
    where = {mk.TopicPartition("t", 0): (0, 1)}
    with (
        Reader("127.0.0.1:1", where, patience_ms=300) as reader,
        pytest.raises(mk.RequestTimeoutError, match="cannot connect"),
    ):
        list(reader)
    with Writer("127.0.0.1:1", max_block_ms=300) as writer, pytest.raises(mk.ConnectionLostError):
        writer.send("t", b"v")


def test_a_broker_that_is_killed_and_comes_back_loses_and_doubles_nothing(
    own_broker: Broker, name: str
) -> None:
    bootstrap = own_broker.bootstrap
    with AdminClient(bootstrap) as admin:
        admin.create_topics([mk.NewTopic(name)])
    with Writer(bootstrap, batch_size=1_000) as writer:
        for number in range(1_000):
            writer.send(name, b"%d" % number)
            if number == 500:
                own_broker.kill()
                own_broker.start()
    where = {mk.TopicPartition(name, 0): (0, 1_000)}
    with Reader(bootstrap, where, max_partition_fetch_bytes=2_000) as reader:
        values: list[bytes | None] = []
        for run in reader:
            values += run.values
            if len(values) < 200:
                own_broker.kill()
                own_broker.start()
    assert values == [b"%d" % number for number in range(1_000)]


def test_neither_needs_trio_nor_threads() -> None:
    program = (
        "import sys, threading\n"
        "from minikafka_client.sync import AdminClient, Reader, Writer\n"
        "assert 'trio' not in sys.modules\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_batches_that_a_topic_does_not_take_are_split(bootstrap: str, new_name: NewName) -> None:
    topic = new_name()
    with AdminClient(bootstrap) as admin:
        admin.create_topics([mk.NewTopic(topic, 1, configs={"max.message.bytes": "500"})])
    with Writer(bootstrap) as writer:
        for number in range(500):
            writer.send(topic, b"value %d" % number)
        writer.flush()
        assert writer.delivered_records == 500
        writer.send(topic, b"v" * 1_000)
        with pytest.raises(mk.BrokerError, match="MESSAGE_TOO_LARGE"):
            writer.flush()
    assert len(read(bootstrap, topic, (0, 0, 500))) == 500


def test_handles_of_split_batches_say_where_each_record_is(
    bootstrap: str, new_name: NewName
) -> None:
    topic = new_name()
    with AdminClient(bootstrap) as admin:
        admin.create_topics([mk.NewTopic(topic, 1, configs={"max.message.bytes": "500"})])
    with Producer(bootstrap, linger_ms=50) as producer:
        deliveries = [
            producer.send(topic, b"v" * (1_000 if number == 30 else 10)) for number in range(100)
        ]
        producer.flush()
        assert all(delivery.is_done for delivery in deliveries)
        found = [-1 if each.error else each.result().offset for each in deliveries]
    assert found == [*range(30), -1, *range(30, 99)]
