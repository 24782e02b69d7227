"""What storage refuses, each with the Kafka error code that the broker answers with.

Two families: a batch that the log refuses (the client's fault, the log is unchanged), and
`StorageError` (the disk's fault, the partition is offline until it is reopened).
"""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple


class RecordError(NamedTuple):
    """Which record of a refused batch is to blame, and for what (KIP-467)."""

    batch_index: int
    message: str


class LogError(Exception):
    """Something a log refuses or cannot do; `error_code` is Kafka's code for it.

    Attributes:
        record_errors: The records that caused the refusal, where that is known, so that a client
            need not blame the whole batch.
    """

    error_code: ClassVar[int] = -1  # UNKNOWN_SERVER_ERROR

    def __init__(self, *reasons: object, record_errors: Sequence[RecordError] = ()) -> None:
        super().__init__(*reasons)
        self.record_errors = record_errors


class OffsetOutOfRange(LogError):
    """The offset lies outside [log_start_offset, log_end_offset]."""

    error_code = 1


class CorruptMessage(LogError):
    """The bytes are not whole record batches with a correct CRC."""

    error_code = 2


class MessageTooLarge(LogError):
    """The batch is larger than the topic's max.message.bytes."""

    error_code = 10


class RecordListTooLarge(LogError):
    """The batches do not fit into one segment (segment.bytes)."""

    error_code = 18


class InvalidTimestamp(LogError):
    """A timestamp is further from the broker's clock than the topic allows."""

    error_code = 32


class UnsupportedForMessageFormat(LogError):
    """The batch has another message format version than 2."""

    error_code = 43


class OutOfOrderSequence(LogError):
    """The producer's sequence does not follow its last one."""

    error_code = 45


class InvalidProducerEpoch(LogError):
    """The producer has been fenced: a newer epoch of its id has written."""

    error_code = 47


class InvalidTransactionState(LogError):
    """The batch does not fit the transaction that its producer has open, or does not have."""

    error_code = 48  # INVALID_TXN_STATE


class TransactionCoordinatorFenced(LogError):
    """The marker comes from a coordinator that has been replaced."""

    error_code = 52


class StorageError(LogError):
    """The disk failed, or what it holds is damaged: the partition is offline."""

    error_code = 56  # KAFKA_STORAGE_ERROR


class FencedLeaderEpoch(LogError):
    """The append comes from a deposed leader."""

    error_code = 74


class UnsupportedCompressionType(LogError):
    """The batch's codec needs a newer version of the produce request (zstd: version 7)."""

    error_code = 76


class InvalidRecord(LogError):
    """The batch is malformed; the message says how."""

    error_code = 87


class UnexpectedAppendOffset(LogError):
    """A follower received batches that do not continue its log."""

    error_code = -1


class DirectoryLocked(LogError):
    """Another process has locked the data directory."""

    error_code = 56


class WrongDataDirectory(LogError):
    """The data directory belongs to another cluster or node, or to a newer minikafka."""

    error_code = 104  # INCONSISTENT_CLUSTER_ID
