"""Counts findings with aggregations and windows only, so no record reaches the driver.

1. In each partition, a window over each producer's records by offset compares a number with the
   largest before it. Then the records of one number become one row: how often it occurs, and how
   many of these times after a number at least as large. If that is not one less than the
   occurrences, its first occurrence was late.
2. The rows of each producer are distributed by *stretches* of consecutive numbers, so that a
   producer with a billion numbers is not one task. In each stretch, a window by number finds the
   gaps and, over all partitions, the duplicates.
3. One row remains for each stretch, partition and producer. A window over these finds the gaps
   between stretches, and all sums are taken over them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

STRETCH_BITS: Final = 20
"""A stretch has 2 to the power of this many consecutive numbers."""

_PLACE: Final = ("topic", "partition", "producer")
_PRODUCER: Final = ("topic", "producer")


class Scope(Enum):
    """The scope of a producer's numbers."""

    TOPIC = "topic"
    """One sequence for each producer and topic, across its partitions."""
    PARTITION = "partition"
    """One sequence for each producer and partition."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The known bounds of sequences.

    Attributes:
        first: each sequence's first number (smaller ones are ignored); None takes the smallest that
            occurs, so that a loss before it is not detected.
        records: the length of each sequence; None takes the largest number that occurs as its last.
            Needs `first`.
        records_of: the same for certain producers; one without any records has lost all.

    Raises:
        ValueError: `records` without `first`.
    """

    first: int | None = None
    records: int | None = None
    records_of: Mapping[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        if self.first is None and (self.records is not None or self.records_of):
            raise ValueError("the number of expected records needs the first number")


def audited(
    numbered: DataFrame,
    scope: Scope = Scope.TOPIC,
    expectation: Expectation | None = None,
    *,
    stretch_bits: int = STRETCH_BITS,
) -> DataFrame:
    """Count lost, duplicated and reordered records.

    Args:
        numbered: topic, partition, offset, producer, sequence: see `numbered`.
        scope: of a producer's numbers.
        expectation: bounds of the sequences, if known.
        stretch_bits: does not change the result; see the module.

    Returns:
        topic, partition, producer, records, first, last, lost, duplicated, reordered, unnumbered,
        first_lost (from, to), first_duplicated and first_reordered (sequence, partition, offset of
        the first occurrence). There is one row for each partition and producer and, in
        `Scope.TOPIC`, one for each producer with partition null. `lost` is null where it
        cannot be known. Producer null stands for the unnumbered records, topic null for a producer
        without records. The plan reads a cached DataFrame: to free its memory, call
        ``spark.catalog.clearCache()``.
    """
    expectation = expectation or Expectation()
    pieces = _pieces(_by_number(numbered), scope, stretch_bits).cache()
    if scope is Scope.PARTITION:
        rows = _sums(_with_edges(pieces, _PLACE), _PLACE, expectation)
    else:
        rows = _sums(_with_edges(_merged(pieces), _PRODUCER), _PRODUCER, expectation)
    if expectation.records_of:
        rows = _with_absent(rows, expectation)
    return rows if scope is Scope.PARTITION else rows.unionByName(_sums(pieces, _PLACE, None))


def _by_number(numbered: DataFrame) -> DataFrame:
    """One row for each number of a producer in a partition."""
    before = (
        Window.partitionBy(*_PLACE).orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    )
    is_late = sf.col("sequence") <= sf.max("sequence").over(before)
    # The aggregation reuses the window's distribution: this is one shuffle.
    return (
        numbered.withColumn("is_late", sf.when(is_late, 1).otherwise(0))
        .groupBy(*_PLACE, "sequence")
        .agg(
            sf.count("*").alias("times"),
            sf.sum("is_late").alias("late"),
            sf.min("offset").alias("offset"),
        )
    )


def _pieces(numbers: DataFrame, scope: Scope, stretch_bits: int) -> DataFrame:
    """One row for each partition, producer and stretch: see the module."""
    rows = numbers.withColumn("stretch", sf.shiftright("sequence", stretch_bits))
    keys = (*(_PLACE if scope is Scope.PARTITION else _PRODUCER), "stretch")
    if scope is Scope.TOPIC:
        rows = rows.repartition(*keys)
    by_number = Window.partitionBy(*keys).orderBy("sequence", "partition")
    previous = sf.lag("sequence").over(by_number)
    rows = rows.withColumn("gap", sf.col("sequence") - previous - 1)
    is_again = sf.when(sf.col("gap") == -1, 1).otherwise(0)
    rows = rows.withColumn("again", sf.col("times") - 1 + is_again)
    rows = rows.withColumn("reordered", sf.col("late") - sf.col("times") + 1)
    has_number = sf.col("sequence").isNotNull()
    where = sf.struct("sequence", "partition", "offset")
    lost = sf.struct(
        (sf.col("sequence") - sf.col("gap")).alias("from"), (sf.col("sequence") - 1).alias("to")
    )
    return rows.groupBy(*_PLACE, "stretch").agg(
        sf.sum("times").alias("records"),
        sf.min("sequence").alias("first"),
        sf.max("sequence").alias("last"),
        sf.sum(sf.greatest("gap", sf.lit(0))).alias("lost"),
        sf.sum(sf.when(has_number, sf.col("again")).otherwise(0)).alias("duplicated"),
        sf.sum(sf.when(has_number, sf.col("reordered")).otherwise(0)).alias("reordered"),
        sf.sum(sf.when(has_number, 0).otherwise(sf.col("times"))).alias("unnumbered"),
        sf.min(sf.when(sf.col("gap") > 0, lost)).alias("first_lost"),
        sf.min(sf.when(sf.col("again") > 0, where)).alias("first_duplicated"),
        sf.min(sf.when(sf.col("reordered") > 0, where)).alias("first_reordered"),
    )


_ADDED: Final = ("records", "lost", "duplicated", "reordered", "unnumbered")
_EARLIEST: Final = ("first_lost", "first_duplicated", "first_reordered")


def _totals() -> list[Column]:
    return [
        *(sf.sum(name).alias(name) for name in _ADDED),
        sf.min("first").alias("first"),
        sf.max("last").alias("last"),
        *(sf.min(name).alias(name) for name in _EARLIEST),
    ]


def _merged(pieces: DataFrame) -> DataFrame:
    """The pieces of all partitions, merged by stretch."""
    return pieces.groupBy(*_PRODUCER, "stretch").agg(*_totals())


def _with_edges(pieces: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Add the gap before each stretch."""
    previous = sf.lag("last").over(Window.partitionBy(*keys).orderBy("stretch"))
    gap = sf.coalesce(sf.col("first") - previous - 1, sf.lit(0))
    before = sf.struct((previous + 1).alias("from"), (sf.col("first") - 1).alias("to"))
    return (
        pieces.withColumn("before", gap)
        .withColumn("first_lost", sf.least(sf.when(gap > 0, before), "first_lost"))
        .withColumn("lost", sf.coalesce("lost", sf.lit(0)) + sf.col("before"))
        .drop("before")
    )


def _sums(pieces: DataFrame, keys: tuple[str, ...], expectation: Expectation | None) -> DataFrame:
    """One row for each of `keys`; without an expectation, losses are null."""
    rows = pieces.groupBy(*keys).agg(*_totals())
    if expectation is None:
        rows = rows.withColumn("lost", sf.lit(None).cast("long"))
        rows = rows.withColumn("first_lost", sf.lit(None).cast("struct<from:long,to:long>"))
    else:
        rows = _within_bounds(rows, expectation)
        rows = rows.withColumn("lost", sf.when(sf.col("producer").isNotNull(), sf.col("lost")))
    if "partition" not in keys:
        rows = rows.where(sf.col("producer").isNotNull())
        rows = rows.withColumn("partition", sf.lit(None).cast("int"))
    return rows.select("topic", "partition", "producer", *_SHOWN)


_SHOWN: Final = ("records", "first", "last", *_ADDED[1:], *_EARLIEST)


def _within_bounds(rows: DataFrame, expectation: Expectation) -> DataFrame:
    """Count what is missing at both ends."""
    if expectation.first is None:
        return rows
    first = sf.lit(expectation.first).cast("long")
    end = first + _records_expected(expectation)
    # The greatest of null and 0 is 0: without a known end nothing is missing there.
    head = sf.greatest(sf.col("first") - first, sf.lit(0))
    tail = sf.greatest(end - sf.col("last") - 1, sf.lit(0))
    at_head = sf.struct(first.alias("from"), (sf.col("first") - 1).alias("to"))
    at_tail = sf.struct((sf.col("last") + 1).alias("from"), (end - 1).alias("to"))
    return (
        rows.withColumn("head", head)
        .withColumn("tail", tail)
        .withColumn(
            "first_lost",
            sf.coalesce(
                sf.when(sf.col("head") > 0, at_head),
                sf.col("first_lost"),
                sf.when(sf.col("tail") > 0, at_tail),
            ),
        )
        .withColumn("lost", sf.coalesce("lost", sf.lit(0)) + sf.col("head") + sf.col("tail"))
        .drop("head", "tail")
    )


def _records_expected(expectation: Expectation) -> Column:
    of_all = sf.lit(expectation.records).cast("long")
    if not expectation.records_of:
        return of_all
    pairs = [sf.lit(each) for item in expectation.records_of.items() for each in item]
    return sf.coalesce(sf.create_map(*pairs)[sf.col("producer")], of_all)


def _with_absent(rows: DataFrame, expectation: Expectation) -> DataFrame:
    """Add the producers with expected records that have none in any topic."""
    assert expectation.first is not None
    expected = [
        (producer, records, expectation.first, expectation.first + records - 1)
        for producer, records in expectation.records_of.items()
        if records > 0
    ]
    schema = "producer string, lost long, first_expected long, last_expected long"
    # Any: one of the overloads needs pandas, which may be missing when types are checked.
    session: Any = rows.sparkSession
    absent: DataFrame = session.createDataFrame(expected, schema)
    absent = absent.join(rows.select("producer"), "producer", "left_anti")
    gap = sf.struct(sf.col("first_expected").alias("from"), sf.col("last_expected").alias("to"))
    zero = {name: sf.lit(0).cast("long") for name in _ADDED if name != "lost"}
    columns = {**zero, "lost": sf.col("lost"), "producer": sf.col("producer"), "first_lost": gap}
    return rows.unionByName(
        absent.select(
            *(
                columns.get(name, sf.lit(None).cast(rows.schema[name].dataType)).alias(name)
                for name in rows.columns
            )
        )
    )
