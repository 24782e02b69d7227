"""A blocking connection that speaks the protocol message by message, or sends what it likes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Self, TypeVar

from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.frames import decode_response_header, encode_request
from minikafka.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from minikafka.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from minikafka.protocol.records import BatchHeader, iter_batches
from minikafka.protocol.schema import ZERO_UUID, Request, Response

WAIT_SECONDS_MAX = 120.0
MakeTopic = Callable[..., str]
_R = TypeVar("_R", bound=Response)


class Wire:
    """One connection.

    Raises:
        TimeoutError: (all methods) nothing came for `WAIT_SECONDS_MAX`.
    """

    def __init__(self, host_and_port: tuple[str, int]) -> None:
        self.socket = socket.create_connection(host_and_port, WAIT_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, request: Request, version: int) -> int:
        """Send a request; returns its correlation id."""
        self._correlation_id += 1
        frame = encode_request(request, version, self._correlation_id, "interop")
        self.socket.sendall(b"".join(frame))
        return self._correlation_id

    def receive_frame(self) -> bytes | None:
        """The next frame without its size; None when the broker closed the connection."""
        size = self._receive(4)
        return size and self._receive(int.from_bytes(size, "big"))

    def _receive(self, size: int) -> bytes | None:
        received = bytearray()
        while len(received) < size:
            try:
                chunk = self.socket.recv(min(size - len(received), 1 << 20))
            except ConnectionError:
                return None
            if not chunk:
                return None
            received += chunk
        return bytes(received)

    def ask(self, request: Request, version: int, kind: type[_R]) -> _R:
        """Send a request and wait for its answer, of which the class is ``kind``."""
        correlation_id = self.send(request, version)
        frame = self.receive_frame()
        assert frame is not None, f"the broker closed the connection on {request}"
        flexible = version in kind.FLEXIBLE and kind.API_KEY != ApiKey.API_VERSIONS
        answered, position = decode_response_header(memoryview(frame), flexible=flexible)
        assert answered == correlation_id
        return kind.decode(version, frame, position)

    def create_topic(self, name: str, partitions: int, settings: Mapping[str, object]) -> None:
        """Create a topic; settings are keywords with ``_`` for dots."""
        configs = [
            CreatableTopicConfig(name=key.replace("_", "."), value=str(value))
            for key, value in settings.items()
        ]
        wanted = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=[],
            configs=configs,
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)
        answer = self.ask(request, 7, CreateTopicsResponse)
        assert answer.topics[0].error_code == ErrorCode.NONE, answer

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics; one that is gone already is no problem."""
        topics = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names]
        answer = self.ask(
            DeleteTopicsRequest(topics=topics, timeout_ms=30_000), 6, DeleteTopicsResponse
        )
        fine = {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert {one.error_code for one in answer.responses} <= fine, answer

    def delete_records(self, topic: str, offset: int, partition: int = 0) -> int:
        """Delete records below an offset; returns the low watermark."""
        wanted = DeleteRecordsTopic(
            name=topic,
            partitions=[DeleteRecordsPartition(partition_index=partition, offset=offset)],
        )
        request = DeleteRecordsRequest(topics=[wanted], timeout_ms=30_000)
        answer = self.ask(request, 2, DeleteRecordsResponse).topics[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE, answer
        return answer.low_watermark

    def stored_batches(self, topic: str, partition: int = 0) -> list[BatchHeader]:
        """The headers of the batches from offset 0 on, as the broker stores them (up to 50 MB)."""
        asked = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=50_000_000)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=50_000_000,
            topics=[FetchTopic(topic=topic, partitions=[asked])],
        )
        answer = self.ask(request, 11, FetchResponse).responses[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE
        assert isinstance(answer.records, memoryview)
        return [header for _, header in iter_batches(answer.records)]
