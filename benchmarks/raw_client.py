"""A blocking client that costs almost nothing: it keeps sending one pre-encoded request."""

from __future__ import annotations

import socket
import struct
import time

from minikafka.protocol.frames import encode_request
from minikafka.protocol.messages import api_versions, fetch, metadata, produce
from minikafka.protocol.records import encode_batch
from minikafka.protocol.schema import Request
from minikafka.testing.wire import Wire, decode_response

# The last versions without flexible fields, which every broker supports.
_PRODUCE_VERSION, _FETCH_VERSION, _METADATA_VERSION, _API_VERSIONS_VERSION = 7, 11, 4, 2
_TIMEOUT_SECONDS = 30.0


def _framed(request: Request, version: int) -> bytes:
    return b"".join(encode_request(request, version, 1, "benchmark"))


def produce_request(topic: str, partition: int, value: bytes, acks: int = 1) -> bytes:
    """A framed Produce request with one record, without a key, for one partition."""
    records = bytes(encode_batch([(None, value, (), int(time.time() * 1000))]))
    data = [produce.PartitionData(index=partition, records=records)]
    topics = [produce.TopicData(name=topic, partition_data=data)]
    request = produce.Request(acks=acks, timeout_ms=10_000, topic_data=topics)
    return _framed(request, _PRODUCE_VERSION)


def fetch_request(topic: str, partition: int, offset: int, bytes_max: int) -> bytes:
    """A framed Fetch request for the batch at an offset, without a session, that does not wait."""
    one = fetch.Partition(
        partition=partition, fetch_offset=offset, partition_max_bytes=bytes_max, log_start_offset=-1
    )
    topics = [fetch.Topic(topic=topic, partitions=[one])]
    request = fetch.Request(max_wait_ms=0, min_bytes=1, max_bytes=bytes_max, topics=topics)
    return _framed(request, _FETCH_VERSION)


def api_versions_request() -> bytes:
    """A framed ApiVersions request."""
    return _framed(api_versions.Request(), _API_VERSIONS_VERSION)


def metadata_request(topic: str) -> bytes:
    """A framed Metadata request for one topic, which is created if it does not exist."""
    request = metadata.Request(topics=[metadata.RequestTopic(name=topic)])
    return _framed(request, _METADATA_VERSION)


class RawClient:
    """A connected blocking socket that sends bytes and reads responses of a known size.

    Args:
        address: ``HOST:PORT``.
    """

    def __init__(self, address: str) -> None:
        self._wire = Wire(address, timeout_s=_TIMEOUT_SECONDS)
        self._socket = self._wire.socket
        # A timeout makes Python poll() before every call; the kernel's own limit costs nothing.
        self._socket.settimeout(None)
        limit = struct.pack("ll", int(_TIMEOUT_SECONDS), 0)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()

    def ask(self, request: bytes) -> bytes:
        """Send a framed request and return the response without its frame."""
        self._wire.send_bytes(request)
        frame = self._wire.receive_frame()
        if frame is None:
            raise ConnectionError("the server closed the connection")
        return bytes(frame)

    def ask_for_topic(self, topic: str) -> None:
        """Send a Metadata request for a topic, which creates it, and wait for the answer."""
        self.ask(metadata_request(topic))

    def produce_error(self, request: bytes) -> int:
        """Send a produce request of one partition and return the response's error code."""
        _, response = decode_response(produce.Response, _PRODUCE_VERSION, self.ask(request))
        return response.responses[0].partition_responses[0].error_code

    def latencies_seconds(self, request: bytes, answer_bytes: int, count: int) -> list[float]:
        """Send a request repeatedly; return the time from each send to its complete response.

        Args:
            request: what to send.
            answer_bytes: the size of each response, frame included.
            count: how many times.
        """
        clock, send, receive = time.perf_counter, self._socket.sendall, self._socket.recv
        latencies: list[float] = []
        for _ in range(count):
            started = clock()
            send(request)
            received = len(receive(answer_bytes))
            while received < answer_bytes:
                more = len(receive(answer_bytes - received))
                if not more:
                    raise ConnectionError("the server closed the connection")
                received += more
            latencies.append(clock() - started)
        return latencies
