"""Encoding and decoding of messages that are declared for these tests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol import fields
from minikafka.protocol.exceptions import (
    EncodeError,
    MalformedMessageError,
    UnsupportedVersionError,
)
from minikafka.protocol.schema import Message, Request
from tests.protocol.instances import Case
from tests.protocol.plain_writer import write_plainly


class Spot(fields.Struct):
    x: int = fields.int32()
    name: str = fields.string(default="spot")


class Extra(fields.Struct):
    level: int = fields.int8(default=-1)


class Everything(Message, versions="0-2", flexible="1+"):
    yes: bool = fields.boolean(default=False)
    tiny: int = fields.int8(default=0)
    short: int = fields.int16(default=0)
    port: int = fields.uint16(default=0)
    plain: int = fields.int32(default=0)
    wide: int = fields.uint32(default=0)
    long: int = fields.int64(default=0)
    real: float = fields.float64(default=0.0)
    key: bytes = fields.uuid(default=fields.ZERO_UUID)
    text: str = fields.string(default="")
    maybe_text: str | None = fields.string(nullable="0+", default=None)
    blob: bytes = fields.octets(default=b"")
    maybe_blob: bytes | None = fields.octets(nullable="0+", default=None)
    records: fields.Payload | None = fields.payload(default=None)
    spot: Spot = fields.nested(Spot, default_factory=lambda: Spot(x=1))
    maybe_spot: Spot | None = fields.nested(Spot, nullable="0+", default=None)
    spots: list[Spot] = fields.array(Spot, default_factory=list)
    numbers: list[int] = fields.array(fields.int32(), default_factory=list)
    maybe_numbers: list[int] | None = fields.array(fields.int64(), nullable="0+", default=None)
    keys: list[bytes] = fields.array(fields.uuid(), default_factory=list)
    texts: list[str] = fields.array(fields.string(), default_factory=list)
    new_in_2: list[int] = fields.array(fields.int8(), versions="2+", default_factory=lambda: [7])
    only_in_0: int = fields.int32(versions="0", default=5)
    extra: Extra = fields.nested(Extra, versions="1+", tag=0, default_factory=Extra)
    tagged_numbers: list[int] = fields.array(
        fields.int32(), versions="1+", tag=1, default_factory=list
    )
    tagged_text: str | None = fields.string(versions="1+", nullable="1+", tag=2, default=None)
    tagged_spots: list[Spot] = fields.array(Spot, versions="1+", tag=200, default_factory=list)
    late_tag: int = fields.int64(versions="0+", tagged="2+", tag=3, default=9)


class Pair(fields.Struct):
    first: Spot | None = fields.nested(Spot, nullable="0+", default=None)
    second: Spot = fields.nested(Spot)


class Pairs(Message, versions="0-1", flexible="1+"):
    pairs: list[Pair] | None = fields.array(Pair, nullable="0+", default=None)


class Late(Message, versions="0-1"):
    count: int = fields.int32(versions="1+")
    name: str = fields.string(versions="1+")
    numbers: list[int] = fields.array(fields.int32(), versions="1+")
    extra: Extra = fields.nested(Extra, versions="1+")


class Empty(Message, versions="0-1", flexible="1+"):
    pass


class Twin(Message, versions="0"):
    pass


def sent(message: Message, version: int) -> Any:
    return type(message).decode(version, message.encode_to_bytes(version))


NUMBERS = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=40)
TEXT = st.text(max_size=140).filter(lambda text: len(text.encode()) < 1_000)


@given(
    st.integers(0, 2),
    NUMBERS,
    st.none() | NUMBERS,
    TEXT,
    st.lists(TEXT, max_size=3),
    st.lists(st.binary(min_size=16, max_size=16), max_size=3),
    st.none() | st.binary(max_size=200),
    st.lists(st.integers(0, 9), max_size=200),
)
def test_an_encoded_message_is_decoded_to_the_same_values(
    version: int,
    numbers: list[int],
    maybe_numbers: list[int] | None,
    text: str,
    texts: list[str],
    keys: list[bytes],
    blob: bytes | None,
    levels: list[int],
) -> None:
    message = Everything(
        numbers=numbers,
        maybe_numbers=maybe_numbers,
        text=text,
        maybe_text=None if blob is None else text,
        texts=texts,
        keys=keys,
        blob=blob or b"",
        maybe_blob=blob,
        records=blob,
        spots=[Spot(x=level) for level in levels],
        maybe_spot=None if blob is None else Spot(x=3),
    )
    if version >= 1:
        message.tagged_numbers = numbers
        message.tagged_text = text
        message.tagged_spots = [Spot(x=level, name="t") for level in levels[:3]]
        message.extra = Extra(level=4)
        message.only_in_0 = 5
    if version == 2:
        message.new_in_2 = [1, 2, 3]
    assert sent(message, version) == message


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 126, 127, 128, 16_382, 16_383, 16_384, 30_000])
@pytest.mark.parametrize("version", [0, 1])
def test_lengths_around_every_step_of_their_encoding_are_read_back(version: int, size: int) -> None:
    for message in (
        Everything(text="x" * size),
        Everything(blob=b"x" * size),
        Everything(records=b"x" * size),
        Everything(numbers=[7] * size),
        Everything(spots=[Spot(x=7, name="")] * size),
        Everything(texts=["x"] * size),
    ):
        wire = message.encode_to_bytes(version)
        assert wire == write_plainly(Case(Everything, version), message)
        assert Everything.decode(version, wire) == message


@pytest.mark.parametrize("version", [0, 1])
def test_structs_in_structs_in_arrays_are_read_back(version: int) -> None:
    """A null struct takes one byte, so many such items in few bytes must not be refused."""
    light = Pair(second=Spot(x=2, name=""))
    heavy = Pair(first=Spot(x=1), second=Spot(x=2))
    for pairs in (None, [], [light] * 50, [light, heavy]):
        assert sent(Pairs(pairs=pairs), version) == Pairs(pairs=pairs)


def test_extreme_numbers_are_read_back() -> None:
    message = Everything(
        yes=True,
        tiny=-128,
        short=-32_768,
        port=65_535,
        plain=-(2**31),
        wide=2**32 - 1,
        long=-(2**63),
        real=1e300,
        key=bytes(range(16)),
    )
    for version in (0, 1, 2):
        assert sent(message, version) == message


def test_absent_fields_take_their_defaults() -> None:
    message = Everything(only_in_0=99, new_in_2=[1], late_tag=10)
    assert sent(message, 0).only_in_0 == 99
    assert sent(message, 0).new_in_2 == [7]
    assert sent(message, 1).only_in_0 == 5
    assert sent(message, 2).new_in_2 == [1]
    assert [sent(message, version).late_tag for version in (0, 1, 2)] == [10, 10, 10]


def test_absent_fields_without_a_default_are_the_zero_of_their_type() -> None:
    first = Late.decode(0, b"")
    assert first == Late(count=0, name="", numbers=[], extra=Extra())
    assert first.numbers is not Late.decode(0, b"").numbers


def test_a_tagged_field_at_its_default_is_not_sent() -> None:
    plain = Everything().encode_to_bytes(2)
    for tagged in (
        Everything(extra=Extra()),
        Everything(tagged_numbers=[]),
        Everything(tagged_text=None),
        Everything(late_tag=9),
    ):
        assert tagged.encode_to_bytes(2) == plain
    assert len(Everything(extra=Extra(level=3)).encode_to_bytes(2)) == len(plain) + 4


def test_tags_are_sent_in_ascending_order() -> None:
    message = Everything(extra=Extra(level=3), tagged_spots=[Spot(x=1, name="")], late_tag=1)
    wire = message.encode_to_bytes(2)
    assert wire.endswith(
        b"\x03"  # three tags
        b"\x00\x02\x03\x00"  # tag 0: Extra
        b"\x03\x08\x00\x00\x00\x00\x00\x00\x00\x01"  # tag 3: late_tag
        b"\xc8\x01\x07\x02\x00\x00\x00\x01\x01\x00"  # tag 200: one Spot
    )


EMPTY_TAGS = Everything().encode_to_bytes(2)[:-1]


@pytest.mark.parametrize(
    ("tags", "complaint"),
    [
        (b"\x00\x03\x05\x00\x00", "extra announces 3 bytes in its tag, but takes 2"),
        (b"\x00\x01\x05\x00", "extra announces 1 bytes in its tag, but takes 2"),
        (b"\x01\x01\x02\x00\x00\x00\x01", "numbers announces 1, but only 0 bytes remain"),
        (b"\x02\x02\x05abcd", "text announces 4, but only 1 bytes remain"),
    ],
)
def test_a_tagged_field_that_does_not_fill_its_tag_is_malformed(
    tags: bytes, complaint: str
) -> None:
    tags = b"\x01" + tags
    with pytest.raises(MalformedMessageError, match=complaint):
        Everything.decode(2, EMPTY_TAGS + tags)


def test_many_tags_over_the_same_bytes_are_refused_not_read_repeatedly() -> None:
    """A tag whose array overlaps the following tags would make decoding quadratic."""
    tag = b"\x01\x01\xff"
    with pytest.raises(MalformedMessageError, match=r"tagged_numbers announces|longer|tags"):
        Everything.decode(2, EMPTY_TAGS + b"\x80\x08" + tag * 1024)


@pytest.mark.parametrize(
    ("tags", "complaint"),
    [
        (b"\x7f\x00\x00", "Everything tags announces 127, but only 2 bytes remain"),
        (b"\x01\x09\x7fabc", "Everything tags announces 127, but only 3 bytes remain"),
        (b"\x01", "Everything tags announces 1, but only 0 bytes remain"),
    ],
)
def test_invalid_tag_sections_are_malformed(tags: bytes, complaint: str) -> None:
    with pytest.raises(MalformedMessageError, match=complaint):
        Everything.decode(2, EMPTY_TAGS + tags)


def test_unknown_tags_among_known_ones_are_skipped() -> None:
    tags = b"\x03" + b"\x00\x02\x03\x00" + b"\x09\x03abc" + b"\x81\x01\x00"
    assert Everything.decode(2, EMPTY_TAGS + tags) == Everything(extra=Extra(level=3))


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("field", ["text", "blob", "spots", "numbers", "texts", "spot", "key"])
def test_null_where_it_is_not_allowed_is_not_encoded(field: str, version: int) -> None:
    message = Everything()
    setattr(message, field, None)
    with pytest.raises(EncodeError, match=rf"Everything v{version}: {field} is None"):
        message.encode(version)


@pytest.mark.parametrize(
    ("version", "null", "at"), [(0, b"\xff\xff", 46), (1, b"\x00", 46)], ids=["fixed", "compact"]
)
def test_null_where_it_is_not_allowed_is_malformed(version: int, null: bytes, at: int) -> None:
    wire = Everything().encode_to_bytes(version)
    with pytest.raises(MalformedMessageError, match=r"Everything\.text is null"):
        Everything.decode(version, wire[:at] + null + wire[at + len(null) :])


@pytest.mark.parametrize("version", [0, 1])
def test_a_null_array_where_it_is_not_allowed_is_malformed(version: int) -> None:
    message = Everything(numbers=[77])
    wire = message.encode_to_bytes(version)
    count = b"\x00\x00\x00\x01" if version == 0 else b"\x02"
    item = b"\x00\x00\x00\x4d"
    null = b"\xff\xff\xff\xff" if version == 0 else b"\x00"
    with pytest.raises(MalformedMessageError, match=r"Everything\.numbers is null"):
        Everything.decode(version, wire.replace(count + item, null + item))


@pytest.mark.parametrize("version", [0, 1])
def test_text_that_is_not_utf8_is_malformed(version: int) -> None:
    wire = Everything(text="abcde").encode_to_bytes(version)
    with pytest.raises(MalformedMessageError, match="utf-8"):
        Everything.decode(version, wire.replace(b"abcde", b"abc\xff\xfe"))


def test_the_longest_string_is_encoded_and_a_longer_one_refused() -> None:
    for version in (0, 1):
        longest = Everything(text="x" * 32_767)
        assert sent(longest, version) == longest
        with pytest.raises(EncodeError, match="text has 32768 bytes of UTF-8; at most 32767"):
            Everything(text="x" * 32_766 + "é").encode(version)


def test_a_compact_string_longer_than_kafka_allows_is_malformed() -> None:
    wire = Everything().encode_to_bytes(1)
    announced = wire[:46] + b"\x81\x80\x02" + b"x" * 32_768 + wire[47:]
    with pytest.raises(MalformedMessageError, match="announces 32768 bytes of text"):
        Everything.decode(1, announced)


def test_record_payloads_are_neither_copied_when_written_nor_when_read() -> None:
    batch = b"r" * 300
    parts = Everything(records=batch).encode(1, b"head")
    assert parts[1] is batch
    assert parts[0].startswith(b"head")
    assert len(parts) == 3
    frame = b"".join(parts)
    message = Everything.decode(1, frame, 4)
    assert isinstance(message.records, memoryview)
    assert message.records.obj is frame


class FileSlice:
    """A payload that is not a buffer, such as a slice of a file."""

    def __len__(self) -> int:
        return 70_000


class OnlyRecords(Message, versions="0-1", flexible="1+"):
    records: fields.Payload | None = fields.payload()


def test_a_payload_needs_nothing_but_a_length() -> None:
    part = FileSlice()
    assert OnlyRecords(records=part).encode(0) == [b"\x00\x01\x11\x70", part]
    assert OnlyRecords(records=part).encode(1) == [b"\xf1\xa2\x04", part, b"\x00"]
    assert OnlyRecords(records=None).encode(0) == [b"\xff\xff\xff\xff"]


def test_bytes_after_a_message_are_ignored() -> None:
    wire = Everything(plain=4).encode_to_bytes(1)
    assert Everything.decode(1, wire + b"more") == Everything(plain=4)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_read(kind: type[Any]) -> None:
    wire = Everything(text="a").encode_to_bytes(1)
    assert Everything.decode(1, kind(b".." + wire), 2) == Everything(text="a")


def test_a_message_without_fields_is_empty_or_has_zero_tags() -> None:
    assert Empty().encode_to_bytes(0) == b""
    assert Empty().encode_to_bytes(1) == b"\x00"
    assert Empty.decode(0, b"") == Empty()
    assert Empty.decode(1, b"\x00") == Empty()
    assert Empty.decode(1, b"\x01\x05\x01a") == Empty()


@pytest.mark.parametrize("version", [-1, 3])
def test_a_version_that_does_not_exist_is_refused(version: int) -> None:
    with pytest.raises(UnsupportedVersionError, match=f"versions 0 to 2, not {version}"):
        Everything.decode(version, b"")
    with pytest.raises(UnsupportedVersionError, match="Everything has versions"):
        Everything().encode(version)


def test_required_fields_are_required_and_unknown_ones_refused() -> None:
    with pytest.raises(TypeError, match="x"):
        Spot()  # type: ignore[call-arg]  # that is the point
    with pytest.raises(TypeError, match="z"):
        Spot(x=1, z=2)  # type: ignore[call-arg]  # that is the point
    with pytest.raises(AttributeError):
        Spot(x=1).z = 2  # type: ignore[attr-defined]  # slots: a misspelled field is noticed


def test_every_object_gets_its_own_lists_and_factory_defaults() -> None:
    first, second = Everything(), Everything()
    first.numbers.append(1)
    first.spot.x = 9
    first.new_in_2.append(8)
    assert second == Everything()
    assert second.spot == Spot(x=1)
    decoded = sent(Everything(), 1)
    decoded.new_in_2.append(1)
    assert sent(Everything(), 1).new_in_2 == [7]


def test_objects_compare_by_value_and_only_with_their_own_class() -> None:
    assert Spot(x=1) == Spot(x=1)
    assert Spot(x=1) != Spot(x=2)
    assert Spot(x=1) != Extra()
    assert Spot(x=1) != "Spot"
    assert Empty() != Twin()
    with pytest.raises(TypeError, match="unhashable"):
        hash(Spot(x=1))


def test_repr_shows_the_fields_and_truncates_long_bytes() -> None:
    assert repr(Spot(x=1)) == "Spot(x=1, name='spot')"
    assert repr(OnlyRecords(records=b"ab")) == "OnlyRecords(records=b'ab')"
    assert repr(OnlyRecords(records=memoryview(b"ab"))) == "OnlyRecords(records=b'ab')"
    long = repr(OnlyRecords(records=b"a" * 10_000))
    assert long.startswith("OnlyRecords(records=<10000 bytes b'aaa")
    assert len(long) < 120


def test_a_request_in_a_namespace_carries_the_name_that_kafka_gives_it() -> None:
    body = {"__module__": "package.list_offsets", "__qualname__": "Request"}
    declared: type[Request] = fields.StructMeta.__new__(
        fields.StructMeta, "Request", (Request,), body, api_key=2, versions="1"
    )
    assert declared.__name__ == "ListOffsetsRequest"
    assert declared.__qualname__ == "Request"
    assert repr(declared()) == "ListOffsetsRequest()"
    with pytest.raises(UnsupportedVersionError, match="ListOffsetsRequest has versions 1 to 1"):
        declared.decode(2, b"")
