"""Small records out, against the same records in."""

from __future__ import annotations

from collections.abc import Iterator

from ..load.consume import ConsumeJob
from ..load.consume import consume as consume_all
from ..load.produce import WARM_UP_RECORDS, ProduceJob, produce
from ..processes import broker, cpu_seconds
from ..workload import Figure, Round, Run, Workload

RECORDS = 2_000_000
VALUE_BYTES = 100
PARTITIONS = 4
_RECORD_BYTES = VALUE_BYTES + 10  # what it takes in a batch, roughly


def measure(run: Run) -> Iterator[Round]:
    """Produce a topic, then consume it: one broker for both."""
    records = run.scaled(RECORDS)

    def there_and_back() -> Round:
        with run.fresh_folder(records * _RECORD_BYTES) as folder, broker(folder) as server:
            produced = produce(
                ProduceJob(
                    bootstrap=server.bootstrap,
                    topic="small",
                    records=records,
                    value_bytes=VALUE_BYTES,
                    partitions=PARTITIONS,
                    creates_topic=True,
                )
            )
            before = cpu_seconds(server.pid)
            consumed = consume_all(
                ConsumeJob(
                    bootstrap=server.bootstrap,
                    topic="small",
                    partitions=PARTITIONS,
                    records=records + WARM_UP_RECORDS,
                )
            )
            return {
                "produce": produced.records_per_second,
                "consume": consumed.records_per_second,
                "broker cpu": 1e6 * (cpu_seconds(server.pid) - before) / consumed.records,
                "load cpu": 1e6 * consumed.cpu_seconds / consumed.records,
            }

    return run.interleaved(produce_and_consume=there_and_back)


WORKLOAD = Workload(
    name="consume",
    measures="2 M records of 100 bytes from the topic's start through confluent-kafka's "
    "consume(10000), over the rate at which the same round produced them.",
    function=measure,
    rounds=5,
    figures=(
        Figure(name="over produce", unit="x", of="consume", per="produce", at_least=1.4),
        Figure(name="consume", unit="records/s", of="consume"),
        Figure(name="produce", unit="records/s", of="produce"),
        Figure(name="broker's processor time", unit="us/record", of="broker cpu"),
        Figure(name="load's processor time", unit="us/record", of="load cpu"),
    ),
)
