"""Memory of a client that reads a larger topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict

from minikafka_client.consumer_options import ConsumerConfig

from ..load.client_job import WARM_UP_RECORDS, ClientJob, ClientOutcome
from ..processes import broker, run_load
from ..workload import Figure, Round, Run, Workload
from .client_produce import PARTITIONS, produce_with

RECORDS = 1_000_000
VALUE_BYTES = 1000
_PREFETCH_MB = ConsumerConfig().prefetch_size_bytes_max / 1e6
_ALLOWED_OVER_PREFETCH_MB = 40


def measure(run: Run) -> Iterator[Round]:
    """Fill the topic once; then our consumer reads all of it, in two ways."""
    records = run.scaled(RECORDS)
    with run.fresh_folder(records * VALUE_BYTES) as folder, broker(folder) as server:
        run.say("write the topic")
        produce_with(
            "client_confluent",
            "produce unobserved",
            server.bootstrap,
            "large",
            records - WARM_UP_RECORDS,
            VALUE_BYTES,
        )

        def side(name: str, work: str) -> Callable[[], Round]:
            def consume() -> Round:
                job = ClientJob(
                    work=work,
                    bootstrap=server.bootstrap,
                    topic="large",
                    partitions=PARTITIONS,
                    records=records,
                    value_bytes=VALUE_BYTES,
                )
                outcome = ClientOutcome(**run_load("client_minikafka", asdict(job)))
                peak, before = outcome.resident_peak_bytes, outcome.resident_before_bytes
                return {
                    f"{name} peak": peak / 1e6,
                    f"{name} growth": (peak - before) / 1e6,
                    f"{name} rate": outcome.records_per_second * VALUE_BYTES / 1e6,
                }

            return consume

        yield from run.interleaved(
            **{name: side(name, work) for name, work in _SIDES.items()},
        )


_SIDES = {"async for": "consume", "batches": "consume batches"}

WORKLOAD = Workload(
    name="client-memory",
    measures="1 GB in records of 1,000 bytes from the topic's start through our consumer, with its "
    "default prefetch: the peak resident memory of its process, and its growth since it was "
    "connected.",
    function=measure,
    figures=(
        *(
            Figure(
                name=f"{name}, growth at the peak",
                unit="MB",
                of=f"{name} growth",
                at_most=_PREFETCH_MB + _ALLOWED_OVER_PREFETCH_MB,
            )
            for name in _SIDES
        ),
        *(Figure(name=f"{name}, whole process", unit="MB", of=f"{name} peak") for name in _SIDES),
        *(Figure(name=f"{name}, rate", unit="MB/s", of=f"{name} rate") for name in _SIDES),
    ),
)
