"""A Kafka broker in name only: it reads the socket, keeps nothing, and reports success.

It answers ApiVersions and Metadata so that a client starts, and Produce so that it continues. Of a
Produce request it only reads the header, the topic and the partition, for the response. Records are
read into one buffer, over and over, and never looked at: this is the speed at which a trio program
can read a socket.
"""

from __future__ import annotations

import socket
import struct
from itertools import count

import trio

from .ready import open_ready

_BUFFER_SIZE_BYTES = 4 * 1024 * 1024
_PARTITIONS = 4
_PRODUCE, _FETCH, _METADATA, _API_VERSIONS = 0, 1, 3, 18
# The last versions without flexible fields; without Fetch, librdkafka would not send batches.
_APIS = ((_PRODUCE, 3, 7), (_FETCH, 4, 4), (_METADATA, 1, 1), (_API_VERSIONS, 0, 0))
_UNSUPPORTED_VERSION = 35
_offsets = count()


def _api_versions(error_code: int) -> bytes:
    table = b"".join(struct.pack(">hhh", *row) for row in _APIS)
    return struct.pack(">hi", error_code, len(_APIS)) + table


def _string(text: bytes) -> bytes:
    return struct.pack(">h", len(text)) + text


def _metadata(request: memoryview, host: bytes, port: int) -> bytes:
    (topics,) = struct.unpack_from(">i", request)
    brokers = struct.pack(">ii", 1, 1) + _string(host) + struct.pack(">ih", port, -1)
    answer = brokers + struct.pack(">ii", 1, max(topics, 0))
    position = 4
    for _ in range(topics):
        (size,) = struct.unpack_from(">h", request, position)
        name = bytes(request[position + 2 : position + 2 + size])
        position += 2 + size
        answer += struct.pack(">h", 0) + _string(name) + struct.pack(">bi", 0, _PARTITIONS)
        for partition in range(_PARTITIONS):
            answer += struct.pack(">hiiiiii", 0, partition, 1, 1, 1, 1, 1)
    return answer


def _produced(request: memoryview) -> bytes:
    # No transactional id (2), acks (2), timeout (4), the number of topics (4), the topic's name.
    (size,) = struct.unpack_from(">h", request, 12)
    name = bytes(request[14 : 14 + size])
    (partition,) = struct.unpack_from(">i", request, 18 + size)
    answer = struct.pack(">i", 1) + _string(name)
    answer += struct.pack(">iihqqq", 1, partition, 0, next(_offsets), -1, 0)
    return answer + struct.pack(">i", 0)


def _answer(frame: memoryview, host: bytes, port: int) -> bytes:
    """Answer a frame; the records of a Produce request may be missing from it."""
    api, version, correlation_id, client_id_size = struct.unpack_from(">hhih", frame)
    body = frame[10 + max(client_id_size, 0) :]
    if api == _PRODUCE:
        payload = _produced(body)
    elif api == _METADATA:
        payload = _metadata(body, host, port)
    elif api == _API_VERSIONS:
        payload = _api_versions(_UNSUPPORTED_VERSION if version > 0 else 0)
    else:
        raise ValueError(f"the sink answers no API {api}; it is for producers only")
    return struct.pack(">ii", len(payload) + 4, correlation_id) + payload


async def _serve_one(stream: trio.SocketStream) -> None:
    host, port = stream.socket.getsockname()[:2]
    stream.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buffer = bytearray(_BUFFER_SIZE_BYTES)
    view = memoryview(buffer)
    filled = 0
    while True:
        received = await stream.socket.recv_into(view[filled:])
        if not received:
            return
        filled += received
        start = 0
        while filled - start >= 4:
            (size,) = struct.unpack_from(">i", buffer, start)
            if filled - start < 4 + size:
                break
            await stream.send_all(_answer(view[start + 4 : start + 4 + size], host.encode(), port))
            start += 4 + size
        if start:
            view[: filled - start] = view[start:filled]
            filled -= start


async def _serve() -> None:
    await trio.serve_listeners(_serve_one, await open_ready())


if __name__ == "__main__":
    trio.run(_serve)
