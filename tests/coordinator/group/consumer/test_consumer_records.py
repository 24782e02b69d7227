"""The records of consumer groups, in Kafka's formats, byte by byte."""

from __future__ import annotations

import struct

import pytest

from minikafka.coordinator.group.classic.records import GroupEntry
from minikafka.coordinator.group.consumer.records import (
    ClassicMetadata,
    ClassicProtocol,
    CurrentEntry,
    CurrentValue,
    GroupEpochEntry,
    GroupValue,
    MemberEntry,
    MemberValue,
    RegexEntry,
    RegexValue,
    SubscribedTopicsEntry,
    TargetEntry,
    TargetEpochEntry,
    TargetMemberValue,
    TargetValue,
    TopicPartitions,
)
from minikafka.coordinator.group.decoding import decode_entry
from minikafka.coordinator.group.records import Entry

ID = bytes(range(16))


def key(version: int, *texts: str) -> bytes:
    return struct.pack(">h", version) + b"".join(
        struct.pack(">h", len(text)) + text.encode() for text in texts
    )


def compact(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


PARTITIONS = ID + b"\3\0\0\0\1\0\0\0\2\0"
"""A compact array of two partitions and no tagged fields."""


@pytest.mark.parametrize(
    ("entry", "key_bytes", "value_bytes"),
    [
        (
            GroupEpochEntry("g", GroupValue(epoch=7)),
            key(3, "g"),
            b"\0\0\0\0\0\7\0",
        ),
        (
            GroupEpochEntry("g", GroupValue(epoch=7, metadata_hash=-2)),
            key(3, "g"),
            b"\0\0\0\0\0\7\1\0\x08" + b"\xff" * 7 + b"\xfe",
        ),
        (
            MemberEntry(
                "g",
                "m",
                MemberValue(
                    instance_id=None,
                    rack_id="r",
                    client_id="c",
                    client_host="/h",
                    subscribed_topic_names=["t"],
                    subscribed_topic_regex="x.*",
                    rebalance_timeout_ms=5,
                    server_assignor=None,
                ),
            ),
            key(5, "g", "m"),
            b"\0\0\0" + compact("r") + compact("c") + compact("/h") + b"\2" + compact("t")
            + compact("x.*") + b"\0\0\0\5\0\0",
        ),
        (TargetEpochEntry("g", TargetValue(assignment_epoch=3)), key(6, "g"), b"\0\0\0\0\0\3\0"),
        (
            TargetEntry(
                "g",
                "m",
                TargetMemberValue(
                    topic_partitions=[TopicPartitions(topic_id=ID, partitions=[1, 2])]
                ),
            ),
            key(7, "g", "m"),
            b"\0\0\2" + PARTITIONS + b"\0",
        ),
        (
            CurrentEntry(
                "g",
                "m",
                CurrentValue(
                    member_epoch=4,
                    previous_member_epoch=3,
                    state=1,
                    assigned_partitions=[],
                    partitions_pending_revocation=[
                        TopicPartitions(topic_id=ID, partitions=[1, 2])
                    ],
                ),
            ),
            key(8, "g", "m"),
            b"\0\0\0\0\0\4\0\0\0\3\1\1\2" + PARTITIONS + b"\0",
        ),
        (
            RegexEntry("g", "x.*", RegexValue(topics=["t"], version=1, timestamp_ms=2)),
            key(16, "g", "x.*"),
            b"\0\0\2" + compact("t") + struct.pack(">qq", 1, 2) + b"\0",
        ),
    ],
)  # fmt: skip
def test_each_record_has_kafkas_bytes(entry: Entry, key_bytes: bytes, value_bytes: bytes) -> None:
    assert entry.encode() == (key_bytes, value_bytes)
    assert decode_entry(key_bytes, value_bytes) == entry


def test_a_classic_member_is_a_tagged_field() -> None:
    value = MemberValue(
        instance_id="i",
        rack_id=None,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=[],
        subscribed_topic_regex=None,
        rebalance_timeout_ms=5,
        server_assignor="range",
        classic_member_metadata=ClassicMetadata(
            session_timeout_ms=9,
            supported_protocols=[ClassicProtocol(name="range", metadata=b"\1")],
        ),
    )
    stored = MemberEntry("g", "m", value).encode()
    body = b"\1\0\0\0\x09\2" + compact("range") + b"\2\1\0\0"
    assert stored[1] is not None
    assert stored[1].endswith(b"\1\0" + bytes([len(body)]) + body)
    assert decode_entry(*stored) == MemberEntry("g", "m", value)


@pytest.mark.parametrize(
    ("entry", "key_bytes"),
    [
        (GroupEpochEntry("g", None), key(3, "g")),
        (SubscribedTopicsEntry("g"), key(4, "g")),
        (MemberEntry("g", "m", None), key(5, "g", "m")),
        (TargetEpochEntry("g", None), key(6, "g")),
        (TargetEntry("g", "m", None), key(7, "g", "m")),
        (CurrentEntry("g", "m", None), key(8, "g", "m")),
        (RegexEntry("g", "x", None), key(16, "g", "x")),
        (GroupEntry("g", None), key(2, "g")),
    ],
)
def test_each_record_has_a_tombstone(entry: Entry, key_bytes: bytes) -> None:
    assert entry.encode() == (key_bytes, None)
    assert decode_entry(key_bytes, None) == entry


def test_what_kafka_stored_about_topics_before_4_1_is_read_as_nothing() -> None:
    assert decode_entry(key(4, "g"), b"\0\0 anything") == SubscribedTopicsEntry("g")
