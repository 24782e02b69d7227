"""A blocking client that costs almost nothing: one request, encoded beforehand, over and over.

The bytes are put together here by hand, not by the project's protocol floor, so that these figures
can be taken from any broker and do not move when our encoder does.
"""

from __future__ import annotations

import socket
import struct
import time

import google_crc32c

_API_PRODUCE, _API_METADATA, _API_VERSIONS = 0, 3, 18
_PRODUCE_VERSION, _METADATA_VERSION, _API_VERSIONS_VERSION = 7, 4, 2
_TIMEOUT_SECONDS = 30.0
_PRODUCE_ANSWER_FIXED_BYTES = 4 + 4 + 2  # correlation id, number of topics, length of the name


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def _framed(api: int, version: int, body: bytes) -> bytes:
    payload = struct.pack(">hhi", api, version, 1) + _string("benchmark") + body
    return struct.pack(">i", len(payload)) + payload


def record_batch(value: bytes) -> bytes:
    """A version 2 batch of one record without a key, uncompressed, of no producer id."""
    assert 0 < len(value) < 8000, "lengths are written as varints of two bytes"
    now_ms = int(time.time() * 1000)

    def varint(number: int) -> bytes:
        zigzag = number << 1
        return bytes([zigzag]) if zigzag < 128 else bytes([zigzag & 127 | 128, zigzag >> 7])

    # Attributes, timestamp delta, offset delta, no key (a length of -1), the value, no headers.
    record = b"\0\0\0\1" + varint(len(value)) + value + b"\0"
    record = varint(len(record)) + record
    after_crc = struct.pack(">hiqqqhii", 0, 0, now_ms, now_ms, -1, -1, -1, 1) + record
    crc = struct.pack(">I", google_crc32c.value(after_crc))
    rest = struct.pack(">ib", 0, 2) + crc + after_crc
    return struct.pack(">qi", 0, len(rest)) + rest


def produce_request(topic: str, partition: int, value: bytes, acks: int = 1) -> bytes:
    """A framed Produce request (version 7) with one record for one partition."""
    batch = record_batch(value)
    body = struct.pack(">hhi", -1, acks, 10_000)
    body += struct.pack(">i", 1) + _string(topic)
    body += struct.pack(">iii", 1, partition, len(batch)) + batch
    return _framed(_API_PRODUCE, _PRODUCE_VERSION, body)


def api_versions_request() -> bytes:
    """A framed ApiVersions request (version 2)."""
    return _framed(_API_VERSIONS, _API_VERSIONS_VERSION, b"")


def metadata_request(topic: str) -> bytes:
    """A framed Metadata request (version 4) for one topic, which is created if need be."""
    return _framed(_API_METADATA, _METADATA_VERSION, struct.pack(">i", 1) + _string(topic) + b"\1")


class RawClient:
    """A connected blocking socket that sends bytes and reads answers of a known shape."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), _TIMEOUT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A timeout makes Python poll() before every call; the kernel's own limit costs nothing.
        self._socket.settimeout(None)
        limit = struct.pack("ll", int(_TIMEOUT_SECONDS), 0)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _read(self, size_bytes: int) -> bytes:
        data = self._socket.recv(size_bytes)
        while len(data) < size_bytes:
            more = self._socket.recv(size_bytes - len(data))
            if not more:
                raise ConnectionError(f"the connection ended after {len(data)} of {size_bytes}")
            data += more
        return data

    def ask(self, request: bytes) -> bytes:
        """Send a framed request and return the answer without its frame."""
        self._socket.sendall(request)
        (size_bytes,) = struct.unpack(">i", self._read(4))
        return self._read(size_bytes)

    def produce_error(self, request: bytes, topic: str) -> int:
        """Send a produce request of one partition and return the answer's error code."""
        answer = self.ask(request)
        skip = _PRODUCE_ANSWER_FIXED_BYTES + len(topic.encode()) + 4 + 4
        (error_code,) = struct.unpack_from(">h", answer, skip)
        return int(error_code)

    def latencies_seconds(self, request: bytes, answer_bytes: int, count: int) -> list[float]:
        """Ask the same thing again and again; the time from each send to its whole answer.

        Args:
            request: what to send.
            answer_bytes: the size of each answer, frame included.
            count: how often.
        """
        clock, send, receive = time.perf_counter, self._socket.sendall, self._socket.recv
        latencies: list[float] = []
        for _ in range(count):
            started = clock()
            send(request)
            received = len(receive(answer_bytes))
            if received < answer_bytes:
                self._read(answer_bytes - received)
            latencies.append(clock() - started)
        return latencies
