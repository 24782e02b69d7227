"""The records of ``__transaction_state``, in Kafka's formats, because tools read that topic.

One field is not Kafka's: the epoch that a producer may retry with, which Kafka loses with the
coordinator (KAFKA-20357). It is a tagged field, so other readers skip it.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

from minikafka.coordinator.writes import Record
from minikafka.protocol.exceptions import MalformedMessageError
from minikafka.protocol.fields import Struct, array, int8, int16, int32, int64, string
from minikafka.protocol.schema import Message

from .states import TransactionEntry, TransactionState

_KEY_VERSION: Final = 0
_VALUE_VERSION: Final = 1
_version = struct.Struct(">h")
_KEYS_REMEMBERED_MAX: Final = 128


class TransactionLogKey(Message, versions="0"):
    transactional_id: str = string()


class TransactionLogTopic(Struct):
    topic: str = string()
    partition_ids: list[int] = array(int32(), default_factory=list)


class TransactionLogValue(Message, versions="0-1", flexible="1+"):
    """The state of a transactional id; times in milliseconds since 1970."""

    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[TransactionLogTopic] | None = array(
        TransactionLogTopic, nullable="0+"
    )
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    previous_producer_id: int = int64(versions="1+", tag=0, tagged="1+", default=-1)
    next_producer_id: int = int64(versions="1+", tag=1, tagged="1+", default=-1)
    client_transaction_version: int = int16(versions="1+", tag=2, tagged="1+", default=0)
    next_producer_epoch: int = int16(versions="1+", tag=3, tagged="1+", default=-1)
    last_producer_epoch: int = int16(versions="1+", tag=10, tagged="1+", default=-1)


def encode_entry(entry: TransactionEntry) -> Record:
    topics: dict[str, list[int]] = {}
    for topic, partition in entry.partitions:
        topics.setdefault(topic, []).append(partition)
    value = TransactionLogValue(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        transaction_timeout_ms=entry.timeout_ms,
        transaction_status=entry.state,
        transaction_partitions=[
            TransactionLogTopic(topic=topic, partition_ids=numbers)
            for topic, numbers in topics.items()
        ],
        transaction_last_update_timestamp_ms=entry.update_ms,
        transaction_start_timestamp_ms=entry.start_ms,
        previous_producer_id=entry.previous_producer_id,
        next_producer_id=entry.next_producer_id,
        client_transaction_version=entry.transaction_version,
        next_producer_epoch=entry.next_producer_epoch,
        last_producer_epoch=entry.last_producer_epoch,
    )
    return (
        _key_of(entry.transactional_id),
        value.encode_to_bytes(_VALUE_VERSION, _version.pack(_VALUE_VERSION)),
    )


def encode_tombstone(transactional_id: str) -> Record:
    return _key_of(transactional_id), None


@lru_cache(_KEYS_REMEMBERED_MAX)
def _key_of(transactional_id: str) -> bytes:
    key = TransactionLogKey(transactional_id=transactional_id)
    return key.encode_to_bytes(_KEY_VERSION, _version.pack(_KEY_VERSION))


def decode_entry(key: bytes, value: bytes | None) -> tuple[str, TransactionEntry | None] | None:
    """Decode a record into the id and its entry; None if the key has an unknown version.

    Raises:
        MalformedMessageError: the record is damaged, or its value has a later version.
    """
    if _version_of(key) != _KEY_VERSION:
        return None
    transactional_id = TransactionLogKey.decode(_KEY_VERSION, key, _version.size).transactional_id
    if value is None:
        return transactional_id, None
    version = _version_of(value)
    if version not in TransactionLogValue.VERSIONS:
        raise MalformedMessageError(
            f"a record about transactional id {transactional_id!r} has version {version}; this "
            f"broker reads versions 0 to {_VALUE_VERSION}"
        )
    decoded = TransactionLogValue.decode(version, value, _version.size)
    try:
        state = TransactionState(decoded.transaction_status)
    except ValueError:
        raise MalformedMessageError(
            f"a record about transactional id {transactional_id!r} has state "
            f"{decoded.transaction_status}"
        ) from None
    return transactional_id, TransactionEntry(
        transactional_id,
        decoded.producer_id,
        decoded.producer_epoch,
        decoded.transaction_timeout_ms,
        state,
        tuple(
            (topic.topic, partition)
            for topic in decoded.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        decoded.transaction_start_timestamp_ms,
        decoded.transaction_last_update_timestamp_ms,
        decoded.last_producer_epoch,
        decoded.previous_producer_id,
        decoded.next_producer_id,
        decoded.next_producer_epoch,
        decoded.client_transaction_version,
    )


def _version_of(buffer: bytes) -> int:
    if len(buffer) < _version.size:
        raise MalformedMessageError(f"{buffer!r} is too short for the version it should start with")
    version: int = _version.unpack_from(buffer)[0]
    return version
