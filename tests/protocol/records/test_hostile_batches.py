"""Any bytes are decoded or raise CorruptBatchError."""

import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol import records as record_format
from tests.protocol.records import strategies

SIZE_BYTES_MAX = 1 << 20
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1

RECORDS: list[strategies.RecordInput] = [
    (b"key", b"value" * 20, [("name", b"value"), ("other", None)], 1_700_000_000_000),
    (None, None, [], 1_700_000_000_000 + 100),
    (b"k" * 100, b"", [("", b"")], 1_600_000_000_000),
    (b"", b"v" * 300, [], -1),
]


def check_record(record: record_format.Record) -> None:
    assert 0 <= record.offset <= INT64_MAX
    assert INT64_MIN <= record.timestamp <= INT64_MAX
    assert isinstance(record.key, bytes | None)
    assert isinstance(record.value, bytes | None)
    for name, value in record.headers:
        assert isinstance(name, str)
        assert isinstance(value, bytes | None)


def check_bytes(encoded: bytes) -> bool:
    """Do everything that a broker or client does with a batch; returns whether it was decoded."""
    try:
        header = record_format.parse_batch_header(encoded, must_be_whole=True)
        record_format.crc_is_valid(encoded, 0, header)
        for log_append_time_ms in (None, 5):
            stamped = record_format.rewrite_header(
                encoded,
                0,
                header,
                base_offset=5,
                partition_leader_epoch=0,
                log_append_time_ms=log_append_time_ms,
            )
            assert len(stamped) == record_format.BATCH_HEADER_SIZE_BYTES
        records = record_format.decode_records(encoded, size_bytes_max=SIZE_BYTES_MAX)
    except record_format.CorruptBatchError:
        return False
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))
    assert len(records) == header.record_count
    for record in records:
        check_record(record)
        with suppress(record_format.CorruptBatchError):
            record_format.decode_transaction_marker(record)
    return True


@pytest.mark.parametrize("codec", strategies.COMPRESSIONS, ids=lambda codec: codec.name)
def test_every_byte_of_a_batch_changed(codec: record_format.Compression) -> None:
    encoded = bytes(record_format.encode_batch(RECORDS, compression=codec))
    assert check_bytes(encoded)
    dice = random.Random(codec)
    for index in range(len(encoded)):
        for byte in {0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256), encoded[index] ^ 1}:
            changed = bytearray(encoded)
            changed[index] = byte
            decoded = check_bytes(bytes(changed))
            assert decoded or bytes(changed) != encoded


@given(inputs=strategies.record_lists, fields=strategies.batch_fields, data=st.data())
def test_bytes_changed_inserted_and_removed(
    inputs: list[strategies.RecordInput], fields: record_format.BatchFields, data: st.DataObject
) -> None:
    changed = record_format.encode_batch(inputs, **fields)
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
    encoded = (
        record_format.encode_batch(RECORDS, last_offset_delta=1000)[
            : record_format.BATCH_HEADER_SIZE_BYTES
        ]
        + records
    )
    encoded[8:12] = (len(encoded) - 12).to_bytes(4)
    encoded[21:23] = attributes.to_bytes(2)
    encoded[57:61] = count.to_bytes(4)
    check_bytes(bytes(encoded))


@given(encoded=st.binary(max_size=200))
def test_any_bytes_as_batches(encoded: bytes) -> None:
    assert not check_bytes(encoded) or encoded[16] == 2
    end = 0
    try:
        for position, header in record_format.iter_batches(encoded):
            assert position == end
            end = position + header.size_bytes
    except record_format.CorruptBatchError:
        pass
    assert end <= len(encoded)


@given(cut=st.integers(0, 400), fields=strategies.batch_fields)
def test_a_truncated_batch(cut: int, fields: record_format.BatchFields) -> None:
    encoded = bytes(record_format.encode_batch(RECORDS, **fields))
    if cut < len(encoded):
        assert not check_bytes(encoded[:cut])
        assert list(record_format.iter_batches(encoded[:cut])) == []
    first_position, _ = next(record_format.iter_batches(encoded + encoded[:cut]))
    assert first_position == 0


@given(inputs=strategies.record_lists, fields=strategies.batch_fields, data=st.data())
def test_what_was_decoded_can_be_encoded(
    inputs: list[strategies.RecordInput], fields: record_format.BatchFields, data: st.DataObject
) -> None:
    """Compaction re-encodes what clients sent, so everything that decodes must encode."""
    changed = record_format.encode_batch(inputs, **fields)
    index = data.draw(st.integers(17, len(changed) - 1))
    changed[index] = data.draw(st.integers(0, 255))
    try:
        records = record_format.decode_records(changed, size_bytes_max=SIZE_BYTES_MAX)
    except record_format.CorruptBatchError:
        return
    header = record_format.parse_batch_header(changed)
    cleaned = record_format.encode_retained_records(header, records)
    assert record_format.decode_records(cleaned) == records
