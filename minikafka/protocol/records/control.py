"""Control batches: the markers that end a transaction in each partition that it wrote to.

A control batch has one record, written for the transaction coordinator and never returned to users.

    key    version 2 bytes (0), type 2 bytes (0 abort, 1 commit; others exist)
    value  version 2 bytes (0), coordinator_epoch 4 bytes

Version 1 of the value (KIP-890) appends fields; whatever follows the epoch is ignored. KIP-98.
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
_CACHED_MAX: Final = 128


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1


class TransactionMarker(NamedTuple):
    control_type: ControlType
    coordinator_epoch: int
    """Leader epoch of the coordinator's partition; markers with an older one are fenced."""


def decode_control_type(key: bytes | None) -> tuple[int, int]:
    """Version and type of a control record, from its key.

    The type is not always a `ControlType`: Kafka's own Raft log has others (2 to 6).

    Raises:
        CorruptBatchError: the key is null or shorter than 4 bytes, or the version is negative.
    """
    if key is None or len(key) < _KEY.size:
        raise CorruptBatchError(
            f"the key of a control record has at least 4 bytes, this one is {key!r}"
        )
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptBatchError(f"the key of a control record has version {version}")
    return version, control_type


def decode_transaction_marker(record: Record) -> TransactionMarker | None:
    """Decode the record of a control batch; None if its type is not a `ControlType`.

    Raises:
        CorruptBatchError: key or value is null or too short, or its version is negative.
    """
    _, control_type = decode_control_type(record.key)
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise CorruptBatchError(
            f"the value of a transaction marker has at least 6 bytes, this one is {record.value!r}"
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
    """Encode a batch with one transaction marker.

    Args:
        control_type: Commit or abort.
        producer_id: The transaction's producer.
        producer_epoch: Its epoch; with KIP-890 greater than that of the records.
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


@lru_cache(_CACHED_MAX)
def _marker_record(control_type: ControlType, coordinator_epoch: int) -> bytes:
    """The record of a marker; the producer is named only in the batch header."""
    builder = BatchBuilder()
    builder.append(_KEY.pack(_VERSION, control_type), _VALUE.pack(_VERSION, coordinator_epoch), 0)
    return bytes(builder.build()[BATCH_HEADER_SIZE_BYTES:])
