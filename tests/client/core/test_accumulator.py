"""Where records wait, how large batches get, and what they may take together."""

from __future__ import annotations

import contextlib

import pytest

from minikafka_client.core import accumulator
from minikafka_client.core.appender import Appender, NoMetadata, NoRoom, Partitioner
from minikafka_client.core.cluster import Cluster
from minikafka_client.core.producer_batch import BatchState, ProducerBatch
from minikafka_client.errors import RecordTooLargeError, SerializationError, UnknownTopicError
from minikafka_client.partitioner import partition_for_key
from tests.client.core.sender_world import TOPIC, metadata


class Setup:
    """An accumulator with an appender in front; partitions of nodes 1 and 2, or without leader."""

    def __init__(
        self,
        *leaders: int,
        batch_size: int = 64 * 1024,
        buffer_memory: int = 200_000,
        partitioner: Partitioner | None = None,
        record_size_bytes_max: int = 100_000,
        dice: float = 0.0,
    ) -> None:
        self.cluster = Cluster([("h", 1)])
        if leaders:
            self.cluster.update(metadata(leaders), 0.0)
        self.accumulator = accumulator.Accumulator(
            batch_size=batch_size, buffer_memory=buffer_memory, delivery_timeout_s=10.0
        )
        self.opened: list[ProducerBatch] = []
        self.full = 0
        self.appender = Appender(
            self.cluster,
            self.accumulator,
            accumulator.StickyPartitions(lambda: dice),
            partitioner,
            record_size_bytes_max,
            clock=lambda: 5.0,
            on_opened=self.opened.append,
            on_full=self._on_full,
        )

    def _on_full(self) -> None:
        self.full += 1

    def send(
        self,
        value: bytes | None = b"v",
        key: bytes | None = None,
        partition: int | None = None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
    ) -> tuple[ProducerBatch, int]:
        return self.appender.append(TOPIC, value, key, partition, 1, headers)

    def check_memory(self) -> None:
        reserved = sum(batch.reserved_bytes for batch in self.accumulator.batches())
        assert self.accumulator.used_bytes == reserved <= self.accumulator.buffer_memory


def test_an_unknown_topic_must_be_looked_up_first() -> None:
    setup = Setup()
    for key in (None, b"k"):
        with pytest.raises(NoMetadata):
            setup.send(key=key)
    assert setup.opened == []


def test_records_without_a_key_stick_together_until_their_batch_is_closed() -> None:
    setup = Setup(1, 2, 1)
    batches = [setup.send()[0] for _ in range(5)]
    assert len({id(batch) for batch in batches}) == 1
    assert (setup.opened, setup.full) == (batches[:1], 0)
    setup.accumulator.close_all()
    assert batches[0].state is BatchState.READY
    other, index = setup.send()
    assert index == 0
    assert other.partition != batches[0].partition


def test_a_full_sticky_batch_is_closed_and_another_partition_chosen() -> None:
    setup = Setup(1, 2)
    first, _ = setup.send(bytes(10_000))
    second, _ = setup.send(bytes(10_000))
    assert first.state is BatchState.READY
    assert {first.partition, second.partition} == {0, 1}
    assert setup.full == 1


def test_partitions_without_a_leader_are_chosen_only_if_there_is_no_other() -> None:
    setup = Setup(-1, 2, -1, dice=0.99)
    assert {setup.send(bytes(10_000))[0].partition for _ in range(4)} == {1}
    alone = Setup(-1, -1)
    assert alone.send()[0].partition in (0, 1)


def test_keys_have_their_partition_and_their_batch() -> None:
    setup = Setup(1, 2, 1)
    for key in (b"a", b"b", b"c", b"a"):
        batch, _ = setup.send(key=key)
        assert batch.partition == partition_for_key(key, 3)
    assert setup.send(key=b"a")[1] >= 2


def test_a_full_keyed_batch_is_followed_by_another_of_the_same_partition() -> None:
    setup = Setup(1, 2)
    first, _ = setup.send(bytes(10_000), b"k")
    second, _ = setup.send(bytes(10_000), b"k")
    assert first.partition == second.partition
    assert (first.state, second.state) == (BatchState.READY, BatchState.OPEN)
    assert setup.full == 1


def test_sticky_and_named_records_of_a_partition_share_its_batch() -> None:
    setup = Setup(1)
    sticky, _ = setup.send()
    named, index = setup.send(partition=0)
    assert (named, index) == (sticky, 1)


def test_the_applications_partitioner_decides_about_all() -> None:
    setup = Setup(1, 2, 1, partitioner=lambda topic, key, value, count: count - 1)
    assert setup.send()[0].partition == 2
    assert setup.send(key=b"k")[0].partition == 2
    assert setup.send(partition=0)[0].partition == 0
    wrong = Setup(1, partitioner=lambda topic, key, value, count: count)
    with pytest.raises(UnknownTopicError, match="partition 1 of topic 'topic', which has 1"):
        wrong.send()


def test_what_is_too_large_or_no_bytes_is_refused() -> None:
    setup = Setup(1, record_size_bytes_max=1_000)
    for key in (None, b"k"):
        with pytest.raises(RecordTooLargeError, match="allow 1000"):
            setup.send(bytes(1_000), key)
    with pytest.raises(RecordTooLargeError):
        setup.send(b"", headers=(("ü" * 300, None),))
    with pytest.raises(SerializationError, match="the value is str"):
        setup.send("text")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(SerializationError, match="the key is int"):
        setup.send(b"", 5)  # type: ignore[arg-type]  # on purpose
    assert setup.opened == []


def test_batches_grow_while_they_are_filled_and_shrink_when_they_are_not() -> None:
    setup = Setup(1, batch_size=100_000, buffer_memory=1_000_000)
    sizes: list[int] = []
    for _ in range(400):
        batch, index = setup.send(bytes(1_000))
        if index == 0:
            sizes.append(batch.reserved_bytes)
    first = accumulator.FIRST_BATCH_SIZE_BYTES
    assert sizes == [first, 2 * first, 4 * first, 100_000, 100_000, 100_000]
    queue = setup.accumulator.queues[TOPIC, 0]
    for _ in range(10):
        setup.accumulator.close_all()
        setup.send(b"small")
    assert queue.batch_size == first
    setup.check_memory()


def test_a_batch_is_large_enough_for_its_first_record() -> None:
    setup = Setup(1)
    batch, index = setup.send(bytes(50_000), bytes(10))
    assert index == 0
    assert batch.reserved_bytes > 50_000
    setup.check_memory()


@pytest.mark.parametrize("key", [None, b"k"])
def test_memory_is_given_out_until_it_is_used_up(key: bytes | None) -> None:
    setup = Setup(1, buffer_memory=50_000)
    for _ in range(40):
        setup.send(bytes(1_000), key)
        setup.check_memory()
    with contextlib.suppress(NoRoom):
        for _ in range(10):
            setup.send(bytes(1_000), key)
    setup.check_memory()
    full = setup.full
    with pytest.raises(NoRoom):
        setup.send(bytes(1_000), key)
    assert setup.full > full
    done = setup.accumulator.batches()[0]
    setup.accumulator.remove(done)
    setup.check_memory()
    setup.send(bytes(1_000), key)


def test_the_last_batch_takes_what_memory_is_left() -> None:
    setup = Setup(1, buffer_memory=accumulator.FIRST_BATCH_SIZE_BYTES + 5_000)
    setup.send(bytes(10_000), partition=0)
    small, _ = setup.send(bytes(10_000), partition=0)
    assert small.reserved_bytes < accumulator.FIRST_BATCH_SIZE_BYTES
    setup.check_memory()


def test_batches_from_elsewhere_keep_their_place() -> None:
    setup = Setup(1, buffer_memory=30_000)
    before, _ = setup.send(partition=0)
    built = setup.accumulator.add_built(TOPIC, 0, bytearray(10_000), 3, 5.0)
    assert built is not None
    after, _ = setup.send(partition=0)
    assert setup.accumulator.batches() == [before, built, after]
    assert before.state is BatchState.READY
    setup.check_memory()
    assert setup.accumulator.add_built(TOPIC, 1, bytearray(25_000), 3, 5.0) is None
    assert setup.accumulator.add_built(TOPIC, 1, bytearray(1_000), 3, 5.0) is not None
    setup.check_memory()
    setup.accumulator.close_all()
    assert setup.accumulator.queues[TOPIC, 1].open is None


def test_removing_finds_a_batch_wherever_it_is() -> None:
    setup = Setup(1)
    ready, _ = setup.send(partition=0)
    setup.accumulator.close_all()
    still_open, _ = setup.send(partition=0)
    queue = setup.accumulator.queues[TOPIC, 0]
    sent = queue.ready.popleft()
    queue.unacknowledged.append(sent)
    for batch in (still_open, ready):
        setup.accumulator.remove(batch)
    assert setup.accumulator.active == {}
    assert setup.accumulator.used_bytes == 0
    assert not queue
