"""A Spark session that writes: one JVM, in which the sinks take turns."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from pyspark.sql import SparkSession

from minikafka_client.sync import AdminClient
from minikafka_client.types import LATEST, IsolationLevel, NewTopic, TopicPartition

from .spark_job import SparkJob, session

_KEY_AND_VALUE = (
    "cast(lpad(cast(id as string), 16, '0') as binary) as key",
    "cast(rpad(cast(id as string), {value_bytes}, 'x') as binary) as value",
)
_SIDES = {
    "official": ("kafka", {}),
    "at-least-once": ("minikafka", {"deliveryGuarantee": "at-least-once"}),
    "exactly-once": ("minikafka", {"deliveryGuarantee": "exactly-once"}),
}


def make_rows(spark: SparkSession, job: SparkJob, folder: Path) -> str:
    """Write the rows to as many files as there are partitions; return their directory."""
    expressions = [each.format(value_bytes=job.value_bytes) for each in _KEY_AND_VALUE]
    where = str(folder / "rows")
    rows = spark.range(0, job.records, 1, job.partitions).selectExpr(*expressions)
    rows.write.option("compression", "none").parquet(where)
    return where


def write(spark: SparkSession, job: SparkJob, folder: Path) -> Iterator[dict[str, float]]:
    """Records per second of a micro-batch with all rows, by turns."""
    where = make_rows(spark, job, folder)
    sides = [side for side in _SIDES if side != "official" or job.jars]

    def rate(side: str, number: int) -> float:
        source, options = _SIDES[side]
        topic = f"{side}-{number}"
        with AdminClient(job.bootstrap) as admin:
            admin.create_topics([NewTopic(topic, job.partitions)])
            checkpoint = folder / topic
            query = (
                spark.readStream.schema("key binary, value binary")
                .parquet(where)
                .writeStream.format(source)
                .option("kafka.bootstrap.servers", job.bootstrap)
                .option("topic", topic)
                .options(**options)
                .option("checkpointLocation", str(checkpoint))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            [progress] = [json.loads(each.json) for each in query.recentProgress]
            check(admin, job, topic)
            admin.delete_topics([topic])
            shutil.rmtree(checkpoint)
        taken_ms = float(progress["durationMs"]["triggerExecution"])
        return 1000 * job.records / taken_ms

    for side in sides:  # so that the JVM has compiled the code of all
        rate(side, 0)
    for number in range(job.rounds):
        sides.reverse()  # a side may have to run during the clean-up of the one before it
        yield {side: rate(side, number + 1) for side in sides}


def check(admin: AdminClient, job: SparkJob, topic: str) -> None:
    """Check that every record is in the topic and visible.

    Raises:
        AssertionError: there are fewer, or more (markers of transactions count as one).
    """
    partitions = [TopicPartition(topic, number) for number in range(job.partitions)]
    ends = admin.list_offsets(
        dict.fromkeys(partitions, LATEST), isolation_level=IsolationLevel.READ_COMMITTED
    )
    records = sum(each.offset for each in ends.values())
    if not 0 <= records - job.records <= 64:
        raise AssertionError(f"{topic} has {records} records, not {job.records}")


def main() -> None:
    """Read the job from stdin, write what was measured to stdout."""
    job = SparkJob(**json.load(sys.stdin))
    stdout, sys.stdout = sys.stdout, sys.stderr  # Spark prints to stdout, too
    with tempfile.TemporaryDirectory() as folder:
        spark = session(job)
        spark.conf.set("spark.sql.files.maxPartitionBytes", "1g")
        rounds = list(write(spark, job, Path(folder)))
        spark.stop()
    json.dump({"rounds": rounds, "job": asdict(job)}, stdout)


if __name__ == "__main__":
    main()
