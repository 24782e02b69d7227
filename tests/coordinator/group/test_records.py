"""The records of __consumer_offsets, byte for byte, and the subscriptions in them."""

import struct
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.consumer_protocol_subscription.v0.data import (
    ConsumerProtocolSubscription as SubscriptionV0,
)
from kio.schema.consumer_protocol_subscription.v3.data import (
    ConsumerProtocolSubscription as SubscriptionV3,
)
from kio.serial import entity_writer
from kio.static.primitive import i32

from minikafka.coordinator.group.classic.records import (
    GroupEntry,
    GroupMetadataMember,
    GroupMetadataValue,
)
from minikafka.coordinator.group.classic.subscription import subscribed_topics
from minikafka.coordinator.group.decoding import UnknownKind, decode_entry
from minikafka.coordinator.group.records import CommittedOffset, OffsetEntry, OffsetKey
from minikafka.protocol.exceptions import MalformedMessageError

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
timeouts = st.integers(0, 2**31 - 1)
keys = st.builds(OffsetKey, text, text, int32s)
live_offsets = st.builds(CommittedOffset, int64s, int32s, text, int64s, st.just(-1))
expiring_offsets = st.builds(
    CommittedOffset, int64s, st.just(-1), text, int64s, st.integers(0, 2**63 - 1)
)
members = st.builds(
    GroupMetadataMember,
    member_id=text,
    group_instance_id=st.none() | text,
    client_id=text,
    client_host=text,
    rebalance_timeout_ms=timeouts,
    session_timeout_ms=timeouts,
    subscription=st.binary(max_size=20),
    assignment=st.binary(max_size=20),
)
group_values = st.builds(
    GroupMetadataValue,
    protocol_type=text,
    generation=int32s,
    protocol=st.none() | text,
    leader=st.none() | text,
    current_state_timestamp_ms=int64s,
    members=st.lists(members, max_size=3),
)
entries = st.builds(OffsetEntry, keys, st.none() | live_offsets | expiring_offsets) | st.builds(
    GroupEntry, text, st.none() | group_values
)


@given(entries)
def test_records_round_trip(entry: OffsetEntry | GroupEntry) -> None:
    key, value = entry.encode()
    assert decode_entry(key, value) == entry


@given(st.binary(max_size=40), st.none() | st.binary(max_size=60))
def test_damaged_records_are_recognised(key: bytes, value: bytes | None) -> None:
    try:
        entry = decode_entry(key, value)
    except MalformedMessageError:
        return
    assert isinstance(entry, OffsetEntry | GroupEntry | UnknownKind)


@given(entries, st.data())
def test_truncated_records_are_recognised(
    entry: OffsetEntry | GroupEntry, data: st.DataObject
) -> None:
    key, value = entry.encode()
    with pytest.raises(MalformedMessageError):
        decode_entry(key[: data.draw(st.integers(0, len(key) - 1))], value)
    if value is not None:
        with pytest.raises(MalformedMessageError):
            decode_entry(key, value[: data.draw(st.integers(0, len(value) - 1))])


# --- the formats, written out ---------------------------------------------------------------

OFFSET_KEY = b"\0\1" + b"\0\1g" + b"\0\1t" + b"\0\0\0\7"
GROUP_KEY = b"\0\2" + b"\0\1g"
KEY = OffsetKey("g", "t", 7)


def test_a_committed_offset_is_written_as_version_3() -> None:
    key, value = OffsetEntry(KEY, CommittedOffset(5, 2, "m", 9)).encode()
    assert key == OFFSET_KEY
    assert value == struct.pack(">hqih1sq", 3, 5, 2, 1, b"m", 9)


def test_a_committed_offset_that_expires_is_written_as_version_1() -> None:
    _, value = OffsetEntry(KEY, CommittedOffset(5, -1, "m", 9, 12)).encode()
    assert value == struct.pack(">hqh1sqq", 1, 5, 1, b"m", 9, 12)


@pytest.mark.parametrize(
    ("value", "committed"),
    [
        (struct.pack(">hqh1sq", 0, 5, 1, b"m", 9), CommittedOffset(5, -1, "m", 9)),
        (struct.pack(">hqh1sqq", 1, 5, 1, b"m", 9, -1), CommittedOffset(5, -1, "m", 9)),
        (struct.pack(">hqh1sqq", 1, 5, 1, b"m", 9, 12), CommittedOffset(5, -1, "m", 9, 12)),
        (struct.pack(">hqh1sq", 2, 5, 1, b"m", 9), CommittedOffset(5, -1, "m", 9)),
        (struct.pack(">hqih1sq", 3, 5, 2, 1, b"m", 9), CommittedOffset(5, 2, "m", 9)),
        (struct.pack(">hqiB1sqB", 4, 5, 2, 2, b"m", 9, 0), CommittedOffset(5, 2, "m", 9)),
    ],
)
@pytest.mark.parametrize("key", [OFFSET_KEY, b"\0\0" + OFFSET_KEY[2:]])
def test_every_version_of_a_committed_offset_is_read(
    key: bytes, value: bytes, committed: CommittedOffset
) -> None:
    assert decode_entry(key, value) == OffsetEntry(KEY, committed)


def group_value(version: int) -> bytes:
    """A generation with one member, as each version of the format has it."""

    def text(value: bytes | None) -> bytes:
        if version >= 4:
            return b"\0" if value is None else bytes([len(value) + 1]) + value
        return b"\xff\xff" if value is None else struct.pack(">h", len(value)) + value

    def octets(value: bytes) -> bytes:
        return text(value) if version >= 4 else struct.pack(">i", len(value)) + value

    count = b"\2" if version >= 4 else struct.pack(">i", 1)
    tags = b"\0" if version >= 4 else b""
    return b"".join(
        [
            struct.pack(">h", version),
            text(b"consumer") + struct.pack(">i", 3) + text(b"range") + text(b"m-1"),
            struct.pack(">q", 77) if version >= 2 else b"",
            count,
            text(b"m-1"),
            text(b"alpha") if version >= 3 else b"",
            text(b"app") + text(b"/10.0.0.7"),
            struct.pack(">i", 60_000) if version >= 1 else b"",
            struct.pack(">i", 10_000),
            octets(b"sub") + octets(b"ass") + tags + tags,
        ]
    )


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_group_is_read(version: int) -> None:
    entry = decode_entry(GROUP_KEY, group_value(version))
    expected = GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="m-1",
        current_state_timestamp_ms=77 if version >= 2 else -1,
        members=[
            GroupMetadataMember(
                member_id="m-1",
                group_instance_id="alpha" if version >= 3 else None,
                client_id="app",
                client_host="/10.0.0.7",
                rebalance_timeout_ms=60_000 if version >= 1 else -1,
                session_timeout_ms=10_000,
                subscription=b"sub",
                assignment=b"ass",
            )
        ],
    )
    assert entry == GroupEntry("g", expected)
    if version == 3:
        assert GroupEntry("g", expected).encode() == (GROUP_KEY, group_value(3))


@pytest.mark.parametrize("version", [98, 99, 32_767, -1])
def test_keys_of_other_kinds_are_named_by_their_version(version: int) -> None:
    assert decode_entry(struct.pack(">h", version) + b"x", b"") == UnknownKind(version)


@pytest.mark.parametrize("key", [OFFSET_KEY, GROUP_KEY])
def test_a_value_of_a_later_version_cannot_be_read(key: bytes) -> None:
    with pytest.raises(MalformedMessageError, match="version 5; this broker reads versions 0"):
        decode_entry(key, b"\0\5" + bytes(40))


# --- subscriptions --------------------------------------------------------------------------

topics = st.lists(st.text("abc.-_", max_size=10), max_size=5)


@given(topics, topics)
def test_the_topics_of_all_members_are_found(first: list[str], second: list[str]) -> None:
    older, newer = BytesIO(), BytesIO()
    for version, buffer in ((0, older), (3, newer)):
        buffer.write(struct.pack(">h", version))
    entity_writer(SubscriptionV0)(older, SubscriptionV0(topics=tuple(first), user_data=b"anything"))
    entity_writer(SubscriptionV3)(
        newer,
        SubscriptionV3(
            topics=tuple(second),
            user_data=None,
            owned_partitions=(),
            generation_id=i32(4),
            rack_id="r",
        ),
    )
    found = subscribed_topics([older.getvalue(), newer.getvalue()])
    assert found == frozenset(first) | frozenset(second)


@given(st.binary(max_size=30))
def test_a_malformed_subscription_is_unknown(metadata: bytes) -> None:
    found = subscribed_topics([metadata])
    assert found is None or all(topic.encode() in metadata for topic in found)
