"""Decisions as bytes."""

import msgpack
import pytest

from minikafka.metadata.payloads import decode_decision, encode_decision
from minikafka.metadata.records import (
    MetadataLogError,
    MetadataRecord,
    ProducerIdsRecord,
    SettingRecord,
    TopicRecord,
)


def test_a_decision_is_read_as_it_was_written() -> None:
    records: list[MetadataRecord] = [
        TopicRecord("t", b"i" * 16),
        SettingRecord(2, "t", "flush.ms", None),
        ProducerIdsRecord(1, 2000),
    ]
    assert decode_decision(encode_decision(records)) == records
    assert decode_decision(encode_decision([])) == []


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xc1", b"\x90\x90", msgpack.packb(7), msgpack.packb(["text"]), msgpack.packb([b""])],
)
def test_bytes_that_are_no_decision_are_refused(payload: bytes) -> None:
    with pytest.raises(MetadataLogError, match="cannot be read"):
        decode_decision(payload)
