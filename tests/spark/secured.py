"""All ways between Spark and Kafka once, over a listener with TLS and SASL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession


def every_way(
    spark: SparkSession, properties: Mapping[str, str], topic: str, folder: Path
) -> tuple[list[str], list[str]]:
    """Write a batch, stream it into a second topic, and read both topics.

    Args:
        spark: the session.
        properties: of the clients, without the prefix ``kafka.``.
        topic: one that exists, beside ``<topic>-copy``.
        folder: for the checkpoint.
    """
    kafka = {f"kafka.{name}": value for name, value in properties.items()}
    copy = f"{topic}-copy"
    rows = spark.createDataFrame([("a",), ("b",), ("c",)], ["value"])
    rows.write.format("minikafka").options(**kafka).option("topic", topic).mode("append").save()
    stream = (
        spark.readStream.format("minikafka")
        .options(**kafka)
        .options(subscribe=topic, startingOffsets="earliest")
        .load()
        .selectExpr("value")
        .writeStream.format("minikafka")
        .options(**kafka)
        .options(topic=copy, deliveryGuarantee="at-least-once")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    stream.awaitTermination()

    def values(name: str) -> list[str]:
        found = spark.read.format("minikafka").options(**kafka).options(subscribe=name).load()
        return sorted(bytes(row.value).decode() for row in found.collect())

    return values(topic), values(copy)
