"""The fixed cost of a micro-batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from ..load.filling import fill
from ..load.spark_job import SparkJob
from ..peers.spark_connector import jars
from ..processes import LoadProcess, broker
from ..workload import Figure, Round, Run, Workload

PARTITIONS = 4
BATCHES = 20
RECORDS_PER_BATCH = 1_000


def measure(run: Run) -> Iterator[Round]:
    """A stream with `Trigger.AvailableNow`, limited so that it takes twenty batches."""
    batches = max(4, run.scaled(BATCHES))
    records = batches * RECORDS_PER_BATCH
    with run.fresh_folder() as folder, broker(folder) as server:
        fill(
            server.bootstrap,
            "small",
            partitions=PARTITIONS,
            records=records // PARTITIONS,
            value_bytes=100,
        )
        run.say(f"stream it, {run.rounds} rounds")
        job = SparkJob(
            work="microbatch",
            bootstrap=server.bootstrap,
            topic="small",
            partitions=PARTITIONS,
            records=records,
            value_bytes=100,
            rounds=run.rounds,
            batches=batches,
            jars=jars(),
        )
        yield from LoadProcess("spark_job", asdict(job)).finish()["rounds"]


WORKLOAD = Workload(
    name="spark-microbatch",
    measures="20 batches of 1,000 records from 4 partitions into a sink that does nothing, with "
    "Trigger.AvailableNow: the median time of a trigger, from Spark's progress.",
    function=measure,
    figures=(
        Figure(name="ours", unit="ms", of="ours", at_most=250),
        Figure(name="Spark's own", unit="ms", of="official"),
    ),
)
