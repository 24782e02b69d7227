"""What the sender is told (events) and what it wants done (effects), and its settings."""

from __future__ import annotations

from typing import NamedTuple

from minikafka.protocol.messages.produce import ProduceRequest
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.schema import Response
from minikafka_client.core.producer_batch import ProducerBatch
from minikafka_client.errors import KafkaError
from minikafka_client.types import TopicPartition


class SenderConfig(NamedTuple):
    """The producer's settings, as far as sending goes; see `Producer`."""

    acks: int
    is_idempotent: bool
    linger_s: float
    max_in_flight: int
    request_size_bytes_max: int
    request_timeout_ms: int
    compression: Compression
    compression_level: int | None
    transactional_id: str | None = None


# --- events ---


class NodeConnected(NamedTuple):
    """A broker can be sent to."""

    node: int


class NodeFailed(NamedTuple):
    """A broker cannot be reached; it may be tried again (the network waits long enough)."""

    node: int
    error: KafkaError


class MetadataChanged:
    """The cluster has news."""


class Produced(NamedTuple):
    """The answer to a `SendProduce`."""

    request_id: int
    answer: Response | KafkaError


class ProducerIdGranted(NamedTuple):
    """The answer to a `RequestProducerId`."""

    producer_id: int
    producer_epoch: int


class ProducerIdFailed(NamedTuple):
    """The answer to a `RequestProducerId`: there is none; final unless retriable."""

    error: KafkaError


class PartitionsAdded(NamedTuple):
    """The answer to `AddPartitions`: they are in the transaction, or (``error``) they are not."""

    error: KafkaError | None = None


class Closing:
    """Give up everything that is not delivered."""


Event = (
    NodeConnected
    | NodeFailed
    | MetadataChanged
    | Produced
    | ProducerIdGranted
    | ProducerIdFailed
    | PartitionsAdded
    | Closing
)

# --- effects ---


class Connect(NamedTuple):
    """Open a connection to a broker; answered by `NodeConnected` or `NodeFailed`."""

    node: int


class SendProduce(NamedTuple):
    """Send a request to a connected broker; answered by `Produced`."""

    node: int
    request_id: int
    request: ProduceRequest
    version_max: int
    has_response: bool


class RefreshMetadata(NamedTuple):
    """Ask for the metadata of these topics soon."""

    topics: frozenset[str]


class RequestProducerId:
    """Ask for a producer id; answered by `ProducerIdGranted` or `ProducerIdFailed`."""


class AddPartitions(NamedTuple):
    """Tell the coordinator that a transaction writes to these; answered by `PartitionsAdded`."""

    partitions: frozenset[TopicPartition]


class Tell(NamedTuple):
    """A batch is DONE: tell those who wait for it (`ProducerBatch.tell`)."""

    batch: ProducerBatch


Effect = Connect | SendProduce | RefreshMetadata | RequestProducerId | AddPartitions | Tell
