"""Where the audit finds producer and sequence."""

from __future__ import annotations

import json
import struct

import pytest
from pyspark.sql import SparkSession

from pyspark_minikafka.audit import WrongPlace, numbered

pytestmark = [pytest.mark.java, pytest.mark.slow]

SCHEMA = (
    "topic string, partition int, offset long, key binary, value binary, "
    "headers array<struct<key string, value binary>>"
)
Headers = list[tuple[str, bytes | None]] | None
Record = tuple[bytes | None, bytes | None, Headers]
Found = tuple[str | None, int | None]


def found_in(
    spark: SparkSession,
    records: list[Record],
    **places: str,
) -> list[Found]:
    rows = [("t", 0, offset, *record) for offset, record in enumerate(records)]
    found = numbered(spark.createDataFrame(rows, SCHEMA), **places).orderBy("offset")
    return [(row.producer, row.sequence) for row in found.collect()]


def test_a_header_is_preferred_to_a_field_of_the_value(spark: SparkSession) -> None:
    document = json.dumps({"producer": "field", "sequence": 7}).encode()
    headers: list[tuple[str, bytes | None]] = [
        ("producer", b"header"),
        ("sequence", b" 8 "),
        ("sequence", b"9"),
    ]
    assert found_in(
        spark,
        [
            (None, document, None),
            (None, document, headers),
            (None, document, headers[:1]),
            (None, None, headers),
        ],
    ) == [("field", 7), ("header", 8), ("header", 7), ("header", 8)]


def test_malformed_records_have_neither_producer_nor_number(spark: SparkSession) -> None:
    unreadable: list[Record] = [
        (None, None, None),
        (None, b"\xff\x00", [("producer", None), ("sequence", b"1")]),
        (None, b'{"producer": "a", "sequence": "x"}', []),
        (None, b'{"producer": "a", "sequence": 1.5}', []),
        (None, b'{"producer": "a", "sequence": 99999999999999999999}', []),
        (None, b'{"producer": "a"', None),
    ]
    assert found_in(spark, unreadable) == [(None, None)] * len(unreadable)


def test_places_can_be_named(spark: SparkSession) -> None:
    record: Record = (b"key", b"17", [("who", b"me"), ("n", struct.pack(">q", 5))])
    assert found_in(spark, [record], producer="key", sequence="value") == [("key", 17)]
    assert found_in(spark, [record], producer="header:who", sequence="value") == [("me", 17)]
    assert found_in(spark, [record], producer="constant:one", sequence="sql:offset + 3") == [
        ("one", 3)
    ]
    nested: Record = (None, b'{"from": {"id": "x"}, "n": -4}', None)
    assert found_in(spark, [nested], producer="json:$.from.id", sequence="json:$.n") == [("x", -4)]


@pytest.mark.parametrize("place", ["", "headers", "header:", "header", "key:x", "Value"])
def test_an_unknown_place_is_refused(spark: SparkSession, place: str) -> None:
    with pytest.raises(WrongPlace, match="places are auto, key, value, header:"):
        found_in(spark, [(None, None, None)], producer=place)
