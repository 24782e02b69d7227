"""Transaction markers."""

import pytest
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.records import (
    ControlType,
    CorruptBatchError,
    Record,
    TransactionMarker,
    crc_is_valid,
    decode_control_type,
    decode_records,
    decode_transaction_marker,
    encode_control_batch,
    parse_batch_header,
)
from tests.protocol.records.oracles import READERS, Reader


@given(
    control_type=st.sampled_from(ControlType),
    producer_id=st.integers(0, (1 << 63) - 1),
    producer_epoch=st.integers(0, (1 << 15) - 1),
    coordinator_epoch=st.integers(-(1 << 31), (1 << 31) - 1),
    timestamp=st.integers(-1, 1 << 50),
    base_offset=st.integers(0, 1 << 50),
    leader_epoch=st.integers(-1, (1 << 31) - 1),
)
def test_a_marker_is_read_back(
    control_type: ControlType,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int,
    leader_epoch: int,
) -> None:
    encoded = encode_control_batch(
        control_type,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=timestamp,
        base_offset=base_offset,
        partition_leader_epoch=leader_epoch,
    )
    header = parse_batch_header(encoded, must_be_whole=True)
    assert crc_is_valid(encoded, 0, header)
    assert header.is_control
    assert header.is_transactional
    assert header.record_count == 1
    assert (header.producer_id, header.producer_epoch) == (producer_id, producer_epoch)
    assert (header.base_sequence, header.last_sequence) == (-1, -1)
    assert (header.base_offset, header.partition_leader_epoch) == (base_offset, leader_epoch)
    (record,) = decode_records(encoded)
    assert (record.offset, record.timestamp) == (base_offset, timestamp)
    assert decode_control_type(record.key) == (0, control_type)
    assert decode_transaction_marker(record) == TransactionMarker(control_type, coordinator_epoch)


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
@pytest.mark.parametrize(
    ("control_type", "marker"),
    [(ControlType.ABORT, ABORT_MARKER), (ControlType.COMMIT, COMMIT_MARKER)],
)
def test_other_clients_read_the_marker(
    read: Reader, control_type: ControlType, marker: ControlRecord
) -> None:
    encoded = encode_control_batch(
        control_type, producer_id=5, producer_epoch=2, coordinator_epoch=7, timestamp=1000
    )
    (record,) = read(bytes(encoded))
    assert record.key is not None
    assert ControlRecord.parse(record.key) == marker
    assert record.value == bytes.fromhex("0000 00000007")


def test_the_bytes_of_a_marker() -> None:
    encoded = encode_control_batch(
        ControlType.COMMIT, producer_id=5, producer_epoch=2, coordinator_epoch=7, timestamp=1000
    )
    assert encoded[61:].hex(" ") == "20 00 00 00 08 00 00 00 01 0c 00 00 00 00 00 07 00"


def marker_record(key: bytes | None, value: bytes | None) -> Record:
    return Record(0, 0, key, value)


def test_other_types_are_not_transaction_markers() -> None:
    leader_change = bytes.fromhex("0000 0002")
    assert decode_control_type(leader_change) == (0, 2)
    assert decode_transaction_marker(marker_record(leader_change, b"anything")) is None


def test_newer_versions_only_append_fields() -> None:
    record = marker_record(bytes.fromhex("0001 0001 ff"), bytes.fromhex("0001 00000009 ff"))
    assert decode_control_type(record.key) == (1, 1)
    assert decode_transaction_marker(record) == TransactionMarker(ControlType.COMMIT, 9)


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0"])
def test_a_key_that_is_not_a_markers(key: bytes | None) -> None:
    with pytest.raises(CorruptBatchError, match="has at least 4 bytes"):
        decode_control_type(key)
    with pytest.raises(CorruptBatchError, match="has at least 4 bytes"):
        decode_transaction_marker(marker_record(key, bytes(6)))


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0\0\0"])
def test_a_value_that_is_not_a_markers(value: bytes | None) -> None:
    with pytest.raises(CorruptBatchError, match="has at least 6 bytes"):
        decode_transaction_marker(marker_record(bytes(4), value))


def test_versions_are_not_negative() -> None:
    with pytest.raises(CorruptBatchError, match="key of a control record has version -1"):
        decode_control_type(bytes.fromhex("ffff 0000"))
    with pytest.raises(CorruptBatchError, match="value of a transaction marker has version -1"):
        decode_transaction_marker(marker_record(bytes(4), bytes.fromhex("ffff 00000000")))


@pytest.mark.parametrize("epoch", [1 << 31, -(1 << 31) - 1])
def test_a_coordinator_epoch_has_32_bits(epoch: int) -> None:
    with pytest.raises(ValueError, match=f"coordinator epoch {epoch} does not fit"):
        encode_control_batch(
            ControlType.ABORT,
            producer_id=5,
            producer_epoch=2,
            coordinator_epoch=epoch,
            timestamp=1000,
        )
