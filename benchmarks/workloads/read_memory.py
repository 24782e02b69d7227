"""A topic larger than the broker: does memory grow with what is read?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from ..load.consume import Consumed, ConsumeJob
from ..load.consume import start as start_consuming
from ..load.produce import WARM_UP_RECORDS, ProduceJob, produce
from ..processes import ServerProcess, broker
from ..workload import Figure, Round, Run, Workload

RECORDS = 1_000_000
VALUE_BYTES = 1000
PARTITIONS = 4
PASSES = 2
_SAMPLE_SECONDS = 0.02


def measure(run: Run) -> Iterator[Round]:
    """Write once; then per round a fresh broker, whose memory is watched while it is read."""
    with run.fresh_folder() as folder:
        run.say("write the topic")
        records = run.scaled(RECORDS)
        with broker(folder) as server:
            produce(
                ProduceJob(
                    bootstrap=server.address,
                    topic="large",
                    records=records,
                    value_bytes=VALUE_BYTES,
                    partitions=PARTITIONS,
                    creates_topic=True,
                )
            )
        for number in range(1, run.rounds + 1):
            run.say(f"round {number} of {run.rounds}: read it twice from a fresh broker")
            yield _read(folder, records + WARM_UP_RECORDS)


def _read(folder: Path, records: int) -> Round:
    with broker(folder) as server:
        before = server.resident_bytes()
        load = start_consuming(
            ConsumeJob(
                bootstrap=server.address,
                topic="large",
                partitions=PARTITIONS,
                records=records,
                passes=PASSES,
            )
        )
        peak = before
        try:
            while load.is_running():
                peak = max(peak, _sample(server))
        except BaseException:
            load.kill()
            raise
        consumed = Consumed(**load.finish())
        return {
            "before": before / 1e6,
            "growth": (peak - before) / 1e6,
            "after": (server.resident_bytes() - before) / 1e6,
            "rate": consumed.records_per_second * VALUE_BYTES / 1e6,
        }


def _sample(server: ServerProcess) -> int:
    time.sleep(_SAMPLE_SECONDS)
    return server.resident_bytes()


WORKLOAD = Workload(
    name="read-memory",
    measures="1 GB in 4 partitions, read twice from the start through confluent-kafka: the peak of "
    "the broker's resident memory while it is read, over what it was when it had just started.",
    function=measure,
    figures=(
        Figure(name="growth at the peak", unit="MB", of="growth", at_most=30),
        Figure(name="growth afterwards", unit="MB", of="after"),
        Figure(name="before", unit="MB", of="before"),
        Figure(name="read rate", unit="MB/s", of="rate"),
    ),
)
