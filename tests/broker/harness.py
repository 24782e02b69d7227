"""A broker in this process, and clients that talk Kafka's protocol to it over socket pairs."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import trio

from minikafka.broker.broker import Broker, Endpoint
from minikafka.broker.config import load_config
from minikafka.broker.connection import Connection
from minikafka.broker.run import BrokerOptions, open_broker
from minikafka.broker.server import Server
from minikafka.broker.transport import SocketTransport
from minikafka.protocol.api import ApiKey, response_class
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.frames import decode_response_header, encode_request
from minikafka.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from minikafka.protocol.records import Record, decode_records, encode_batch, iter_batches
from minikafka.protocol.schema import Request, Response

_R = TypeVar("_R", bound=Response)


def options(data_dir: Path, *assignments: str) -> BrokerOptions:
    """Options of a broker that waits for nobody when a group begins."""
    config = load_config(None, ["group.initial.rebalance.delay.ms=0", *assignments], {})
    return BrokerOptions(config=config, data_dir=data_dir)


@asynccontextmanager
async def running_broker(data_dir: Path, *assignments: str) -> AsyncGenerator[BrokerUnderTest]:
    """Open a broker on a directory, run it, and close it cleanly."""
    broker = open_broker(options(data_dir, *assignments))
    broker.endpoint = Endpoint("broker.test", 9092)
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            under_test = BrokerUnderTest(broker, nursery)
            try:
                yield under_test
            finally:
                under_test.hang_up()
                nursery.cancel_scope.cancel()
    finally:
        broker.close()


class BrokerUnderTest:
    """A running broker and a way to connect to it."""

    def __init__(self, broker: Broker, nursery: trio.Nursery) -> None:
        self.broker = broker
        self.server = Server(broker)
        self._nursery = nursery
        self._sockets: list[trio.socket.SocketType] = []

    def hang_up(self) -> None:
        """Close all clients."""
        for one in self._sockets:
            one.close()

    def connect(self) -> WireClient:
        """Open a connection of its own."""
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        connection = Connection(self.broker, SocketTransport(theirs, "/test"))
        self._nursery.start_soon(connection.run)
        client = trio.socket.from_stdlib_socket(ours)
        self._sockets.append(client)
        return WireClient(trio.SocketStream(client))


class WireClient:
    """Sends requests and reads answers, one frame at a time or many."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._correlation_id = 0
        self._received = bytearray()

    async def send(self, request: Request, version: int, client_id: str | None = "test") -> int:
        """Send a request; returns its correlation id."""
        self._correlation_id += 1
        frame = encode_request(request, version, self._correlation_id, client_id)
        await self.stream.send_all(b"".join(frame))
        return self._correlation_id

    async def send_bytes(self, content: bytes) -> None:
        """Send anything."""
        await self.stream.send_all(content)

    async def receive_frame(self) -> memoryview | None:
        """The next frame without its size; None when the broker closed the connection."""
        while True:
            size = int.from_bytes(self._received[:4], "big")
            if len(self._received) >= 4 and len(self._received) >= 4 + size:
                frame = bytes(self._received[4 : 4 + size])
                del self._received[: 4 + size]
                return memoryview(frame)
            try:
                chunk = await self.stream.receive_some(65_536)
            except trio.BrokenResourceError:
                return None
            if not chunk:
                return None
            self._received += chunk

    async def receive(self, kind: type[_R], version: int) -> tuple[int, _R]:
        """The next answer: (correlation id, message)."""
        frame = await self.receive_frame()
        assert frame is not None, "the broker closed the connection"
        flexible = version in kind.FLEXIBLE and kind.API_KEY != ApiKey.API_VERSIONS
        correlation_id, position = decode_response_header(frame, flexible=flexible)
        return correlation_id, kind.decode(version, frame, position)

    async def ask(self, request: Request, version: int, kind: type[_R]) -> _R:
        """Send a request and wait for its answer, of which the class is ``kind``."""
        assert response_class(ApiKey(request.API_KEY)) is kind
        correlation_id = await self.send(request, version)
        answered, response = await self.receive(kind, version)
        assert answered == correlation_id
        return response

    async def create_topic(self, name: str, partitions: int = 1, **settings: str) -> None:
        """Create a topic; settings are keywords with ``_`` for dots."""
        wanted = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=[],
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in settings.items()
            ],
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)
        response = await self.ask(request, 7, CreateTopicsResponse)
        assert response.topics[0].error_code == ErrorCode.NONE, response

    async def produce(
        self, topic: str, *values: bytes, partition: int = 0, acks: int = 1, batch: bytes = b""
    ) -> PartitionProduceResponse:
        """Produce one batch of values (or the given batch)."""
        records = batch or bytes(encode_batch([(None, value, (), 1000) for value in values]))
        request = produce_request(topic, records, partition=partition, acks=acks)
        response = await self.ask(request, 9, ProduceResponse)
        return response.responses[0].partition_responses[0]

    async def fetch(
        self, topic: str, offset: int, *, partition: int = 0, max_wait_ms: int = 0
    ) -> PartitionData:
        """Fetch from one partition."""
        request = fetch_request(topic, offset, partition=partition, max_wait_ms=max_wait_ms)
        response = await self.ask(request, 11, FetchResponse)
        assert response.error_code == ErrorCode.NONE
        return response.responses[0].partitions[0]


def produce_request(
    topic: str, records: bytes, *, partition: int = 0, acks: int = 1
) -> ProduceRequest:
    """A Produce request for one partition."""
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


def fetch_request(
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 10_000_000,
) -> FetchRequest:
    """A sessionless Fetch request for one partition."""
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[asked])],
    )


def records_of(answer: PartitionData) -> list[Record]:
    """The records of a fetched partition."""
    assert isinstance(answer.records, memoryview)
    return [
        record
        for position, _ in iter_batches(answer.records)
        for record in decode_records(answer.records, position)
    ]


def values_of(answer: PartitionData) -> list[bytes | None]:
    """The values of a fetched partition's records."""
    return [record.value for record in records_of(answer)]
