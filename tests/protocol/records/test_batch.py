"""The header of a batch."""

import struct

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol import records
from minikafka.protocol.records import batch
from tests.protocol.records.strategies import RecordInput, batch_fields, record_lists

BATCH = bytes(
    records.encode_batch(
        [(b"key", b"value", [], 1000), (None, b"other", [("name", b"")], 1007)],
        base_offset=40,
        partition_leader_epoch=3,
        producer_id=77,
        producer_epoch=5,
        base_sequence=9,
    )
)
HEADER = records.parse_batch_header(BATCH)
EVERY_BUFFER = pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])


def with_fields(**fields: int) -> records.BatchHeader:
    return HEADER._replace(**fields)


@given(inputs=record_lists, fields=batch_fields)
def test_a_header_has_the_fields_that_the_batch_was_built_with(
    inputs: list[RecordInput], fields: records.BatchFields
) -> None:
    encoded = records.encode_batch(inputs, **fields)
    header = records.parse_batch_header(encoded, must_be_whole=True)
    timestamps = [timestamp for *_, timestamp in inputs]
    assert header.size_bytes == len(encoded)
    assert header.magic == 2
    assert header.compression is fields.get("compression")
    assert header.is_transactional == fields.get("is_transactional")
    assert not header.is_control
    assert not header.has_log_append_time
    assert not header.has_delete_horizon
    assert header.base_offset == fields.get("base_offset")
    assert header.last_offset == header.base_offset + len(inputs) - 1
    assert header.next_offset == header.base_offset + len(inputs)
    assert header.record_count == len(inputs)
    assert header.base_timestamp == timestamps[0]
    assert header.max_timestamp == max(timestamps)
    assert records.crc_is_valid(encoded, 0, header)


@EVERY_BUFFER
def test_aiokafka_reads_the_same_header(buffer_type: type[bytes]) -> None:
    header = records.parse_batch_header(buffer_type(BATCH))
    theirs = AiokafkaBatch(BATCH)
    assert header.base_offset == theirs.base_offset == 40
    assert header.crc == theirs.crc == records.compute_crc(buffer_type(BATCH), 0, len(BATCH))
    assert header.last_offset_delta == theirs.last_offset_delta == 1
    assert header.base_timestamp == theirs.first_timestamp == 1000
    assert header.max_timestamp == theirs.max_timestamp == 1007
    assert header.producer_id == theirs.producer_id == 77
    assert header.producer_epoch == theirs.producer_epoch == 5
    assert header.base_sequence == theirs.base_sequence == 9
    assert header.partition_leader_epoch == 3


@EVERY_BUFFER
def test_a_batch_in_the_middle_of_a_buffer(buffer_type: type[bytes]) -> None:
    buffer = buffer_type(b"before" + BATCH + b"after")
    assert records.parse_batch_header(buffer, 6, must_be_whole=True) == HEADER
    assert records.crc_is_valid(buffer, 6, HEADER)
    assert records.compute_crc(buffer, 6, len(BATCH)) == HEADER.crc


def test_flags_are_the_bits_of_the_attributes() -> None:
    assert with_fields(attributes=batch.LOG_APPEND_TIME_FLAG).has_log_append_time
    assert with_fields(attributes=batch.TRANSACTIONAL_FLAG).is_transactional
    assert with_fields(attributes=batch.CONTROL_FLAG).is_control
    assert with_fields(attributes=batch.DELETE_HORIZON_FLAG).has_delete_horizon
    assert with_fields(attributes=0x78 | 4).compression is records.Compression.ZSTD


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_corrupt(codec: int) -> None:
    with pytest.raises(
        records.CorruptBatchError, match=f"name compression {codec}; known are 0 to 4"
    ):
        _ = with_fields(attributes=0x10 | codec).compression


def test_a_sequence_wraps_to_zero() -> None:
    assert with_fields(base_sequence=5, last_offset_delta=3).last_sequence == 8
    assert (
        with_fields(base_sequence=batch.SEQUENCE_MAX, last_offset_delta=0).last_sequence
        == (1 << 31) - 1
    )
    assert with_fields(base_sequence=batch.SEQUENCE_MAX, last_offset_delta=1).last_sequence == 0
    assert with_fields(base_sequence=batch.SEQUENCE_MAX - 1, last_offset_delta=4).last_sequence == 2


def test_without_a_base_sequence_there_is_no_last_one() -> None:
    assert with_fields(base_sequence=-1, last_offset_delta=3).last_sequence == -1


@pytest.mark.parametrize("size_bytes", [0, 1, records.BATCH_HEADER_SIZE_BYTES - 1])
def test_too_few_bytes_for_a_header(size_bytes: int) -> None:
    with pytest.raises(records.CorruptBatchError, match=f"{size_bytes} are there"):
        records.parse_batch_header(BATCH[:size_bytes])
    with pytest.raises(records.CorruptBatchError, match=f"{size_bytes} are there"):
        records.parse_batch_header(BATCH, len(BATCH) - size_bytes)


@pytest.mark.parametrize("position", [-1, -len(BATCH), len(BATCH) + 1])
def test_a_position_outside_the_buffer(position: int) -> None:
    with pytest.raises(records.CorruptBatchError, match=f"position {position}"):
        records.parse_batch_header(BATCH, position)


@pytest.mark.parametrize("magic", [-1, 0, 1, 3])
def test_other_message_formats_are_refused(magic: int) -> None:
    encoded = bytearray(BATCH)
    encoded[16:17] = struct.pack(">b", magic)
    with pytest.raises(records.UnsupportedMagicError, match=rf"\(magic\) {magic}; only 2"):
        records.parse_batch_header(encoded)


@pytest.mark.parametrize("batch_length", [-(1 << 31), -1, 0, 48])
def test_an_invalid_batch_length(batch_length: int) -> None:
    encoded = bytearray(BATCH)
    encoded[8:12] = struct.pack(">i", batch_length)
    with pytest.raises(records.CorruptBatchError, match=f"batch_length {batch_length} is smaller"):
        records.parse_batch_header(encoded)


def test_a_truncated_batch_has_a_header_but_is_not_whole() -> None:
    partial = BATCH[:-1]
    assert records.parse_batch_header(partial) == HEADER
    with pytest.raises(
        records.CorruptBatchError, match=f"{len(BATCH)} bytes, {len(partial)} are there"
    ):
        records.parse_batch_header(partial, must_be_whole=True)
    with pytest.raises(records.CorruptBatchError, match="to compute a CRC of"):
        records.crc_is_valid(partial, 0, HEADER)


@pytest.mark.parametrize(
    ("position", "size_bytes"), [(-1, len(BATCH)), (0, 60), (0, len(BATCH) + 1), (1, len(BATCH))]
)
def test_there_is_no_crc_of_missing_bytes(position: int, size_bytes: int) -> None:
    with pytest.raises(records.CorruptBatchError, match="to compute a CRC of"):
        records.compute_crc(BATCH, position, size_bytes)


@given(st.integers(21, len(BATCH) - 1), st.integers(0, 7))
def test_a_flipped_bit_that_the_crc_covers_is_noticed(index: int, bit: int) -> None:
    damaged = bytearray(BATCH)
    damaged[index] ^= 1 << bit
    assert not records.crc_is_valid(damaged, 0, records.parse_batch_header(damaged))


class TestIteration:
    def test_yields_every_batch_with_its_position(self) -> None:
        other = bytes(records.encode_batch([(None, None, [], 5)], base_offset=42))
        found = list(records.iter_batches(BATCH + other + BATCH))
        assert found == [
            (0, HEADER),
            (len(BATCH), records.parse_batch_header(other)),
            (len(BATCH) + len(other), HEADER),
        ]

    def test_nothing_is_no_batch(self) -> None:
        assert list(records.iter_batches(b"")) == []

    @EVERY_BUFFER
    @pytest.mark.parametrize("missing", [1, 30, len(BATCH) - 61, len(BATCH) - 60, len(BATCH) - 1])
    def test_a_partial_batch_ends_it(self, buffer_type: type[bytes], missing: int) -> None:
        buffer: records.Buffer = buffer_type((BATCH * 2)[:-missing])
        assert list(records.iter_batches(buffer)) == [(0, HEADER)]

    def test_garbage_is_an_error_after_the_good_batches(self) -> None:
        batches = records.iter_batches(BATCH + b"\0" * 100)
        assert next(batches) == (0, HEADER)
        with pytest.raises(records.CorruptBatchError, match=f"position {len(BATCH)}"):
            next(batches)


class TestRewrite:
    @EVERY_BUFFER
    def test_offset_and_epoch_change_and_the_crc_stays(self, buffer_type: type[bytes]) -> None:
        buffer = buffer_type(b"?" + BATCH)
        stamped = records.rewrite_header(
            buffer, 1, HEADER, base_offset=1 << 40, partition_leader_epoch=8
        )
        assert records.parse_batch_header(stamped) == HEADER._replace(
            base_offset=1 << 40, partition_leader_epoch=8
        )
        rewritten = stamped + BATCH[records.BATCH_HEADER_SIZE_BYTES :]
        assert records.crc_is_valid(rewritten, 0, HEADER)
        assert [record.offset for record in records.decode_records(rewritten)] == [
            1 << 40,
            (1 << 40) + 1,
        ]

    @EVERY_BUFFER
    def test_log_append_time_gives_every_record_its_timestamp(
        self, buffer_type: type[bytes]
    ) -> None:
        buffer = buffer_type(b"?" + BATCH)
        stamped = records.rewrite_header(
            buffer, 1, HEADER, base_offset=7, partition_leader_epoch=8, log_append_time_ms=5555
        )
        rewritten = stamped + BATCH[records.BATCH_HEADER_SIZE_BYTES :]
        header = records.parse_batch_header(rewritten)
        assert header == HEADER._replace(
            base_offset=7,
            partition_leader_epoch=8,
            attributes=batch.LOG_APPEND_TIME_FLAG,
            max_timestamp=5555,
            crc=header.crc,
        )
        assert AiokafkaBatch(rewritten).validate_crc()
        assert records.crc_is_valid(rewritten, 0, header)
        assert [record.timestamp for record in records.decode_records(rewritten)] == [5555, 5555]
        assert [record.timestamp for record in AiokafkaBatch(rewritten)] == [5555, 5555]

    def test_only_log_append_time_needs_the_payload(self) -> None:
        start = BATCH[: records.BATCH_HEADER_SIZE_BYTES]
        stamped = records.rewrite_header(start, 0, HEADER, base_offset=7, partition_leader_epoch=8)
        assert len(stamped) == records.BATCH_HEADER_SIZE_BYTES
        with pytest.raises(records.CorruptBatchError, match="61 are there"):
            records.rewrite_header(
                start, 0, HEADER, base_offset=7, partition_leader_epoch=8, log_append_time_ms=1
            )
