"""Markers are read with or without their header."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.records.batch import parse_batch_header
from minikafka.protocol.records.builder import encode_batch
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.control import (
    ControlType,
    TransactionMarker,
    encode_control_batch,
)
from minikafka.storage.markers import read_marker


@given(
    control_type=st.sampled_from(ControlType),
    producer_id=st.integers(0, 2**63 - 1),
    producer_epoch=st.integers(0, 2**15 - 1),
    coordinator_epoch=st.integers(0, 2**31 - 1),
    timestamp=st.integers(-1, 2**48),
    before=st.binary(max_size=9),
)
def test_a_marker_is_read_back(
    control_type: ControlType,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    before: bytes,
) -> None:
    batch = encode_control_batch(
        control_type,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=timestamp,
    )
    expected = TransactionMarker(control_type, coordinator_epoch)
    header = parse_batch_header(batch)
    assert (header.producer_id, header.producer_epoch) == (producer_id, producer_epoch)
    assert header.max_timestamp == timestamp
    assert read_marker(before + batch + b"more", len(before)) == expected
    assert read_marker(before + batch + b"more", len(before), header) == expected


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("key", [b"\0\0\0\1", b"\0\0\0\7", b"\0"])
def test_control_batches_that_coordinators_do_not_write(
    compression: Compression, key: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    value = b"\0\0\0\0\0\5" + bytes(range(len(key)))
    batch = encode_batch([(key, value, (), 1)], compression=compression, is_control=True)
    header = parse_batch_header(batch)
    assert read_marker(batch, 0, header) == read_marker(batch)
    assert (read_marker(batch) is None) is (key != b"\0\0\0\1")
    assert ("no transaction marker" in caplog.text) is (len(key) < 4)
