"""The lag of streams by topic and partition: a listener for Spark sessions.

    from pyspark_minikafka.listener import LagListener

    listener = LagListener(lambda lag: print(lag.query_name, lag.total))
    spark.streams.addListener(listener)
    ...
    listener.lags["orders"].of_partition[TopicPartition("orders", 0)]

It is computed from the offsets in the progress of each micro-batch. (A source in Python cannot
report metrics such as `avgOffsetsBehindLatest` to Spark.)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from minikafka_client.types import TopicPartition

_logger = logging.getLogger(__name__)

QUERIES_MAX: Final = 1_000
"""The last lag is kept of this many queries."""


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a query is behind after a micro-batch.

    Attributes:
        query_name: None if it has none.
        query_id: stays the same when the query is restarted.
        of_partition: offsets between the end of the batch and the end of the partition, including
            those of transaction markers and of compacted records.
    """

    query_name: str | None
    query_id: str
    batch_id: int
    rows_read: int
    of_partition: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])

    @property
    def total(self) -> int:
        """The sum over all partitions."""
        return sum(self.of_partition.values())

    @property
    def max_offsets_behind_latest(self) -> int:
        """The largest of all partitions, 0 without any; a metric of Spark's own connector."""
        return max(self.of_partition.values(), default=0)

    @property
    def min_offsets_behind_latest(self) -> int:
        """The smallest of all partitions, 0 without any."""
        return min(self.of_partition.values(), default=0)

    @property
    def avg_offsets_behind_latest(self) -> float:
        """The mean over all partitions, 0 without any."""
        return self.total / len(self.of_partition) if self.of_partition else 0.0


class LagListener(StreamingQueryListener):
    """Keeps the lag of each query of a session, logs it, and calls back.

    Args:
        on_lag: called after each micro-batch of a `minikafka` source, in a thread of Spark's;
            exceptions are logged.

    Attributes:
        lags: the latest of each query by its name, or by its id if it has none.
    """

    def __init__(self, on_lag: Callable[[Lag], object] | None = None) -> None:
        self.lags: dict[str, Lag] = {}
        self._on_lag = on_lag

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """Nothing: the lag is not known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's names
        """Keep and report the lag after a micro-batch."""
        lag = lag_of(json.loads(event.progress.json))
        if lag is None:
            return
        name = lag.query_name or lag.query_id
        self.lags.pop(name, None)
        self.lags[name] = lag
        if len(self.lags) > QUERIES_MAX:
            del self.lags[next(iter(self.lags))]
        _logger.debug("%s is %d records behind after batch %d", name, lag.total, lag.batch_id)
        if self._on_lag is not None:
            try:
                self._on_lag(lag)
            except Exception:
                _logger.exception("the callback for the lag of %s failed", name)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's names
        """Nothing: the lag has not changed."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's names
        """Nothing: the last lag is kept."""


def lag_of(progress: Mapping[str, Any]) -> Lag | None:
    """Read a query's progress, as Spark writes it in JSON.

    Returns:
        None if no source reports the ends of its partitions.
    """
    of_partition: dict[TopicPartition, int] = {}
    rows_read, has_source = 0, False
    for source in progress["sources"]:
        ends, latest = (_offsets(source.get(name)) for name in ("endOffset", "latestOffset"))
        if latest is None:
            continue
        has_source = True
        rows_read += int(source.get("numInputRows") or 0)
        for partition, last in latest.items():
            behind = max(0, last - (ends or {}).get(partition, last))
            of_partition[partition] = of_partition.get(partition, 0) + behind
    if not has_source:
        return None
    return Lag(
        progress.get("name"),
        str(progress["id"]),
        int(progress["batchId"]),
        rows_read,
        of_partition,
    )


def _offsets(reported: object) -> dict[TopicPartition, int] | None:
    """Offsets by topic and partition; None if they are another source's."""
    if isinstance(reported, str):
        try:
            reported = json.loads(reported)
        except ValueError:
            return None
    if not isinstance(reported, dict):
        return None
    found: dict[TopicPartition, int] = {}
    for topic, partitions in cast("dict[str, Any]", reported).items():
        if not isinstance(partitions, dict):
            continue
        for partition, offset in cast("dict[str, Any]", partitions).items():
            if partition.isdecimal() and type(offset) is int:
                found[TopicPartition(topic, int(partition))] = offset
    return found or None
