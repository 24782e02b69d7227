"""336,776 flights through a cluster whose leader is killed, and into Spark; see README.md."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table

from examples.flights.feed import (
    ALERTS,
    END,
    PARTITIONS,
    TOPIC,
    Flight,
    counts_of,
    end_of_feed,
    load_flights,
)
from minikafka import testing
from minikafka_client import (
    LATEST,
    AdminClient,
    Consumer,
    Delivery,
    NewTopic,
    Producer,
    TopicPartition,
)

from .connection import NODES, Connection, SecureCluster
from .ledger import Ledger, Verdict, row_of
from .spark_pipeline import Landing, SparkPipeline

GROUP: Final = "flight-checkers"
RECORDS_PER_LOOK: Final = 500
RECORDS_PER_POLL: Final = 2_000
NOTHING_COMES_MS: Final = 20_000
TIMEOUT_S: Final = 900


@dataclass(slots=True)
class Story:
    """What happened, for the table at the end."""

    records: int
    size_bytes: int
    produce_s: float = 0
    consume_s: float = 0
    killed_after: int = 0
    lag: int = -1
    has_spark: bool = False
    landing: Landing | None = None
    is_clean: bool = False

    def is_good(self, verdict: Verdict) -> bool:
        """Whether everything that should have happened did."""
        if not (verdict.is_good and self.lag == 0 and self.killed_after):
            return False
        if not self.has_spark:
            return True
        return self.is_clean and self.landing is not None and self.landing.is_exactly(self.records)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, help="how many flights to send; by default all")
    parser.add_argument("--secure", action="store_true", help="with TLS, a user, and ACLs")
    arguments = parser.parse_args()
    # Without warnings that a broker cannot be reached, which is the point of the demo.
    logging.getLogger("minikafka_client").setLevel(logging.ERROR)
    console = Console()
    with console.status("reading the flights"):
        flights = load_flights(arguments.records)
    ledger = Ledger((flight.carrier, flight.document) for flight in flights)
    size_bytes = sum(len(flight.carrier) + len(flight.document) for flight in flights)
    story = Story(len(flights), size_bytes)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with (
        tempfile.TemporaryDirectory(prefix="minikafka-demo-") as directory,
        Progress(*columns, console=console) as progress,
    ):
        secure = SecureCluster(Path(directory) / "security") if arguments.secure else None
        trio.run(tell, Path(directory), secure, flights, ledger, story, progress)
    verdict = ledger.verdict()
    show(console, story, verdict)
    return 0 if story.is_good(verdict) else 1


async def tell(
    directory: Path,
    secure: SecureCluster | None,
    flights: list[Flight],
    ledger: Ledger,
    story: Story,
    progress: Progress,
) -> None:
    missing = SparkPipeline.missing()
    story.has_spark = missing is None
    with trio.fail_after(TIMEOUT_S):
        folder = directory / "cluster"
        if secure is None:
            kafka = testing.cluster(NODES, directory=folder)
        else:
            kafka = testing.cluster(secure.nodes, secure.settings, directory=folder)
        async with kafka as cluster, trio.open_nursery() as nursery:
            place = Connection(cluster.bootstrap)
            if secure is not None:
                place = await secure.let_in(cluster)
            progress.console.print(f"three brokers, data in {directory}: {place.bootstrap}")
            async with AdminClient(place.bootstrap, **place.options) as admin:
                await admin.create_topics([NewTopic(TOPIC, PARTITIONS), NewTopic(ALERTS, 1)])
            if missing is not None:
                progress.console.print(f"[yellow]no pipeline on Spark: {missing}[/]")
                await broker_side(cluster, place, flights, ledger, story, progress)
                return
            place.write(directory / "client.properties")
            pipeline = SparkPipeline(directory, progress, len(flights))
            await nursery.start(pipeline.run)
            await broker_side(cluster, place, flights, ledger, story, progress)
            await pipeline.finish(counts_of(flights))
            story.landing, story.is_clean = pipeline.landing, pipeline.is_clean


async def broker_side(
    cluster: testing.Cluster,
    place: Connection,
    flights: list[Flight],
    ledger: Ledger,
    story: Story,
    progress: Progress,
) -> None:
    """Produce while a leader is killed, and read everything back."""
    started_at = time.monotonic()
    half_way = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kill_half_way, cluster, half_way, ledger, story, progress)
        await produce(place, flights, half_way, ledger, progress)
    story.produce_s = time.monotonic() - started_at
    started_at = time.monotonic()
    await consume(place, ledger, progress)
    story.consume_s = time.monotonic() - started_at
    story.lag = await lag_of_group(place)


async def produce(
    place: Connection,
    flights: list[Flight],
    half_way: trio.Event,
    ledger: Ledger,
    progress: Progress,
) -> None:
    task = progress.add_task("produce", total=len(flights))
    undecided: deque[tuple[int, Delivery]] = deque()
    async with Producer(place.bootstrap, acks="all", **place.options) as producer:
        for number, flight in enumerate(flights):
            delivery = await producer.send(
                TOPIC, flight.document, flight.carrier, headers=flight.headers
            )
            undecided.append((number, delivery))
            if number % RECORDS_PER_LOOK == 0:
                take_acknowledged(undecided, ledger)
                progress.update(task, completed=ledger.acknowledged)
                if ledger.acknowledged * 2 >= len(flights):
                    half_way.set()
        await producer.flush()
        half_way.set()
        end = end_of_feed()
        await (await producer.send(TOPIC, end.document, end.carrier, headers=end.headers))
        take_acknowledged(undecided, ledger)
        progress.update(task, completed=ledger.acknowledged)


def take_acknowledged(undecided: deque[tuple[int, Delivery]], ledger: Ledger) -> None:
    while undecided and undecided[0][1].is_done:
        number, delivery = undecided.popleft()
        if delivery.error is None:
            ledger.acknowledge(number)


async def kill_half_way(
    cluster: testing.Cluster,
    half_way: trio.Event,
    ledger: Ledger,
    story: Story,
    progress: Progress,
) -> None:
    await half_way.wait()
    leader = await trio.to_thread.run_sync(cluster.leader, TOPIC)
    await trio.to_thread.run_sync(cluster.kill, leader)
    story.killed_after = ledger.acknowledged
    progress.console.print(
        f"SIGKILL to the leader of {TOPIC}-0 after {ledger.acknowledged:,} acknowledgements"
    )


async def consume(place: Connection, ledger: Ledger, progress: Progress) -> None:
    """Read every partition to its end."""
    async with AdminClient(place.bootstrap, **place.options) as admin:
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        ends = await admin.list_offsets(dict.fromkeys(partitions, LATEST))
    unread = {partition.partition: found.offset for partition, found in ends.items()}
    unread = {number: end for number, end in unread.items() if end}
    task: TaskID = progress.add_task("consume", total=sum(unread.values()))
    async with Consumer(
        place.bootstrap, group_id=GROUP, auto_offset_reset="earliest", **place.options
    ) as consumer:
        await consumer.subscribe([TOPIC])
        while unread:
            records = await consumer.poll(RECORDS_PER_POLL, NOTHING_COMES_MS)
            if not records:
                break  # the ledger shows what is missing
            for record in records:
                if dict(record.headers)["producer"] != END.encode():
                    ledger.receive(row_of(record.value), record.key, record.value)
                if record.offset + 1 >= unread.get(record.partition, 0):
                    unread.pop(record.partition, None)
            progress.advance(task, len(records))
        await consumer.commit()


async def lag_of_group(place: Connection) -> int:
    """End offsets minus committed offsets: 0 if the group has read everything."""
    async with AdminClient(place.bootstrap, **place.options) as admin:
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        ends = await admin.list_offsets(dict.fromkeys(partitions, LATEST))
        committed = await admin.list_group_offsets(GROUP)
    return sum(
        found.offset - (committed[partition].offset if partition in committed else 0)
        for partition, found in ends.items()
    )


def show(console: Console, story: Story, verdict: Verdict) -> None:
    table = Table(title="flights through a leader that was killed half-way", title_justify="left")
    table.add_column("")
    table.add_column("records", justify="right")
    table.add_column("seconds", justify="right")
    table.add_column("MB/s", justify="right")
    table.add_column("records/s", justify="right")
    for name, records, seconds in (
        ("produced, acks=all, with the failover", verdict.acknowledged, story.produce_s),
        (f"consumed by group {GROUP}", verdict.received, story.consume_s),
    ):
        rate = records / seconds if seconds else 0
        size_mb = story.size_bytes / 1e6 * (records / story.records)
        speed = size_mb / seconds if seconds else 0
        table.add_row(name, f"{records:,}", f"{seconds:.2f}", f"{speed:.1f}", f"{rate:,.0f}")
    landing = story.landing
    if landing is not None:
        table.add_section()
        table.add_row("landed by Spark in Parquet", f"{landing.raw:,}")
        table.add_row("delays by carrier and hour", f"{landing.hours:,}")
        table.add_row("alerts: more than three hours late", f"{landing.alerts:,}")
    table.add_section()
    for name, number in wrongs(story, verdict):
        style = "green" if number == 0 else "bold red"
        table.add_row(name, f"[{style}]{number:,}[/]")
    console.print(table)
    if not story.killed_after:
        console.print("[bold red]no leader was killed[/]")


def wrongs(story: Story, verdict: Verdict) -> list[tuple[str, int]]:
    """The counts that must be 0."""
    found = [
        ("not acknowledged", verdict.unacknowledged),
        ("acknowledged and lost", verdict.lost),
        ("duplicated", verdict.duplicated),
        ("out of order within a carrier", verdict.out_of_order),
        ("changed, or never sent", verdict.strange),
        ("lag of the group", story.lag),
    ]
    landing = story.landing
    if landing is None:
        return found
    return [
        *found,
        ("not landed in Parquet", story.records - landing.raw_once),
        ("landed twice", landing.raw - landing.raw_once),
        ("missing in the delays", story.records - landing.flights_in_hours),
        ("alerts written twice", landing.alerts - landing.alerts_once),
    ]


if __name__ == "__main__":
    sys.exit(main())
