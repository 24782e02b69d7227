"""How far streams are behind, for each topic and partition: a listener for Spark's sessions.

    from pyspark_minikafka.listener import LagListener

    listener = LagListener(lambda lag: print(lag.query_name, lag.total))
    spark.streams.addListener(listener)
    ...
    listener.lags["orders"].of_partition[TopicPartition("orders", 0)]

It reads what Spark reports of each micro-batch: where that ended, and where the partitions end.
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
"""Of how many queries the last lag is kept."""


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a query is behind after a micro-batch.

    Attributes:
        query_name: the query's name, None if it has none.
        query_id: the same over restarts.
        batch_id: the micro-batch.
        rows_read: in this micro-batch.
        of_partition: records between the end of the batch and the end of the partition. Offsets
            are counted: those of transaction markers and of compacted records are among them.
    """

    query_name: str | None
    query_id: str
    batch_id: int
    rows_read: int
    of_partition: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])

    @property
    def total(self) -> int:
        """Of all partitions together."""
        return sum(self.of_partition.values())


class LagListener(StreamingQueryListener):
    """Keeps the lag of each query of a session, logs it, and tells whoever wants to know.

    Args:
        on_lag: called after each micro-batch that read a source `minikafka`, in a thread of
            Spark's; what it raises is logged.

    Attributes:
        lags: the latest of each query, by name, or by id where it has none.
    """

    def __init__(self, on_lag: Callable[[Lag], object] | None = None) -> None:
        self.lags: dict[str, Lag] = {}
        self._on_lag = on_lag

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's names
        """A micro-batch is done."""
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
                _logger.exception("what listens to the lag of %s fails", name)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's names
        """Nothing has changed."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's names
        """The last lag stays."""


def lag_of(progress: Mapping[str, Any]) -> Lag | None:
    """Read a query's progress, as Spark writes it in JSON.

    Returns:
        None where no source reports where its partitions end.
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


def _offsets(told: object) -> dict[TopicPartition, int] | None:
    """Offsets by topic and partition; None for those of other sources."""
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except ValueError:
            return None
    if not isinstance(told, dict):
        return None
    found: dict[TopicPartition, int] = {}
    for topic, partitions in cast("dict[str, Any]", told).items():
        if not isinstance(partitions, dict):
            continue
        for partition, offset in cast("dict[str, Any]", partitions).items():
            if partition.isdecimal() and type(offset) is int:
                found[TopicPartition(topic, int(partition))] = offset
    return found or None
