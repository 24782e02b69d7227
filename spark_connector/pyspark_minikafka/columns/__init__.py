"""Record batches to Arrow and back, without a Python operation for each record.

These modules know Kafka's record format, NumPy and pyarrow, but not Spark. The package itself
imports neither NumPy nor pyarrow.
"""

from __future__ import annotations

from typing import Final

COLUMN_NAMES: Final = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
)
"""In the order of Spark's own connector."""
