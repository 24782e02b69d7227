"""Encoding records into batches, one by one and all together."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol import records
from minikafka.protocol.records.batch import BATCH_SIZE_BYTES_MAX
from tests.protocol.records.strategies import RecordInput, batch_fields, record_inputs, record_lists

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
EXTREMES = [INT64_MIN, INT64_MIN + 1, INT64_MIN + 5000, INT64_MAX - 5000, INT64_MAX - 1, INT64_MAX]


def record(offset: int, given_record: RecordInput) -> records.Record:
    key, value, headers, timestamp = given_record
    return records.Record(offset, timestamp, key, value, tuple(headers))


@given(inputs=record_lists, fields=batch_fields)
def test_a_batch_holds_what_was_appended(
    inputs: list[RecordInput], fields: records.BatchFields
) -> None:
    builder = records.BatchBuilder()
    for key, value, headers, timestamp in inputs:
        assert builder.append(key, value, timestamp, headers)
    encoded = builder.build(**fields)
    assert encoded == records.encode_batch(inputs, **fields)
    base_offset = fields.get("base_offset", 0)
    assert records.decode_records(encoded, check_crc=True) == [
        record(base_offset + index, given_record) for index, given_record in enumerate(inputs)
    ]
    assert builder.record_count == builder.next_offset_delta == len(inputs)
    assert builder.max_timestamp == max(timestamp for *_, timestamp in inputs)


@given(
    sizes=st.lists(st.one_of(st.integers(0, 200), st.sampled_from([8100, 8191, 8192, 20_000]))),
    keys=st.lists(st.sampled_from([None, b"", b"k", b"k" * 70]), min_size=1),
    ticks=st.lists(st.sampled_from([0, 0, 0, 0, 1, 64, 10_000]), min_size=1),
)
def test_the_fast_path_for_similar_records_makes_no_difference(
    sizes: list[int], keys: list[bytes | None], ticks: list[int]
) -> None:
    builder = records.BatchBuilder()
    expected: list[records.Record] = []
    timestamp = 1_700_000_000_000
    for index, size in enumerate(sizes * 3):
        key = keys[index % len(keys)]
        timestamp += ticks[index % len(ticks)]
        value = b"%d" % (index % 10) * size
        size_bytes = builder.size_bytes
        assert builder.append(key, value, timestamp)
        assert builder.size_bytes > size_bytes
        expected.append(records.Record(index, timestamp, key, value))
    encoded = builder.build()
    assert records.decode_records(encoded) == expected
    assert len(encoded) == builder.size_bytes


def test_offset_deltas_of_one_two_and_three_bytes() -> None:
    builder = records.BatchBuilder()
    count = 8192 + 100
    assert builder.append_many([b"v"] * count, 1000) == count
    encoded = builder.build()
    assert len(encoded) == builder.size_bytes
    assert records.decode_records(encoded) == [
        records.Record(offset, 1000, None, b"v") for offset in range(count)
    ]


def test_more_lengths_than_are_cached() -> None:
    values = [b"x" * (length % 1500) for length in range(3000)]
    builder = records.BatchBuilder()
    assert builder.append_many(values, 1000) == 3000
    assert [found.value for found in records.decode_records(builder.build())] == values


@given(inputs=st.lists(record_inputs, min_size=1, max_size=40), limit=st.integers(61, 2000))
def test_a_full_batch_refuses_records_and_does_not_change(
    inputs: list[RecordInput], limit: int
) -> None:
    builder = records.BatchBuilder(size_bytes_max=limit)
    accepted: list[RecordInput] = []
    for given_record in inputs:
        key, value, headers, timestamp = given_record
        before = builder.build() if accepted else None
        if builder.append(key, value, timestamp, headers):
            accepted.append(given_record)
        else:
            assert builder.build() == before
            assert len(records.encode_batch([*accepted, given_record])) > limit
    encoded = builder.build()
    assert encoded == records.encode_batch(accepted)
    assert accepted[0] == inputs[0]
    assert len(encoded) == builder.size_bytes
    assert len(encoded) <= limit or len(accepted) == 1


@pytest.mark.parametrize("count", [1, 5, 70])
def test_values_are_appended_up_to_the_limit(count: int) -> None:
    exact = records.BatchBuilder()
    assert exact.append_many([b"v" * 100] * count, 1000) == count
    builder = records.BatchBuilder(size_bytes_max=exact.size_bytes)
    assert builder.append_many([b"v" * 100] * (count + 3), 1000) == count
    assert not builder.append(None, b"v" * 100, 1000)
    assert not builder.append(b"k", b"v" * 100, 1000)
    assert builder.build() == exact.build()


@given(
    chunks=st.lists(
        st.tuples(
            st.lists(st.integers(0, 100).map(lambda size: b"v" * size), max_size=80),
            st.sampled_from([1000, 1001]),
        ),
        max_size=4,
    ),
    limit=st.integers(61, 3000),
)
def test_appending_many_values_equals_appending_them_one_by_one(
    chunks: list[tuple[list[bytes], int]], limit: int
) -> None:
    at_once = records.BatchBuilder(size_bytes_max=limit)
    one_by_one = records.BatchBuilder(size_bytes_max=limit)
    for values, timestamp in chunks:
        appended = at_once.append_many(values, timestamp)
        assert [one_by_one.append(None, value, timestamp) for value in values[:appended]] == [
            True
        ] * appended
        if appended < len(values):
            assert not one_by_one.append(None, values[appended], timestamp)
    assert at_once.build() == one_by_one.build()
    assert at_once.size_bytes == one_by_one.size_bytes
    assert at_once.record_count == one_by_one.record_count
    assert at_once.next_offset_delta == one_by_one.next_offset_delta
    assert at_once.max_timestamp == one_by_one.max_timestamp


def test_values_before_an_error_are_kept() -> None:
    def values() -> Iterator[bytes]:
        yield from [b"one", b"two", b"six"]
        raise LookupError("no more values")

    builder = records.BatchBuilder()
    with pytest.raises(LookupError, match="no more values"):
        builder.append_many(values(), 1000)
    with pytest.raises(ValueError, match="timestamp"):
        builder.append_many([b"ten"], 1 << 63)
    assert builder.record_count == 3
    encoded = builder.build()
    assert [found.value for found in records.decode_records(encoded)] == [b"one", b"two", b"six"]
    assert len(encoded) == builder.size_bytes


def test_a_refused_timestamp_does_not_become_the_largest() -> None:
    builder = records.BatchBuilder(size_bytes_max=80)
    assert builder.append(None, b"v", 1000)
    assert not builder.append(None, b"v" * 100, 2000)
    assert builder.max_timestamp == 1000
    assert records.parse_batch_header(builder.build()).max_timestamp == 1000


def test_it_may_be_built_again_and_appended_to() -> None:
    builder = records.BatchBuilder()
    builder.append(None, b"one", 1)
    first = builder.build(producer_id=1, producer_epoch=0, base_sequence=0)
    second = builder.build(producer_id=1, producer_epoch=1, base_sequence=0)
    assert records.parse_batch_header(first).producer_epoch == 0
    assert records.parse_batch_header(second).producer_epoch == 1
    builder.append(None, b"two", 2)
    assert [found.value for found in records.decode_records(builder.build())] == [b"one", b"two"]


def test_a_batch_without_records_is_a_header() -> None:
    encoded = records.BatchBuilder().build(
        last_offset_delta=4, producer_id=9, compression=records.Compression.ZSTD
    )
    header = records.parse_batch_header(encoded, must_be_whole=True)
    assert header.size_bytes == 61
    assert (header.record_count, header.last_offset_delta) == (0, 4)
    assert (header.base_timestamp, header.max_timestamp) == (-1, -1)
    assert records.crc_is_valid(encoded, 0, header)
    assert records.decode_records(encoded) == []


@given(inputs=record_lists, fields=batch_fields, append_time=st.integers(0, 1 << 50))
def test_log_append_time_replaces_every_timestamp(
    inputs: list[RecordInput], fields: records.BatchFields, append_time: int
) -> None:
    encoded = records.encode_batch(inputs, log_append_time_ms=append_time, **fields)
    header = records.parse_batch_header(encoded)
    assert header.has_log_append_time
    assert header.max_timestamp == append_time
    assert {found.timestamp for found in records.decode_records(encoded)} == {append_time}


@given(inputs=record_lists, horizon=st.integers(0, 1 << 50))
def test_timestamps_are_relative_to_the_delete_horizon(
    inputs: list[RecordInput], horizon: int
) -> None:
    encoded = records.encode_batch(inputs, delete_horizon_ms=horizon)
    header = records.parse_batch_header(encoded)
    assert header.has_delete_horizon
    assert header.base_timestamp == horizon
    found = [found.timestamp for found in records.decode_records(encoded)]
    assert found == [timestamp for *_, timestamp in inputs]


@given(
    inputs=record_lists,
    gaps=st.lists(st.integers(1, 10_000), min_size=6, max_size=6),
    more=st.integers(0, 5),
)
def test_offsets_may_have_gaps(inputs: list[RecordInput], gaps: list[int], more: int) -> None:
    deltas = [sum(gaps[: index + 1]) for index in range(len(inputs))]
    encoded = records.encode_batch(
        inputs, offset_deltas=deltas, last_offset_delta=deltas[-1] + more, base_offset=1000
    )
    assert records.parse_batch_header(encoded).last_offset == 1000 + deltas[-1] + more
    assert records.decode_records(encoded) == [
        record(1000 + delta, given_record)
        for delta, given_record in zip(deltas, inputs, strict=True)
    ]


ONE_RECORD: list[RecordInput] = [(None, b"v", [], 1000)]


@pytest.mark.parametrize("deltas", [[], [0, 1]])
def test_as_many_offset_deltas_as_records(deltas: list[int]) -> None:
    with pytest.raises(ValueError, match=f"{len(deltas)} offset deltas for 1 records"):
        records.encode_batch(ONE_RECORD, offset_deltas=deltas)


@pytest.mark.parametrize("deltas", [[5, 5], [5, 4], [-1, 0], [0, 1 << 31]])
def test_offset_deltas_increase_and_fit(deltas: list[int]) -> None:
    with pytest.raises(ValueError, match=r"offset delta -?\d+ is not between"):
        records.encode_batch(ONE_RECORD * 2, offset_deltas=deltas)


def test_the_last_offset_delta_is_not_before_the_last_record() -> None:
    with pytest.raises(ValueError, match="last_offset_delta 1 is before the last record"):
        records.encode_batch(ONE_RECORD * 3, last_offset_delta=1)


def test_the_largest_offset_delta_is_the_end() -> None:
    builder = records.BatchBuilder()
    builder.skip_to((1 << 31) - 1)
    assert builder.append(None, b"v", 1000)
    assert not builder.append(None, b"v", 1000)


class LongBytes(bytes):
    """Claims to be longer than it is, so that tests do not need gigabytes."""

    def __len__(self) -> int:
        return BATCH_SIZE_BYTES_MAX


def test_a_record_too_large_for_any_batch() -> None:
    builder = records.BatchBuilder()
    with pytest.raises(ValueError, match="a record of 2147483662 bytes exceeds any batch"):
        builder.append(None, LongBytes(), 1000)
    assert builder.append(None, b"v", 1000)
    assert not builder.append(None, LongBytes(), 1000)
    with pytest.raises(ValueError, match="more than 1 records do not fit into a batch"):
        records.encode_batch([*ONE_RECORD, (None, LongBytes(), [], 1000)])


@pytest.mark.parametrize("timestamp", [INT64_MIN - 1, INT64_MAX + 1])
def test_timestamps_have_64_bits(timestamp: int) -> None:
    with pytest.raises(ValueError, match=f"timestamp {timestamp} does not fit into 64 bits"):
        records.BatchBuilder().append(None, b"v", timestamp)


@given(st.lists(st.one_of(st.integers(INT64_MIN, INT64_MAX), st.sampled_from(EXTREMES))))
def test_timestamps_as_far_apart_as_possible(timestamps: list[int]) -> None:
    encoded = records.encode_batch([(None, b"v", [], timestamp) for timestamp in timestamps])
    assert [found.timestamp for found in records.decode_records(encoded)] == timestamps


@pytest.mark.parametrize(
    "fields",
    [
        records.BatchFields(producer_id=1 << 63),
        records.BatchFields(producer_epoch=1 << 15),
        records.BatchFields(base_sequence=1 << 31),
        records.BatchFields(base_offset=-(1 << 63) - 1),
        records.BatchFields(partition_leader_epoch=1 << 31),
    ],
)
def test_a_field_that_does_not_fit_into_the_header(fields: records.BatchFields) -> None:
    with pytest.raises(ValueError, match="does not fit into a batch header"):
        records.encode_batch(ONE_RECORD, **fields)


@pytest.mark.parametrize("inputs", [[], ONE_RECORD])
def test_an_unknown_level_is_an_error_even_without_records(inputs: list[RecordInput]) -> None:
    with pytest.raises(ValueError, match="GZIP level 11"):
        records.encode_batch(inputs, compression=records.Compression.GZIP, level=11)


def test_a_level_is_used() -> None:
    inputs: list[RecordInput] = [(None, b"%d" % (n * n), [], 1000) for n in range(1000)]
    quick = records.encode_batch(inputs, compression=records.Compression.GZIP, level=1)
    small = records.encode_batch(inputs, compression=records.Compression.GZIP, level=9)
    assert len(small) < len(quick)
    assert records.decode_records(small) == records.decode_records(quick)
