from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.records import Compression, decode_records, parse_batch_header
from minikafka_client.core.producer_batch import BatchState, ProducerBatch
from minikafka_client.errors import KafkaError
from minikafka_client.types import Headers

Sent = tuple[bytes | None, bytes | None, int, Headers]

PLAIN = st.tuples(st.none(), st.binary(max_size=40), st.integers(5, 7), st.just(()))
RICH = st.tuples(
    st.none() | st.binary(max_size=5),
    st.none() | st.binary(max_size=5),
    st.integers(5, 7),
    st.just(()) | st.just((("h", b"v"),)),
)


def new_batch(size_bytes_max: int = 10_000) -> ProducerBatch:
    return ProducerBatch("t", 0, size_bytes_max, now=1.0, deadline=2.0)


def encoded(batch: ProducerBatch) -> bytes:
    batch.build(Compression.NONE, None)
    assert batch.payload is not None
    return bytes(batch.payload)


@given(records=st.lists(PLAIN | RICH, min_size=1, max_size=60))
def test_whatever_is_appended_is_encoded_in_order(records: list[Sent]) -> None:
    batch = new_batch()
    for index, (key, value, timestamp_ms, headers) in enumerate(records):
        assert batch.append(key, value, timestamp_ms, headers) == index
        assert batch.timestamp_of(index) == timestamp_ms
    assert batch.record_count == len(records)
    decoded = decode_records(encoded(batch), check_crc=True)
    assert [(r.key, r.value, r.timestamp, r.headers) for r in decoded] == [
        (key, value, timestamp_ms, tuple(headers)) for key, value, timestamp_ms, headers in records
    ]


@given(
    sizes=st.lists(st.integers(0, 60), min_size=1, max_size=60),
    size_bytes_max=st.integers(200, 1_500),
    bulk=st.booleans(),
)
def test_a_batch_takes_what_fits_and_no_more(
    sizes: list[int], size_bytes_max: int, bulk: bool
) -> None:
    batch = new_batch(size_bytes_max)
    values = [bytes(size) for size in sizes]
    assert batch.append(None, values[0], 5, ()) == 0
    taken = 1
    if bulk:
        taken += batch.append_values(values, 1, 5)
    else:
        while taken < len(values) and batch.append(None, values[taken], 5, ()) >= 0:
            taken += 1
    assert batch.record_count == taken
    assert taken == len(values) or len(batch) + len(values[taken]) + 16 > size_bytes_max - 16
    assert batch.append(None, bytes(size_bytes_max), 5, ()) == -1
    about = len(batch)
    assert len(encoded(batch)) <= about <= size_bytes_max
    assert [record.value for record in decode_records(encoded(batch))] == values[:taken]


def test_values_in_bulk_begin_no_batch_and_join_no_mixed_one() -> None:
    batch = new_batch()
    assert batch.append_values([b"a"], 0, 5) == 0
    batch.append(b"key", b"a", 5, ())
    assert batch.append_values([b"a"], 0, 5) == 0
    plain = new_batch()
    plain.append(None, b"a", 5, ())
    assert plain.append_values([b"b", b"c"], 1, 6) == 1
    assert [plain.timestamp_of(index) for index in (0, 1)] == [5, 6]


def test_a_full_batch_takes_no_values_in_bulk() -> None:
    batch = new_batch(61 + 36 + 100)
    batch.append(None, bytes(100), 5, ())
    assert batch.append_values([bytes(10)], 0, 5) == 0


def test_a_mixed_batch_is_full_at_some_time_too() -> None:
    batch = new_batch(300)
    assert batch.append(None, bytes(50), 5, ()) == 0
    count = 1
    while batch.append(b"k", bytes(20), 5, ()) >= 0:
        count += 1
    assert count == batch.record_count < 12
    assert len(batch) <= 300 + 20
    assert len(decode_records(encoded(batch))) == count


def test_it_is_built_once() -> None:
    batch = new_batch()
    batch.append(None, b"a", 5, ())
    batch.build(Compression.GZIP, None)
    payload = batch.payload
    batch.build(Compression.NONE, None)
    assert batch.payload is payload
    assert len(batch) == len(payload or b"")
    assert batch.append(None, b"too late", 5, ()) == -1


def test_an_identity_is_stamped_into_a_built_batch() -> None:
    batch = new_batch()
    for _ in range(3):
        batch.append(None, b"a", 5, ())
    batch.build(Compression.NONE, None)
    batch.stamp(77, 3, 0x7FFFFFFE)
    header = parse_batch_header(encoded(batch))
    assert (header.producer_id, header.producer_epoch) == (77, 3)
    assert header.base_sequence == 0x7FFFFFFE
    assert batch.next_sequence() == 1
    assert len(decode_records(encoded(batch), check_crc=True)) == 3


def test_outcomes_are_reported_once() -> None:
    told: list[str] = []
    batch = new_batch()
    batch.append(None, b"a", 5, ())
    batch.on_done.append(lambda: told.append(batch.state.name))
    batch.succeed(40, -1)
    assert told == []
    batch.tell()
    batch.tell()
    assert told == ["DONE"]
    assert (batch.base_offset, batch.timestamp_of(0)) == (40, 5)


def test_the_brokers_time_replaces_that_of_the_records() -> None:
    batch = new_batch()
    batch.append(None, b"a", 5, ())
    batch.succeed(0, 99)
    assert batch.timestamp_of(0) == 99


def test_a_failed_batch_lets_go_of_its_records() -> None:
    batch = new_batch()
    batch.append(None, b"a", 5, ())
    error = KafkaError("no")
    batch.fail(error)
    assert (batch.state, batch.error, batch.payload, batch.values) == (
        BatchState.DONE,
        error,
        None,
        [],
    )


def test_a_batch_from_elsewhere_is_ready() -> None:
    payload = bytearray(encoded(_one_record()))
    batch = ProducerBatch.prebuilt("t", 1, payload, 1, now=0.0, deadline=9.0)
    assert (batch.state, batch.record_count, len(batch)) == (BatchState.READY, 1, len(payload))
    assert batch.append(None, b"a", 5, ()) == -1
    assert batch.timestamp_of(0) == -1


def _one_record() -> ProducerBatch:
    batch = new_batch()
    batch.append(None, b"a", 5, ())
    return batch


def test_a_value_that_needs_all_the_room_fits() -> None:
    batch = new_batch(61 + 36 + 500)
    assert batch.append(None, bytes(500), 5, ()) == 0
    keyed = new_batch(61 + 36 + 500)
    assert keyed.append(bytes(250), bytes(250), 5, ()) == 0


@pytest.mark.parametrize("first", [None, b"k"])
def test_a_tombstone_makes_it_mixed(first: bytes | None) -> None:
    batch = new_batch()
    batch.append(first, b"a", 5, ())
    batch.append(None, None, 6, ())
    assert [record.value for record in decode_records(encoded(batch))] == [b"a", None]


def test_another_timestamp_closes_the_short_way() -> None:
    batch = new_batch()
    batch.append(None, b"a", 5, ())
    batch.now_until_s = 0.006
    batch.append(None, b"b", 5, ())
    assert batch.now_until_s == 0.006
    batch.append(None, b"c", 9, ())
    assert batch.now_until_s == 0
