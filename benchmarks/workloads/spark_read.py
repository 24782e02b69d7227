"""A topic read as a batch by Spark: our connector, Spark's own, and a tuple for each record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from ..load.filling import KEY_BYTES, fill
from ..load.spark_job import SparkJob
from ..peers.spark_connector import jars
from ..processes import LoadProcess, broker
from ..workload import Figure, Round, Run, Workload

PARTITIONS = 4
RECORDS = 1_000_000
VALUE_BYTES = 100
_RECORD_BYTES = VALUE_BYTES + KEY_BYTES + 10  # what it takes in a batch, roughly


def measure(run: Run) -> Iterator[Round]:
    """Fill a topic; then the sides take turns in one JVM."""
    records = run.scaled(RECORDS)
    written = PARTITIONS * records * _RECORD_BYTES
    with run.fresh_folder(written) as folder, broker(folder) as server:
        run.say("write the topic")
        fill(
            server.bootstrap,
            "read",
            partitions=PARTITIONS,
            records=records,
            value_bytes=VALUE_BYTES,
        )
        run.say(f"read it, {run.rounds} rounds")
        job = SparkJob(
            work="read",
            bootstrap=server.bootstrap,
            topic="read",
            partitions=PARTITIONS,
            records=PARTITIONS * records,
            value_bytes=VALUE_BYTES,
            rounds=run.rounds,
            jars=jars(),
        )
        yield from LoadProcess("spark_job", asdict(job)).finish()["rounds"]


WORKLOAD = Workload(
    name="spark-read",
    measures="4 x 1 M records of 100 bytes with keys of 16, read by Spark with two local workers "
    "to sum(length(value)): with our connector, with Spark's own, and with a data source that "
    "yields a tuple for each record.",
    function=measure,
    figures=(
        Figure(name="over Spark's own", unit="x", of="ours", per="official", at_least=1),
        Figure(name="over tuples", unit="x", of="ours", per="tuples", at_least=4),
        Figure(name="ours", unit="records/s", of="ours"),
        Figure(name="ours, values only", unit="records/s", of="value only"),
        Figure(name="Spark's own", unit="records/s", of="official"),
        Figure(name="tuples", unit="records/s", of="tuples"),
    ),
)
