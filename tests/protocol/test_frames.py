from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as KioRequestHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as KioRequestHeaderV2
from kio.schema.response_header.v0.header import ResponseHeader as KioResponseHeaderV0
from kio.schema.response_header.v1.header import ResponseHeader as KioResponseHeaderV1
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from minikafka.protocol import frames
from minikafka.protocol.exceptions import EncodeError, MalformedMessageError
from minikafka.protocol.messages import api_versions, fetch, heartbeat
from minikafka.protocol.schema import Message
from tests.protocol.instances import Case, every_case, random_message, seeded
from tests.protocol.plain_writer import varint

CLIENT_IDS = st.none() | st.text(max_size=20)
CORRELATION_IDS = st.integers(-(2**31), 2**31 - 1)
HEARTBEAT = heartbeat.Request(group_id="g", generation_id=1, member_id="m")


def kio_written(entity: Any) -> bytes:
    target = io.BytesIO()
    entity_writer(type(entity))(target, entity)
    return target.getvalue()


def framed(parts: list[Any]) -> memoryview:
    """The bytes after the size of a frame; checks the size."""
    wire = b"".join(parts)
    assert int.from_bytes(wire[:4]) == len(wire) - 4
    return memoryview(wire)[4:]


@given(CORRELATION_IDS, CLIENT_IDS)
def test_request_headers_are_those_of_kio(correlation_id: int, client_id: str | None) -> None:
    for version, kio_class in ((3, KioRequestHeaderV1), (4, KioRequestHeaderV2)):
        flexible = version == 4
        frame = framed(frames.encode_request(HEARTBEAT, version, correlation_id, client_id))
        expected = kio_written(
            kio_class(
                request_api_key=i16(12),
                request_api_version=i16(version),
                correlation_id=i32(correlation_id),
                client_id=client_id,
            )
        )
        assert frame[: len(expected)] == expected
        header, position = frames.decode_request_header(frame, flexible=flexible)
        assert header == frames.RequestHeader(12, version, correlation_id, client_id)
        assert position == len(expected)
        assert heartbeat.Request.decode(version, frame, position) == HEARTBEAT
        assert frames.peek_api(frame) == (12, version, correlation_id)


@given(CORRELATION_IDS)
def test_response_headers_are_those_of_kio(correlation_id: int) -> None:
    response = heartbeat.Response(error_code=27)
    for version, kio_class in ((3, KioResponseHeaderV0), (4, KioResponseHeaderV1)):
        frame = framed(frames.encode_response(response, version, correlation_id))
        expected = kio_written(kio_class(correlation_id=i32(correlation_id)))
        assert frame[: len(expected)] == expected
        found, position = frames.decode_response_header(frame, flexible=version == 4)
        assert (found, position) == (correlation_id, len(expected))
        assert heartbeat.Response.decode(version, frame, position) == response


@pytest.mark.parametrize("version", range(5))
def test_the_header_of_an_api_versions_response_never_has_tags(version: int) -> None:
    """The client does not know yet which versions are supported (KIP-511)."""
    response = api_versions.Response(error_code=35, api_keys=[])
    frame = framed(frames.encode_response(response, version, 9))
    assert frames.decode_response_header(frame, flexible=False) == (9, 4)
    assert frame[4:] == response.encode_to_bytes(version)


def test_the_header_of_a_flexible_api_versions_request_has_tags() -> None:
    frame = framed(frames.encode_request(api_versions.Request(), 3, 9, "me"))
    header, position = frames.decode_request_header(frame, flexible=True)
    assert header.client_id == "me"
    assert api_versions.Request.decode(3, frame, position) == api_versions.Request()


@pytest.mark.parametrize("case", every_case(), ids=str)
def test_every_message_survives_a_round_trip_in_a_frame(case: Case) -> None:
    message: Message = random_message(case, seeded(case, "frame"))
    if case.message.__name__.endswith("Request"):
        frame = framed(frames.encode_request(message, case.version, 1, "client"))
        _, position = frames.decode_request_header(frame, flexible=case.flexible)
    else:
        frame = framed(frames.encode_response(message, case.version, 1))
        flexible = case.flexible and case.message is not api_versions.Response
        _, position = frames.decode_response_header(frame, flexible=flexible)
    assert case.message.decode(case.version, frame, position) == message


def test_the_size_includes_payloads_that_are_separate_buffers() -> None:
    partition = fetch.PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=1,
        aborted_transactions=None,
        records=b"r" * 5_000,
    )
    topic = fetch.TopicResponse(topic="t", partitions=[partition, partition])
    parts = frames.encode_response(fetch.Response(responses=[topic]), 12, 1)
    assert [len(part) for part in parts].count(5_000) == 2
    assert len(framed(parts)) > 10_000


class Endless:
    def __len__(self) -> int:
        return frames.FRAME_SIZE_BYTES_MAX


def test_a_frame_that_is_too_large_for_its_size_field_is_refused() -> None:
    assert frames.with_size([bytearray(4), bytes(3)])[0] == b"\0\0\0\3"
    assert frames.with_size([bytearray(4), Endless()])[0] == b"\x7f\xff\xff\xff"
    with pytest.raises(EncodeError, match="a frame of 2147483648 bytes; at most 2147483647"):
        frames.with_size([bytearray(5), Endless()])


def test_a_client_id_that_is_too_long_is_refused() -> None:
    framed(frames.encode_request(HEARTBEAT, 0, 1, "é" * 16_383))
    with pytest.raises(EncodeError, match="a client id of 32768 bytes; at most 32767"):
        frames.encode_request(HEARTBEAT, 0, 1, "é" * 16_384)


@given(CLIENT_IDS, st.booleans())
def test_a_truncated_request_header_is_malformed(client_id: str | None, flexible: bool) -> None:
    frame = framed(frames.encode_request(HEARTBEAT, 4 if flexible else 3, 1, client_id))
    _, position = frames.decode_request_header(frame, flexible=flexible)
    for size in range(position):
        with pytest.raises(MalformedMessageError):
            frames.decode_request_header(frame[:size], flexible=flexible)


@pytest.mark.parametrize("size", range(8))
def test_a_frame_too_short_for_a_header_is_malformed(size: int) -> None:
    with pytest.raises(MalformedMessageError, match="request header"):
        frames.peek_api(memoryview(bytes(size)))


@pytest.mark.parametrize("size", range(5))
def test_a_truncated_response_header_is_malformed(size: int) -> None:
    with pytest.raises(MalformedMessageError, match="response header"):
        frames.decode_response_header(memoryview(bytes(size)), flexible=True)


FIXED_PART = bytes(8)


@pytest.mark.parametrize(
    ("rest", "complaint"),
    [
        (b"\x7f\xffabc", "client id announces 32767, but only 3 bytes remain"),
        (b"\x00\x02\xff\xfe\x00", "request header: 'utf-8'"),
        (
            b"\xff\xff" + varint(frames.HEADER_TAGS_MAX + 1) + bytes(200),
            "65 tagged fields in a header",
        ),
        (b"\xff\xff" + b"\xff\xff\xff\xff\x0f", "4294967295 tagged fields in a header"),
        (b"\xff\xff" + b"\x02\x00\x00", "header tags announces 2, but only 2 bytes remain"),
        (b"\xff\xff" + b"\x01\x00\x05abcd", "header tag 0 announces 5, but only 4 bytes remain"),
        (b"\xff\xff" + b"\xff\xff\xff\xff\xff\x0f", "longer than 5 bytes"),
    ],
)
def test_an_invalid_request_header_is_malformed(rest: bytes, complaint: str) -> None:
    with pytest.raises(MalformedMessageError, match=complaint):
        frames.decode_request_header(memoryview(FIXED_PART + rest), flexible=True)


def test_tags_in_headers_are_skipped() -> None:
    tags = varint(frames.HEADER_TAGS_MAX) + b"\x07\x01x" * frames.HEADER_TAGS_MAX
    frame = memoryview(FIXED_PART + b"\xff\xff" + tags + b"message")
    _, position = frames.decode_request_header(frame, flexible=True)
    assert bytes(frame[position:]) == b"message"
    frame = memoryview(bytes(4) + tags + b"message")
    _, position = frames.decode_response_header(frame, flexible=True)
    assert bytes(frame[position:]) == b"message"


@given(st.binary(max_size=60), st.booleans())
def test_any_bytes_are_a_header_or_malformed(frame: bytes, flexible: bool) -> None:
    for decode in (frames.decode_request_header, frames.decode_response_header):
        try:
            _, position = decode(memoryview(frame), flexible=flexible)
        except MalformedMessageError:
            continue
        assert 4 <= position <= len(frame)
