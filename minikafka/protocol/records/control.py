"""Control batches: the markers that end a transaction in each partition it wrote to.

A control batch has one record, written by the transaction coordinator and never shown to users.

    key    version 2 bytes (0), type 2 bytes (0 abort, 1 commit; others exist)
    value  version 2 bytes (0), coordinator_epoch 4 bytes

Version 1 of the value (KIP-890) appends fields; what follows the epoch is not looked at. KIP-98.
"""

from enum import IntEnum
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

from minikafka.protocol.records.assembly import assemble_batch
from minikafka.protocol.records.batch import (
    BATCH_HEADER_SIZE_BYTES,
    NO_PARTITION_LEADER_EPOCH,
)
from minikafka.protocol.records.builder import BatchBuilder
from minikafka.protocol.records.errors import CorruptBatchError
from minikafka.protocol.records.record import Record

_VERSION: Final = 0
_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")
_REMEMBERED_MAX: Final = 128


class ControlType(IntEnum):
    """What a transaction marker says about the transaction."""

    ABORT = 0
    COMMIT = 1


class TransactionMarker(NamedTuple):
    """A decoded marker."""

    control_type: ControlType
    coordinator_epoch: int
    """Leader epoch of the coordinator's partition; a marker of an older one is fenced."""


def decode_control_type(key: bytes | None) -> tuple[int, int]:
    """Version and type of a control record, from its key.

    The type is not always a `ControlType`: Kafka's own Raft log has others (2 to 6).

    Raises:
        CorruptBatchError: the key is null or shorter than 4 bytes, or the version is negative.
    """
    if key is None or len(key) < _KEY.size:
        raise CorruptBatchError(
            f"the key of a control record has at least 4 bytes, this is {key!r}"
        )
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptBatchError(f"the key of a control record has version {version}")
    return version, control_type


def decode_transaction_marker(record: Record) -> TransactionMarker | None:
    """Decode the record of a control batch; None if it is a control record of another type.

    Raises:
        CorruptBatchError: key or value is null, too short or of a negative version.
    """
    _, control_type = decode_control_type(record.key)
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise CorruptBatchError(
            f"the value of a transaction marker has at least 6 bytes, this is {record.value!r}"
        )
    version, coordinator_epoch = _VALUE.unpack_from(record.value)
    if version < 0:
        raise CorruptBatchError(f"the value of a transaction marker has version {version}")
    return TransactionMarker(ControlType(control_type), coordinator_epoch)


def encode_control_batch(
    control_type: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytearray:
    """Encode a batch of a single transaction marker.

    Args:
        control_type: Whether the transaction commits or aborts.
        producer_id: Of the transaction's producer.
        producer_epoch: Likewise; with KIP-890 greater than that of the records.
        coordinator_epoch: Leader epoch of the coordinator's partition.
        timestamp: Milliseconds since 1970.
        base_offset: Offset of the marker.
        partition_leader_epoch: Epoch of the leader that appends the marker.

    Raises:
        ValueError: a value does not fit into its field.
    """
    if not -(1 << 31) <= coordinator_epoch < 1 << 31:
        raise ValueError(f"coordinator epoch {coordinator_epoch} does not fit into 32 bits")
    return assemble_batch(
        _marker_record(control_type, coordinator_epoch),
        record_count=1,
        last_offset_delta=0,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


@lru_cache(_REMEMBERED_MAX)
def _marker_record(control_type: ControlType, coordinator_epoch: int) -> bytes:
    """The record of a marker, without the header that makes it one of a certain producer."""
    builder = BatchBuilder()
    builder.append(_KEY.pack(_VERSION, control_type), _VALUE.pack(_VERSION, coordinator_epoch), 0)
    return bytes(builder.build()[BATCH_HEADER_SIZE_BYTES:])
