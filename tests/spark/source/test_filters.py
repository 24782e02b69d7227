"""Predicates narrow a read, and never drop a row for which they hold."""

from __future__ import annotations

import math
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from minikafka_client.types import TopicPartition
from pyspark_minikafka.filters import FilterPushdown, Narrowing

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COMPARING: list[Any] = [
    EqualTo,
    EqualNullSafe,
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
]
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "topic": st.sampled_from(("a", "ab", "b")),
    "partition": st.integers(-1, 3),
    "offset": st.integers(-2, 12),
    "timestamp": st.integers(-2_000, 12_000).map(lambda us: EPOCH + timedelta(microseconds=us)),
    "key": st.binary(max_size=2),
}


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    name = draw(st.sampled_from(sorted(VALUES)))
    kind = draw(st.integers(0, 9))
    one: Filter
    if kind < 6:
        one = COMPARING[kind]((name,), draw(VALUES[name]))
    elif kind == 6:
        one = In((name,), tuple(draw(st.lists(VALUES[name], max_size=3))))
    elif kind == 7:
        one = draw(st.sampled_from((IsNull((name,)), IsNotNull((name,)))))
    else:
        texts: list[Any] = [StringStartsWith, StringEndsWith, StringContains]
        one = draw(st.sampled_from(texts))(("topic",), draw(VALUES["topic"]))
    return Not(one) if draw(st.integers(0, 4)) == 0 else one


def holds(one: Filter, row: dict[str, Any]) -> bool:
    """Evaluate as SQL does; no column of the rows is null."""
    if isinstance(one, Not):
        return not holds(one.child, row)
    value = row[one.attribute[0]]  # type: ignore[attr-defined]  # all others have one
    match one:
        case EqualTo(_, wanted) | EqualNullSafe(_, wanted):
            return bool(value == wanted)
        case GreaterThan(_, wanted):
            return bool(value > wanted)
        case GreaterThanOrEqual(_, wanted):
            return bool(value >= wanted)
        case LessThan(_, wanted):
            return bool(value < wanted)
        case LessThanOrEqual(_, wanted):
            return bool(value <= wanted)
        case In(_, wanted):
            return value in wanted
        case IsNull():
            return False
        case IsNotNull():
            return True
        case StringStartsWith(_, wanted):
            return bool(value.startswith(wanted))
        case StringEndsWith(_, wanted):
            return bool(value.endswith(wanted))
        case StringContains(_, wanted):
            return wanted in value
        case _:
            raise AssertionError(one)


@given(
    given_filters=st.lists(filters(), max_size=4),
    milliseconds=st.lists(st.integers(0, 10), min_size=1, max_size=10),
)
def test_no_row_that_satisfies_all_predicates_is_dropped(
    given_filters: list[Filter], milliseconds: list[int]
) -> None:
    narrowing = Narrowing()
    assert list(FilterPushdown(narrowing)(given_filters)) == given_filters, "Spark applies them too"
    partitions = [TopicPartition(topic, index) for topic in ("a", "ab", "b") for index in range(3)]
    left = narrowing.partitions(partitions)
    starts, ends = narrowing.clipped(dict.fromkeys(left, 0), dict.fromkeys(left, len(milliseconds)))
    as_late = [o for o, ms in enumerate(milliseconds) if ms >= narrowing.timestamp_ms_min]
    first = min(as_late, default=len(milliseconds))
    for each in partitions:
        for offset, ms in enumerate(milliseconds):
            row = {
                "topic": each.topic,
                "partition": each.partition,
                "offset": offset,
                "timestamp": EPOCH + timedelta(milliseconds=ms),
                "key": b"k",
            }
            if all(holds(one, row) for one in given_filters):
                assert each in left
                assert max(starts[each], first) <= offset < ends[each]


def test_predicates_narrow_the_partitions_and_offsets() -> None:
    narrowing = Narrowing()
    for one in (
        EqualTo(("topic",), "a"),
        GreaterThan(("partition",), 0),
        GreaterThanOrEqual(("offset",), 5),
        In(("offset",), (3, 7, 8)),
        GreaterThan(("timestamp",), EPOCH + timedelta(microseconds=1_500)),
    ):
        narrowing.add(one)
    partitions = [TopicPartition(topic, index) for topic in ("a", "b") for index in range(3)]
    assert narrowing.partitions(partitions) == [TopicPartition("a", 1), TopicPartition("a", 2)]
    assert (narrowing.offset_min, narrowing.offset_end) == (5, 9)
    assert narrowing.timestamp_ms_min == 2


@pytest.mark.parametrize(
    ("kind", "offsets", "milliseconds"),
    [
        (EqualTo, (5, 6), 5),
        (EqualNullSafe, (5, 6), 5),
        (GreaterThan, (6, math.inf), 6),
        (GreaterThanOrEqual, (5, math.inf), 5),
        (LessThan, (0, 5), -1),
        (LessThanOrEqual, (0, 6), -1),
    ],
)
def test_bounds_are_exact(kind: Any, offsets: tuple[int, float], milliseconds: int) -> None:
    narrowing = Narrowing()
    narrowing.add(kind(("offset",), 5))
    narrowing.add(kind(("timestamp",), EPOCH + timedelta(milliseconds=5)))
    assert (narrowing.offset_min, narrowing.offset_end) == offsets
    assert narrowing.timestamp_ms_min == milliseconds


def test_the_last_microsecond_of_a_far_second_is_not_rounded_up() -> None:
    narrowing = Narrowing()
    narrowing.add(
        GreaterThanOrEqual(("timestamp",), datetime(9999, 12, 31, 23, 59, 58, 999_000, UTC))
    )
    assert narrowing.timestamp_ms_min == 253_402_300_798_999


@pytest.mark.parametrize("value", [None, "5", 5.5, True, datetime(2020, 1, 1)])
def test_unsupported_values_are_left_to_spark(value: object) -> None:
    narrowing = Narrowing()
    for name in ("offset", "timestamp"):
        narrowing.add(EqualTo((name,), value))
        narrowing.add(In((name,), (value,)))
        narrowing.add(GreaterThan((name, "nested"), 5))
    assert narrowing == Narrowing()


def test_a_spark_without_pushdown_does_not_see_the_method() -> None:
    pushdown = FilterPushdown(Narrowing())
    assert pushdown.__func__ is DataSourceReader.pushFilters
    assert pickle.loads(pickle.dumps(pushdown)).narrowing == Narrowing()
