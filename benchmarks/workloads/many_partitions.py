"""Ten thousand partitions: what a crash costs, and how much memory they take."""

from __future__ import annotations

from collections.abc import Iterator

from ..load.partitions import PartitionsJob, fill_partitions
from ..processes import broker, resident_bytes
from ..workload import Figure, Round, Run, Workload

TOPICS = 100
PARTITIONS = 100


def measure(run: Run) -> Iterator[Round]:
    """Write to every partition, kill -9, and restart on the same directory; repeatedly."""
    topics = run.scaled(TOPICS)
    with run.fresh_folder() as folder, broker(folder) as server:
        created = 0.0
        for number in range(1, run.rounds + 1):
            run.say(f"round {number} of {run.rounds}: write to {topics * PARTITIONS} partitions")
            filled = fill_partitions(
                PartitionsJob(
                    bootstrap=server.bootstrap,
                    topics=topics,
                    partitions=PARTITIONS,
                    creates=number == 1,
                    expected_records=number - 1,
                )
            )
            created = max(created, filled.create_seconds)
            written = resident_bytes(server.pid)
            run.say("kill -9, restart")
            server.kill()
            server.start()
            yield {
                "restart": server.process.ready_seconds,
                "memory": resident_bytes(server.pid) / 1e6,
                "memory written": written / 1e6,
                "create": created,
                "produce": filled.produce_seconds,
            }
        run.say("check that every record is there")
        fill_partitions(
            PartitionsJob(
                bootstrap=server.bootstrap,
                topics=topics,
                partitions=PARTITIONS,
                creates=False,
                expected_records=run.rounds,
            )
        )


WORKLOAD = Workload(
    name="many-partitions",
    measures="10,000 partitions (100 topics), a record written to each, kill -9, restart on the "
    "same directory with a warm page cache: time to `ready` and resident memory then.",
    function=measure,
    figures=(
        Figure(name="restart after kill -9", unit="s", of="restart", at_most=5),
        Figure(name="resident memory", unit="MB", of="memory", at_most=250),
        Figure(name="resident memory after writing", unit="MB", of="memory written", at_most=250),
        Figure(name="create the topics (once)", unit="s", of="create"),
        Figure(name="one record to each", unit="s", of="produce"),
    ),
)
