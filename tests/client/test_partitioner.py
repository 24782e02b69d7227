from __future__ import annotations

import pytest

from minikafka_client.partitioner import murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_javas(key: bytes, expected: int) -> None:
    """The vectors of Kafka's own UtilsTest."""
    assert murmur2(key) == expected & 0xFFFFFFFF


def test_the_partition_of_a_key_is_javas() -> None:
    positive = -790332482 & 0x7FFFFFFF
    assert partition_for_key(b"foobar", 100) == positive % 100
    assert partition_for_key(b"", 7) == (murmur2(b"") & 0x7FFFFFFF) % 7
