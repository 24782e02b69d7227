"""A Spark session that reads and copies a topic as a stream, with each connector by turns.

Every query is new, with a checkpoint and, for a copy, a topic of its own. Beside the time that
passes, the processor time of the JVM and of its Python processes is measured, because a machine
with other work distorts the former more.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from minikafka_client.sync import AdminClient
from minikafka_client.types import NewTopic

from .spark_job import FORMATS, SparkJob, session
from .spark_write_job import check

_REQUEST_SIZE_BYTES_MAX = 4 * 1024 * 1024


def processor_seconds() -> float:
    """Used so far by the JVM and its Python processes, ended ones included."""
    seconds = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            seconds += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return seconds


def stream(spark: SparkSession, job: SparkJob, side: str, folder: Path, topic: str | None) -> None:
    """Read everything, into a sink that does nothing or into a topic.

    Raises:
        AssertionError: the query read other records than there are.
    """
    servers = {"kafka.bootstrap.servers": job.bootstrap}
    options = {**servers, "subscribe": job.topic, "startingOffsets": "earliest"}
    rows = spark.readStream.format(FORMATS[side]).options(**options).load()
    if topic is None:
        writer = rows.writeStream.format("noop")
    else:
        sink = {**servers, "topic": topic, "kafka.max.request.size": str(_REQUEST_SIZE_BYTES_MAX)}
        writer = rows.select("key", "value").writeStream.format(FORMATS[side]).options(**sink)
    checkpoint = tempfile.mkdtemp(dir=folder)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    progress = [json.loads(each.json) for each in query.recentProgress]
    if sum(each["numInputRows"] for each in progress) != job.records:
        raise AssertionError(f"{side} read other records than there are: {progress}")


def turn(spark: SparkSession, job: SparkJob, side: str, folder: Path) -> dict[str, float]:
    """Records per second of both kinds of query, and per second of processor time."""
    found: dict[str, float] = {}
    with AdminClient(job.bootstrap) as admin:
        for work in ("read", "copy"):
            topic = f"{side}-copy" if work == "copy" else None
            if topic is not None:
                admin.create_topics([NewTopic(topic, job.partitions)])
            started, used = time.perf_counter(), processor_seconds()
            stream(spark, job, side, folder, topic)
            found[f"{side} {work}"] = job.records / (time.perf_counter() - started)
            found[f"{side} {work} work"] = job.records / (processor_seconds() - used)
            if topic is not None:
                check(admin, job, topic)
                admin.delete_topics([topic])
    return found


def rounds(spark: SparkSession, job: SparkJob, folder: Path) -> Iterator[dict[str, float]]:
    """What each side does in each round; the sides take turns at being the first."""
    sides = ["official", "ours"] if job.jars else ["ours"]
    for side in sides:  # so that the JVM has compiled the code of both
        turn(spark, job, side, folder)
    for _ in range(job.rounds):
        sides.reverse()
        measured: dict[str, float] = {}
        for side in sides:
            measured.update(turn(spark, job, side, folder))
        yield measured


def main() -> None:
    """Read the job from stdin, write what was measured to stdout."""
    job = SparkJob(**json.load(sys.stdin))
    stdout, sys.stdout = sys.stdout, sys.stderr  # Spark prints to stdout, too
    with tempfile.TemporaryDirectory() as folder:
        spark = session(job)
        found = list(rounds(spark, job, Path(folder)))
        spark.stop()
    json.dump({"rounds": found, "job": asdict(job)}, stdout)


if __name__ == "__main__":
    main()
