"""A Spark session: one JVM, in which the sides of a comparison take turns.

It reads a topic with Spark's own connector, with ours, and with one that hands Spark a tuple for
each record (the data source that one writes in an afternoon); or it runs a stream of small batches.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

FORMATS = {"official": "kafka", "ours": "minikafka", "tuples": "tuples"}


@dataclass(frozen=True, kw_only=True)
class SparkJob:
    """What to do.

    Attributes:
        work: ``read`` or ``microbatch``.
        bootstrap: the broker's ``HOST:PORT``.
        topic: exists, with its records.
        partitions: how many it has.
        records: how many are in it.
        value_bytes: size of each value.
        rounds: how many turns each side has.
        batches: of a stream.
        jars: of Spark's own connector, which is left out without them.
    """

    work: str
    bootstrap: str
    topic: str
    partitions: int
    records: int
    value_bytes: int
    rounds: int
    batches: int = 20
    jars: list[str] = field(default_factory=list[str])


class TupleSource(DataSource):
    """Reads records one by one: a task for each partition, a tuple for each record."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "tuples"

    def schema(self) -> str:
        """The columns, without the timestamp type."""
        return (
            "key binary, value binary, topic string, partition int, offset bigint, "
            "timestamp timestamp"
        )

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - the only one
        """Reads a batch."""
        return TupleReader(dict(self.options))


class TupleReader(DataSourceReader):
    """Reads all partitions of a topic."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        """A task for each."""
        return [InputPartition(number) for number in range(int(self.options["partitions"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """A tuple for each record."""
        from datetime import UTC, datetime, timedelta

        from minikafka_client.sync import AdminClient, Reader
        from minikafka_client.types import LATEST, TopicPartition

        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        bootstrap = self.options["kafka.bootstrap.servers"]
        where = TopicPartition(self.options["subscribe"], partition.value)
        with AdminClient(bootstrap) as admin:
            end = admin.list_offsets({where: LATEST})[where].offset
        with Reader(bootstrap, {where: (0, end)}) as reader:
            for run in reader:
                for record in run.records:
                    yield (
                        record.key,
                        record.value,
                        record.topic,
                        record.partition,
                        record.offset,
                        epoch + timedelta(milliseconds=record.timestamp_ms),
                    )


def session(job: SparkJob) -> SparkSession:
    """A session with two local workers, and nothing that the figures do not need."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.jars": ",".join(job.jars),
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("minikafka benchmarks")
    for name, value in settings.items():
        builder = builder.config(name, value)
    found = builder.getOrCreate()
    found.dataSource.register(TupleSource)
    return found


def frame_of(spark: SparkSession, job: SparkJob, source: str, **options: str) -> DataFrame:
    reader = spark.read.format(FORMATS[source]).option("kafka.bootstrap.servers", job.bootstrap)
    given = {"subscribe": job.topic, "partitions": str(job.partitions), **options}
    if source == "ours":
        del given["partitions"]
    return reader.options(**given).load()


def read(spark: SparkSession, job: SparkJob) -> Iterator[dict[str, float]]:
    """Add up the lengths of all values, by turns."""

    def seconds(source: str, **options: str) -> float:
        started = time.perf_counter()
        frame = frame_of(spark, job, source, **options)
        [row] = frame.selectExpr("count(*)", "sum(length(value))").collect()
        taken = time.perf_counter() - started
        if tuple(row) != (job.records, job.records * job.value_bytes):
            raise AssertionError(f"{source} read {tuple(row)} records and bytes")
        return taken

    sides: dict[str, Callable[[], float]] = {
        "ours": lambda: seconds("ours"),
        "value only": lambda: seconds("ours", columns="value"),
        "tuples": lambda: seconds("tuples"),
    }
    if job.jars:
        sides = {"official": lambda: seconds("official"), **sides}
    for name in ("official", "ours"):  # so that the JVM has compiled the code of both
        if name in sides:
            sides[name]()
    for _ in range(job.rounds):
        yield {name: job.records / side() for name, side in sides.items()}


def microbatch(spark: SparkSession, job: SparkJob) -> Iterator[dict[str, float]]:
    """Milliseconds per trigger of a stream with small batches."""
    each = job.records // job.batches

    def median_ms(source: str) -> float:
        reader = spark.readStream.format(FORMATS[source])
        options = {
            "kafka.bootstrap.servers": job.bootstrap,
            "subscribe": job.topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(each),
        }
        with tempfile.TemporaryDirectory() as folder:
            query = (
                reader.options(**options)
                .load()
                .writeStream.format("noop")
                .option("checkpointLocation", folder)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            progress = [json.loads(one.json) for one in query.recentProgress]
        times = [one["durationMs"]["triggerExecution"] for one in progress if one["numInputRows"]]
        if sum(one["numInputRows"] for one in progress) != job.records:
            raise AssertionError(f"{source} read other records than there are: {progress}")
        return float(statistics.median(times))

    sides = ["official", "ours"] if job.jars else ["ours"]
    for side in sides:
        median_ms(side)
    for _ in range(job.rounds):
        yield {side: median_ms(side) for side in sides}


WORKS = {"read": read, "microbatch": microbatch}


def main() -> None:
    """Read the job from stdin, write what was measured to stdout."""
    job = SparkJob(**json.load(sys.stdin))
    stdout, sys.stdout = sys.stdout, sys.stderr  # Spark prints to stdout, too
    spark = session(job)
    rounds = list(WORKS[job.work](spark, job))
    spark.stop()
    json.dump({"rounds": rounds, "job": asdict(job)}, stdout)


if __name__ == "__main__":
    main()
