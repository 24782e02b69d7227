"""How long a group of fifty members is without its final assignment when one more joins."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict

from minikafka_client import ConfigChange, ConfigResource, ConfigResourceType
from minikafka_client.sync import AdminClient

from ..load.cluster_admin import create_topic
from ..load.group_members import MembersJob, MembersOutcome
from ..peers.apache_kafka import apache_kafka
from ..processes import broker, run_load
from ..workload import Figure, Round, Run, Workload

OURS, APACHE, UNPAUSED = "minikafka", "Apache Kafka", "Apache Kafka without pause"
MEMBERS = 50
PARTITIONS = 510
QUICK_MS = 100
_SETTINGS = {"group.consumer.min.heartbeat.interval.ms": str(QUICK_MS)}
_WARM_UP = {"quick": 20, "default": 0}
_JOINS = {"quick": 20, "default": 2}
_NAMES = {"quick": f"heartbeats every {QUICK_MS} ms", "default": "heartbeats by default"}


def measure(run: Run) -> Iterator[Round]:
    """Both brokers run all the time; each round has a new group on each."""
    with ExitStack() as stack:
        folder = stack.enter_context(run.fresh_folder())
        bootstraps = {
            OURS: stack.enter_context(broker(folder / "ours", _SETTINGS)).bootstrap,
            APACHE: stack.enter_context(apache_kafka(folder / "apache", _SETTINGS)),
        }
        bootstraps[UNPAUSED] = bootstraps[APACHE]

        def side(name: str, pace: str) -> Callable[[], Round]:
            topics = iter(range(run.rounds))

            def rebalance() -> Round:
                topic = f"{name}-{pace}-{next(topics)}".replace(" ", "-")
                create_topic(bootstraps[name], topic, PARTITIONS, 1)
                _configure(bootstraps[name], f"group-of-{topic}", name, pace)
                job = MembersJob(
                    bootstrap=bootstraps[name],
                    topic=topic,
                    partitions=PARTITIONS,
                    members=MEMBERS,
                    warm_up=run.scaled(_WARM_UP[pace]),
                    joins=run.scaled(_JOINS[pace]),
                )
                outcome = MembersOutcome(**run_load("group_members", asdict(job)))
                return {f"{name}, {_NAMES[pace]}": statistics.median(outcome.seconds)}

            return rebalance

        yield from run.interleaved(
            **{f"{name}, {pace}": side(name, pace) for pace in _NAMES for name in bootstraps}
        )


def _configure(bootstrap: str, group_id: str, name: str, pace: str) -> None:
    changes: list[ConfigChange] = []
    if pace == "quick":
        changes.append(ConfigChange("consumer.heartbeat.interval.ms", str(QUICK_MS)))
    if name == UNPAUSED:
        changes.append(ConfigChange("consumer.assignment.interval.ms", "0"))
    if changes:
        with AdminClient(bootstrap) as admin:
            admin.alter_configs({ConfigResource(ConfigResourceType.GROUP, group_id): changes})


WORKLOAD = Workload(
    name="group-rebalance",
    measures=f"{MEMBERS} members of a consumer group (KIP-848) that read {PARTITIONS} partitions; "
    "one more joins: the time until each has its part, beside Apache Kafka 4.4 with 1 GB.",
    function=measure,
    figures=(
        *(
            Figure(
                name=f"over {peer}, {shown}",
                unit="x",
                of=f"{OURS}, {shown}",
                per=f"{peer}, {shown}",
                at_most=0.5 if (peer, pace) == (APACHE, "quick") else None,
            )
            for pace, shown in _NAMES.items()
            for peer in (APACHE, UNPAUSED)
        ),
        *(
            Figure(name=f"{name}, {shown}", unit="s", of=f"{name}, {shown}")
            for shown in _NAMES.values()
            for name in (OURS, APACHE, UNPAUSED)
        ),
    ),
)
