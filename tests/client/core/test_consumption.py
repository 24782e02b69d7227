"""What counts as consumed, and what as processed."""

from __future__ import annotations

from minikafka.protocol.records import encode_batch
from minikafka_client.core.consumption import Consumption, Iteration
from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.core.partition_reader import PartitionReader
from minikafka_client.types import OffsetAndMetadata, TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def run_of(where: TopicPartition, first: int, count: int) -> ConsumedBatch:
    records = [(None, b"v", (), 1)] * count
    payload = bytes(encode_batch(records, base_offset=first, partition_leader_epoch=2))
    return ConsumedBatch(where, memoryview(payload), first)


def reader_at(where: TopicPartition, offset: int) -> PartitionReader:
    reader = PartitionReader(where)
    reader.seek(offset)
    return reader


def current_of(consumption: Consumption) -> Iteration | None:
    """The current run now (a type checker would believe that it stays as it was asserted)."""
    return consumption.current


def test_one_by_one_the_last_record_is_still_in_process() -> None:
    consumption, reader = Consumption(), reader_at(A, 5)
    iteration = consumption.begin(reader, run_of(A, 5, 3))
    consumption.one_by_one()
    assert (consumption.position(reader), consumption.processed(reader).offset) == (5, 5)
    assert next(iteration.iterator).offset == 5
    assert (consumption.position(reader), consumption.processed(reader).offset) == (6, 5)
    assert next(iteration.iterator).offset == 6
    assert (consumption.position(reader), consumption.processed(reader).offset) == (7, 6)
    consumption.asked_for_more()
    assert consumption.processed(reader).offset == 7
    assert current_of(consumption) is iteration
    consumption.one_by_one()
    next(iteration.iterator)
    assert iteration.is_over
    consumption.asked_for_more()
    assert current_of(consumption) is None
    assert (consumption.position(reader), consumption.processed(reader).offset) == (8, 8)


def test_what_is_taken_together_is_processed_together() -> None:
    consumption, a, b = Consumption(), reader_at(A, 0), reader_at(B, 10)
    records = consumption.take(consumption.begin(a, run_of(A, 0, 3)), 5)
    iteration = consumption.begin(b, run_of(B, 10, 4))
    records += consumption.take(iteration, 2)
    assert [record.offset for record in records] == [0, 1, 2, 10, 11]
    assert consumption.positions([a, b]) == {
        A: OffsetAndMetadata(3, "", 2),
        B: OffsetAndMetadata(12, "", 2),
    }
    assert [consumption.processed(a).offset, consumption.processed(b).offset] == [0, 10]
    consumption.asked_for_more()
    assert [consumption.processed(a).offset, consumption.processed(b).offset] == [3, 12]
    assert consumption.take(iteration, 5)[0].offset == 12


def test_a_whole_run_is_in_process_until_the_next_request() -> None:
    consumption, reader = Consumption(), reader_at(A, 0)
    consumption.take_run(reader, run_of(A, 0, 4))
    assert (consumption.position(reader), consumption.processed(reader).offset) == (4, 0)
    consumption.asked_for_more()
    assert consumption.all_processed([reader]) == {A: OffsetAndMetadata(4, "", 2)}


def test_a_seek_ends_the_run() -> None:
    consumption, reader = Consumption(), reader_at(A, 0)
    iteration = consumption.begin(reader, run_of(A, 0, 4))
    consumption.one_by_one()
    next(iteration.iterator)
    reader.seek(2)
    assert iteration.is_over
    assert (consumption.position(reader), consumption.processed(reader).offset) == (2, 2)
    consumption.asked_for_more()
    assert current_of(consumption) is None
    assert reader.position == 2


def test_a_partition_without_a_position_commits_nothing() -> None:
    assert Consumption().positions([PartitionReader(A)]) == {}


def test_an_unread_run_has_given_nothing() -> None:
    consumption, reader = Consumption(), reader_at(A, 3)
    iteration = consumption.begin(reader, run_of(A, 0, 5).rest(3))
    assert (iteration.given, iteration.last_given, iteration.position) == (0, None, 3)


def test_lag_is_known_after_the_first_fetch() -> None:
    def lag(position: int | None, end_offset: int) -> int | None:
        reader = PartitionReader(A)
        if position is not None:
            reader.seek(position)
        reader.end_offset = end_offset
        return reader.lag

    assert [lag(None, 10), lag(4, -1), lag(4, 10), lag(11, 10)] == [None, None, 6, 0]


def test_offsets_carry_the_leader_epoch_of_the_record_before_them() -> None:
    payload = b"".join(
        bytes(
            encode_batch(
                [(None, b"v", (), 1)] * 2, base_offset=2 * epoch, partition_leader_epoch=epoch
            )
        )
        for epoch in (0, 1, 2)
    )
    consumption, reader = Consumption(), reader_at(A, 0)
    reader.take(ConsumedBatch(A, memoryview(payload), 0))
    iteration = consumption.begin(reader, reader.fetched.popleft())
    consumption.one_by_one()
    epochs: list[tuple[int, int]] = []
    for _ in iteration.iterator:
        [given] = consumption.positions([reader]).values()
        [processed] = consumption.all_processed([reader]).values()
        epochs.append((given.leader_epoch, processed.leader_epoch))
    assert epochs == [(0, -1), (0, 0), (1, 0), (1, 1), (2, 1), (2, 2)]
    consumption.asked_for_more()
    assert consumption.all_processed([reader]) == {A: OffsetAndMetadata(6, "", 2)}
    assert iteration.run.rest(3).leader_epoch_before(3) == 1


def test_a_run_without_records_is_skipped() -> None:
    reader = reader_at(A, 5)
    reader.skip(run_of(A, 5, 3))
    assert Consumption().positions([reader]) == {A: OffsetAndMetadata(8, "", 2)}
    assert Consumption().all_processed([reader]) == {A: OffsetAndMetadata(8, "", 2)}
