"""Larger records in: where bytes count, from the socket through the checksum to the page cache."""

from __future__ import annotations

from collections.abc import Iterator

from ..load.produce import ProduceJob, produce
from ..processes import broker, cpu_seconds, peer
from ..workload import Figure, Round, Run, Workload

RECORDS = 1_500_000
VALUE_BYTES = 1000
_RECORD_BYTES = VALUE_BYTES + 10  # what it takes in a batch, roughly


def measure(run: Run) -> Iterator[Round]:
    """The broker, then a server that only reads, each with the same producer."""
    records = run.scaled(RECORDS)

    def ours() -> Round:
        with run.fresh_folder(records * _RECORD_BYTES) as folder, broker(folder) as server:
            before = cpu_seconds(server.pid)
            produced = produce(
                ProduceJob(
                    bootstrap=server.bootstrap,
                    topic="large",
                    records=records,
                    value_bytes=VALUE_BYTES,
                    creates_topic=True,
                )
            )
            return {
                "minikafka": produced.megabytes_per_second(VALUE_BYTES),
                "broker cpu": 1e9 * (cpu_seconds(server.pid) - before) / (records * VALUE_BYTES),
                "load cpu": 1e9 * produced.cpu_seconds / (records * VALUE_BYTES),
            }

    def sink() -> Round:
        with run.fresh_folder() as folder, peer("sink", folder) as server:
            before = cpu_seconds(server.pid)
            produced = produce(
                ProduceJob(
                    bootstrap=server.address,
                    topic="large",
                    records=records,
                    value_bytes=VALUE_BYTES,
                )
            )
            return {
                "sink": produced.megabytes_per_second(VALUE_BYTES),
                "sink cpu": 1e9 * (cpu_seconds(server.pid) - before) / (records * VALUE_BYTES),
            }

    return run.interleaved(minikafka=ours, sink=sink)


WORKLOAD = Workload(
    name="produce-large",
    measures="1.5 M records of 1,000 bytes, acks=1, through confluent-kafka, against a trio server "
    "that reads the socket, keeps nothing and reports success.",
    function=measure,
    rounds=5,
    figures=(
        Figure(name="minikafka", unit="MB/s", of="minikafka", at_least=400),
        Figure(name="over the sink", unit="x", of="minikafka", per="sink", at_least=0.7),
        Figure(name="sink", unit="MB/s", of="sink"),
        Figure(name="broker's processor time", unit="s/GB", of="broker cpu"),
        Figure(name="sink's processor time", unit="s/GB", of="sink cpu"),
        Figure(name="load's processor time", unit="s/GB", of="load cpu"),
    ),
    one_is_enough=frozenset({"minikafka", "over the sink"}),
)
