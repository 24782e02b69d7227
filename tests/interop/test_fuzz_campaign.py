"""A short run of what `make fuzz` does for as long as one likes, and its judge of batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from minikafka.protocol.records import (
    BATCH_HEADER_SIZE_BYTES,
    Compression,
    assemble_batch,
    encode_batch,
)
from tests.interop.fuzz_campaign import run
from tests.interop.poison import poison

RECORDS = [(b"k", b"v" * 50, (), 1000), (None, None, (("h", None),), 1001)]


def test_a_short_campaign_finds_nothing(tmp_path: Path) -> None:
    report = run(frame_count=2000, batch_count=3000, settings={}, folder=tmp_path)
    assert not report.failures(validates=False), str(report)
    assert report.answered > 500
    assert report.refused > 500
    assert report.acknowledged > 1000
    assert "ran for" in report.longest_turn


@pytest.mark.parametrize("codec", Compression, ids=lambda codec: codec.name.lower())
def test_a_valid_batch_is_no_poison(codec: Compression) -> None:
    batch = bytes(encode_batch(RECORDS, compression=codec))
    assert poison(batch) is None
    assert poison(batch, needs_keys=True) == "record 1 has no key"


@pytest.mark.parametrize("codec", Compression, ids=lambda codec: codec.name.lower())
@pytest.mark.parametrize(
    ("change", "count", "reason"),
    [
        (lambda inside: inside[:-1], 2, "record 1 has 9 bytes of 8"),
        (lambda inside: inside + b"\x00", 2, "1 bytes behind the last record"),
        (lambda inside: inside, 3, "it ends inside a number"),
        (lambda inside: inside[:3] + b"\x02" + inside[4:], 2, "record 0 has the offset delta 1"),
    ],
)
def test_poison_is_named(
    codec: Compression, change: Callable[[bytes], bytes], count: int, reason: str
) -> None:
    inside = bytes(encode_batch(RECORDS))[BATCH_HEADER_SIZE_BYTES:]
    batch = assemble_batch(
        change(inside),
        record_count=count,
        last_offset_delta=count - 1,
        base_timestamp=1000,
        max_timestamp=1001,
        compression=codec,
    )
    assert poison(bytes(batch)) == reason
