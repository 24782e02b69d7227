"""A streaming query of the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from minikafka_client.sync import Writer


class Stream:
    """Streams one topic into lists of values, and produces to it."""

    def __init__(self, spark: SparkSession, bootstrap: str, topic: str, checkpoint: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.topic = topic
        self.checkpoint = checkpoint
        self.batches: dict[int, list[str]] = {}
        self.progress: list[dict[str, Any]] = []

    def write(self, *values: str, partition: int = 0) -> None:
        with Writer(self.bootstrap) as writer:
            for value in values:
                writer.send(self.topic, value.encode(), partition=partition)

    def run(self, connector: str = "minikafka", **options: str) -> list[str]:
        """Run an available-now query; returns the values, sorted."""
        given = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.topic, **options}
        frame = self.spark.readStream.format(connector).options(**given).load()
        read: list[str] = []

        def keep(batch: DataFrame, number: int) -> None:
            values = [bytes(row.value).decode() for row in batch.select("value").collect()]
            self.batches[number] = values
            read.extend(values)

        query = (
            frame.writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
            self.progress = [json.loads(each.json) for each in query.recentProgress]
        finally:
            query.stop()
        return sorted(read)
