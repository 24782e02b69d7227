"""The records of ``__consumer_offsets``, in Kafka's formats, because clients read that topic.

Keys and values start with an int16 version. Key versions 0 and 1 are a committed offset, 2 is a
group; other kinds (groups of KIP-848, share groups) are skipped while loading.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from minikafka.protocol.exceptions import MalformedMessageError
from minikafka.protocol.fields import ZERO_UUID, Struct, array, int32, int64, octets, string, uuid
from minikafka.protocol.schema import Message

from .effects import Record

_OFFSET_KEY_VERSION = 1
_GROUP_KEY_VERSION = 2
_OFFSET_VALUE_VERSION = 4
_GROUP_VALUE_VERSION = 3  # as Kafka 4.3 has it: 4 differs in nothing but its encoding
# The only version of an offset's value with an expiry time.
_EXPIRING_VALUE_VERSION = 1

_version = struct.Struct(">h")


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


class GroupMetadataKey(Message, versions="2"):
    group: str = string()


class GroupMetadataMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(versions="3+", nullable="3+", default=None)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(versions="1+", default=-1)
    session_timeout_ms: int = int32()
    subscription: bytes = octets()
    assignment: bytes = octets()


class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    """A stored generation of a group; without members if it is empty or not yet assigned."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp_ms: int = int64(versions="2+", default=-1)
    members: list[GroupMetadataMember] = array(GroupMetadataMember)


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


@dataclass(frozen=True, slots=True)
class OffsetEntry:
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
        return _encode(key, _OFFSET_KEY_VERSION), self._value()

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
        return _encode(value, _EXPIRING_VALUE_VERSION if is_expiring else _OFFSET_VALUE_VERSION)


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """A group; None is its tombstone."""

    group_id: str
    value: GroupMetadataValue | None

    def encode(self) -> Record:
        key = _encode(GroupMetadataKey(group=self.group_id), _GROUP_KEY_VERSION)
        return key, None if self.value is None else _encode(self.value, _GROUP_VALUE_VERSION)


@dataclass(frozen=True, slots=True)
class UnknownKind:
    """A record that this broker skips."""

    key_version: int


Entry = OffsetEntry | GroupEntry


def decode_entry(key: bytes, value: bytes | None) -> Entry | UnknownKind:
    """Decode a record; keys of versions 0 to 2, values of versions 0 to 4.

    Raises:
        MalformedMessageError: key or value is damaged, or the value has a later version.
    """
    key_version = _version_of(key)
    if 0 <= key_version <= _OFFSET_KEY_VERSION:
        offset_key = OffsetCommitKey.decode(key_version, key, _version.size)
        where = OffsetKey(offset_key.group, offset_key.topic, offset_key.partition)
        if value is None:
            return OffsetEntry(where, None)
        stored = _decode_value(OffsetCommitValue, value)
        return OffsetEntry(where, _committed_offset(stored), stored.topic_id)
    if key_version == _GROUP_KEY_VERSION:
        return GroupEntry(
            GroupMetadataKey.decode(key_version, key, _version.size).group,
            None if value is None else _decode_value(GroupMetadataValue, value),
        )
    return UnknownKind(key_version)


def _committed_offset(decoded: OffsetCommitValue) -> CommittedOffset:
    return CommittedOffset(
        decoded.offset,
        decoded.leader_epoch,
        decoded.metadata,
        decoded.commit_timestamp_ms,
        decoded.expire_timestamp_ms,
    )


_MessageT = TypeVar("_MessageT", bound=Message)


def _decode_value(cls: type[_MessageT], value: bytes) -> _MessageT:
    version = _version_of(value)
    if version not in cls.VERSIONS:
        raise MalformedMessageError(
            f"a record holds {cls.__name__} in version {version}; this broker reads versions "
            f"{cls.VERSIONS.first} to {cls.VERSIONS.last}"
        )
    return cls.decode(version, value, _version.size)


def _encode(message: Message, version: int) -> bytes:
    return message.encode_to_bytes(version, _version.pack(version))


def _version_of(buffer: bytes) -> int:
    if len(buffer) < _version.size:
        raise MalformedMessageError(f"{buffer!r} is too short for the version it should start with")
    version: int = _version.unpack_from(buffer)[0]
    return version
