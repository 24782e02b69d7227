"""Reads what clients push as metrics: the fields of OpenTelemetry's MetricsData that we show.

MetricsData is a protobuf message whose field numbers are fixed (opentelemetry-proto 1.x). Only
names, units, attributes and the values of gauges and sums are read, which is all that Kafka's
clients push; everything else is skipped. That is less code than a dependency on protobuf would
need to be optional.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["MalformedMetricsError", "Point", "points"]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}
_GAUGE, _SUM = 5, 7
_SHIFT_MAX: Final = 63


class MalformedMetricsError(ValueError):
    """The bytes are no MetricsData."""


class Point(NamedTuple):
    """One value of a metric."""

    name: str
    unit: str
    attributes: tuple[tuple[str, str], ...]
    time_ms: int
    value: float | int


def points(metrics_data: bytes) -> list[Point]:
    """All gauges and sums of a MetricsData.

    Raises:
        MalformedMetricsError: it cannot be read.
    """
    try:
        return [
            point
            for resource in _messages(metrics_data, 1)
            for scope in _messages(resource, 2)
            for metric in _messages(scope, 2)
            for point in _points_of(metric)
        ]
    except (IndexError, UnicodeDecodeError, struct.error) as error:
        raise MalformedMetricsError(f"{len(metrics_data)} bytes are no metrics: {error}") from None


def _points_of(metric: bytes) -> Iterator[Point]:
    name = unit = ""
    holders: list[bytes] = []
    for number, _, content in _fields(metric):
        if number == 1:
            name = _text(content)
        elif number == 3:
            unit = _text(content)
        elif number in (_GAUGE, _SUM) and isinstance(content, bytes):
            holders.append(content)
    for holder in holders:
        for point in _messages(holder, 1):
            yield _point(name, unit, point)


def _point(name: str, unit: str, point: bytes) -> Point:
    attributes: list[tuple[str, str]] = []
    time_ms, value = 0, 0.0
    for number, _, content in _fields(point):
        if number == 7 and isinstance(content, bytes):
            attributes.append(_attribute(content))
        elif number == 3 and isinstance(content, bytes):
            time_ms = int.from_bytes(content, "little") // 1_000_000
        elif number == 4 and isinstance(content, bytes):
            (value,) = struct.unpack("<d", content)
        elif number == 6 and isinstance(content, bytes):
            value = int.from_bytes(content, "little", signed=True)
    return Point(name, unit, tuple(attributes), time_ms, value)


def _attribute(key_value: bytes) -> tuple[str, str]:
    key = value = ""
    for number, _, content in _fields(key_value):
        if number == 1:
            key = _text(content)
        elif number == 2 and isinstance(content, bytes):
            value = "".join(_shown(*field) for field in _fields(content))
    return key, value


def _shown(number: int, kind: int, content: bytes | int) -> str:
    """The value of an attribute: text, true or false, or a number."""
    if number == 2:
        return "true" if content else "false"
    if kind == _FIXED64 and isinstance(content, bytes):
        return str(struct.unpack("<d", content)[0])
    return _text(content) if isinstance(content, bytes) else str(content)


def _messages(message: bytes, wanted: int) -> Iterator[bytes]:
    for number, _, content in _fields(message):
        if number == wanted and isinstance(content, bytes):
            yield content


def _text(content: bytes | int) -> str:
    return content.decode() if isinstance(content, bytes) else str(content)


def _fields(message: bytes) -> Iterator[tuple[int, int, bytes | int]]:
    """Number, wire type and content of each field; numbers are decoded if they are varints."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        kind = tag & 7
        if kind == _VARINT:
            number, position = _varint(message, position)
            yield tag >> 3, kind, number
            continue
        if kind == _BYTES:
            size, position = _varint(message, position)
        elif kind in _FIXED_SIZES:
            size = _FIXED_SIZES[kind]
        else:
            raise MalformedMetricsError(f"there is no wire type {kind}")
        if size > len(message) - position:
            raise MalformedMetricsError(f"a field of {size} bytes exceeds its message")
        yield tag >> 3, kind, message[position : position + size]
        position += size


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > _SHIFT_MAX:
            raise MalformedMetricsError("a number has more than 10 bytes")
