"""A topic larger than the broker: does reading it make memory grow?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from minikafka.testing import Broker

from ..load.consume import Consumed, ConsumeJob
from ..load.consume import start as start_consuming
from ..load.produce import WARM_UP_RECORDS, ProduceJob, produce
from ..processes import broker, resident_bytes
from ..workload import Figure, Round, Run, Workload

RECORDS = 1_000_000
VALUE_BYTES = 1000
PARTITIONS = 4
PASSES = 2
_SAMPLE_SECONDS = 0.02


def measure(run: Run) -> Iterator[Round]:
    """Fill the topic once; then in each round watch the memory of a new broker during reads."""
    with run.fresh_folder() as folder:
        run.say("write the topic")
        records = run.scaled(RECORDS)
        with broker(folder) as server:
            produce(
                ProduceJob(
                    bootstrap=server.bootstrap,
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
        before = resident_bytes(server.pid)
        load = start_consuming(
            ConsumeJob(
                bootstrap=server.bootstrap,
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
            "after": (resident_bytes(server.pid) - before) / 1e6,
            "rate": consumed.records_per_second * VALUE_BYTES / 1e6,
        }


def _sample(server: Broker) -> int:
    time.sleep(_SAMPLE_SECONDS)
    return resident_bytes(server.pid)


WORKLOAD = Workload(
    name="read-memory",
    measures="1 GB in 4 partitions, read twice from the start through confluent-kafka: the peak of "
    "the broker's resident memory during the reads, minus what it was right after its start.",
    function=measure,
    figures=(
        Figure(name="growth at the peak", unit="MB", of="growth", at_most=30),
        Figure(name="growth afterwards", unit="MB", of="after"),
        Figure(name="before", unit="MB", of="before"),
        Figure(name="read rate", unit="MB/s", of="rate"),
    ),
)
