"""`minikafka client-metrics`, and the reading of what clients push."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.cli.otlp import MalformedMetricsError, Point, points
from tests.cli.conftest import CommandLine


def part(number: int, content: bytes) -> bytes:
    """A field of protobuf that is text or a message."""
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


TIME = struct.pack("<BQ", 3 << 3 | 1, 5_000_000)
TAGGED = part(7, part(1, b"node") + part(2, part(1, b"7")))
GAUGE = part(5, part(1, TIME + struct.pack("<Bd", 4 << 3 | 1, 0.5) + TAGGED))
SUM = part(7, part(1, TIME + struct.pack("<Bq", 6 << 3 | 1, -3)) + b"\x10\x01")
METRICS = part(2, part(1, b"lag") + part(3, b"ms") + GAUGE) + part(2, part(1, b"sent") + SUM)
PUSHED = part(1, part(1, b"") + part(2, METRICS))


def test_gauges_and_sums_are_read() -> None:
    assert points(PUSHED) == [
        Point("lag", "ms", (("node", "7"),), 5, 0.5),
        Point("sent", "", (), 5, -3),
    ]


@given(st.binary(max_size=60) | st.integers(0, len(PUSHED) - 1).map(lambda end: PUSHED[:end]))
def test_what_is_no_metrics_is_an_error_or_nothing_and_never_a_bug(pushed: bytes) -> None:
    found: list[Point] = []
    with suppress(MalformedMetricsError):
        found = points(pushed)
    assert all(isinstance(one, Point) for one in found)


@pytest.mark.parametrize("broken", [b"\x0a\x05ab", b"\xff" * 12, b"\x0b"])
def test_malformed_bytes_are_refused(broken: bytes) -> None:
    with pytest.raises(MalformedMetricsError):
        points(broken)


def test_without_clients_there_is_nothing_to_show(cli: CommandLine) -> None:
    assert cli.json("client-metrics", "list") == {"clients": []}
    assert "there is no client 'billing'" in cli.fails("client-metrics", "show", "billing")
