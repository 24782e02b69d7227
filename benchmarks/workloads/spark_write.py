"""A stream that Spark writes to a topic: exactly once, at least once, and Spark's own sink."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from ..load.spark_job import SparkJob
from ..peers.spark_connector import jars
from ..processes import LoadProcess, broker
from ..workload import Figure, Round, Run, Workload

PARTITIONS = 4
RECORDS = 1_000_000
VALUE_BYTES = 100
_WRITTEN_PER_RECORD_BYTES = 3 * 130
"""By the three sides of a round, whose topics are deleted afterwards."""


def measure(run: Run) -> Iterator[Round]:
    """The sides take turns in one JVM; each writes the same rows to a topic of its own."""
    records = PARTITIONS * run.scaled(RECORDS)
    written = (run.rounds + 1) * records * _WRITTEN_PER_RECORD_BYTES
    with (
        run.fresh_folder(written) as folder,
        broker(folder, {"transaction.two.phase.commit.enable": True}) as server,
    ):
        run.say(f"write, {run.rounds} rounds")
        job = SparkJob(
            work="write",
            bootstrap=server.bootstrap,
            topic="",
            partitions=PARTITIONS,
            records=records,
            value_bytes=VALUE_BYTES,
            rounds=run.rounds,
            jars=jars(),
        )
        yield from LoadProcess("spark_write_job", asdict(job)).finish()["rounds"]


WORKLOAD = Workload(
    name="spark-write",
    measures="4 x 1 M rows of 100 bytes with keys of 16, from files, written as one micro-batch by "
    "Spark with two local workers to 4 partitions: exactly once and at least once with our sink, "
    "and with Spark's own.",
    function=measure,
    figures=(
        Figure(
            name="exactly over at least once",
            unit="x",
            of="exactly-once",
            per="at-least-once",
            at_least=0.8,
        ),
        Figure(
            name="exactly once over Spark's own",
            unit="x",
            of="exactly-once",
            per="official",
            at_least=1,
        ),
        Figure(name="exactly once", unit="records/s", of="exactly-once"),
        Figure(name="at least once", unit="records/s", of="at-least-once"),
        Figure(name="Spark's own", unit="records/s", of="official"),
    ),
)
