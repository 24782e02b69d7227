"""Frame headers: what precedes every request and response.

A frame is a 4-byte size and that many bytes. Request header version 2 and response header
version 1 belong to flexible message versions (KIP-482); ApiVersions always answers with header
version 0, so that clients can read the answer to a version that is not supported (KIP-511).
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from minikafka.protocol.api import ApiKey
from minikafka.protocol.exceptions import EncodeError, MalformedMessageError
from minikafka.protocol.flexible import (
    STRING_SIZE_BYTES_MAX,
    announces_too_much,
    read_unsigned_varint,
    skip_tagged_fields,
)
from minikafka.protocol.schema import Message

SIZE = struct.Struct(">i")
"""The size at the start of every frame; it does not include itself."""

FRAME_SIZE_BYTES_MAX = 2**31 - 1
"""The largest size that fits the size field."""

HEADER_TAGS_MAX = 64
"""Headers with more tagged fields than this are refused (Kafka defines none)."""

_PEEK = struct.Struct(">hhi")
_FIXED = struct.Struct(">hhih")
_CORRELATION = struct.Struct(">i")
_CORRELATION_POSITION = 8
"""Where the correlation id is in a request frame, size included."""

_HOLE = bytes(SIZE.size)


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def peek_api(frame: memoryview) -> tuple[int, int, int]:
    """Read (api_key, api_version, correlation_id), which every request begins with.

    Raises:
        MalformedMessageError: the frame has fewer than 8 bytes.
    """
    try:
        api_key, api_version, correlation_id = _PEEK.unpack_from(frame)
    except struct.error as error:
        raise MalformedMessageError(f"request header: {error}") from None
    return api_key, api_version, correlation_id


def decode_request_header(frame: memoryview, *, flexible: bool) -> tuple[RequestHeader, int]:
    """Read the header at the start of a frame; returns it and where the message starts.

    The client id is not a compact string even in flexible headers.

    Raises:
        MalformedMessageError: the frame ends early, or the client id or a tag is invalid.
    """
    try:
        api_key, api_version, correlation_id, size = _FIXED.unpack_from(frame)
        position = _FIXED.size
        client_id = None
        if size >= 0:
            end = position + size
            if end > len(frame):
                announces_too_much("client id", size, len(frame) - position)
            client_id = str(frame[position:end], "utf-8")
            position = end
        if flexible:
            position = skip_header_tags(frame, position)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedMessageError(f"request header: {error}") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def decode_response_header(frame: memoryview, *, flexible: bool) -> tuple[int, int]:
    """Read (correlation_id, where the message starts) from a response frame without its size.

    ``flexible`` must be False for ApiVersions in every version.

    Raises:
        MalformedMessageError: the frame ends early, or a tag is invalid.
    """
    try:
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        position = _CORRELATION.size
        if flexible:
            # Kafka defines no tagged fields here, so there is usually just a zero.
            position = skip_header_tags(frame, position) if frame[position] else position + 1
    except (struct.error, IndexError) as error:
        raise MalformedMessageError(f"response header: {error}") from None
    return correlation_id, position


def skip_header_tags(frame: memoryview, position: int) -> int:
    """Skip a header's tagged fields; returns where the message starts.

    Raises:
        IndexError: the frame ends inside a number.
        MalformedMessageError: there are too many, or one reaches past the frame.
    """
    count, _ = read_unsigned_varint(frame, position)
    if count > HEADER_TAGS_MAX:
        raise MalformedMessageError(f"{count} tagged fields in a header; at most {HEADER_TAGS_MAX}")
    return skip_tagged_fields(frame, position, len(frame), "header")


def request_prefix(message: type[Message], version: int, client_id: str | None) -> bytes:
    """The start of all requests of one client, API and version; correlation id and size are 0.

    Raises:
        EncodeError: the client id is too long.
    """
    name = b"" if client_id is None else client_id.encode(errors="replace")
    if len(name) > STRING_SIZE_BYTES_MAX:
        raise EncodeError(
            f"a client id of {len(name)} bytes; at most {STRING_SIZE_BYTES_MAX} are allowed"
        )
    size = -1 if client_id is None else len(name)
    prefix = _HOLE + _FIXED.pack(message.API_KEY, version, 0, size) + name
    return prefix + b"\x00" if version in message.FLEXIBLE else prefix


def encode_request_after(
    prefix: bytes, message: Message, version: int, correlation_id: int
) -> list[Any]:
    """`encode_request` with the ``prefix`` that `request_prefix` returned for this version.

    Raises:
        EncodeError: a value cannot be encoded, or the frame is larger than 2 GiB.
        UnsupportedVersionError: the message has no such version.
    """
    parts = with_size(message.encode(version, prefix))
    _CORRELATION.pack_into(parts[0], _CORRELATION_POSITION, correlation_id)
    return parts


def encode_request(
    message: Message, version: int, correlation_id: int, client_id: str | None
) -> list[Any]:
    """A whole request frame as a list of buffers, size prefix included.

    Raises:
        EncodeError: a value cannot be encoded, or the frame is larger than 2 GiB.
        UnsupportedVersionError: the message has no such version.
    """
    prefix = request_prefix(type(message), version, client_id)
    return encode_request_after(prefix, message, version, correlation_id)


def encode_response(message: Message, version: int, correlation_id: int) -> list[Any]:
    """A whole response frame as a list of buffers and payloads, size prefix included.

    Raises:
        EncodeError: a value cannot be encoded, or the frame is larger than 2 GiB.
        UnsupportedVersionError: the message has no such version.
    """
    header = _HOLE + _CORRELATION.pack(correlation_id)
    if version in message.FLEXIBLE and message.API_KEY != ApiKey.API_VERSIONS:
        header += b"\x00"
    return with_size(message.encode(version, header))


def with_size(parts: list[Any]) -> list[Any]:
    """Write the frame's size into the first four bytes of the first buffer.

    Raises:
        EncodeError: the frame is larger than 2 GiB.
    """
    size = sum(map(len, parts)) - SIZE.size
    if size > FRAME_SIZE_BYTES_MAX:
        raise EncodeError(f"a frame of {size} bytes; at most {FRAME_SIZE_BYTES_MAX} are allowed")
    SIZE.pack_into(parts[0], 0, size)
    return parts
