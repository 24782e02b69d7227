"""Serializers, and the errors made of what they raise."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.records import encode_batch
from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.core.producer_batch import ProducerBatch
from minikafka_client.core.serialization import BYTES, Deserializers, Serializers
from minikafka_client.errors import DeserializationError, SerializationError
from minikafka_client.serializers import Json, MsgPack, Serializer, Text
from minikafka_client.types import ConsumerRecord, Headers, TopicPartition

WHERE = TopicPartition("t", 3)
SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text()
VALUES = st.recursive(
    SCALARS | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(VALUES)
def test_json_comes_back(value: object) -> None:
    assert Json().deserialize("t", Json().serialize("t", value)) == value


def test_json_is_utf_8_without_blanks() -> None:
    assert Json().serialize("t", {"a": [1, None], "ü": "€"}) == '{"a":[1,null],"ü":"€"}'.encode()


@given(VALUES | st.binary() | st.dictionaries(st.integers(-(2**63), 2**63 - 1), st.binary()))
def test_msgpack_comes_back(value: object) -> None:
    assert MsgPack().deserialize("t", MsgPack().serialize("t", value)) == value


def test_msgpack_keeps_moments() -> None:
    moment = datetime(2024, 2, 29, 12, 30, 15, 250_000, tzinfo=UTC)
    assert MsgPack().deserialize("t", MsgPack().serialize("t", [moment])) == [moment]


@given(st.text())
def test_texts_come_back(text: str) -> None:
    assert Text().deserialize("t", Text().serialize("t", text)) == text
    utf_16 = Text("utf-16-le")
    assert utf_16.deserialize("t", utf_16.serialize("t", text)) == text


def test_an_encoding_must_exist() -> None:
    with pytest.raises(LookupError, match="klingon"):
        Text("klingon")


# --- producers ---


class Appended:
    """Remembers what arrives where records are appended."""

    def __init__(self) -> None:
        self.taken: list[tuple[object, object]] = []

    def append(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int,
        headers: Headers,
    ) -> tuple[ProducerBatch, int]:
        assert (topic, partition, timestamp_ms, headers) == ("t", 5, 7, ())
        self.taken.append((value, key))
        return ProducerBatch("t", 0, 100, now=0, deadline=1), 0


def append(serializers: Serializers, value: object, key: object = None) -> tuple[object, object]:
    target = Appended()
    serializers.wrap(target.append)("t", value, key, 5, 7, ())
    return target.taken[0]


def test_without_serializers_nothing_is_in_the_way() -> None:
    target = Appended()
    assert BYTES.wrap(target.append) == target.append


def test_keys_and_values_have_serializers_of_their_own() -> None:
    assert append(Serializers(Text(), Json()), [1], "k") == (b"[1]", b"k")
    assert append(Serializers(value=Json()), [1], b"raw") == (b"[1]", b"raw")
    assert append(Serializers(key=Text()), b"raw", "k") == (b"raw", b"k")


def test_none_is_a_tombstone_for_every_serializer() -> None:
    assert append(Serializers(Json(), Json()), None, "k") == (None, b'"k"')
    assert append(Serializers(MsgPack(), MsgPack()), 1, None) == (b"\x01", None)


@pytest.mark.parametrize(
    ("serializers", "value", "key", "text"),
    [
        (Serializers(value=Json()), {1, 2}, None, r"the value for topic 't' is set \{1, 2\}"),
        (Serializers(key=Text()), b"v", 42, "the key for topic 't' is int 42, which Text cannot"),
    ],
)
def test_what_cannot_be_serialized_is_named(
    serializers: Serializers, value: object, key: object, text: str
) -> None:
    with pytest.raises(SerializationError, match=text) as caught:
        append(serializers, value, key)
    assert isinstance(caught.value.__cause__, (TypeError, AttributeError))


def test_a_serializer_must_make_bytes() -> None:
    class Careless:
        def serialize(self, topic: str, given: str, /) -> bytes:
            return f"{topic} {given}"  # type: ignore[return-value]  # that is the point

    careless: Serializer[str] = Careless()
    with pytest.raises(SerializationError, match="Careless made str of a value for topic 't'"):
        append(Serializers(value=careless), "v")


# --- consumers ---


def run_of(*values: bytes | None, key: bytes | None = b"1") -> ConsumedBatch[Any, Any]:
    payload = encode_batch([(key, value, (), 9) for value in values], base_offset=10)
    return ConsumedBatch(WHERE, memoryview(payload), 10)


def test_columns_and_records_are_deserialized() -> None:
    run = run_of(b'{"a":1}', None, b"[2]")
    run.deserializers = Deserializers(MsgPack(), Json())
    assert list(run.values) == [{"a": 1}, None, [2]]
    assert list(run.keys) == [0x31] * 3
    assert list(run.records) == [
        ConsumerRecord("t", 3, 10, 9, 0x31, {"a": 1}, ()),
        ConsumerRecord("t", 3, 11, 9, 0x31, None, ()),
        ConsumerRecord("t", 3, 12, 9, 0x31, [2], ()),
    ]


def test_one_of_the_two_may_stay_bytes() -> None:
    run = run_of(b"1")
    run.deserializers = Deserializers(key=Text())
    assert run.records[0][4:6] == ("1", b"1")
    run = run_of(b"1")
    run.deserializers = Deserializers(value=Text())
    assert run.records[0][4:6] == (b"1", "1")


def test_what_cannot_be_deserialized_is_named() -> None:
    run = run_of(b"1", b"{oops", b"3")
    run.deserializers = Deserializers(value=Json())
    with pytest.raises(DeserializationError) as caught:
        _ = run.records
    error = caught.value
    assert (error.topic, error.partition, error.offset) == ("t", 3, 11)
    assert (error.part, error.encoded) == ("value", b"{oops")
    text = "the value at offset 11 of partition 3 of topic 't' is b'{oops', which Json cannot"
    assert str(error).startswith(text)
    assert str(error).endswith("seek to 12 to skip the record")


def test_a_run_is_split_before_a_record() -> None:
    run = run_of(b"1", b"2", b"3")
    run.deserializers = Deserializers(value=Json())
    head, rest = run.split(12)
    assert (list(head.values), head.next_offset) == ([1, 2], 12)
    assert (list(rest.values), rest.first_offset, rest.next_offset) == ([3], 12, 13)
    assert head.size_bytes + rest.size_bytes == run.size_bytes
