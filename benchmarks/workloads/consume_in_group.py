"""What the newer group protocol costs a consumer that only reads: nothing, it should be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict

from ..load.client_job import WARM_UP_RECORDS, ClientJob, ClientOutcome
from ..processes import broker, run_load
from ..workload import Figure, Round, Run, Workload
from .client_produce import PARTITIONS, VALUE_BYTES, produce_with

RECORDS = 2_000_000
_RECORD_BYTES = VALUE_BYTES + 10  # what it takes in a batch, roughly
_PROTOCOLS = ("consumer", "classic")


def measure(run: Run) -> Iterator[Round]:
    """Fill one topic; then a member of a group of either kind reads it from the start, by turns."""
    there = run.scaled(RECORDS)
    with run.fresh_folder(there * _RECORD_BYTES) as folder, broker(folder) as server:
        run.say("write the topic")
        records = there - WARM_UP_RECORDS
        produce_with("client_confluent", "produce unobserved", server.bootstrap, "small", records)

        def side(protocol: str) -> Callable[[], Round]:
            def consume() -> Round:
                job = ClientJob(
                    work=f"consume in a {protocol} group",
                    bootstrap=server.bootstrap,
                    topic="small",
                    partitions=PARTITIONS,
                    records=there,
                    value_bytes=VALUE_BYTES,
                )
                outcome = ClientOutcome(**run_load("client_minikafka", asdict(job)))
                return {
                    protocol: outcome.records_per_second,
                    f"{protocol} cpu": 1e6 * outcome.cpu_seconds / outcome.records,
                }

            return consume

        yield from run.interleaved(**{protocol: side(protocol) for protocol in _PROTOCOLS})


WORKLOAD = Workload(
    name="consume-in-group",
    measures="2 M records of 100 bytes, read by our consumer as the only member of a group, with "
    'group_protocol="consumer" and with "classic".',
    function=measure,
    figures=(
        Figure(name="consumer over classic", unit="x", of="consumer", per="classic", at_least=0.98),
        *(Figure(name=name, unit="records/s", of=name) for name in _PROTOCOLS),
        *(
            Figure(name=f"{name}, processor time", unit="us/record", of=f"{name} cpu")
            for name in _PROTOCOLS
        ),
    ),
    rounds=7,
)
