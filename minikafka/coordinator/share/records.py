"""The records of ``__share_group_state``, in Kafka's formats, because tools read that topic.

A *snapshot* is the whole state of a share-partition, an *update* what changed since. Keys and
values start with an int16 version; the version of a key is the type of the record.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from minikafka.coordinator.writes import Record
from minikafka.protocol.exceptions import MalformedMessageError
from minikafka.protocol.fields import Struct, array, int8, int16, int32, int64, string, uuid
from minikafka.protocol.schema import Message

from .share_partition import RecordState
from .share_partition import StateBatch as Batch

_SNAPSHOT_KEY: Final = 0
_UPDATE_KEY: Final = 1
_VALUE_VERSION: Final = 0
_version = struct.Struct(">h")

UNCHANGED = -1
"""The start offset of an update that does not move the start."""


class ShareStateKey(Message, versions="0-1"):
    """Of both types of records."""

    group_id: str = string()
    topic_id: bytes = uuid()
    partition: int = int32()


class StateBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class ShareSnapshotValue(Message, versions="0", flexible="0+"):
    """The whole state; times in milliseconds since 1970."""

    snapshot_epoch: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(tag=0, tagged="0+", default=-1)
    create_timestamp: int = int64()
    write_timestamp: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)


class ShareUpdateValue(Message, versions="0", flexible="0+"):
    """What changed; a start offset of -1 has not."""

    snapshot_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(tag=0, tagged="0+", default=-1)
    state_batches: list[StateBatch] = array(StateBatch)


class SharePartitionKey(NamedTuple):
    """A share-partition: a group, and a partition that it reads."""

    group_id: str
    topic_id: bytes
    partition: int


@dataclass(frozen=True, slots=True)
class ShareState:
    """The stored state of a share-partition; `SharePartition` says what it means.

    Attributes:
        snapshot_epoch: counts the snapshots.
        state_epoch: counts how often an administrator set the start; who has an older one is
        fenced. leader_epoch: of the leader that wrote or read last; who has an older one is fenced.
        start_offset: -1 until the share-partition is read for the first time.
        delivery_complete_count: how many offsets from the start on are done with; -1 if unknown.
        created_ms: when the state was initialised, in milliseconds since 1970.
        written_ms: when the last snapshot was taken.
        batches: in order, without overlaps.
        updates: updates since the last snapshot.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[Batch, ...]
    snapshot_epoch: int = 0
    created_ms: int = -1
    written_ms: int = -1
    updates: int = 0

    def updated(self, update: ShareUpdate) -> ShareState:
        """This state after an update."""
        start = self.start_offset if update.start_offset == UNCHANGED else update.start_offset
        return replace(
            self,
            leader_epoch=update.leader_epoch,
            start_offset=start,
            delivery_complete_count=update.delivery_complete_count,
            batches=combined(self.batches, update.batches, start),
            updates=self.updates + 1,
        )


@dataclass(frozen=True, slots=True)
class ShareUpdate:
    """A change of the state of a share-partition."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[Batch, ...]


Entry = tuple[SharePartitionKey, "ShareState | ShareUpdate | None"]
"""A record, decoded; None is the tombstone of the snapshot."""


def encode_snapshot(key: SharePartitionKey, state: ShareState | None) -> Record:
    """A snapshot, or its tombstone."""
    if state is None:
        return _key(_SNAPSHOT_KEY, key), None
    value = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.created_ms,
        write_timestamp=state.written_ms,
        state_batches=_encode_batches(state.batches),
    )
    return _key(_SNAPSHOT_KEY, key), value.encode_to_bytes(
        _VALUE_VERSION, _version.pack(_VALUE_VERSION)
    )


def encode_update(key: SharePartitionKey, update: ShareUpdate) -> Record:
    value = ShareUpdateValue(
        snapshot_epoch=update.snapshot_epoch,
        leader_epoch=update.leader_epoch,
        start_offset=update.start_offset,
        delivery_complete_count=update.delivery_complete_count,
        state_batches=_encode_batches(update.batches),
    )
    return _key(_UPDATE_KEY, key), value.encode_to_bytes(
        _VALUE_VERSION, _version.pack(_VALUE_VERSION)
    )


def decode_entry(key: bytes, value: bytes | None) -> Entry | None:
    """Decode a record; None if the key has an unknown version, or it is an update's tombstone.

    Raises:
        MalformedMessageError: the record is damaged, or its value has a later version.
    """
    key_version = _version_of(key)
    if key_version not in (_SNAPSHOT_KEY, _UPDATE_KEY):
        return None
    decoded = ShareStateKey.decode(key_version, key, _version.size)
    which = SharePartitionKey(decoded.group_id, decoded.topic_id, decoded.partition)
    if value is None:
        return (which, None) if key_version == _SNAPSHOT_KEY else None
    version = _version_of(value)
    if version != _VALUE_VERSION:
        raise MalformedMessageError(
            f"a record about {which} has version {version}; this broker reads {_VALUE_VERSION}"
        )
    if key_version == _UPDATE_KEY:
        update = ShareUpdateValue.decode(version, value, _version.size)
        return which, ShareUpdate(
            update.snapshot_epoch,
            update.leader_epoch,
            update.start_offset,
            update.delivery_complete_count,
            _decode_batches(update.state_batches),
        )
    snapshot = ShareSnapshotValue.decode(version, value, _version.size)
    return which, ShareState(
        snapshot.state_epoch,
        snapshot.leader_epoch,
        snapshot.start_offset,
        snapshot.delivery_complete_count,
        _decode_batches(snapshot.state_batches),
        snapshot.snapshot_epoch,
        snapshot.create_timestamp,
        snapshot.write_timestamp,
    )


def combined(
    old: tuple[Batch, ...], new: tuple[Batch, ...], start_offset: int
) -> tuple[Batch, ...]:
    """State batches with later ones laid over them, from a start offset on.

    Both are in order and without overlaps, and so is the result; neighbours that are alike are one.
    """
    rest = list(reversed(old))
    laid: list[Batch] = []
    for batch in new:
        while rest and rest[-1].last_offset < batch.first_offset:
            laid.append(rest.pop())
        while rest and rest[-1].first_offset <= batch.last_offset:
            covered = rest.pop()
            if covered.first_offset < batch.first_offset:
                laid.append(covered._replace(last_offset=batch.first_offset - 1))
            if covered.last_offset > batch.last_offset:
                rest.append(covered._replace(first_offset=batch.last_offset + 1))
                break
        laid.append(batch)
    laid += reversed(rest)
    joined: list[Batch] = []
    for batch in laid:
        if batch.last_offset < start_offset:
            continue
        kept = batch._replace(first_offset=max(batch.first_offset, start_offset))
        last = joined[-1] if joined else None
        if last is not None and (last.last_offset + 1, *last[2:]) == (kept.first_offset, *kept[2:]):
            joined[-1] = last._replace(last_offset=kept.last_offset)
        else:
            joined.append(kept)
    return tuple(joined)


def _key(version: int, key: SharePartitionKey) -> bytes:
    message = ShareStateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    return message.encode_to_bytes(version, _version.pack(version))


def _encode_batches(batches: tuple[Batch, ...]) -> list[StateBatch]:
    return [
        StateBatch(
            first_offset=one.first_offset,
            last_offset=one.last_offset,
            delivery_state=one.state,
            delivery_count=one.delivery_count,
        )
        for one in batches
    ]


def _decode_batches(batches: list[StateBatch]) -> tuple[Batch, ...]:
    try:
        return tuple(
            Batch(
                one.first_offset,
                one.last_offset,
                RecordState(one.delivery_state),
                one.delivery_count,
            )
            for one in batches
        )
    except ValueError as error:
        raise MalformedMessageError(f"a state batch: {error}") from None


def _version_of(buffer: bytes) -> int:
    if len(buffer) < _version.size:
        raise MalformedMessageError(f"{buffer!r} is too short for the version it should start with")
    version: int = _version.unpack_from(buffer)[0]
    return version
