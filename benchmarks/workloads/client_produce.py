"""Our producer beside the others: one loop, one broker, each client in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict

from ..load.admin import create_topics, end_offsets
from ..load.client_job import WARM_UP_RECORDS, ClientJob, ClientOutcome
from ..processes import broker, run_load
from ..workload import Figure, Round, Run, Workload

RECORDS = 1_000_000
SLOW_CLIENTS_RECORDS = 100_000
VALUE_BYTES = 100
PARTITIONS = 4
_RECORD_BYTES = VALUE_BYTES + 10  # what it takes in a batch, roughly

# Name, module, way of working, and the number of records (fewer for slow clients).
_SIDES = (
    ("send_nowait", "client_minikafka", "produce", RECORDS),
    ("confluent", "client_confluent", "produce", RECORDS),
    ("send_many", "client_minikafka", "produce many", RECORDS),
    ("aiokafka", "client_aiokafka", "produce", SLOW_CLIENTS_RECORDS),
    ("send_nowait unobserved", "client_minikafka", "produce unobserved", RECORDS),
    ("confluent unobserved", "client_confluent", "produce unobserved", RECORDS),
    ("aiokafka, batches as ours", "client_aiokafka", "produce as ours", SLOW_CLIENTS_RECORDS),
    ("kafka-python", "client_kafka_python", "produce", SLOW_CLIENTS_RECORDS),
)


def measure(run: Run) -> Iterator[Round]:
    """One broker for all rounds; a topic for each client and round."""
    sent = sum(run.scaled(records) for *_, records in _SIDES)
    with run.fresh_folder(sent * _RECORD_BYTES) as folder, broker(folder) as server:

        def side(name: str, module: str, work: str, records: int) -> Callable[[], Round]:
            topics = iter(range(run.rounds))

            def produce() -> Round:
                topic = f"{name}-{next(topics)}".replace(",", "").replace(" ", "-")
                outcome = produce_with(module, work, server.bootstrap, topic, run.scaled(records))
                return {
                    name: outcome.records_per_second,
                    f"{name} cpu": 1e6 * outcome.cpu_seconds / outcome.records,
                }

            return produce

        yield from run.interleaved(**{one[0]: side(*one) for one in _SIDES})


def produce_with(
    module: str, work: str, bootstrap: str, topic: str, records: int, value_bytes: int = VALUE_BYTES
) -> ClientOutcome:
    """Have a client fill a new topic, and check that it has every record once.

    Raises:
        RuntimeError: the topic has fewer records, or more.
    """
    create_topics(bootstrap, [topic], PARTITIONS)
    job = ClientJob(
        work=work,
        bootstrap=bootstrap,
        topic=topic,
        partitions=PARTITIONS,
        records=records,
        value_bytes=value_bytes,
    )
    outcome = ClientOutcome(**run_load(module, asdict(job)))
    ends = sum(end_offsets(bootstrap, [topic], PARTITIONS).values())
    if ends != records + WARM_UP_RECORDS:
        raise RuntimeError(f"sent {records + WARM_UP_RECORDS} records, topic {topic} has {ends}")
    return outcome


WORKLOAD = Workload(
    name="client-produce",
    measures="1 M records of 100 bytes (100,000 with the slow clients), acks=all, one call per "
    "record except in send_many, every outcome checked except in the rows unobserved.",
    function=measure,
    figures=(
        Figure(
            name="send_nowait over confluent",
            unit="x",
            of="send_nowait",
            per="confluent",
            at_least=1.0,
        ),
        Figure(
            name="the same, unobserved",
            unit="x",
            of="send_nowait unobserved",
            per="confluent unobserved",
            at_least=1.0,
        ),
        Figure(
            name="send_many over confluent", unit="x", of="send_many", per="confluent", at_least=1.5
        ),
        Figure(
            name="send_many over unobserved confluent",
            unit="x",
            of="send_many",
            per="confluent unobserved",
        ),
        Figure(
            name="send_nowait over aiokafka", unit="x", of="send_nowait", per="aiokafka", at_least=8
        ),
        *(Figure(name=name, unit="records/s", of=name) for name, *_ in _SIDES),
        *(
            Figure(name=f"{name}, processor time", unit="us/record", of=f"{name} cpu")
            for name, *_ in _SIDES
        ),
    ),
)
