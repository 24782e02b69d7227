"""The record of a classic group, in Kafka's format."""

from __future__ import annotations

from minikafka.data_class import DataClass
from minikafka.protocol.fields import Struct, array, int32, int64, octets, string
from minikafka.protocol.schema import Message

from ..effects import Record
from ..records import VERSION_SIZE_BYTES, decode_value, encode_versioned

GROUP_KEY_VERSION = 2
_VALUE_VERSION = 3


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


class GroupEntry(DataClass):
    """A classic group; None is its tombstone."""

    group_id: str
    value: GroupMetadataValue | None

    def encode(self) -> Record:
        key = encode_versioned(GroupMetadataKey(group=self.group_id), GROUP_KEY_VERSION)
        return key, None if self.value is None else encode_versioned(self.value, _VALUE_VERSION)


def decode_group(key_version: int, key: bytes, value: bytes | None) -> GroupEntry:
    return GroupEntry(
        GroupMetadataKey.decode(key_version, key, VERSION_SIZE_BYTES).group,
        None if value is None else decode_value(GroupMetadataValue, value),
    )
