"""What a log accepts from clients, rule by rule, with the error codes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.data_class import replace
from minikafka.protocol.crc import crc32c
from minikafka.protocol.records.assembly import assemble_batch
from minikafka.protocol.records.batch import BatchHeader
from minikafka.protocol.records.builder import encode_batch
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.control import ControlType, encode_control_batch
from minikafka.storage import errors
from minikafka.storage.log_config import LogConfig
from minikafka.storage.validation import (
    BATCHES_PER_APPEND_MAX,
    RECORD_ERRORS_MAX,
    split_batches,
    validate_batch,
    validate_client_batch,
)
from tests.storage.batches import NOW_MS, batch_of

CONFIG = LogConfig()
DAY_MS = 86_400_000
RECORD = b"\x0e\x00\x00\x00\x01\x02v\x00"  # a record without a key


def validate(batch: bytes, config: LogConfig = CONFIG, *, request_version: int = 9) -> BatchHeader:
    return validate_client_batch(batch, config, now_ms=NOW_MS, request_version=request_version)


def refused(batch: bytes, error: type[errors.LogError], match: str, **config: object) -> None:
    with pytest.raises(error, match=match):
        validate(batch, replace(CONFIG, **config))


def raw_batch(**changes: int) -> bytes:
    """A batch with fields that no encoder would write."""
    fields: dict[str, int] = {
        "record_count": 1,
        "last_offset_delta": 0,
        "base_timestamp": NOW_MS,
        "max_timestamp": NOW_MS,
    }
    return bytes(assemble_batch(RECORD, **(fields | changes)))  # type: ignore[arg-type]  # ints all


def test_an_ordinary_batch_passes() -> None:
    header = validate_client_batch(
        memoryview(batch_of("a", "b")), CONFIG, now_ms=NOW_MS, request_version=3
    )
    assert header.record_count == 2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.OffsetOutOfRange, 1),
        (errors.CorruptMessage, 2),
        (errors.MessageTooLarge, 10),
        (errors.RecordListTooLarge, 18),
        (errors.InvalidTimestamp, 32),
        (errors.UnsupportedForMessageFormat, 43),
        (errors.OutOfOrderSequence, 45),
        (errors.InvalidProducerEpoch, 47),
        (errors.StorageError, 56),
        (errors.FencedLeaderEpoch, 74),
        (errors.UnsupportedCompressionType, 76),
        (errors.InvalidRecord, 87),
    ],
)
def test_errors_carry_kafkas_codes(error: type[errors.LogError], code: int) -> None:
    assert error.error_code == code


def test_no_batch_is_refused() -> None:
    refused(b"", errors.InvalidRecord, "without a record batch")


def test_two_batches_are_refused() -> None:
    refused(batch_of("a") + batch_of("b"), errors.InvalidRecord, "exactly one per partition")


def test_bytes_behind_the_batch() -> None:
    refused(batch_of("a") + b"x", errors.CorruptMessage, "1 are there")


@given(st.integers(17 * 8, len(batch_of("abc")) * 8 - 1))
def test_any_flipped_bit_behind_the_magic_is_refused(bit: int) -> None:
    batch = bytearray(batch_of("abc"))
    batch[bit // 8] ^= 1 << bit % 8
    with pytest.raises(errors.CorruptMessage, match="does not match"):
        validate(bytes(batch))


@given(st.integers(1, len(batch_of("abc")) - 1))
def test_a_torn_batch_is_refused(size_bytes: int) -> None:
    with pytest.raises(errors.CorruptMessage):
        validate(batch_of("abc")[:size_bytes])


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_old_message_formats(magic: int) -> None:
    batch = bytearray(batch_of("a"))
    batch[16] = magic
    refused(bytes(batch), errors.UnsupportedForMessageFormat, f"magic\\) {magic}")


def test_max_message_bytes() -> None:
    batch = batch_of("a")
    validate(batch, replace(CONFIG, max_message_bytes=len(batch)))
    refused(
        batch,
        errors.MessageTooLarge,
        f"{len(batch)} bytes; max.message.bytes is",
        max_message_bytes=len(batch) - 1,
    )


def test_clients_may_not_send_control_batches() -> None:
    marker = encode_control_batch(
        ControlType.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=NOW_MS
    )
    refused(bytes(marker), errors.InvalidRecord, "only the broker writes those")
    ((_, header),) = split_batches(marker)
    validate_batch(header)


@pytest.mark.parametrize(
    ("count", "delta"), [(1, 1), (2, 0), (0, 0), (0, -1), (-1, -2), (2**31 - 1, 0)]
)
def test_counts_must_match(count: int, delta: int) -> None:
    batch = raw_batch(record_count=count, last_offset_delta=delta)
    refused(batch, errors.InvalidRecord, f"record_count {count} with last_offset_delta {delta}")


def test_a_batch_without_payload() -> None:
    batch = assemble_batch(
        b"", record_count=1, last_offset_delta=0, base_timestamp=NOW_MS, max_timestamp=NOW_MS
    )
    refused(bytes(batch), errors.InvalidRecord, "without a payload")


def test_an_unknown_codec() -> None:
    batch = raw_batch()
    changed = bytearray(batch)
    changed[22] |= 7
    changed[17:21] = crc32c(changed, 21).to_bytes(4, "big")
    refused(bytes(changed), errors.InvalidRecord, "unknown compression")


@pytest.mark.parametrize(("epoch", "sequence"), [(-1, 0), (0, -1), (-1, -1)])
def test_a_producer_id_needs_epoch_and_sequence(epoch: int, sequence: int) -> None:
    batch = batch_of("a", producer=(5, epoch, sequence))
    refused(batch, errors.InvalidRecord, "neither may be negative")


def test_a_transaction_needs_a_producer() -> None:
    refused(raw_batch(is_transactional=True), errors.InvalidRecord, "without a producer id")


def test_zstd_needs_produce_version_7() -> None:
    batch = batch_of("a", compression=Compression.ZSTD)
    validate(batch, request_version=7)
    with pytest.raises(errors.UnsupportedCompressionType, match="produce version 6"):
        validate(batch, request_version=6)


@pytest.mark.parametrize("compression", [c for c in Compression if c != Compression.ZSTD])
def test_the_other_codecs_always_work(compression: Compression) -> None:
    assert validate(batch_of("a", compression=compression), request_version=3)


def test_timestamps_too_far_ahead() -> None:
    validate(batch_of("a", timestamp=NOW_MS + 3_600_000))
    refused(
        batch_of("a", timestamp=NOW_MS + 3_600_001),
        errors.InvalidTimestamp,
        "ahead of the broker's clock",
    )


def test_timestamps_too_far_behind() -> None:
    config = LogConfig(message_timestamp_before_max_ms=DAY_MS)
    assert validate(batch_of("a", timestamp=NOW_MS - DAY_MS), config)
    refused(
        batch_of("a", timestamp=NOW_MS - DAY_MS - 1),
        errors.InvalidTimestamp,
        "behind the broker's clock",
        message_timestamp_before_max_ms=DAY_MS,
    )


def test_records_without_a_timestamp_pass() -> None:
    assert validate(batch_of("a", timestamp=-1), LogConfig(message_timestamp_before_max_ms=1))


def test_only_the_broker_claims_log_append_time() -> None:
    batch = raw_batch(has_log_append_time=True)
    refused(batch, errors.InvalidTimestamp, "only the broker sets that")
    assert validate(batch, LogConfig(message_timestamp_type="LogAppendTime"))


def test_with_log_append_time_the_clients_timestamps_do_not_matter() -> None:
    batch = batch_of("a", timestamp=NOW_MS + 10 * DAY_MS)
    assert validate(batch, LogConfig(message_timestamp_type="LogAppendTime"))


def test_a_compacted_topic_needs_keys() -> None:
    assert validate(batch_of("a", None), LogConfig(cleanup_compact=True))
    for compression in (Compression.NONE, Compression.GZIP):
        batch = batch_of("a", key=None, compression=compression)
        refused(batch, errors.InvalidRecord, "has no key", cleanup_compact=True)


def wrong_records(batch: bytes, config: LogConfig) -> list[int]:
    with pytest.raises(errors.LogError) as refusal:
        validate(batch, config)
    return [one.batch_index for one in refusal.value.record_errors]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_a_refusal_names_the_records_without_a_key(compression: Compression) -> None:
    batch = encode_batch(
        [(key, b"v", (), NOW_MS) for key in (b"a", None, b"b", None)], compression=compression
    )
    assert wrong_records(bytes(batch), LogConfig(cleanup_compact=True)) == [1, 3]


def test_a_refusal_names_no_more_records_than_it_may() -> None:
    batch = encode_batch([(None, b"", (), NOW_MS)] * (RECORD_ERRORS_MAX + 1))
    config = LogConfig(cleanup_compact=True, max_message_bytes=len(batch))
    assert wrong_records(bytes(batch), config) == list(range(RECORD_ERRORS_MAX))


def test_a_refusal_names_the_records_with_a_timestamp_out_of_bounds() -> None:
    def batch(*timestamps: int) -> bytes:
        return bytes(encode_batch([(b"k", b"v", (), one) for one in timestamps]))

    config = LogConfig(message_timestamp_before_max_ms=DAY_MS, message_timestamp_after_max_ms=9)
    assert wrong_records(batch(NOW_MS, NOW_MS + 10, NOW_MS + 9, NOW_MS + 11), config) == [1, 3]
    assert wrong_records(batch(NOW_MS - DAY_MS - 1, -1, NOW_MS - DAY_MS), config) == [0]


def test_a_payload_that_cannot_be_what_the_header_claims() -> None:
    count = 2**31 - 1
    batch = raw_batch(record_count=count, last_offset_delta=count - 1)
    refused(batch, errors.InvalidRecord, f"{count} records cannot fit in 8 bytes")


def unread_poison() -> bytes:
    """A batch whose second record is garbage, which only reading it shows."""
    batch = assemble_batch(
        RECORD + b"\xff" * 8,
        record_count=2,
        last_offset_delta=1,
        base_timestamp=NOW_MS,
        max_timestamp=NOW_MS,
    )
    return bytes(batch)


@pytest.mark.parametrize("setting", ["cleanup_compact", "validates_every_record"])
def test_where_all_records_are_read_batches_that_cannot_be_decoded_are_refused(
    setting: str,
) -> None:
    assert validate(unread_poison())
    refused(unread_poison(), errors.InvalidRecord, "no varint", **{setting: True})


def test_too_many_batches_in_one_internal_append() -> None:
    batch = batch_of("a")
    assert len(split_batches(batch * 100)) == 100
    with pytest.raises(errors.InvalidRecord, match="more than"):
        split_batches(batch * (BATCHES_PER_APPEND_MAX + 1))
