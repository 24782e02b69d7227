"""Values that are nearly as large as Kafka allows, read and copied by Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from ..load.filling import fill
from ..load.spark_job import SparkJob
from ..peers.spark_connector import jars
from ..processes import LoadProcess, broker
from ..workload import Figure, Round, Run, Workload

PARTITIONS = 4
RECORDS = 250
VALUE_BYTES = 900_000
_ROOM_BYTES = 1_000
"""Of a batch with one record, beside the value."""


def measure(run: Run) -> Iterator[Round]:
    """Fill a topic; then the sides take turns in one JVM."""
    records = run.scaled(RECORDS)
    written = (2 * run.rounds + 3) * PARTITIONS * records * VALUE_BYTES
    settings = {"transaction.two.phase.commit.enable": True}
    with run.fresh_folder(written) as folder, broker(folder, settings) as server:
        run.say("write the topic")
        fill(
            server.bootstrap,
            "large",
            partitions=PARTITIONS,
            records=records,
            value_bytes=VALUE_BYTES,
            batch_size_bytes=VALUE_BYTES + _ROOM_BYTES,
        )
        run.say(f"read and copy it, {run.rounds} rounds")
        job = SparkJob(
            work="stream",
            bootstrap=server.bootstrap,
            topic="large",
            partitions=PARTITIONS,
            records=PARTITIONS * records,
            value_bytes=VALUE_BYTES,
            rounds=run.rounds,
            jars=jars(),
        )
        yield from LoadProcess("spark_stream_job", asdict(job)).finish()["rounds"]


WORKLOAD = Workload(
    name="spark-large-values",
    measures="4 x 250 records of 900 KB, read as a stream into a sink that does nothing, and copied"
    " to a topic (ours exactly once, Spark's own at least once). Work is processor time of the JVM"
    " and its Python processes.",
    function=measure,
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
