"""A Kafka client for trio, with a blocking face in `minikafka_client.sync`.

    async with Producer("localhost:9092") as producer:
        delivery = await producer.send("topic", b"value", key=b"key")
        print((await delivery).offset)

Keys and values are bytes; `minikafka_client.serializers` has what makes texts, JSON and msgpack of
them. `minikafka_client.patterns` has the ways of consuming by what a crash loses or repeats.

Names are imported when they are first used, so that importing the package takes no time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minikafka_client.errors import (
        AuthenticationError,
        BrokerError,
        BufferFullError,
        ClosedError,
        CommitFailedError,
        CommitUnknownError,
        ConnectionLostError,
        CorruptRecordsError,
        DeliveryTimeoutError,
        DeserializationError,
        FencedError,
        KafkaError,
        LogTruncationError,
        NoOffsetError,
        NotDeliveredError,
        RecordTooLargeError,
        RequestTimeoutError,
        SerializationError,
        SomeFailedError,
        TransactionAbortableError,
        TransactionAbortedError,
        TransactionStateError,
        TwoPhaseCommitError,
        UnknownTopicError,
        UnreadableResponseError,
        UnsendableRequestError,
        UnsupportedByBrokerError,
    )
    from minikafka_client.statistics import (
        BrokerStatistics,
        ConnectionStatistics,
        ConsumerStatistics,
        GroupStatistics,
        Latencies,
        PartitionStatistics,
        ProducerStatistics,
        Rates,
    )
    from minikafka_client.trio_face.admin import (
        AdminClient,
    )
    from minikafka_client.trio_face.consumer import (
        ConsumedBatch,
        Consumer,
    )
    from minikafka_client.trio_face.producer import (
        Deliveries,
        Delivery,
        Producer,
    )
    from minikafka_client.trio_face.transaction import (
        Transaction,
    )
    from minikafka_client.types import (
        EARLIEST,
        LATEST,
        MAX_TIMESTAMP,
        BrokerDescription,
        ClusterDescription,
        ConfigChange,
        ConfigEntry,
        ConfigOperation,
        ConfigResource,
        ConfigResourceType,
        ConfigSource,
        ConsumerRecord,
        CreatedTopic,
        GroupDescription,
        GroupListing,
        GroupMetadata,
        HangingTransaction,
        IsolationLevel,
        LogDirDescription,
        MemberDescription,
        NewTopic,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        PartitionDescription,
        PreparedTransactionState,
        ProducerRecord,
        ProducerState,
        RecordMetadata,
        RecoveredTransaction,
        TopicDescription,
        TopicPartition,
        TransactionDescription,
        TransactionListing,
        TransactionOutcome,
    )

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "AdminClient",
    "AuthenticationError",
    "BrokerDescription",
    "BrokerError",
    "BrokerStatistics",
    "BufferFullError",
    "ClosedError",
    "ClusterDescription",
    "CommitFailedError",
    "CommitUnknownError",
    "ConfigChange",
    "ConfigEntry",
    "ConfigOperation",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "ConnectionLostError",
    "ConnectionStatistics",
    "ConsumedBatch",
    "Consumer",
    "ConsumerRecord",
    "ConsumerStatistics",
    "CorruptRecordsError",
    "CreatedTopic",
    "Deliveries",
    "Delivery",
    "DeliveryTimeoutError",
    "DeserializationError",
    "FencedError",
    "GroupDescription",
    "GroupListing",
    "GroupMetadata",
    "GroupStatistics",
    "HangingTransaction",
    "IsolationLevel",
    "KafkaError",
    "Latencies",
    "LogDirDescription",
    "LogTruncationError",
    "MemberDescription",
    "NewTopic",
    "NoOffsetError",
    "NotDeliveredError",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionDescription",
    "PartitionStatistics",
    "PreparedTransactionState",
    "Producer",
    "ProducerRecord",
    "ProducerState",
    "ProducerStatistics",
    "Rates",
    "RecordMetadata",
    "RecordTooLargeError",
    "RecoveredTransaction",
    "RequestTimeoutError",
    "SerializationError",
    "SomeFailedError",
    "TopicDescription",
    "TopicPartition",
    "Transaction",
    "TransactionAbortableError",
    "TransactionAbortedError",
    "TransactionDescription",
    "TransactionListing",
    "TransactionOutcome",
    "TransactionStateError",
    "TwoPhaseCommitError",
    "UnknownTopicError",
    "UnreadableResponseError",
    "UnsendableRequestError",
    "UnsupportedByBrokerError",
]

_HOMES = {
    "trio_face.admin": "AdminClient",
    "trio_face.consumer": "ConsumedBatch Consumer",
    "trio_face.producer": "Deliveries Delivery Producer",
    "trio_face.transaction": "Transaction",
    "errors": (
        "AuthenticationError BrokerError BufferFullError ClosedError CommitFailedError "
        "CommitUnknownError ConnectionLostError CorruptRecordsError DeliveryTimeoutError "
        "DeserializationError FencedError KafkaError LogTruncationError NoOffsetError "
        "NotConnectedError NotDeliveredError RecordTooLargeError RequestTimeoutError "
        "SerializationError SomeFailedError TransactionAbortableError TransactionAbortedError "
        "TransactionStateError TwoPhaseCommitError UnknownTopicError UnreadableResponseError "
        "UnsendableRequestError UnsupportedByBrokerError"
    ),
    "statistics": (
        "BrokerStatistics ConnectionStatistics ConsumerStatistics GroupStatistics Latencies "
        "PartitionStatistics ProducerStatistics Rates"
    ),
    "types": (
        "EARLIEST LATEST MAX_TIMESTAMP BrokerDescription ClusterDescription ConfigChange "
        "ConfigEntry ConfigOperation ConfigResource ConfigResourceType ConfigSource ConsumerRecord "
        "CreatedTopic GroupDescription GroupListing GroupMetadata HangingTransaction "
        "IsolationLevel LogDirDescription MemberDescription NewTopic OffsetAndMetadata "
        "OffsetAndTimestamp PartitionDescription PreparedTransactionState ProducerRecord "
        "ProducerState RecordMetadata RecoveredTransaction TopicDescription TopicPartition "
        "TransactionDescription TransactionListing TransactionOutcome"
    ),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
