"""Small records in: where a broker's cost per batch shows."""

from __future__ import annotations

from collections.abc import Iterator

from ..load.produce import ProduceJob, produce
from ..processes import broker, cpu_seconds, peer
from ..workload import Figure, Round, Run, Workload

RECORDS = 2_000_000
VALUE_BYTES = 100
_RECORD_BYTES = VALUE_BYTES + 10  # what it takes in a batch, roughly


def measure(run: Run) -> Iterator[Round]:
    """The broker, librdkafka's mock cluster and the sink, each with the same producer."""
    records = run.scaled(RECORDS)

    def ours() -> Round:
        with run.fresh_folder(records * _RECORD_BYTES) as folder, broker(folder) as server:
            job = ProduceJob(
                bootstrap=server.bootstrap,
                topic="small",
                records=records,
                value_bytes=VALUE_BYTES,
                creates_topic=True,
            )
            before = cpu_seconds(server.pid)
            produced = produce(job)
            return {
                "minikafka": produced.records_per_second,
                "broker cpu": 1e6 * (cpu_seconds(server.pid) - before) / records,
                "load cpu": 1e6 * produced.cpu_seconds / records,
            }

    def mock() -> Round:
        job = ProduceJob(bootstrap=None, topic="small", records=records, value_bytes=VALUE_BYTES)
        produced = produce(job)
        return {
            "mock": produced.records_per_second,
            "mock and load cpu": 1e6 * produced.cpu_seconds / records,
        }

    def sink() -> Round:
        with run.fresh_folder() as folder, peer("sink", folder) as server:
            produced = produce(
                ProduceJob(
                    bootstrap=server.address,
                    topic="small",
                    records=records,
                    value_bytes=VALUE_BYTES,
                )
            )
            return {"sink": produced.records_per_second}

    return run.interleaved(minikafka=ours, mock_cluster=mock, sink=sink)


WORKLOAD = Workload(
    name="produce-small",
    measures="2 M records of 100 bytes, acks=1, through confluent-kafka, against librdkafka's own "
    "mock cluster (C, in memory, in the producer's process). A sink that keeps nothing shows how "
    "much of that is the producer's own limit.",
    function=measure,
    rounds=5,
    figures=(
        Figure(name="over the mock", unit="x", of="minikafka", per="mock", at_least=1.25),
        Figure(name="sink over the mock", unit="x", of="sink", per="mock"),
        Figure(name="minikafka", unit="records/s", of="minikafka"),
        Figure(name="mock cluster", unit="records/s", of="mock"),
        Figure(name="sink", unit="records/s", of="sink"),
        Figure(name="broker's processor time", unit="us/record", of="broker cpu"),
        Figure(name="load's processor time", unit="us/record", of="load cpu"),
        Figure(name="mock's and load's together", unit="us/record", of="mock and load cpu"),
    ),
)
