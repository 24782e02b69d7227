"""Ten thousand partitions: what a clean stop costs, and the start after it."""

from __future__ import annotations

import time
from collections.abc import Iterator

from ..load.partitions import PartitionsJob, fill_partitions
from ..processes import broker, check_stop
from ..workload import Figure, Round, Run, Workload

TOPICS = 100
PARTITIONS = 100


def measure(run: Run) -> Iterator[Round]:
    """Write to every partition, stop with SIGTERM, and start on the same directory; repeatedly."""
    topics = run.scaled(TOPICS)
    with run.fresh_folder() as folder, broker(folder) as server:
        for number in range(1, run.rounds + 1):
            run.say(f"round {number} of {run.rounds}: write to {topics * PARTITIONS} partitions")
            fill_partitions(
                PartitionsJob(
                    bootstrap=server.bootstrap,
                    topics=topics,
                    partitions=PARTITIONS,
                    creates=number == 1,
                    expected_records=number - 1,
                )
            )
            run.say("SIGTERM, start")
            began = time.perf_counter()
            check_stop(server.stop(), server.log_path)
            stopped = time.perf_counter() - began
            server.start()
            yield {"stop": stopped, "start": server.process.ready_seconds}


WORKLOAD = Workload(
    name="clean-restart",
    measures="10,000 partitions (100 topics), a record written to each, SIGTERM, start on the same "
    "directory with a warm page cache.",
    function=measure,
    figures=(
        Figure(name="SIGTERM to exit", unit="s", of="stop", at_most=3),
        Figure(name="start to ready", unit="s", of="start", at_most=3),
    ),
)
