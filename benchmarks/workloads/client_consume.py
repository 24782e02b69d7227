"""Our consumer beside the others: one topic, one broker, each client in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict

from ..load.client_job import WARM_UP_RECORDS, ClientJob, ClientOutcome
from ..processes import broker, run_load
from ..workload import Figure, Round, Run, Workload
from .client_produce import PARTITIONS, VALUE_BYTES, produce_with

RECORDS = 2_000_000
SLOW_CLIENTS_RECORDS = 300_000
_RECORD_BYTES = VALUE_BYTES + 10  # what it takes in a batch, roughly

# Name, module, way of working, and the number of records (fewer for slow clients).
_SIDES = (
    ("async for", "client_minikafka", "consume", RECORDS),
    ("aiokafka", "client_aiokafka", "consume", SLOW_CLIENTS_RECORDS),
    ("batches", "client_minikafka", "consume batches", RECORDS),
    ("confluent", "client_confluent", "consume", RECORDS),
    ("batches counted", "client_minikafka", "consume counted", RECORDS),
    ("confluent counted", "client_confluent", "consume counted", RECORDS),
    ("kafka-python", "client_kafka_python", "consume", SLOW_CLIENTS_RECORDS),
)


def measure(run: Run) -> Iterator[Round]:
    """Fill one topic; then all clients read it from the start, by turns."""
    there = run.scaled(RECORDS)
    with run.fresh_folder(there * _RECORD_BYTES) as folder, broker(folder) as server:
        run.say("write the topic")
        produce_with(
            "client_confluent",
            "produce unobserved",
            server.bootstrap,
            "small",
            there - WARM_UP_RECORDS,
        )

        def side(name: str, module: str, work: str, records: int) -> Callable[[], Round]:
            def consume() -> Round:
                job = ClientJob(
                    work=work,
                    bootstrap=server.bootstrap,
                    topic="small",
                    partitions=PARTITIONS,
                    records=run.scaled(records),
                    value_bytes=VALUE_BYTES,
                )
                outcome = ClientOutcome(**run_load(module, asdict(job)))
                return {
                    name: outcome.records_per_second,
                    f"{name} cpu": 1e6 * outcome.cpu_seconds / outcome.records,
                }

            return consume

        yield from run.interleaved(**{one[0]: side(*one) for one in _SIDES})


WORKLOAD = Workload(
    name="client-consume",
    measures="2 M records of 100 bytes from the topic's start (the slow clients read 300,000), no "
    "group; every value is touched except in the rows counted.",
    function=measure,
    figures=(
        Figure(
            name="async for over aiokafka", unit="x", of="async for", per="aiokafka", at_least=1.5
        ),
        Figure(
            name="batches over consume(10000)", unit="x", of="batches", per="confluent", at_least=1
        ),
        Figure(
            name="the same, counted",
            unit="x",
            of="batches counted",
            per="confluent counted",
            at_least=1,
        ),
        *(Figure(name=name, unit="records/s", of=name) for name, *_ in _SIDES),
        *(
            Figure(name=f"{name}, processor time", unit="us/record", of=f"{name} cpu")
            for name, *_ in _SIDES
        ),
    ),
    rounds=5,
)
