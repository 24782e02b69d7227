"""Processes the flights on Spark: ``python -m examples.flights.pipeline --into DIRECTORY``.

Three streams read the topic:

- `raw`: every flight, as columns, into Parquet;
- `hours`: delays by carrier and hour, once the watermark has passed the hour, into Parquet;
- `alerts`: flights that left more than three hours late, into a topic, each once.

Parquet files are visible once the sink's log lists them, records once their transaction is
committed. Both happen once per micro-batch, whatever is killed. So run it, kill it, run it again.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from .feed import ALERTS, TOPIC

LATE_MINUTES: Final = 180
WATERMARK: Final = "60 days"
"""How far a partition may be behind in event time. Here a year passes in seconds, so a partition
whose leader is replaced falls behind by weeks; in the feed of an airport it would be minutes."""

DOCUMENT: Final = """
    row long, carrier string, flight int, tailnum string, origin string, dest string,
    time_hour timestamp, dep_delay double, arr_delay double, distance int
"""
_NOT_YET: Final = ("Initializing sources", "Initializing StreamExecution")
_LOOK_EACH_S: Final = 0.1

SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@dataclass(frozen=True)
class Place:
    """Where the pipeline reads and writes.

    Attributes:
        directory: for `raw`, `hours` and the checkpoints.
        topic: of the flights.
        alerts: the topic of the alerts.
        security: properties of Kafka's clients for TLS and SASL.
    """

    bootstrap: str
    directory: Path
    topic: str = TOPIC
    alerts: str = ALERTS
    security: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def kafka(self) -> dict[str, str]:
        """How to reach the cluster, as options of the connector."""
        options = {f"kafka.{name}": value for name, value in self.security.items()}
        return {**options, "kafka.bootstrap.servers": self.bootstrap}

    @property
    def raw(self) -> str:
        """The Parquet folder of the flights."""
        return str(self.directory / "raw")

    @property
    def hours(self) -> str:
        """The Parquet folder of the delays."""
        return str(self.directory / "hours")


def new_session() -> SparkSession:
    """A small local session; the settings of spark-submit take precedence."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("flights")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the versions of other packages
        return builder.getOrCreate()


def flights(session: SparkSession, place: Place) -> DataFrame:
    """The topic as a stream: the columns of the flights, with partition and offset."""
    records = (
        session.readStream.format("minikafka")
        .options(**place.kafka)
        .option("subscribe", place.topic)
        .option("startingOffsets", "earliest")
        .option("columns", "value,partition,offset")
        .load()
    )
    document = sf.from_json(sf.col("value").cast("string"), DOCUMENT)
    return records.select("partition", "offset", document.alias("flight")).select(
        "partition", "offset", "flight.*"
    )


def delays(flights: DataFrame) -> DataFrame:
    """Delays by carrier and hour.

    The record that ends the feed must advance the watermark, so it is not filtered here: Spark
    would filter first. Its own hour never ends.
    """
    return (
        flights.withWatermark("time_hour", WATERMARK)
        .groupBy(sf.window("time_hour", "1 hour"), "carrier")
        .agg(
            sf.count("*").alias("flights"),
            sf.avg("dep_delay").alias("mean_delay"),
            sf.max("dep_delay").alias("max_delay"),
        )
        .select(
            sf.col("window.start").alias("hour"), "carrier", "flights", "mean_delay", "max_delay"
        )
    )


def alerts(flights: DataFrame) -> DataFrame:
    """A record for each flight that is very late."""
    late = flights.where(sf.col("dep_delay") > LATE_MINUTES)
    return late.select(
        sf.col("carrier").alias("key"),
        sf.to_json(sf.struct("row", "carrier", "flight", "dest", "time_hour", "dep_delay")).alias(
            "value"
        ),
    )


def start(
    session: SparkSession, place: Place, *, available_now: bool = False
) -> list[StreamingQuery]:
    """Start the three streams; each continues from its checkpoint.

    Args:
        session: Spark's.
        place: where to read and write.
        available_now: end when all available flights are read.
    """
    source = flights(session, place)
    to_topic = {**place.kafka, "topic": place.alerts}
    sinks: dict[str, tuple[DataFrame, str, dict[str, str]]] = {
        "raw": (source.where("row is not null"), "parquet", {"path": place.raw}),
        "hours": (delays(source), "parquet", {"path": place.hours}),
        "alerts": (alerts(source), "minikafka", to_topic),
    }
    queries: list[StreamingQuery] = []
    for name, (frame, target, options) in sinks.items():
        writer = frame.writeStream.queryName(name).format(target).options(**options)
        writer = writer.option("checkpointLocation", str(place.directory / "checkpoints" / name))
        if available_now:
            writer = writer.trigger(availableNow=True)
        query = writer.start()
        queries.append(query)
        # Each source has a Python process with ten seconds to start, so start one after the other.
        while query.isActive and query.status["message"] in _NOT_YET:
            time.sleep(_LOOK_EACH_S)
    return queries


def main() -> None:
    parser = argparse.ArgumentParser(description="Land the flights and their delays.")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--into", type=Path, required=True, help="a directory")
    parser.add_argument("--available-now", action="store_true", help="end when everything is read")
    arguments = parser.parse_args()
    session = new_session()
    place = Place(arguments.bootstrap, arguments.into)
    try:
        for query in start(session, place, available_now=arguments.available_now):
            query.awaitTermination()
        worst = session.read.parquet(place.hours).orderBy(sf.desc("mean_delay"))
        worst.where("flights >= 5").show(10, truncate=False)
    except KeyboardInterrupt:
        pass
    finally:
        session.stop()


if __name__ == "__main__":
    main()
