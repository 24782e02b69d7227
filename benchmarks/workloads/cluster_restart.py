"""A rolling restart, from the point of view of a producer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict

from ..cluster import MeasuredCluster, cluster
from ..load.cluster_admin import create_topic
from ..load.steady import SteadyJob, SteadyOutcome
from ..processes import SteadyLoad
from ..workload import Figure, Round, Run, Workload
from .cluster_failover import longest_pause

PARTITIONS = 6
VALUE_BYTES = 100
TOPIC = "restart"
_UNDISTURBED_SECONDS = 1.0


def _restart_all(run: Run, running: MeasuredCluster) -> tuple[float, float]:
    time.sleep(_UNDISTURBED_SECONDS)
    began = time.monotonic()
    for node_id in (1, 2, 3):
        run.say(f"restarting node {node_id}")
        running.stop(node_id)
        running.start(node_id)
        running.wait_until_healthy()
    ended = time.monotonic()
    time.sleep(_UNDISTURBED_SECONDS)
    return began, ended


def measure(run: Run) -> Iterator[Round]:
    """SIGTERM, start, wait until all replicas are in sync, next."""

    def side(client: str) -> Callable[[], Round]:
        def measure_one() -> Round:
            with run.fresh_folder() as folder, cluster(folder, 3) as running:
                create_topic(running.bootstrap, TOPIC, PARTITIONS, 3)
                job = SteadyJob(
                    client=client,
                    bootstrap=running.bootstrap,
                    topic=TOPIC,
                    partitions=PARTITIONS,
                    value_bytes=VALUE_BYTES,
                )
                load = SteadyLoad(asdict(job))
                try:
                    began, ended = _restart_all(run, running)
                    outcome = SteadyOutcome(**load.finish())
                except BaseException:
                    load.kill()
                    raise
            return {
                f"{client} stall": longest_pause(outcome, began, ended),
                f"{client} errors": len(outcome.errors),
                f"{client} lost": outcome.lost + outcome.duplicates,
                f"{client} seconds": ended - began,
            }

        return measure_one

    return run.interleaved(minikafka=side("minikafka"), confluent=side("confluent"))


_CLIENTS = ("minikafka", "confluent")

WORKLOAD = Workload(
    name="cluster-restart",
    measures="All three brokers are restarted one after the other with SIGTERM while an idempotent "
    "producer writes to six partitions: the longest time in which any of them acknowledged "
    "nothing, and errors that reached the producer.",
    function=measure,
    figures=(
        *(
            Figure(name=f"{one}: longest stall", unit="s", of=f"{one} stall", at_most=1.5)
            for one in _CLIENTS
        ),
        *(
            Figure(name=f"{one}: errors", unit="records", of=f"{one} errors", at_most=0)
            for one in _CLIENTS
        ),
        *(
            Figure(name=f"{one}: lost or doubled", unit="records", of=f"{one} lost", at_most=0)
            for one in _CLIENTS
        ),
        *(Figure(name=f"{one}: all three", unit="s", of=f"{one} seconds") for one in _CLIENTS),
    ),
    rounds=3,
)
