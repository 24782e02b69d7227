"""Metadata records: bytes and back, and bytes that are no record."""

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.metadata.records import (
    BrokerChangeRecord,
    BrokerEpochRecord,
    MetadataLogError,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    SettingRecord,
    TopicRecord,
    UnknownMetadataRecordError,
    UnregisterBrokerRecord,
    decode_record,
    encode_record,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT63 = st.integers(0, 2**63 - 1)
TOPIC_ID = ID = st.binary(min_size=16, max_size=16)
NODES = st.lists(INT32, max_size=5).map(tuple)
RECORDS: st.SearchStrategy[MetadataRecord] = st.one_of(
    st.builds(TopicRecord, st.text(), TOPIC_ID),
    st.builds(
        PartitionRecord,
        *(TOPIC_ID, INT32, NODES, NODES, INT32, INT32, INT32),
        *(NODES, NODES, NODES, NODES, INT32),
    ),
    st.builds(RemoveTopicRecord, TOPIC_ID),
    st.builds(SettingRecord, INT32, st.text(), st.text(), st.none() | st.text()),
    st.builds(ProducerIdsRecord, INT32, INT63),
    st.builds(
        RegisterBrokerRecord,
        *(INT32, ID, INT63, st.text(), INT32, st.text(), INT32),
        *(st.none() | st.text(), st.booleans(), st.booleans()),
        st.lists(st.tuples(st.text(), st.text(), INT32), max_size=3).map(tuple),
        st.lists(st.tuples(st.text(), INT32, INT32), max_size=3).map(tuple),
    ),
    st.builds(BrokerChangeRecord, INT32, INT63, st.booleans(), st.booleans()),
    st.builds(UnregisterBrokerRecord, INT32, INT63),
    st.builds(BrokerEpochRecord, INT63),
)


@given(RECORDS)
def test_a_record_survives_its_encoding(record: MetadataRecord) -> None:
    decoded = decode_record(encode_record(record))
    assert decoded == record
    assert type(decoded) is type(record)


def test_the_encoding_is_an_array_that_begins_with_the_type_number() -> None:
    record = TopicRecord("t", b"i" * 16)
    assert msgpack.unpackb(encode_record(record)) == [1, "t", b"i" * 16]


def test_a_partition_of_a_log_that_was_written_before_there_were_clusters_is_read() -> None:
    old = msgpack.packb([2, b"i" * 16, 0, [1], [1], 1, 4, 9])
    assert decode_record(old) == PartitionRecord(
        b"i" * 16, 0, (1,), (1,), 1, 4, 9, (), (), (), (), next_leader=-1
    )


@given(st.binary(max_size=40))
def test_bytes_that_are_no_record_are_refused_or_read_but_never_crash(payload: bytes) -> None:
    try:
        record = decode_record(payload)
    except UnknownMetadataRecordError:
        return
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        msgpack.packb(7),
        msgpack.packb([]),
        msgpack.packb([99, "from a newer version"]),
        msgpack.packb([1, "too few"]),
        msgpack.packb([3, b"i", "one too many"]),
        msgpack.packb([dict[str, int](), 1]),
        encode_record(RemoveTopicRecord(b"i" * 16)) + b"\x00",
    ],
)
def test_an_unreadable_record_says_who_may_have_written_it(payload: bytes) -> None:
    with pytest.raises(MetadataLogError, match="newer minikafka"):
        decode_record(payload)
