"""Predicates on topic, partition, offset and timestamp that narrow a read.

Spark applies all of them again to the rows, so they are only hints: an unsupported predicate is
left to Spark, and of a partly supported one that part is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from minikafka_client.types import TopicPartition

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NARROWING: Final = ("topic", "partition", "offset", "timestamp")


@dataclass
class Narrowing:
    """What the predicates leave to be read.

    Attributes:
        filters: those on topic or partition.
        offset_min: the first offset to read.
        offset_end: exclusive.
        timestamp_ms_min: records before the first one with this timestamp need not be read.
    """

    filters: tuple[Filter, ...] = ()
    offset_min: int = 0
    offset_end: float = math.inf
    timestamp_ms_min: int = -1

    def add(self, one: Filter) -> None:
        """Add a predicate; all must hold."""
        attribute: tuple[str, ...] = getattr(one, "attribute", ())
        if len(attribute) != 1 or attribute[0] not in _NARROWING:
            return
        if attribute[0] in ("topic", "partition"):
            self.filters += (one,)
        elif attribute[0] == "offset":
            low, end = _offset_bounds(one)
            self.offset_min = max(self.offset_min, low)
            self.offset_end = min(self.offset_end, end)
        else:
            self.timestamp_ms_min = max(self.timestamp_ms_min, _timestamp_ms_min(one))

    def partitions(self, found: Iterable[TopicPartition]) -> list[TopicPartition]:
        """The partitions that may have rows."""
        return [each for each in found if all(_may_match(one, each) for one in self.filters)]

    def clipped(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Starts and ends within the bounds of offsets."""
        first = {each: max(start, self.offset_min) for each, start in starts.items()}
        last = {each: int(min(end, self.offset_end)) for each, end in ends.items()}
        return first, last


def _may_match(one: Filter, partition: TopicPartition) -> bool:
    attribute = cast("tuple[str, ...]", getattr(one, "attribute"))  # noqa: B009 - not of all filters
    value: object = partition.topic if attribute[0] == "topic" else partition.partition
    wanted: Any = getattr(one, "value", None)
    match one:
        case EqualTo() | EqualNullSafe():
            return bool(value == wanted)
        case In():
            return value in wanted
        case StringStartsWith():
            return isinstance(value, str) and value.startswith(wanted)
        case GreaterThan() | GreaterThanOrEqual() | LessThan() | LessThanOrEqual():
            if type(value) is not type(wanted):
                return True
            return _compares(one, value, wanted)
        case _:
            return True


def _compares(one: Filter, value: Any, wanted: Any) -> bool:
    match one:
        case GreaterThan():
            return bool(value > wanted)
        case GreaterThanOrEqual():
            return bool(value >= wanted)
        case LessThan():
            return bool(value < wanted)
        case _:
            return bool(value <= wanted)


def _offset_bounds(one: Filter) -> tuple[int, float]:
    """The first offset that a predicate allows, and the one after the last."""
    value: Any = getattr(one, "value", None)
    if isinstance(one, In):
        whole = [each for each in cast("tuple[Any, ...]", value) if type(each) is int]
        if len(whole) == len(value) and whole:
            return max(0, min(whole)), max(whole) + 1
        return 0, math.inf
    if type(value) is not int:
        return 0, math.inf
    match one:
        case EqualTo() | EqualNullSafe():
            return max(0, value), value + 1
        case GreaterThan():
            return max(0, value + 1), math.inf
        case GreaterThanOrEqual():
            return max(0, value), math.inf
        case LessThan():
            return 0, value
        case LessThanOrEqual():
            return 0, value + 1
        case _:
            return 0, math.inf


def _timestamp_ms_min(one: Filter) -> int:
    """The first millisecond that a predicate allows, -1 for any.

    There is no last one: records need not be in the order of their timestamps.
    """
    value: Any = getattr(one, "value", None)
    if not isinstance(value, datetime) or value.tzinfo is None:
        return -1
    if not isinstance(one, EqualTo | EqualNullSafe | GreaterThan | GreaterThanOrEqual):
        return -1
    microseconds = (value - _EPOCH) // timedelta(microseconds=1)
    if isinstance(one, GreaterThan):
        microseconds += 1
    return max(-1, -(-microseconds // 1_000))


class FilterPushdown:
    """Spark's `pushFilters` for one reader.

    Spark refuses a reader whose class defines that method while ``spark.sql.python.filterPushdown``
    is off, as it is by default. So this is an attribute of the reader instead, which that check
    takes for the inherited method.
    """

    def __init__(self, narrowing: Narrowing) -> None:
        self.narrowing = narrowing

    @property
    def __func__(self) -> object:
        return DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """Add predicates; all are left to Spark, too."""
        for one in filters:
            self.narrowing.add(one)
        return filters
