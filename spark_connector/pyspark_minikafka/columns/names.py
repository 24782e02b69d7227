"""The columns of a read, by name; without NumPy and Arrow, which only those need who decode."""

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
