"""The rows of an Arrow batch."""

from __future__ import annotations

import pyarrow as pa

from pyspark_minikafka.columns.decoder import COLUMN_TYPES
from tests.spark.columns.fetches import Row

ALL = tuple(COLUMN_TYPES)


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    """Rows with timestamps in microseconds, because Python's datetime has a smaller range."""
    batch.validate(full=True)
    columns = {name: batch.column(name) for name in batch.schema.names}
    if "timestamp" in columns:
        columns["timestamp"] = columns["timestamp"].cast(pa.int64())
    lists = [column.to_pylist() for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]
