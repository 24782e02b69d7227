"""The bytes between nodes: a msgpack header, then raw attachments.

    offset size
         0    4 size of everything after this field
         4    4 size of the header
         8      header: msgpack array [kind, number, name, fields, sizes of the attachments]
                attachments, one after the other

``number`` ties an answer to its request, ``name`` is the operation of a request or the kind of a
failure. The first frame of each side is a hello; where nodes share a secret, the proofs that both
know it come before the second one (`identity`). Every size is checked before anything is
allocated, and a hello may only be small, because its sender is not known yet.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple, cast

import msgpack

from .errors import RpcProtocolError

PROTOCOL_VERSION = 1

HELLO_SIZE_BYTES_MAX = 4096
HEADER_SIZE_BYTES_MAX = 4 * 1024 * 1024
FRAME_SIZE_BYTES_MAX = 160 * 1024 * 1024
"""More than the largest Produce request, whose one batch a replica has to be able to fetch."""
ATTACHMENTS_MAX = 20_000
NAME_LENGTH_MAX = 64

HEAD = struct.Struct(">II")
_SIZE_FIELD_BYTES = 4


class FrameKind(IntEnum):
    HELLO = 0
    REQUEST = 1
    ANSWER = 2
    FAILURE = 3
    ONE_WAY = 4
    CANCEL = 5
    REFUSAL = 6
    CHALLENGE = 7
    PROOF = 8


class Frame(NamedTuple):
    """One frame as it arrived; the attachments are slices of one buffer."""

    kind: int
    number: int
    name: str
    fields: Any
    attachments: list[memoryview]
    size_bytes: int


def encode_frame(
    kind: FrameKind, number: int, name: str, fields: Any, attachments: Sequence[Any]
) -> bytes:
    """The beginning of a frame, which the attachments follow as they are.

    Args:
        kind: what it is.
        number: ties answers to requests.
        name: the operation, or the kind of failure.
        fields: numbers, texts, bytes, lists and maps of them, None.
        attachments: anything with a length in bytes.

    Raises:
        ValueError: the header or the frame is larger than the other side takes.
    """
    sizes = [len(one) for one in attachments]
    header: bytes = msgpack.packb((kind, number, name, fields, sizes))
    size = _SIZE_FIELD_BYTES + len(header) + sum(sizes)
    if len(header) > HEADER_SIZE_BYTES_MAX or size > FRAME_SIZE_BYTES_MAX:
        raise ValueError(
            f"{name or kind.name}: a frame of {size} bytes with a header of {len(header)}; at most "
            f"{FRAME_SIZE_BYTES_MAX} and {HEADER_SIZE_BYTES_MAX} can travel"
        )
    if len(sizes) > ATTACHMENTS_MAX:
        raise ValueError(f"{name}: {len(sizes)} attachments; at most {ATTACHMENTS_MAX} can travel")
    return HEAD.pack(size, len(header)) + header


def check_head(size: int, header_size: int, size_bytes_max: int) -> None:
    """Judge a frame by its first eight bytes.

    Raises:
        RpcProtocolError: its sizes are impossible or too large.
    """
    if not _SIZE_FIELD_BYTES < size <= size_bytes_max:
        raise RpcProtocolError(f"a frame announces {size} bytes; at most {size_bytes_max} may come")
    if not 0 < header_size <= min(size - _SIZE_FIELD_BYTES, HEADER_SIZE_BYTES_MAX):
        raise RpcProtocolError(f"a frame of {size} bytes announces a header of {header_size} bytes")


def decode_frame(body: memoryview, header_size: int) -> Frame:
    """Read a frame whose head was checked.

    Args:
        body: everything after the head.
        header_size: as the head says.

    Raises:
        RpcProtocolError: the header is no header, or does not fit the attachments.
    """
    try:
        header = msgpack.unpackb(body[:header_size], use_list=False, strict_map_key=False)
        kind, number, name, fields, sizes = header
    except (ValueError, TypeError, RecursionError) as error:
        raise RpcProtocolError(f"a frame's header cannot be read: {error!r}") from None
    if not (
        type(kind) is int
        and type(number) is int
        and type(name) is str
        and len(name) <= NAME_LENGTH_MAX
        and type(sizes) is tuple
        and len(cast("tuple[object, ...]", sizes)) <= ATTACHMENTS_MAX
    ):
        raise RpcProtocolError("a frame's header has fields of other types")
    position = header_size
    attachments: list[memoryview] = []
    for size in cast("tuple[object, ...]", sizes):
        if type(size) is not int or not 0 <= size <= len(body) - position:
            raise RpcProtocolError(f"a frame announces an attachment of {size!r} bytes")
        attachments.append(body[position : position + size])
        position += size
    if position != len(body):
        raise RpcProtocolError(f"a frame has {len(body) - position} bytes after its attachments")
    return Frame(kind, number, name, fields, attachments, len(body))
