"""kafka-python and aiokafka read what we write, and we read what they write."""

import pytest
from hypothesis import given

from minikafka.protocol.records import (
    BatchFields,
    Compression,
    Record,
    crc_is_valid,
    decode_records,
    encode_batch,
    parse_batch_header,
)
from tests.protocol.records.oracles import READERS, WRITERS, Reader, Writer
from tests.protocol.records.strategies import (
    COMPRESSIONS,
    RecordInput,
    batch_fields,
    record_lists,
)

EVERY_READER = pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
EVERY_WRITER = pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
EVERY_COMPRESSION = pytest.mark.parametrize("compression", COMPRESSIONS, ids=lambda c: c.name)


def records_of(inputs: list[RecordInput], base_offset: int) -> list[Record]:
    return [
        Record(base_offset + index, timestamp, key, value, tuple(headers))
        for index, (key, value, headers, timestamp) in enumerate(inputs)
    ]


def has_base_timestamp(inputs: list[RecordInput]) -> bool:
    """To aiokafka, a first timestamp of -1 is none at all, and the second one the first."""
    return inputs[0][3] != -1


@EVERY_READER
@given(inputs=record_lists, fields=batch_fields)
def test_other_clients_read_what_we_write(
    read: Reader, inputs: list[RecordInput], fields: BatchFields
) -> None:
    encoded = bytes(encode_batch(inputs, **fields))
    assert read(encoded) == records_of(inputs, fields.get("base_offset", 0))


@EVERY_WRITER
@given(inputs=record_lists.filter(has_base_timestamp), fields=batch_fields)
def test_we_read_what_other_clients_write(
    write: Writer, inputs: list[RecordInput], fields: BatchFields
) -> None:
    encoded = write(inputs, fields)
    header = parse_batch_header(encoded, must_be_whole=True)
    assert crc_is_valid(encoded, 0, header)
    assert decode_records(encoded) == records_of(inputs, 0)
    # They leave a batch that would not get smaller as it is.
    assert header.compression in {fields.get("compression"), Compression.NONE}
    assert header.is_transactional == fields.get("is_transactional")
    assert header.producer_id == fields.get("producer_id")
    assert header.producer_epoch == fields.get("producer_epoch")
    assert header.base_sequence == fields.get("base_sequence")


@EVERY_WRITER
@given(inputs=record_lists.filter(has_base_timestamp), fields=batch_fields)
def test_uncompressed_batches_are_the_same_bytes(
    write: Writer, inputs: list[RecordInput], fields: BatchFields
) -> None:
    fields["compression"] = Compression.NONE
    fields["base_offset"] = 0
    theirs = bytearray(write(inputs, fields))
    theirs[12:16] = fields.get("partition_leader_epoch", -1).to_bytes(4, signed=True)
    assert encode_batch(inputs, **fields) == theirs


@EVERY_READER
@EVERY_COMPRESSION
def test_large_batches_are_read_by_other_clients(read: Reader, compression: Compression) -> None:
    value = bytes(range(256)) * 4
    inputs: list[RecordInput] = [
        (b"key-%d" % number, value, [], 1_700_000_000_000) for number in range(1000)
    ]
    encoded = bytes(encode_batch(inputs, compression=compression))
    assert read(encoded) == records_of(inputs, 0)


@EVERY_WRITER
@EVERY_COMPRESSION
def test_large_batches_of_other_clients_are_read(write: Writer, compression: Compression) -> None:
    value = bytes(range(256)) * 4
    inputs: list[RecordInput] = [
        (b"key-%d" % number, value, [], 1_700_000_000_000) for number in range(1000)
    ]
    encoded = write(inputs, {"compression": compression})
    assert parse_batch_header(encoded).compression is compression
    assert decode_records(encoded) == records_of(inputs, 0)
