"""The records of ``__consumer_offsets``, in Kafka's formats, because clients read that topic.

Keys and values start with an int16 version. The version of a key is the type of the record; each
kind of group declares its own in its room, and `decoding` has the table of all types:

====== ==========================================================
type   record
====== ==========================================================
0, 1   a committed offset (below)
2      a classic group (`classic.records`)
3 to 8 consumer groups, and 16 (`consumer.records`)
9 to 15 share groups (`share.records`)
17 on  streams groups (`streams.records`)
====== ==========================================================
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Protocol, TypeVar

from minikafka.data_class import DataClass
from minikafka.protocol.exceptions import MalformedMessageError
from minikafka.protocol.fields import ZERO_UUID, int32, int64, string, uuid
from minikafka.protocol.schema import Message

from .effects import Record

OFFSET_KEY_VERSIONS = (0, 1)
_OFFSET_KEY_VERSION = 1
_VALUE_VERSION = 4
# The only version of an offset's value with an expiry time.
_EXPIRING_VALUE_VERSION = 1

_version = struct.Struct(">h")
VERSION_SIZE_BYTES = _version.size


class Entry(Protocol):
    """One record of the log, decoded; a tombstone says so in its own way."""

    def encode(self) -> Record: ...


class OffsetCommitKey(Message, versions="0-1"):
    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    """A committed offset; times in milliseconds since 1970."""

    offset: int = int64()
    leader_epoch: int = int32(versions="3+", default=-1)
    metadata: str = string()
    commit_timestamp_ms: int = int64()
    expire_timestamp_ms: int = int64(versions="1", default=-1)
    topic_id: bytes = uuid(versions="4+", tag=0, tagged="4+", default=ZERO_UUID)


class OffsetKey(NamedTuple):
    group_id: str
    topic: str
    partition: int


class CommittedOffset(NamedTuple):
    """One committed offset; times in milliseconds since 1970."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1
    """When it expires, if the client set a retention time (OffsetCommit v2 to v4); else -1."""


class OffsetEntry(DataClass):
    """A committed offset; None is its tombstone.

    The topic's id is only written, for others that read the topic; offsets committed in
    transactions have none, as in Kafka, because their requests do not name it.
    """

    key: OffsetKey
    committed: CommittedOffset | None
    topic_id: bytes = ZERO_UUID

    def encode(self) -> Record:
        group_id, topic, partition = self.key
        key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
        return encode_versioned(key, _OFFSET_KEY_VERSION), self._value()

    def _value(self) -> bytes | None:
        if self.committed is None:
            return None
        offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms = self.committed
        value = OffsetCommitValue(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=metadata,
            commit_timestamp_ms=commit_timestamp_ms,
            expire_timestamp_ms=expire_timestamp_ms,
            topic_id=self.topic_id,
        )
        is_expiring = expire_timestamp_ms >= 0
        return encode_versioned(value, _EXPIRING_VALUE_VERSION if is_expiring else _VALUE_VERSION)


def decode_offset(key_version: int, key: bytes, value: bytes | None) -> OffsetEntry:
    offset_key = OffsetCommitKey.decode(key_version, key, VERSION_SIZE_BYTES)
    where = OffsetKey(offset_key.group, offset_key.topic, offset_key.partition)
    if value is None:
        return OffsetEntry(where, None)
    stored = decode_value(OffsetCommitValue, value)
    return OffsetEntry(where, _committed_offset(stored), stored.topic_id)


def _committed_offset(decoded: OffsetCommitValue) -> CommittedOffset:
    return CommittedOffset(
        decoded.offset,
        decoded.leader_epoch,
        decoded.metadata,
        decoded.commit_timestamp_ms,
        decoded.expire_timestamp_ms,
    )


_MessageT = TypeVar("_MessageT", bound=Message)


def decode_value(cls: type[_MessageT], value: bytes) -> _MessageT:
    version = version_of(value)
    if version not in cls.VERSIONS:
        raise MalformedMessageError(
            f"a record holds {cls.__name__} in version {version}; this broker reads versions "
            f"{cls.VERSIONS.first} to {cls.VERSIONS.last}"
        )
    return cls.decode(version, value, VERSION_SIZE_BYTES)


def encode_versioned(message: Message, version: int) -> bytes:
    return message.encode_to_bytes(version, _version.pack(version))


def version_of(buffer: bytes) -> int:
    if len(buffer) < VERSION_SIZE_BYTES:
        raise MalformedMessageError(f"{buffer!r} is too short for the version it should start with")
    version: int = _version.unpack_from(buffer)[0]
    return version
