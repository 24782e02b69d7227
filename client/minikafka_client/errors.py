"""What can go wrong, and what to do about it.

`KafkaError` is the root. A broker's refusal is a `BrokerError` with Kafka's error code; the client
itself detects the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minikafka.protocol.errors import ErrorCode
from minikafka_client.types import OffsetAndMetadata, TopicPartition


class KafkaError(Exception):
    """The root of everything the client raises on purpose.

    Attributes:
        code: Kafka's error code, or None if the client detected the error.
        is_retriable: whether the same call may succeed later without any change.
    """

    code: ErrorCode | None = None
    is_retriable: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        # Constructors take other arguments than those that become ``args``.
        return _unpickled, (type(self), self.args, self.__dict__)


def _unpickled(
    error_type: type[KafkaError], args: tuple[Any, ...], attributes: dict[str, Any]
) -> KafkaError:
    error = error_type.__new__(error_type, *args)
    error.__dict__.update(attributes)
    return error


class BrokerError(KafkaError):
    """A broker refused; the message names what was refused, Kafka's error, and what to do."""

    def __init__(self, code: int, subject: str = "", broker_message: str | None = None) -> None:
        self.code = known_code(code)
        self.is_retriable = self.code.is_retriable
        self.subject = subject
        self.broker_message = broker_message
        super().__init__(code, subject, broker_message)

    def __str__(self) -> str:
        assert self.code is not None
        text = f"{self.subject}: " if self.subject else ""
        text += f"{self.code.name} ({int(self.code)})"
        if self.broker_message:
            text += f", the broker says {self.broker_message!r}"
        advice = _ADVICE.get(self.code)
        return f"{text}; {advice}" if advice else text


class ConnectionLostError(KafkaError):
    """A broker could not be reached, or the connection ended before it answered."""

    is_retriable = True


class NotConnectedError(ConnectionLostError):
    """There was no connection to the broker: nothing was sent."""


class RequestTimeoutError(KafkaError):
    """A broker did not answer within ``request_timeout_ms``."""

    is_retriable = True


class AuthenticationError(KafkaError):
    """Authentication of the client or of the broker failed (SASL, TLS certificates)."""


class UnsupportedByBrokerError(KafkaError):
    """The broker is too old (or too new) for what was asked."""


class UnsendableRequestError(KafkaError):
    """A value cannot be encoded (a string that is too long, say); nothing was sent."""


class UnreadableResponseError(KafkaError):
    """A response does not follow Kafka's protocol; its connection is closed."""

    is_retriable = True


class UnknownTopicError(BrokerError):
    """A topic or partition does not exist."""

    def __init__(self, subject: str = "", broker_message: str | None = None) -> None:
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, subject, broker_message)


class DeliveryTimeoutError(KafkaError):
    """A record was not acknowledged within ``delivery_timeout_ms``; it may have been stored."""


class RecordTooLargeError(KafkaError):
    """A record is larger than ``max_request_size`` or ``buffer_memory``."""


class BufferFullError(KafkaError):
    """The producer's buffer is full, or a topic's partitions are not known yet; `send` waits."""

    is_retriable = True


class ClosedError(KafkaError):
    """The client was used outside its ``async with`` (or ``with``) block."""


class NotDeliveredError(KafkaError):
    """A producer was closed with failed records whose delivery handles were never checked."""

    def __init__(self, record_count: int, first_error: BaseException) -> None:
        super().__init__(
            f"{record_count} records were not delivered and their results were never checked; "
            f"the first failed with: {first_error}; await the handles that send returns"
        )
        self.record_count = record_count
        self.first_error = first_error


class CommitFailedError(KafkaError):
    """Offsets were not committed: the group moved on without this member; poll again to rejoin."""


class FencedError(KafkaError):
    """Another client with the same ``group_instance_id`` or ``transactional_id`` has taken over.

    Stop this one. A fenced producer cannot be used again.
    """


class TransactionStateError(KafkaError):
    """The call does not fit the transaction's state: none is open, or one is, or it is ending."""


class TransactionAbortableError(KafkaError):
    """Part of the transaction was lost, so it cannot be committed; the cause says what.

    Leave its block, which aborts it, and start over.
    """


class TransactionAbortedError(TransactionAbortableError):
    """The transaction was aborted: no reader of committed records will see any of it.

    Ending a transaction raises it when the commit turned into an abort: start over. The handles of
    records that were dropped raise it too.
    """


class CommitUnknownError(KafkaError):
    """The transaction may or may not be committed: its coordinator did not answer in time.

    The producer cannot be used again. A new one with the same ``transactional_id`` waits until the
    outcome is decided; then read what was written (or the group's committed offsets) to find out.
    """


class TwoPhaseCommitError(KafkaError):
    """The broker does not support two-phase commit (KIP-939), or does not allow it."""


class NoOffsetError(KafkaError):
    """A partition has no valid offset to start from, and ``auto_offset_reset`` is ``"none"``."""


class LogTruncationError(NoOffsetError):
    """Records that were read are no longer in the log: a leader without them was elected.

    It is raised if ``auto_offset_reset`` is ``"none"`` (KIP-320). What was read from
    ``divergent_offset`` on was lost; these offsets will hold other records.

    Attributes:
        position: what would have been read next, with the leader epoch of the record before it.
        divergent_offset: the first offset at which the logs differ, and the leader epoch before it;
            seek there to continue.
    """

    def __init__(
        self,
        partition: TopicPartition,
        position: OffsetAndMetadata,
        divergent_offset: OffsetAndMetadata,
    ) -> None:
        self.partition = partition
        self.position = position
        self.divergent_offset = divergent_offset
        super().__init__(partition, position, divergent_offset)

    def __str__(self) -> str:
        return (
            f"partition {self.partition.partition} of topic {self.partition.topic!r} was truncated "
            f"to offset {self.divergent_offset.offset}, and records before {self.position.offset} "
            f"were read; seek to {self.divergent_offset.offset}, or set auto_offset_reset"
        )


class CorruptRecordsError(KafkaError):
    """Fetched records fail their CRC or cannot be decoded; the position stays before them.

    Seek to ``next_offset`` to go on without them.

    Attributes:
        topic, partition: where they are.
        offset: the first offset that cannot be read; everything before it was returned.
        next_offset: where the next batch begins; None if not even that can be read.
        reason: what is wrong with them.
    """

    def __init__(
        self, topic: str, partition: int, offset: int, next_offset: int | None, reason: str
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.next_offset = next_offset
        self.reason = reason
        super().__init__(topic, partition, offset, next_offset, reason)

    def __str__(self) -> str:
        where = "past it" if self.next_offset is None else f"to {self.next_offset} to skip it"
        return (
            f"the batch at offset {self.offset} of partition {self.partition} of topic "
            f"{self.topic!r} cannot be read: {self.reason}; seek {where}, or restore the "
            "broker's log"
        )


class SerializationError(KafkaError):
    """A key or value could not be turned into bytes, or back."""


class DeserializationError(SerializationError):
    """A fetched key or value could not be deserialized; the position stays before its record.

    Attributes:
        topic, partition, offset: which record.
        part: ``"key"`` or ``"value"``.
        encoded: the bytes.
    """

    def __init__(
        self, topic: str, partition: int, offset: int, part: str, encoded: bytes, deserializer: str
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.part = part
        self.encoded = encoded
        self._deserializer = deserializer
        super().__init__(topic, partition, offset, part, encoded, deserializer)

    def __str__(self) -> str:
        return (
            f"the {self.part} at offset {self.offset} of partition {self.partition} of topic "
            f"{self.topic!r} is {self.encoded!r:.100}, which {self._deserializer} cannot "
            f"deserialize: {self.__cause__!r}; seek to {self.offset + 1} to skip the record"
        )


class SomeFailedError(KafkaError):
    """Part of a call for several things failed.

    Attributes:
        failed: the error of each that failed.
        succeeded: the results of the rest, as the call would have returned them.
    """

    def __init__(self, failed: Mapping[Any, KafkaError], succeeded: Mapping[Any, Any]) -> None:
        self.failed = failed
        self.succeeded = succeeded
        self.is_retriable = all(error.is_retriable for error in failed.values())
        listed = "; ".join(str(error) for error in list(failed.values())[:5])
        more = f"; and {len(failed) - 5} more" if len(failed) > 5 else ""
        super().__init__(f"{len(failed)} of {len(failed) + len(succeeded)} failed: {listed}{more}")


def known_code(code: int) -> ErrorCode:
    """The error code of a number; UNKNOWN_SERVER_ERROR for one that this client does not know."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def broker_error(code: int, subject: str = "", broker_message: str | None = None) -> BrokerError:
    """The exception for an error code in a response."""
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return UnknownTopicError(subject, broker_message)
    return BrokerError(code, subject, broker_message)


_ADVICE: Mapping[ErrorCode, str] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "look at the broker's log",
    ErrorCode.OFFSET_OUT_OF_RANGE: "seek to an offset between the beginning and the end",
    ErrorCode.CORRUPT_MESSAGE: "look for a damaged disk or network; restore the broker's log",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "check the name, or create the topic",
    ErrorCode.LEADER_NOT_AVAILABLE: "wait until a replica is elected leader",
    ErrorCode.MESSAGE_TOO_LARGE: "send less at once, or raise the topic's max.message.bytes",
    ErrorCode.RECORD_LIST_TOO_LARGE: "send less at once, or raise the topic's segment.bytes",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "commit with a shorter metadata text",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "wait until the coordinator is elected",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "use at most 249 of the characters a-z A-Z 0-9 . _ -",
    ErrorCode.NOT_ENOUGH_REPLICAS: "bring replicas back, or lower min.insync.replicas",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "the records may be stored; retry idempotently",
    ErrorCode.INVALID_REQUIRED_ACKS: "use acks 0, 1 or all",
    ErrorCode.ILLEGAL_GENERATION: "rejoin the group",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "configure an assignor that all members have",
    ErrorCode.INVALID_GROUP_ID: "use a group id that is not empty",
    ErrorCode.UNKNOWN_MEMBER_ID: "rejoin the group",
    ErrorCode.INVALID_SESSION_TIMEOUT: (
        "keep session_timeout_ms between the broker's group.min.session.timeout.ms and "
        "group.max.session.timeout.ms"
    ),
    ErrorCode.REBALANCE_IN_PROGRESS: "rejoin the group",
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: "commit fewer offsets at once",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "ask for an ACL on the topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "ask for an ACL on the group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ask for an ACL on the cluster",
    ErrorCode.INVALID_TIMESTAMP: "send a timestamp within message.timestamp.before.max.ms",
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: "use a mechanism that the broker has enabled",
    ErrorCode.ILLEGAL_SASL_STATE: "connect to a listener with SASL, and with sasl set",
    ErrorCode.UNSUPPORTED_VERSION: "use a newer broker",
    ErrorCode.TOPIC_ALREADY_EXISTS: "use it, or delete it first",
    ErrorCode.INVALID_PARTITIONS: "use a partition count above 0 (and above the current one)",
    ErrorCode.INVALID_REPLICATION_FACTOR: "use a factor of at most the number of brokers",
    ErrorCode.INVALID_CONFIG: "check the setting's name and value",
    ErrorCode.NOT_CONTROLLER: "send the request to the current controller",
    ErrorCode.INVALID_REQUEST: "look at the broker's log; the client may be newer than it",
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: "raise the topic's message format, or the broker",
    ErrorCode.POLICY_VIOLATION: "ask the administrator about the broker's policy",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "an earlier batch was lost; start a new producer",
    ErrorCode.INVALID_PRODUCER_EPOCH: "another producer took over; start a new one",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "ask for an ACL on the transactional id",
    ErrorCode.SECURITY_DISABLED: "configure an authorizer at the broker",
    ErrorCode.KAFKA_STORAGE_ERROR: "look at the broker's disk",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "check user name and password",
    ErrorCode.NON_EMPTY_GROUP: "stop the group's members first",
    ErrorCode.GROUP_ID_NOT_FOUND: "check the group id",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "use another compression, or a newer broker",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "run fewer members, or raise the broker's group.max.size",
    ErrorCode.FENCED_INSTANCE_ID: "stop the other member with this group_instance_id",
    ErrorCode.FENCED_MEMBER_EPOCH: "rejoin the group",
    ErrorCode.STALE_MEMBER_EPOCH: "commit again under the member's new epoch",
    ErrorCode.UNRELEASED_INSTANCE_ID: (
        "stop the other member with this group_instance_id, or wait until its session ends"
    ),
    ErrorCode.UNSUPPORTED_ASSIGNOR: "set group_remote_assignor to one that the broker has",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "write the pattern in RE2's syntax",
    ErrorCode.INVALID_RECORD_STATE: (
        "the record is no longer this consumer's: its lock has expired, or it was acknowledged"
    ),
    ErrorCode.SHARE_SESSION_LIMIT_REACHED: "run fewer share consumers, or raise the broker's limit",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "stop the members that subscribe to the topic",
    ErrorCode.INVALID_RECORD: "a compacted topic needs a key in every record",
    ErrorCode.PRODUCER_FENCED: "another producer with this transactional id took over",
    ErrorCode.INVALID_TXN_STATE: "the transaction is no longer open; abort it and start over",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "the id has expired; start a new producer",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: (
        "keep transaction_timeout_ms below the broker's transaction.max.timeout.ms"
    ),
    ErrorCode.CONCURRENT_TRANSACTIONS: "wait until the previous transaction has ended",
    ErrorCode.TRANSACTION_ABORTABLE: "abort the transaction and start over",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "check the id; unused ids expire",
}
