from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.records import BatchBuilder, Compression, decode_records
from minikafka_client.core.plain_records import Run, encode_plain_batch

SIZES = st.lists(
    st.tuples(st.integers(1, 70), st.sampled_from([0, 1, 5, 55, 56, 63, 64, 200, 9_000])),
    min_size=1,
    max_size=5,
)
RUNS = st.lists(st.tuples(st.integers(-(2**40), 2**40), SIZES), min_size=1, max_size=4)


def plain(runs: list[Run], compression: Compression = Compression.NONE) -> bytearray:
    return encode_plain_batch(runs, compression=compression, level=None)


def built(runs: list[Run]) -> bytearray:
    builder = BatchBuilder()
    for timestamp, values in runs:
        for value in values:
            assert builder.append(None, value, timestamp)
    return builder.build()


@given(shape=RUNS)
def test_it_is_what_the_builder_makes_of_the_same_records(
    shape: list[tuple[int, list[tuple[int, int]]]],
) -> None:
    runs = [
        (timestamp, [bytes([count]) * size for count, size in sizes for _ in range(count)])
        for timestamp, sizes in shape
    ]
    assert plain(runs) == built(runs)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 8_191, 8_192, 8_193, 9_000])
def test_offsets_of_every_size(count: int) -> None:
    runs = [(7, [b"%d" % index for index in range(count)])]
    assert plain(runs) == built(runs)
    values = runs[0][1]
    half: list[Run] = [(9, values[count // 2 :]), (7, values[: count // 2])][: min(count, 2)]
    assert plain(half) == built(half)


@pytest.mark.parametrize("compression", list(Compression))
def test_it_can_be_compressed(compression: Compression) -> None:
    records = decode_records(plain([(1, [b"a"] * 100)], compression), check_crc=True)
    assert [record.value for record in records] == [b"a"] * 100
