"""Counts topics of runs once more with the Spark audit job, as one would count large histories."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

from ..ledger import Counts

_NUMBER = "sql:substring(cast(value AS STRING), 2)"


class SparkCounts(NamedTuple):
    """What the audit found in a topic.

    Attributes:
        missing: numbers that are not in it, whatever the producer was told.
        repeated: further copies.
        reordered: first copies behind a later number of the partition.
    """

    missing: int
    repeated: int
    reordered: int


def count_with_spark(
    bootstrap: str, sent: Mapping[str, int], properties: Mapping[str, str]
) -> dict[str, SparkCounts]:
    """Count the values of topics.

    Args:
        bootstrap: of the cluster.
        sent: how many values each topic was sent: r0, r1 and so on.
        properties: what clients connect with, by Kafka's names.

    Raises:
        PySparkException: the job failed.
    """
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as sf

    from pyspark_minikafka.audit import Scope, audited, numbered

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # its workers have the connector
    session = (
        SparkSession.builder.appName("minikafka lab verify")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    records = (
        session.read.format("minikafka")
        .options(**{f"kafka.{name}": value for name, value in properties.items()})
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", ",".join(sent))
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed")
        .load()
    )
    records = records.where("length(value) > 0")  # without the mark behind the last record
    rows = audited(numbered(records, "constant:producer", _NUMBER), Scope.TOPIC)
    places = rows.where(sf.col("partition").isNotNull())
    sums = places.groupBy("topic").agg(
        sf.sum("records").alias("records"),
        sf.sum("duplicated").alias("duplicated"),
        sf.sum("reordered").alias("reordered"),
    )
    found = {
        row["topic"]: SparkCounts(
            sent[row["topic"]] - (row["records"] - row["duplicated"]),
            row["duplicated"],
            row["reordered"],
        )
        for row in sums.collect()
    }
    return {topic: found.get(topic, SparkCounts(count, 0, 0)) for topic, count in sent.items()}


def check_with_spark(
    bootstrap: str, counted: Mapping[str, tuple[Counts, int]], properties: Mapping[str, str]
) -> None:
    """Compare with the plain counter.

    Args:
        bootstrap: of the cluster.
        counted: what the plain counter found in the log of each topic, and how many were sent.
        properties: what clients connect with, by Kafka's names.

    Raises:
        ValueError: they do not agree; the message says where.
    """
    sent_to = {topic: sent for topic, (_, sent) in counted.items()}
    by_spark = count_with_spark(bootstrap, sent_to, properties)
    different: list[str] = []
    for topic, (counts, sent) in counted.items():
        plain = SparkCounts(sent - counts.stored, counts.repeated, counts.reordered)
        if plain != by_spark[topic]:
            different.append(f"{topic}: {plain} counted here, {by_spark[topic]} by Spark")
    if different:
        raise ValueError("the counters do not agree: " + "; ".join(different))
