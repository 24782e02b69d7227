"""Frames between nodes: what is written is read, and what is no frame is refused cheaply."""

import struct

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.broker.rpc import frames
from minikafka.broker.rpc.errors import RpcProtocolError
from minikafka.broker.rpc.frames import HEAD, FrameKind, check_head, decode_frame, encode_frame
from minikafka.broker.rpc.identity import decode_hello

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary(),
    lambda inner: st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def body_of(beginning: bytes, attachments: list[bytes]) -> tuple[memoryview, int]:
    whole = beginning + b"".join(attachments)
    size, header_size = HEAD.unpack_from(whole)
    assert size == len(whole) - 4
    check_head(size, header_size, frames.FRAME_SIZE_BYTES_MAX)
    return memoryview(whole)[HEAD.size :], header_size


@given(
    st.sampled_from(FrameKind),
    st.integers(0, 2**40),
    st.text(max_size=frames.NAME_LENGTH_MAX),
    plain,
    st.lists(st.binary(max_size=30), max_size=5),
)
def test_a_frame_is_read_as_it_was_written(
    kind: FrameKind, number: int, name: str, fields: object, attachments: list[bytes]
) -> None:
    beginning = encode_frame(kind, number, name, fields, attachments)
    frame = decode_frame(*body_of(beginning, attachments))
    assert frame[:4] == (kind, number, name, fields)
    assert frame.attachments == attachments


@given(st.binary(max_size=80), st.integers(1, 80))
def test_bytes_that_are_no_frame_are_refused(content: bytes, header_size: int) -> None:
    try:
        frame = decode_frame(memoryview(content), header_size)
    except RpcProtocolError:
        return
    assert header_size + sum(map(len, frame.attachments)) == len(content)


@given(st.data())
def test_a_damaged_frame_is_refused_or_another_frame(data: st.DataObject) -> None:
    attachments = [b"abc", b""]
    whole = bytearray(encode_frame(FrameKind.REQUEST, 7, "op", {"a": [1, 2]}, attachments))
    whole += b"abc"
    position = data.draw(st.integers(HEAD.size, len(whole) - 1))
    whole[position] = data.draw(st.integers(0, 255))
    (_, header_size) = HEAD.unpack_from(whole)
    try:
        frame = decode_frame(memoryview(whole)[HEAD.size :], header_size)
    except RpcProtocolError:
        return
    assert sum(map(len, frame.attachments)) <= len(whole)


@pytest.mark.parametrize(
    ("size", "header_size"),
    [(0, 0), (4, 0), (10, 0), (10, 7), (2**31, 10), (1001, 10), (100, 2**32 - 1)],
)
def test_impossible_sizes_are_refused_before_anything_is_allocated(
    size: int, header_size: int
) -> None:
    with pytest.raises(RpcProtocolError, match="announces"):
        check_head(size, header_size, 1000)


def test_a_header_may_not_be_larger_than_its_limit() -> None:
    with pytest.raises(RpcProtocolError, match="header of"):
        check_head(2**27, frames.HEADER_SIZE_BYTES_MAX + 1, frames.FRAME_SIZE_BYTES_MAX)


@pytest.mark.parametrize(
    "header",
    [
        [1, 2, "op", None],
        [1, 2, "op", None, [], 6],
        ["1", 2, "op", None, []],
        [1, "2", "op", None, []],
        [True, 2, "op", None, []],
        [1, 2, b"op", None, []],
        [1, 2, "o" * 65, None, []],
        [1, 2, "op", None, {}],
        [1, 2, "op", None, [-1]],
        [1, 2, "op", None, [1]],
        [1, 2, "op", None, ["0"]],
        7,
    ],
)
def test_headers_of_another_shape_are_refused(header: object) -> None:
    packed = msgpack.packb(header)
    with pytest.raises(RpcProtocolError):
        decode_frame(memoryview(packed), len(packed))


def test_bytes_after_the_attachments_are_refused() -> None:
    packed = msgpack.packb([1, 2, "op", None, [1]])
    with pytest.raises(RpcProtocolError, match="1 bytes after"):
        decode_frame(memoryview(packed + b"xy"), len(packed))


def test_what_the_other_side_would_refuse_is_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ValueError, match="can travel"):
        encode_frame(FrameKind.REQUEST, 1, "op", b"x" * (frames.HEADER_SIZE_BYTES_MAX + 1), [])
    with pytest.raises(ValueError, match="20001 attachments"):
        encode_frame(FrameKind.REQUEST, 1, "op", None, [b""] * 20_001)
    monkeypatch.setattr(frames, "FRAME_SIZE_BYTES_MAX", 100)
    with pytest.raises(ValueError, match="a frame of"):
        encode_frame(FrameKind.REQUEST, 1, "op", None, [b"x" * 100])


@pytest.mark.parametrize(
    "fields",
    [
        None,
        7,
        (),
        (1, "c", 1, b"", "h"),
        ("1", "c", 1, b"", "h", 1),
        (1, b"c", 1, b"", "h", 1),
        (1, "c" * 65, 1, b"", "h", 1),
        (1, "c", -1, b"", "h", 1),
        (1, "c", 2**31, b"", "h", 1),
        (1, "c", 1, b"x" * 65, "h", 1),
        (1, "c", 1, "text", "h", 1),
        (1, "c", 1, b"", b"h", 1),
        (1, "c", 1, b"", "h" * 1001, 1),
        (1, "c", 1, b"", "h", 65_536),
    ],
)
def test_a_hello_of_another_shape_is_refused(fields: object) -> None:
    with pytest.raises(RpcProtocolError, match="not a hello"):
        decode_hello(fields)


def test_a_hello_of_a_later_version_may_say_more() -> None:
    assert decode_hello((9, "c", 1, b"i", "h", 2, "more")) == (9, "c", 1, b"i", "h", 2)


def test_the_head_is_two_big_endian_sizes() -> None:
    beginning = encode_frame(FrameKind.ONE_WAY, 0, "raft", None, [b"1234"])
    header = msgpack.packb([4, 0, "raft", None, [4]])
    assert beginning == struct.pack(">II", 4 + len(header) + 4, len(header)) + header
