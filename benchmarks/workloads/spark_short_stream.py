"""The fixed cost of a streaming query that is started, reads a little, and ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from ..load.filling import fill
from ..load.spark_job import SparkJob
from ..peers.spark_connector import jars
from ..processes import LoadProcess, broker
from ..workload import Figure, Round, Run, Workload

PARTITIONS = 4
RECORDS = 2_500
VALUE_BYTES = 100


def measure(run: Run) -> Iterator[Round]:
    """Fill a topic; then the sides take turns in one JVM."""
    records = run.scaled(RECORDS)
    settings = {"transaction.two.phase.commit.enable": True}
    with run.fresh_folder() as folder, broker(folder, settings) as server:
        fill(
            server.bootstrap,
            "short",
            partitions=PARTITIONS,
            records=records,
            value_bytes=VALUE_BYTES,
        )
        run.say(f"read and copy it, {run.rounds} rounds")
        job = SparkJob(
            work="stream",
            bootstrap=server.bootstrap,
            topic="short",
            partitions=PARTITIONS,
            records=PARTITIONS * records,
            value_bytes=VALUE_BYTES,
            rounds=run.rounds,
            jars=jars(),
        )
        yield from LoadProcess("spark_stream_job", asdict(job)).finish()["rounds"]


WORKLOAD = Workload(
    name="spark-short-stream",
    measures="A new query with Trigger.AvailableNow in a running session: 10,000 records of 100 "
    "bytes from 4 partitions into a sink that does nothing, and into a topic (ours exactly once, "
    "Spark's own at least once). Work is processor time of the JVM and its Python processes.",
    function=measure,
    rounds=5,
    figures=(
        Figure(name="read over Spark's own", unit="x", of="ours read", per="official read"),
        Figure(
            name="read over Spark's own, work",
            unit="x",
            of="ours read work",
            per="official read work",
        ),
        Figure(name="copy over Spark's own", unit="x", of="ours copy", per="official copy"),
        Figure(
            name="copy over Spark's own, work",
            unit="x",
            of="ours copy work",
            per="official copy work",
        ),
        Figure(name="ours, read", unit="records/s", of="ours read"),
        Figure(name="ours, copy", unit="records/s", of="ours copy"),
    ),
)
