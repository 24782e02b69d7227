"""A connection of a client that expects the broker to die under it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.frames import decode_response_header
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from minikafka.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from minikafka.protocol.records import Record, decode_records, iter_batches
from minikafka.protocol.schema import Request, Response
from tests.interop.wire import Wire

EARLIEST = -2
LATEST = -1
PRODUCE_VERSION = 9
_FETCH_VERSION = 11
_FETCH_SIZE_BYTES = 1 << 20

_R = TypeVar("_R", bound=Response)


class BrokerGone(ConnectionError):
    """The broker closed the connection, or its process ended."""


class Link(Wire):
    """One connection; every method raises `BrokerGone` (or another OSError) when it breaks."""

    def receive(self, kind: type[_R], version: int) -> _R:
        """The next answer, of which the class is ``kind``."""
        frame = self.receive_frame()
        if frame is None:
            raise BrokerGone("the broker closed the connection")
        flexible = version in kind.FLEXIBLE and kind.API_KEY != ApiKey.API_VERSIONS
        _, position = decode_response_header(memoryview(frame), flexible=flexible)
        return kind.decode(version, frame, position)

    def ask(self, request: Request, version: int, kind: type[_R]) -> _R:
        """Send a request and wait for its answer."""
        self.send(request, version)
        return self.receive(kind, version)

    def new_producer_id(self) -> int:
        """A producer id for an idempotent producer."""
        answer = self.ask(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
            3,
            InitProducerIdResponse,
        )
        assert answer.error_code == ErrorCode.NONE, answer
        return answer.producer_id

    def send_batch(self, topic: str, partition: int, batch: bytes, acks: int = -1) -> None:
        """Send a batch without waiting for the answer."""
        one = PartitionProduceData(index=partition, records=batch)
        self.send(
            ProduceRequest(
                acks=acks,
                timeout_ms=10_000,
                topic_data=[TopicProduceData(name=topic, partition_data=[one])],
            ),
            PRODUCE_VERSION,
        )

    def receive_ack(self) -> PartitionProduceResponse:
        """The answer to the oldest batch that was sent."""
        answer = self.receive(ProduceResponse, PRODUCE_VERSION)
        return answer.responses[0].partition_responses[0]

    def produce(self, topic: str, partition: int, batch: bytes) -> PartitionProduceResponse:
        """Send a batch and wait for its answer."""
        self.send_batch(topic, partition, batch)
        return self.receive_ack()

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int:
        """ListOffsets of one partition."""
        asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
        )
        answer = self.ask(request, 5, ListOffsetsResponse).topics[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE, (topic, partition, answer)
        return answer.offset

    def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_wait_ms: int = 0,
        size_bytes: int = _FETCH_SIZE_BYTES,
    ) -> PartitionData:
        """Fetch from one partition, without a session."""
        asked = FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=size_bytes
        )
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=size_bytes,
            topics=[FetchTopic(topic=topic, partitions=[asked])],
        )
        answer = self.ask(request, _FETCH_VERSION, FetchResponse)
        assert answer.error_code == ErrorCode.NONE, answer
        return answer.responses[0].partitions[0]

    def topic(self, name: str) -> MetadataResponseTopic:
        """What Metadata says of a topic; never creates it."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
        )
        return self.ask(request, 10, MetadataResponse).topics[0]


def records_in(answer: PartitionData) -> Iterator[Record]:
    """The records of a fetch answer, each batch's CRC checked."""
    content = answer.records
    assert isinstance(content, memoryview)
    for position, header in iter_batches(content):
        if header.record_count:
            yield from decode_records(content, position, check_crc=True)


def next_offset_in(answer: PartitionData, offset: int) -> int:
    """Where the fetch after this answer goes on: batches without records count, too."""
    content = answer.records
    assert isinstance(content, memoryview)
    for _, header in iter_batches(content):
        offset = header.next_offset
    return offset
