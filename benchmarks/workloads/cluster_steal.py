"""Three brokers on a machine whose processors are wanted by many others."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from ..cluster import cluster
from ..load.cluster_admin import create_topic, leader_epochs, metadata_epoch
from ..load.steady import SteadyJob, SteadyOutcome
from ..processes import SteadyLoad
from ..workload import Figure, Round, Run, Workload
from .cluster_failover import longest_pause

SECONDS = 600
BUSY_PROCESSES = 20
NICENESS = 10
"""Each is worth about a tenth of a process that is not nice."""
PARTITIONS = 3
VALUE_BYTES = 100
TOPIC = "steal"
_BUSY = "while True: pass"
_LOOK_SECONDS = 0.5


@contextmanager
def busy_processes(count: int, niceness: int) -> Generator[list[subprocess.Popen[bytes]]]:
    """Processes that want a processor each, during a block."""
    command = ["nice", "-n", str(niceness), sys.executable, "-S", "-c", _BUSY]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield processes
    finally:
        for one in processes:
            one.kill()
            one.wait()


def measure(run: Run) -> Iterator[Round]:
    """In each round a new cluster, whose leaders are counted before and after."""
    seconds = run.scaled(SECONDS)
    for number in range(1, run.rounds + 1):
        run.say(f"round {number} of {run.rounds}: {BUSY_PROCESSES} busy processes for {seconds} s")
        with run.fresh_folder() as folder:
            yield _round(folder, seconds)


def _round(folder: Path, seconds: int) -> Round:
    loads: list[float] = []
    with cluster(folder, 3) as running:
        bootstrap = running.bootstrap
        create_topic(bootstrap, TOPIC, PARTITIONS, 3)
        quorum_before = metadata_epoch(bootstrap)
        leaders_before = leader_epochs(bootstrap, TOPIC)
        job = SteadyJob(
            client="confluent",
            bootstrap=bootstrap,
            topic=TOPIC,
            partitions=PARTITIONS,
            value_bytes=VALUE_BYTES,
        )
        load = SteadyLoad(asdict(job))
        try:
            with busy_processes(BUSY_PROCESSES, NICENESS):
                began = time.monotonic()
                while (now := time.monotonic()) < began + seconds:
                    loads.append(os.getloadavg()[0])
                    time.sleep(min(_LOOK_SECONDS, began + seconds - now))
                ended = time.monotonic()
            outcome = SteadyOutcome(**load.finish())
        except BaseException:
            load.kill()
            raise
        quorum_epochs = metadata_epoch(bootstrap) - quorum_before
        leaders_after = leader_epochs(bootstrap, TOPIC)
    return {
        "quorum epochs": quorum_epochs,
        "partition epochs": sum(leaders_after) - sum(leaders_before),
        "gap": longest_pause(outcome, began, ended),
        "lost": outcome.lost + outcome.duplicates,
        "errors": len(outcome.errors),
        "records": sum(map(len, outcome.acks)) / (ended - began),
        "load": max(loads) / (os.cpu_count() or 1),
    }


WORKLOAD = Workload(
    name="cluster-steal",
    measures=f"Three brokers and an idempotent producer (acks=all, three partitions) beside "
    f"{BUSY_PROCESSES} processes of niceness {NICENESS} that never sleep, for ten minutes: new "
    "leader epochs of the metadata quorum and of the partitions, and the longest time in which a "
    "partition acknowledged nothing.",
    function=measure,
    figures=(
        Figure(name="new epochs of the quorum", unit="", of="quorum epochs", at_most=0),
        Figure(name="new epochs of partitions", unit="", of="partition epochs", at_most=0),
        Figure(name="longest gap", unit="s", of="gap"),
        Figure(name="lost or doubled", unit="records", of="lost", at_most=0),
        Figure(name="errors", unit="records", of="errors", at_most=0),
        Figure(name="records", unit="1/s", of="records"),
        Figure(name="highest load per processor", unit="", of="load"),
    ),
    rounds=1,
)
