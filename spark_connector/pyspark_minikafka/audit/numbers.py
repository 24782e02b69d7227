"""Extracts producer and number of records.

A *place* is one of

    auto           a header of that name, else a field of that name in the value's JSON document
    header:NAME    the first header NAME
    json:PATH      a field in the value's JSON document, e.g. json:$.source.name
    key            the record's key
    value          the record's value
    constant:TEXT  the same for all records (a topic with one producer)
    sql:EXPRESSION of key, value, topic, partition, offset, timestamp and headers

Bytes are decoded as UTF-8, numbers as decimal digits, possibly surrounded by blanks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

AUTO: Final = "auto"
PRODUCER: Final = "producer"
SEQUENCE: Final = "sequence"


class WrongPlace(ValueError):
    """A place is malformed or unknown."""


def numbered(records: DataFrame, producer: str = AUTO, sequence: str = AUTO) -> DataFrame:
    """Extract producer and number of each record.

    Args:
        records: rows of the source `minikafka`, with the columns topic, partition, offset and those
            that the places need (`headers` for auto: option ``includeHeaders``).
        producer: the place of the producer's name; auto is the header or field `producer`.
        sequence: the place of the number; auto is the header or field `sequence`.

    Returns:
        topic, partition, offset, producer (string) and sequence (long); if one of the last two is
        missing, both are null.

    Raises:
        WrongPlace: a place is malformed or unknown.
    """
    name = _text_at(producer, PRODUCER)
    number = _text_at(sequence, SEQUENCE)
    found = records.select("topic", "partition", "offset", name.alias("n"), number.alias("s"))
    read = found.select(
        "topic", "partition", "offset", "n", sf.trim("s").try_cast("long").alias("s")
    )
    both = sf.col("n").isNotNull() & sf.col("s").isNotNull()
    return read.select(
        "topic",
        "partition",
        "offset",
        sf.when(both, sf.col("n")).alias(PRODUCER),
        sf.when(both, sf.col("s")).alias(SEQUENCE),
    )


def _text_at(place: str, default_name: str) -> Column:
    if place == AUTO:
        return sf.coalesce(_header(default_name), _field(f"$.{default_name}"))
    kind, colon, rest = place.partition(":")
    if not colon and kind in _COLUMNS:
        return _COLUMNS[kind]()
    if rest and kind in _PLACES:
        return _PLACES[kind](rest)
    known = ", ".join([AUTO, *_COLUMNS, *(f"{kind}:…" for kind in _PLACES)])
    raise WrongPlace(f"{place!r} is not a place in a record; places are {known}")


def _header(name: str) -> Column:
    of_name = sf.filter("headers", lambda header: header["key"] == sf.lit(name))
    return sf.get(of_name, 0)["value"].cast("string")


def _field(path: str) -> Column:
    return sf.get_json_object(sf.col("value").cast("string"), path)


_COLUMNS: Final[dict[str, Callable[[], Column]]] = {
    "key": lambda: sf.col("key").cast("string"),
    "value": lambda: sf.col("value").cast("string"),
}
_PLACES: Final[dict[str, Callable[[str], Column]]] = {
    "header": _header,
    "json": _field,
    "constant": sf.lit,
    "sql": lambda expression: sf.expr(expression).cast("string"),
}
