"""Metadata records and decisions: a round trip, other versions, and malformed bytes."""

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.metadata import records as metadata_records

INT32 = st.integers(-(2**31), 2**31 - 1)
INT63 = st.integers(0, 2**63 - 1)
TOPIC_ID = ID = st.binary(min_size=16, max_size=16)
NODES = st.lists(INT32, max_size=5).map(tuple)
RECORDS: st.SearchStrategy[metadata_records.MetadataRecord] = st.one_of(
    st.builds(metadata_records.TopicRecord, st.text(), TOPIC_ID),
    st.builds(
        metadata_records.PartitionRecord,
        *(TOPIC_ID, INT32, NODES, NODES, INT32, INT32, INT32),
        *(NODES, NODES, NODES, NODES, INT32),
    ),
    st.builds(metadata_records.RemoveTopicRecord, TOPIC_ID),
    st.builds(metadata_records.SettingRecord, INT32, st.text(), st.text(), st.none() | st.text()),
    st.builds(metadata_records.ProducerIdsRecord, INT32, INT63),
    st.builds(
        metadata_records.BrokerRecord,
        *(INT32, ID, INT63, st.text(), INT32, st.text(), INT32),
        *(st.none() | st.text(), st.booleans(), st.booleans()),
        st.lists(st.tuples(st.text(), st.text(), INT32), max_size=3).map(tuple),
        st.lists(st.tuples(st.text(), INT32, INT32), max_size=3).map(tuple),
    ),
    st.builds(metadata_records.BrokerChangeRecord, INT32, INT63, st.booleans(), st.booleans()),
    st.builds(metadata_records.UnregisterBrokerRecord, INT32, INT63),
    st.builds(metadata_records.BrokerEpochRecord, INT63),
)


@given(RECORDS)
def test_a_record_survives_its_encoding(record: metadata_records.MetadataRecord) -> None:
    decoded = metadata_records.decode_record(metadata_records.encode_record(record))
    assert decoded == record
    assert type(decoded) is type(record)


def test_the_encoding_is_an_array_that_begins_with_the_type_number() -> None:
    record = metadata_records.TopicRecord("t", b"i" * 16)
    assert msgpack.unpackb(metadata_records.encode_record(record)) == [1, "t", b"i" * 16]


def test_a_partition_of_a_log_that_was_written_before_there_were_clusters_is_read() -> None:
    old = msgpack.packb([2, b"i" * 16, 0, [1], [1], 1, 4, 9])
    assert metadata_records.decode_record(old) == metadata_records.PartitionRecord(
        b"i" * 16, 0, (1,), (1,), 1, 4, 9, (), (), (), (), next_leader=-1
    )


def test_a_reader_ignores_the_fields_of_a_later_version_and_fills_in_those_it_misses() -> None:
    newer = msgpack.packb(
        [6, 1, b"i", 7, "h", 1, "h", 2, None, True, False, [["SSL", "h", 3, 4]], [], "new"]
    )
    expected = metadata_records.BrokerRecord(
        1, b"i", 7, "h", 1, "h", 2, listeners=(metadata_records.Listener("SSL", "h", 3),)
    )
    assert metadata_records.decode_record(newer) == expected
    assert metadata_records.decode_record(
        msgpack.packb([6, 1, b"i", 7, "h", 1, "h", 2])
    ) == metadata_records.BrokerRecord(1, b"i", 7, "h", 1, "h", 2)


@given(st.binary(max_size=40))
def test_any_bytes_are_refused_or_read_but_never_crash(payload: bytes) -> None:
    try:
        record = metadata_records.decode_record(payload)
    except metadata_records.UnknownMetadataRecordError:
        return
    assert metadata_records.decode_record(metadata_records.encode_record(record)) == record


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        msgpack.packb(7),
        msgpack.packb([]),
        msgpack.packb([99, "from a newer version"]),
        msgpack.packb([1, "too few"]),
        msgpack.packb([3, "text, not bytes"]),
        msgpack.packb([7, 1, 1, 0, 1]),
        msgpack.packb([6, 1, b"i", 7, "h", 1, "h", 2, None, True, False, [["SSL", "h"]]]),
        msgpack.packb([dict[str, int](), 1]),
        metadata_records.encode_record(metadata_records.RemoveTopicRecord(b"i" * 16)) + b"\x00",
    ],
)
def test_an_unreadable_record_names_a_newer_version_as_the_cause(payload: bytes) -> None:
    with pytest.raises(metadata_records.MetadataLogError, match="newer minikafka"):
        metadata_records.decode_record(payload)


def test_a_decision_is_read_as_it_was_written() -> None:
    records: list[metadata_records.MetadataRecord] = [
        metadata_records.TopicRecord("t", b"i" * 16),
        metadata_records.SettingRecord(2, "t", "flush.ms", None),
        metadata_records.ProducerIdsRecord(1, 2000),
    ]
    assert metadata_records.decode_decision(metadata_records.encode_decision(records)) == records
    assert metadata_records.decode_decision(metadata_records.encode_decision([])) == []


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xc1", b"\x90\x90", msgpack.packb(7), msgpack.packb(["text"]), msgpack.packb([b""])],
)
def test_a_malformed_decision_is_refused(payload: bytes) -> None:
    with pytest.raises(metadata_records.MetadataLogError, match="cannot be read"):
        metadata_records.decode_decision(payload)
