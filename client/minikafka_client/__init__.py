"""A Kafka client for trio, with a blocking API in `minikafka_client.sync`.

    async with Producer("localhost:9092") as producer:
        delivery = await producer.send("topic", b"value", key=b"key")
        print((await delivery).offset)

Keys and values are bytes; `minikafka_client.serializers` converts texts, JSON and msgpack.
`minikafka_client.patterns` has the ways of consuming, by what a crash loses or repeats. A program
for confluent-kafka moves over with its configuration: ``Producer.from_config({...})``.

`trio_api` runs the machines of `core` and the generators of `plans` on trio; those two know neither
trio nor sockets nor clocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka_client.exports import lazy_exports

if TYPE_CHECKING:
    from minikafka_client.acls import Acl as Acl
    from minikafka_client.acls import AclFilter as AclFilter
    from minikafka_client.acls import AclOperation as AclOperation
    from minikafka_client.acls import AclPattern as AclPattern
    from minikafka_client.acls import AclPermission as AclPermission
    from minikafka_client.acls import AclResourceType as AclResourceType
    from minikafka_client.core.fetched import ConsumedBatch as ConsumedBatch
    from minikafka_client.errors import AuthenticationError as AuthenticationError
    from minikafka_client.errors import BrokerError as BrokerError
    from minikafka_client.errors import BufferFullError as BufferFullError
    from minikafka_client.errors import ClosedError as ClosedError
    from minikafka_client.errors import CommitFailedError as CommitFailedError
    from minikafka_client.errors import CommitUnknownError as CommitUnknownError
    from minikafka_client.errors import ConnectionLostError as ConnectionLostError
    from minikafka_client.errors import CorruptRecordsError as CorruptRecordsError
    from minikafka_client.errors import DeliveryTimeoutError as DeliveryTimeoutError
    from minikafka_client.errors import DeserializationError as DeserializationError
    from minikafka_client.errors import FencedError as FencedError
    from minikafka_client.errors import KafkaError as KafkaError
    from minikafka_client.errors import LogTruncationError as LogTruncationError
    from minikafka_client.errors import NoOffsetError as NoOffsetError
    from minikafka_client.errors import NotConnectedError as NotConnectedError
    from minikafka_client.errors import NotDeliveredError as NotDeliveredError
    from minikafka_client.errors import RecordTooLargeError as RecordTooLargeError
    from minikafka_client.errors import RequestTimeoutError as RequestTimeoutError
    from minikafka_client.errors import SerializationError as SerializationError
    from minikafka_client.errors import SomeFailedError as SomeFailedError
    from minikafka_client.errors import TransactionAbortableError as TransactionAbortableError
    from minikafka_client.errors import TransactionAbortedError as TransactionAbortedError
    from minikafka_client.errors import TransactionStateError as TransactionStateError
    from minikafka_client.errors import TwoPhaseCommitError as TwoPhaseCommitError
    from minikafka_client.errors import UnknownTopicError as UnknownTopicError
    from minikafka_client.errors import UnreadableResponseError as UnreadableResponseError
    from minikafka_client.errors import UnsendableRequestError as UnsendableRequestError
    from minikafka_client.errors import UnsupportedByBrokerError as UnsupportedByBrokerError
    from minikafka_client.statistics import BrokerStatistics as BrokerStatistics
    from minikafka_client.statistics import ConnectionStatistics as ConnectionStatistics
    from minikafka_client.statistics import ConsumerStatistics as ConsumerStatistics
    from minikafka_client.statistics import GroupStatistics as GroupStatistics
    from minikafka_client.statistics import Latencies as Latencies
    from minikafka_client.statistics import PartitionStatistics as PartitionStatistics
    from minikafka_client.statistics import ProducerStatistics as ProducerStatistics
    from minikafka_client.statistics import Rates as Rates
    from minikafka_client.statistics import ShareConsumerStatistics as ShareConsumerStatistics
    from minikafka_client.trio_api.admin import AdminClient as AdminClient
    from minikafka_client.trio_api.consumer import Consumer as Consumer
    from minikafka_client.trio_api.delivery import Deliveries as Deliveries
    from minikafka_client.trio_api.delivery import Delivery as Delivery
    from minikafka_client.trio_api.producer import Producer as Producer
    from minikafka_client.trio_api.share_consumer import ShareConsumer as ShareConsumer
    from minikafka_client.trio_api.transactions import Transaction as Transaction
    from minikafka_client.types import DEFAULT_ENTITY as DEFAULT_ENTITY
    from minikafka_client.types import EARLIEST as EARLIEST
    from minikafka_client.types import LATEST as LATEST
    from minikafka_client.types import MAX_TIMESTAMP as MAX_TIMESTAMP
    from minikafka_client.types import Acknowledgement as Acknowledgement
    from minikafka_client.types import AutoOffsetReset as AutoOffsetReset
    from minikafka_client.types import BrokerDescription as BrokerDescription
    from minikafka_client.types import ClusterDescription as ClusterDescription
    from minikafka_client.types import ConfigChange as ConfigChange
    from minikafka_client.types import ConfigEntry as ConfigEntry
    from minikafka_client.types import ConfigOperation as ConfigOperation
    from minikafka_client.types import ConfigResource as ConfigResource
    from minikafka_client.types import ConfigResourceType as ConfigResourceType
    from minikafka_client.types import ConfigSource as ConfigSource
    from minikafka_client.types import ConsumerRecord as ConsumerRecord
    from minikafka_client.types import CreatedTopic as CreatedTopic
    from minikafka_client.types import GroupDescription as GroupDescription
    from minikafka_client.types import GroupListing as GroupListing
    from minikafka_client.types import GroupMetadata as GroupMetadata
    from minikafka_client.types import HangingTransaction as HangingTransaction
    from minikafka_client.types import IsolationLevel as IsolationLevel
    from minikafka_client.types import LogDirDescription as LogDirDescription
    from minikafka_client.types import MemberDescription as MemberDescription
    from minikafka_client.types import NewTopic as NewTopic
    from minikafka_client.types import OffsetAndMetadata as OffsetAndMetadata
    from minikafka_client.types import OffsetAndTimestamp as OffsetAndTimestamp
    from minikafka_client.types import PartitionDescription as PartitionDescription
    from minikafka_client.types import PreparedTransactionState as PreparedTransactionState
    from minikafka_client.types import ProducerRecord as ProducerRecord
    from minikafka_client.types import ProducerState as ProducerState
    from minikafka_client.types import QuorumDescription as QuorumDescription
    from minikafka_client.types import QuorumReplica as QuorumReplica
    from minikafka_client.types import QuotaEntity as QuotaEntity
    from minikafka_client.types import RecordMetadata as RecordMetadata
    from minikafka_client.types import RecoveredTransaction as RecoveredTransaction
    from minikafka_client.types import ScramDeletion as ScramDeletion
    from minikafka_client.types import ScramUpsertion as ScramUpsertion
    from minikafka_client.types import ShareGroupOffset as ShareGroupOffset
    from minikafka_client.types import ShareRecord as ShareRecord
    from minikafka_client.types import SubscriptionPattern as SubscriptionPattern
    from minikafka_client.types import TopicDescription as TopicDescription
    from minikafka_client.types import TopicPartition as TopicPartition
    from minikafka_client.types import TransactionDescription as TransactionDescription
    from minikafka_client.types import TransactionListing as TransactionListing
    from minikafka_client.types import TransactionOutcome as TransactionOutcome

_HOMES = {
    "acls": "Acl AclFilter AclOperation AclPattern AclPermission AclResourceType",
    "trio_api.admin": "AdminClient",
    "core.fetched": "ConsumedBatch",
    "trio_api.consumer": "Consumer",
    "trio_api.delivery": "Deliveries Delivery",
    "trio_api.producer": "Producer",
    "trio_api.share_consumer": "ShareConsumer",
    "trio_api.transactions": "Transaction",
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
        "PartitionStatistics ProducerStatistics Rates ShareConsumerStatistics"
    ),
    "types": (
        "DEFAULT_ENTITY EARLIEST LATEST MAX_TIMESTAMP Acknowledgement AutoOffsetReset "
        "BrokerDescription ClusterDescription "
        "ConfigChange ConfigEntry ConfigOperation ConfigResource ConfigResourceType ConfigSource "
        "ConsumerRecord CreatedTopic GroupDescription GroupListing GroupMetadata "
        "HangingTransaction IsolationLevel LogDirDescription MemberDescription NewTopic "
        "OffsetAndMetadata OffsetAndTimestamp PartitionDescription PreparedTransactionState "
        "ProducerRecord ProducerState QuorumDescription QuorumReplica QuotaEntity RecordMetadata "
        "RecoveredTransaction ScramDeletion ScramUpsertion ShareGroupOffset ShareRecord "
        "SubscriptionPattern "
        "TopicDescription TopicPartition TransactionDescription TransactionListing "
        "TransactionOutcome"
    ),
}
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
