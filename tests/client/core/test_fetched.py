from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol import records as record_format
from minikafka.protocol.records.errors import CorruptBatchError
from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.errors import CorruptRecordsError
from minikafka_client.types import ConsumerRecord, TopicPartition

WHERE = TopicPartition("t", 3)


def batch(base_offset: int, *values: bytes, **fields: object) -> bytes:
    records = [(None, value, (), 1000 + n) for n, value in enumerate(values)]
    return bytes(record_format.encode_batch(records, base_offset=base_offset, **fields))  # type: ignore[arg-type]  # fields of a batch


def marker(base_offset: int, producer_id: int, control_type: record_format.ControlType) -> bytes:
    return bytes(
        record_format.encode_control_batch(
            control_type,
            coordinator_epoch=1,
            base_offset=base_offset,
            timestamp=1,
            producer_id=producer_id,
            producer_epoch=0,
        )
    )


def fetched(payload: bytes, offset: int = 0, **options: object) -> ConsumedBatch:
    return ConsumedBatch(WHERE, memoryview(payload), offset, **options)  # type: ignore[arg-type]  # options


def test_records_and_columns_agree() -> None:
    records = [(b"k", b"v", (("h", b"1"), ("h", None)), 5), (None, None, (), 6)]
    run = fetched(
        bytes(record_format.encode_batch(records, base_offset=7, partition_leader_epoch=4)), 7
    )
    assert len(run) == 2
    assert run.records == [
        ConsumerRecord("t", 3, 7, 5, b"k", b"v", (("h", b"1"), ("h", None))),
        ConsumerRecord("t", 3, 8, 6, None, None, ()),
    ]
    assert run.offsets == [7, 8]
    assert run.timestamps_ms == [5, 6]
    assert run.keys == [b"k", None]
    assert run.values == [b"v", None]
    assert run.headers == [(("h", b"1"), ("h", None)), ()]
    assert (run.topic, run.partition, run.next_offset, run.leader_epoch) == ("t", 3, 9, 4)


def test_records_before_the_offset_asked_for_are_left_out() -> None:
    payload = batch(0, b"a", b"b") + batch(2, b"c", b"d", b"e")
    run = fetched(payload, 3)
    assert run.values == [b"d", b"e"]
    assert len(run.batch_positions) == 1


def test_a_partial_batch_at_the_end_is_for_the_next_fetch() -> None:
    whole = batch(0, b"a")
    run = fetched(whole + batch(1, b"b")[:-1])
    assert run.values == [b"a"]
    assert run.next_offset == 1


def test_a_run_can_be_cut_at_both_ends() -> None:
    run = fetched(batch(0, b"a", b"b", b"c", b"d"))
    assert run.values == [b"a", b"b", b"c", b"d"]
    assert run.rest(1).values == [b"b", b"c", b"d"]
    assert run.until(3).rest(1).values == [b"b", b"c"]
    assert [record.offset for record in run.rest(2).records] == [2, 3]
    assert run.values == [b"a", b"b", b"c", b"d"]


def test_what_compaction_left_of_a_batch_may_be_nothing() -> None:
    run = fetched(bytes(record_format.encode_batch([], base_offset=4, last_offset_delta=5)), 4)
    assert (len(run), run.next_offset) == (0, 10)


def test_markers_are_never_shown() -> None:
    run = fetched(batch(0, b"a") + marker(1, 9, record_format.ControlType.COMMIT) + batch(2, b"b"))
    assert run.values == [b"a", b"b"]
    run = fetched(batch(0, b"a") + marker(1, 9, record_format.ControlType.ABORT))
    assert (run.values, run.next_offset) == ([b"a"], 2)


def transactional(base_offset: int, producer_id: int, *values: bytes) -> bytes:
    return batch(
        base_offset,
        *values,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def test_read_committed_hides_aborted_transactions_only() -> None:
    payload = (
        transactional(0, 1, b"aborted 1")
        + transactional(1, 2, b"committed 2")
        + batch(2, b"plain")
        + marker(3, 1, record_format.ControlType.ABORT)
        + transactional(4, 1, b"committed 1")
        + marker(5, 2, record_format.ControlType.COMMIT)
        + marker(6, 1, record_format.ControlType.COMMIT)
        + transactional(7, 1, b"aborted again")
    )
    aborted = [(1, 7), (1, 0)]
    run = fetched(payload, aborted=aborted)
    assert run.values == [b"committed 2", b"plain", b"committed 1"]
    assert run.next_offset == 8
    everything = fetched(payload)
    assert len(everything) == 5


def test_a_control_batch_without_a_record_hides_nothing_else() -> None:
    payload = (
        transactional(0, 1, b"aborted")
        + bytes(record_format.encode_batch([], base_offset=1, producer_id=1, is_control=True))
        + transactional(2, 1, b"still aborted")
    )
    assert fetched(payload, aborted=[(1, 0)]).values == []


def test_damaged_records_are_refused_when_they_are_looked_at() -> None:
    payload = bytearray(batch(5, b"abc"))
    payload[-2] ^= 1
    run = fetched(bytes(payload), 5)
    with pytest.raises(CorruptRecordsError, match="at offset 5 of partition 3 of topic 't'"):
        len(run)
    assert fetched(bytes(payload), 5, check_crcs=False).offsets == [5]


def test_an_absurd_count_of_records_names_its_batch_and_the_next() -> None:
    count = 2**31 - 1
    poison = record_format.assemble_batch(
        b"\x0e\x00\x00\x00\x01\x02v\x00",
        base_offset=6,
        record_count=count,
        last_offset_delta=count - 1,
        base_timestamp=5,
        max_timestamp=5,
    )
    run = fetched(batch(5, b"abc") + bytes(poison), 5)
    with pytest.raises(CorruptRecordsError) as caught:
        len(run)
    assert (caught.value.offset, caught.value.next_offset) == (6, 6 + count)
    before, rest = run.split(caught.value.offset)
    assert before.offsets == [5]
    with pytest.raises(CorruptRecordsError):
        len(rest)


def test_garbage_instead_of_a_batch_is_refused_immediately() -> None:
    with pytest.raises(CorruptBatchError):
        fetched(bytes(100))


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    first=st.integers(0, 20),
    end=st.integers(0, 20),
    compression=st.sampled_from(list(record_format.Compression)),
)
def test_every_range_is_what_it_says(
    sizes: list[int], first: int, end: int, compression: record_format.Compression
) -> None:
    payload = b""
    offset = 0
    for size in sizes:
        values = [b"%d" % (offset + each) for each in range(size)]
        payload += batch(offset, *values, compression=compression)
        offset += size
    run = fetched(payload, first).until(end)
    assert run.offsets == list(range(first, min(end, offset)))
    assert run.values == [b"%d" % each for each in run.offsets]
