"""The PySpark data source `minikafka`: topics as data frames, without a jar.

    spark.read.format("minikafka").option("kafka.bootstrap.servers", "localhost:9092")
        .option("subscribe", "orders").load()

Spark imports every `pyspark_*` package in every session and looks for `DefaultSource`, so nothing
is imported here before that name is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .source import DefaultSource

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> object:
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .source import DefaultSource

    globals()[name] = DefaultSource
    return DefaultSource
