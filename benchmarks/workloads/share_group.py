"""Four consumers of a share group that acknowledge each record, on both brokers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from minikafka_client import ConfigChange, ConfigResource, ConfigResourceType
from minikafka_client.sync import AdminClient

from ..load.client_job import WARM_UP_RECORDS
from ..load.share import GO, ShareJob, ShareOutcome
from ..peers.apache_kafka import apache_kafka
from ..processes import LoadProcess, ProcessFailedError, broker
from ..workload import Figure, Round, Run, Workload
from .client_produce import VALUE_BYTES, produce_with

RECORDS = 200_000
CONSUMERS = 4
_LOOK_AGAIN_SECONDS = 0.02
_SETTINGS = {"group.share.min.heartbeat.interval.ms": "100"}
_GROUP = {"share.auto.offset.reset": "earliest", "share.heartbeat.interval.ms": "100"}
_RECORD_BYTES = VALUE_BYTES + 10  # what it takes in a batch, roughly
OURS, APACHE = "minikafka", "Apache Kafka"


def measure(run: Run) -> Iterator[Round]:
    """Both brokers run all the time; each round has a topic and a group of its own."""
    records = run.scaled(RECORDS)
    with ExitStack() as stack:
        folder = stack.enter_context(run.fresh_folder(records * _RECORD_BYTES))
        bootstraps = {
            OURS: stack.enter_context(broker(folder / "ours", _SETTINGS)).bootstrap,
            APACHE: stack.enter_context(apache_kafka(folder / "apache", _SETTINGS)),
        }
        # The first one warms the JVM up; it is not counted.
        _empty_a_queue(run, bootstraps[APACHE], "warm-up", records)

        def side(name: str) -> Callable[[], Round]:
            topics = iter(range(run.rounds))

            def consume() -> Round:
                return _empty_a_queue(run, bootstraps[name], f"queue-{next(topics)}", records, name)

            return consume

        yield from run.interleaved(**{name: side(name) for name in bootstraps})


def _empty_a_queue(run: Run, bootstrap: str, topic: str, records: int, name: str = APACHE) -> Round:
    """Fill a topic, and have it emptied as soon as all consumers are there.

    Raises:
        ProcessFailedError: not every record was acknowledged exactly once.
    """
    with AdminClient(bootstrap) as admin:
        group = ConfigResource(ConfigResourceType.GROUP, topic)
        admin.alter_configs({group: [ConfigChange(*each) for each in _GROUP.items()]})
    produce_with(
        "client_confluent", "produce unobserved", bootstrap, topic, records - WARM_UP_RECORDS
    )
    with run.fresh_folder() as folder:
        consumers = [
            LoadProcess(
                "share",
                asdict(
                    ShareJob(
                        name=f"consumer-{number}",
                        folder=str(folder),
                        bootstrap=bootstrap,
                        topic=topic,
                        group_id=topic,
                    )
                ),
            )
            for number in range(CONSUMERS)
        ]
        _wait_for(folder, consumers)
        began = time.time()
        (folder / GO).touch()
        outcomes = [ShareOutcome(**each.finish()) for each in consumers]
    acknowledged = sum(each.records for each in outcomes)
    if acknowledged != records:
        raise ProcessFailedError(f"{acknowledged} of {records} records were acknowledged")
    seconds = max(each.ended for each in outcomes) - began
    cpu_seconds = sum(each.cpu_seconds for each in outcomes)
    return {name: records / seconds, f"{name} load cpu": 1e6 * cpu_seconds / records}


def _wait_for(folder: Path, consumers: list[LoadProcess]) -> None:
    while len(list(folder.iterdir())) < len(consumers):
        for each in consumers:
            if not each.is_running():
                each.finish()
        time.sleep(_LOOK_AGAIN_SECONDS)


WORKLOAD = Workload(
    name="share-group",
    measures="200,000 records of 100 bytes in four partitions, taken by four of our consumers "
    "that acknowledge each record and commit after each poll, beside Apache Kafka 4.4 with 1 GB.",
    function=measure,
    figures=(
        Figure(name="over Apache Kafka", unit="x", of=OURS, per=APACHE, at_least=1.0),
        *(Figure(name=name, unit="records/s", of=name) for name in (OURS, APACHE)),
        *(
            Figure(name=f"{name}, load's processor time", unit="us/record", of=f"{name} load cpu")
            for name in (OURS, APACHE)
        ),
    ),
    rounds=5,
)
