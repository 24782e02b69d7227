"""What three idle brokers cost."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psutil

from ..cluster import cluster
from ..load.cluster_admin import create_topic
from ..workload import Figure, Round, Run, Workload

PARTITIONS = 10
SETTLE_SECONDS = 5.0
MEASURED_SECONDS = 20.0


def measure(run: Run) -> Iterator[Round]:
    """Start a cluster, create a topic, wait, and then observe the processes for a while."""

    def idle() -> Round:
        with run.fresh_folder() as folder, cluster(folder, 3) as running:
            create_topic(running.bootstrap, "idle", PARTITIONS, 3)
            time.sleep(SETTLE_SECONDS)
            processes = [psutil.Process(node.pid) for node in running.nodes.values()]
            before = [sum(process.cpu_times()[:2]) for process in processes]
            began = time.monotonic()
            time.sleep(MEASURED_SECONDS)
            seconds = time.monotonic() - began
            used = [
                sum(process.cpu_times()[:2]) - then
                for process, then in zip(processes, before, strict=True)
            ]
            return {
                "cpu": 100 * max(used) / seconds,
                "memory": max(process.memory_info().rss for process in processes) / 1e6,
                "ready": running.ready_seconds,
            }

    return run.interleaved(idle=idle)


WORKLOAD = Workload(
    name="cluster-idle",
    measures="Three brokers with ten partitions of three replicas each and no clients: processor "
    "time over twenty seconds and resident memory of the most expensive of them.",
    function=measure,
    figures=(
        Figure(name="processor time of each", unit="%", of="cpu", at_most=2),
        Figure(name="memory of each", unit="MB", of="memory", at_most=70),
        Figure(name="all ready after", unit="s", of="ready"),
    ),
    rounds=3,
)
