"""Whatever bytes arrive: they decode, or CorruptBatchError says that they do not."""

import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.records import (
    BATCH_HEADER_SIZE_BYTES,
    BatchFields,
    Compression,
    CorruptBatchError,
    Record,
    crc_is_valid,
    decode_records,
    decode_transaction_marker,
    encode_batch,
    encode_retained_records,
    iter_batches,
    parse_batch_header,
    rewrite_header,
)
from tests.protocol.records.strategies import (
    COMPRESSIONS,
    RecordInput,
    batch_fields,
    record_lists,
)

SIZE_BYTES_MAX = 1 << 20
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1

RECORDS: list[RecordInput] = [
    (b"key", b"value" * 20, [("name", b"value"), ("other", None)], 1_700_000_000_000),
    (None, None, [], 1_700_000_000_000 + 100),
    (b"k" * 100, b"", [("", b"")], 1_600_000_000_000),
    (b"", b"v" * 300, [], -1),
]


def check_record(record: Record) -> None:
    assert 0 <= record.offset <= INT64_MAX
    assert INT64_MIN <= record.timestamp <= INT64_MAX
    assert isinstance(record.key, bytes | None)
    assert isinstance(record.value, bytes | None)
    for name, value in record.headers:
        assert isinstance(name, str)
        assert isinstance(value, bytes | None)


def check_bytes(encoded: bytes) -> bool:
    """Do everything with the bytes that a broker or client does; whether they were decoded."""
    try:
        header = parse_batch_header(encoded, must_be_whole=True)
        crc_is_valid(encoded, 0, header)
        for log_append_time_ms in (None, 5):
            stamped = rewrite_header(
                encoded,
                0,
                header,
                base_offset=5,
                partition_leader_epoch=0,
                log_append_time_ms=log_append_time_ms,
            )
            assert len(stamped) == BATCH_HEADER_SIZE_BYTES
        records = decode_records(encoded, size_bytes_max=SIZE_BYTES_MAX)
    except CorruptBatchError:
        return False
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))
    assert len(records) == header.record_count
    for record in records:
        check_record(record)
        with suppress(CorruptBatchError):
            decode_transaction_marker(record)
    return True


@pytest.mark.parametrize("codec", COMPRESSIONS, ids=lambda codec: codec.name)
def test_every_byte_of_a_batch_changed(codec: Compression) -> None:
    encoded = bytes(encode_batch(RECORDS, compression=codec))
    assert check_bytes(encoded)
    dice = random.Random(codec)
    for index in range(len(encoded)):
        for byte in {0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256), encoded[index] ^ 1}:
            changed = bytearray(encoded)
            changed[index] = byte
            decoded = check_bytes(bytes(changed))
            assert decoded or bytes(changed) != encoded


@given(inputs=record_lists, fields=batch_fields, data=st.data())
def test_bytes_changed_inserted_and_removed(
    inputs: list[RecordInput], fields: BatchFields, data: st.DataObject
) -> None:
    changed = encode_batch(inputs, **fields)
    for _ in range(data.draw(st.integers(1, 5))):
        index = data.draw(st.integers(0, len(changed) - 1))
        kind = data.draw(st.sampled_from(["change", "insert", "remove"]))
        if kind == "change":
            changed[index] = data.draw(st.integers(0, 255))
        elif kind == "insert":
            changed[index:index] = data.draw(st.binary(max_size=5))
        else:
            del changed[index : index + data.draw(st.integers(1, 5))]
    changed[8:12] = (len(changed) - 12).to_bytes(4, signed=True)
    check_bytes(bytes(changed))


@given(records=st.binary(max_size=200), count=st.integers(0, 30), attributes=st.integers(0, 0x7F))
def test_any_bytes_as_records(records: bytes, count: int, attributes: int) -> None:
    encoded = encode_batch(RECORDS, last_offset_delta=1000)[:BATCH_HEADER_SIZE_BYTES] + records
    encoded[8:12] = (len(encoded) - 12).to_bytes(4)
    encoded[21:23] = attributes.to_bytes(2)
    encoded[57:61] = count.to_bytes(4)
    check_bytes(bytes(encoded))


@given(encoded=st.binary(max_size=200))
def test_any_bytes_as_batches(encoded: bytes) -> None:
    assert not check_bytes(encoded) or encoded[16] == 2
    end = 0
    try:
        for position, header in iter_batches(encoded):
            assert position == end
            end = position + header.size_bytes
    except CorruptBatchError:
        pass
    assert end <= len(encoded)


@given(cut=st.integers(0, 400), fields=batch_fields)
def test_a_batch_that_was_cut_off(cut: int, fields: BatchFields) -> None:
    encoded = bytes(encode_batch(RECORDS, **fields))
    if cut < len(encoded):
        assert not check_bytes(encoded[:cut])
        assert list(iter_batches(encoded[:cut])) == []
    first_position, _ = next(iter_batches(encoded + encoded[:cut]))
    assert first_position == 0


@given(inputs=record_lists, fields=batch_fields, data=st.data())
def test_what_was_decoded_can_be_encoded(
    inputs: list[RecordInput], fields: BatchFields, data: st.DataObject
) -> None:
    """Compaction re-encodes what a client sent: nothing that decodes may stop it."""
    changed = encode_batch(inputs, **fields)
    index = data.draw(st.integers(17, len(changed) - 1))
    changed[index] = data.draw(st.integers(0, 255))
    try:
        records = decode_records(changed, size_bytes_max=SIZE_BYTES_MAX)
    except CorruptBatchError:
        return
    header = parse_batch_header(changed)
    cleaned = encode_retained_records(header, records)
    assert decode_records(cleaned) == records
