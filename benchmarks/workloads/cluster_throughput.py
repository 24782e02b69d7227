"""Three replicas of everything, against one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..cluster import cluster
from ..load.cluster_admin import create_topic
from ..load.produce import ProduceJob, produce
from ..processes import broker
from ..workload import Figure, Round, Run, Workload

RECORDS = 300_000
VALUE_BYTES = 1000
PARTITIONS = 6
_RECORD_BYTES = VALUE_BYTES + 10


def measure(run: Run) -> Iterator[Round]:
    """The same producer into three replicas with acks=all, one replica with acks=1, one broker."""
    records = run.scaled(RECORDS)

    def replicated(name: str, factor: int, acks: str) -> Callable[[], Round]:
        def produce_it() -> Round:
            with (
                run.fresh_folder(records * _RECORD_BYTES * factor) as folder,
                cluster(folder, 3) as running,
            ):
                create_topic(running.bootstrap, "copies", PARTITIONS, factor)
                return {name: _produce(running.bootstrap, records, acks)}

        return produce_it

    def alone() -> Round:
        with run.fresh_folder(records * _RECORD_BYTES) as folder, broker(folder) as server:
            create_topic(server.bootstrap, "copies", PARTITIONS, 1)
            return {"alone": _produce(server.bootstrap, records, "1")}

    return run.interleaved(
        three_replicas=replicated("three", 3, "all"),
        one_replica=replicated("one", 1, "1"),
        one_broker=alone,
    )


def _produce(bootstrap: str, records: int, acks: str) -> float:
    job = ProduceJob(
        bootstrap=bootstrap,
        topic="copies",
        records=records,
        value_bytes=VALUE_BYTES,
        partitions=PARTITIONS,
        settings={"acks": acks},
    )
    return produce(job).megabytes_per_second(VALUE_BYTES)


WORKLOAD = Workload(
    name="cluster-throughput",
    measures="300,000 records of 1,000 bytes through confluent-kafka into six partitions on three "
    "brokers: three replicas and acks=all over one replica and acks=1. For comparison, the same "
    "into a single broker.",
    function=measure,
    figures=(
        Figure(name="three copies over one", unit="x", of="three", per="one", at_least=0.30),
        Figure(name="three copies over one broker", unit="x", of="three", per="alone"),
        Figure(name="three replicas, acks=all", unit="MB/s", of="three"),
        Figure(name="one replica, acks=1", unit="MB/s", of="one"),
        Figure(name="one broker, acks=1", unit="MB/s", of="alone"),
    ),
    rounds=3,
)
