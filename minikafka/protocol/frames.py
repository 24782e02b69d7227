"""Frame headers: what stands before every request and response.

A frame is a 4-byte size and that many bytes. Request header version 2 and response header
version 1 belong to flexible message versions (KIP-482); ApiVersions always answers with header
version 0, so that a client can read the answer to a version it should not have asked for (KIP-511).
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from minikafka.protocol.api import ApiKey
from minikafka.protocol.exceptions import EncodeError, MalformedMessageError
from minikafka.protocol.schema import Message
from minikafka.protocol.varints import (
    STRING_SIZE_BYTES_MAX,
    announces_too_much,
    read_unsigned_varint,
    skip_tagged_fields,
)

SIZE = struct.Struct(">i")
"""The size that begins every frame; it does not count itself."""

FRAME_SIZE_BYTES_MAX = 2**31 - 1
"""The largest size that a frame can announce."""

HEADER_TAGS_MAX = 64
"""More tagged fields than this in a header are refused (Kafka defines none)."""

_PEEK = struct.Struct(">hhi")
_FIXED = struct.Struct(">hhih")
_CORRELATION = struct.Struct(">i")
_CORRELATION_POSITION = 8
"""Where it stands in a request frame, which begins with its size."""

_HOLE = bytes(SIZE.size)


class RequestHeader(NamedTuple):
    """Who asks what: key and version of the API, the number to answer under, the client's name."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def peek_api(frame: memoryview) -> tuple[int, int, int]:
    """Read (api_key, api_version, correlation_id) alone: all that an unknown API can be asked for.

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

    The client id has its fixed length field in flexible headers too.

    Raises:
        MalformedMessageError: the frame ends early, or the client id or a tag is impossible.
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
        MalformedMessageError: the frame ends early, or a tag is impossible.
    """
    try:
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        position = _CORRELATION.size
        if flexible:
            # Kafka defines no tagged fields here: most often there is a zero and nothing else.
            position = skip_header_tags(frame, position) if frame[position] else position + 1
    except (struct.error, IndexError) as error:
        raise MalformedMessageError(f"response header: {error}") from None
    return correlation_id, position


def skip_header_tags(frame: memoryview, position: int) -> int:
    """Step over a header's tagged fields; returns where the message starts.

    Raises:
        IndexError: the frame ends inside a number.
        MalformedMessageError: there are too many, or one reaches past the frame.
    """
    count, _ = read_unsigned_varint(frame, position)
    if count > HEADER_TAGS_MAX:
        raise MalformedMessageError(f"{count} tagged fields in a header; at most {HEADER_TAGS_MAX}")
    return skip_tagged_fields(frame, position, len(frame), "header")


def request_prefix(message: type[Message], version: int, client_id: str | None) -> bytes:
    """What all requests of a client begin with in one API and version, but for the numbers.

    Raises:
        EncodeError: the client id is too long.
    """
    name = b"" if client_id is None else client_id.encode(errors="replace")
    if len(name) > STRING_SIZE_BYTES_MAX:
        raise EncodeError(
            f"a client id of {len(name)} bytes; at most {STRING_SIZE_BYTES_MAX} can travel"
        )
    size = -1 if client_id is None else len(name)
    prefix = _HOLE + _FIXED.pack(message.API_KEY, version, 0, size) + name
    return prefix + b"\x00" if version in message.FLEXIBLE else prefix


def encode_request_after(
    prefix: bytes, message: Message, version: int, correlation_id: int
) -> list[Any]:
    """`encode_request` for those who send many: ``prefix`` is `request_prefix` of this version.

    Raises:
        EncodeError: a value cannot travel, or the frame is larger than 2 GiB.
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
        EncodeError: a value cannot travel, or the frame is larger than 2 GiB.
        UnsupportedVersionError: the message has no such version.
    """
    prefix = request_prefix(type(message), version, client_id)
    return encode_request_after(prefix, message, version, correlation_id)


def encode_response(message: Message, version: int, correlation_id: int) -> list[Any]:
    """A whole response frame as a list of buffers and payloads, size prefix included.

    Raises:
        EncodeError: a value cannot travel, or the frame is larger than 2 GiB.
        UnsupportedVersionError: the message has no such version.
    """
    header = _HOLE + _CORRELATION.pack(correlation_id)
    if version in message.FLEXIBLE and message.API_KEY != ApiKey.API_VERSIONS:
        header += b"\x00"
    return with_size(message.encode(version, header))


def with_size(parts: list[Any]) -> list[Any]:
    """Write the frame's size into the four bytes that the first buffer begins with.

    Raises:
        EncodeError: the frame is larger than its size field can say.
    """
    size = sum(map(len, parts)) - SIZE.size
    if size > FRAME_SIZE_BYTES_MAX:
        raise EncodeError(f"a frame of {size} bytes; at most {FRAME_SIZE_BYTES_MAX} can travel")
    SIZE.pack_into(parts[0], 0, size)
    return parts
