"""kafka-python and aiokafka read what we write, and we read what they write."""

import pytest
from hypothesis import given

from minikafka.protocol import records
from tests.protocol.records import strategies
from tests.protocol.records.oracles import READERS, WRITERS, Reader, Writer

EVERY_READER = pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
EVERY_WRITER = pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
EVERY_COMPRESSION = pytest.mark.parametrize(
    "compression", strategies.COMPRESSIONS, ids=lambda c: c.name
)


def records_of(inputs: list[strategies.RecordInput], base_offset: int) -> list[records.Record]:
    return [
        records.Record(base_offset + index, timestamp, key, value, tuple(headers))
        for index, (key, value, headers, timestamp) in enumerate(inputs)
    ]


def has_base_timestamp(inputs: list[strategies.RecordInput]) -> bool:
    """Aiokafka ignores a first timestamp of -1 and takes the second one as the first."""
    return inputs[0][3] != -1


@EVERY_READER
@given(inputs=strategies.record_lists, fields=strategies.batch_fields)
def test_other_clients_read_what_we_write(
    read: Reader, inputs: list[strategies.RecordInput], fields: records.BatchFields
) -> None:
    encoded = bytes(records.encode_batch(inputs, **fields))
    assert read(encoded) == records_of(inputs, fields.get("base_offset", 0))


@EVERY_WRITER
@given(inputs=strategies.record_lists.filter(has_base_timestamp), fields=strategies.batch_fields)
def test_we_read_what_other_clients_write(
    write: Writer, inputs: list[strategies.RecordInput], fields: records.BatchFields
) -> None:
    encoded = write(inputs, fields)
    header = records.parse_batch_header(encoded, must_be_whole=True)
    assert records.crc_is_valid(encoded, 0, header)
    assert records.decode_records(encoded) == records_of(inputs, 0)
    # They do not compress a batch that would not get smaller.
    assert header.compression in {fields.get("compression"), records.Compression.NONE}
    assert header.is_transactional == fields.get("is_transactional")
    assert header.producer_id == fields.get("producer_id")
    assert header.producer_epoch == fields.get("producer_epoch")
    assert header.base_sequence == fields.get("base_sequence")


@EVERY_WRITER
@given(inputs=strategies.record_lists.filter(has_base_timestamp), fields=strategies.batch_fields)
def test_uncompressed_batches_are_the_same_bytes(
    write: Writer, inputs: list[strategies.RecordInput], fields: records.BatchFields
) -> None:
    fields["compression"] = records.Compression.NONE
    fields["base_offset"] = 0
    theirs = bytearray(write(inputs, fields))
    theirs[12:16] = fields.get("partition_leader_epoch", -1).to_bytes(4, signed=True)
    assert records.encode_batch(inputs, **fields) == theirs


@EVERY_READER
@EVERY_COMPRESSION
def test_large_batches_are_read_by_other_clients(
    read: Reader, compression: records.Compression
) -> None:
    value = bytes(range(256)) * 4
    inputs: list[strategies.RecordInput] = [
        (b"key-%d" % number, value, [], 1_700_000_000_000) for number in range(1000)
    ]
    encoded = bytes(records.encode_batch(inputs, compression=compression))
    assert read(encoded) == records_of(inputs, 0)


@EVERY_WRITER
@EVERY_COMPRESSION
def test_large_batches_of_other_clients_are_read(
    write: Writer, compression: records.Compression
) -> None:
    value = bytes(range(256)) * 4
    inputs: list[strategies.RecordInput] = [
        (b"key-%d" % number, value, [], 1_700_000_000_000) for number in range(1000)
    ]
    encoded = write(inputs, {"compression": compression})
    assert records.parse_batch_header(encoded).compression is compression
    assert records.decode_records(encoded) == records_of(inputs, 0)
