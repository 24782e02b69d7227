"""Throughput of one broker of each side: over record size, partitions, producers and batch size."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..load.cluster_admin import create_topic
from ..load.many_producers import WARM_UP_RECORDS
from ..peers import APACHE, LIBRDKAFKA, OURS
from ..plots import Axis
from ..processes import LOAD_SECONDS_MAX, ProcessFailedError
from ..workload import Figure, Plot, Round, Run, Workload
from .loads import PARTITIONS, count, drain, drop, fill, have_memory
from .servers import Served, Stage

SIZES: Final = {100: 600_000, 1000: 200_000, 10_000: 25_000}
"""Records of a round, by the size of their values."""
SHAPE_RECORDS: Final = 200_000
SHAPE_BYTES: Final = 100
PARTITION_COUNTS: Final = (1, 4, 16, 64)
PRODUCER_COUNTS: Final = (1, 5, 20, 50)
BATCH_BYTES: Final = (2_000, 16_000, 128_000, 1_000_000)
SIDES: Final = (OURS, APACHE)
RATE: Final = Axis("records per second", "log")
_PRODUCER_TARGET: Final = 20
_WAYS: Final = {"in": "produce", "out": "consume"}
_CPU_LIMITS: Final = {100: 0.3, 1000: 0.4}
_PERF_TEST_MEMORY_BYTES: Final = 800_000_000
"""For the records, and for the JVM that sends them."""
_LINE = re.compile(
    r"(\d+) records sent, ([\d.]+) records/sec .*?([\d.]+) ms avg latency, "
    r"([\d.]+) ms max latency, "
    r"(\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th, (\d+) ms 99.9th"
)


def over_apache(
    name: str,
    measure: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    is_lower_better: bool = False,
) -> Figure:
    """A measure of ours over the same one of Apache Kafka."""
    return Figure(
        name=f"{name}, over Apache Kafka",
        unit="x",
        of=f"{OURS} {measure}",
        per=f"{APACHE} {measure}",
        at_least=at_least,
        at_most=at_most,
        good="lower"
        if is_lower_better or at_most is not None or measure.endswith(" cpu")
        else "higher",
    )


def counted(number: int, word: str) -> str:
    """``1 broker``, ``2 brokers``."""
    return f"{number} {word}{'s' * (number != 1)}"


def series(points: Mapping[Any, str]) -> dict[str, list[tuple[float | str, str]]]:
    """The same measures of both sides, for a plot."""
    return {
        side: [(position, f"{side} {measure}") for position, measure in points.items()]
        for side in SIDES
    }


def warm_up(stage: Stage, side: Served, nodes: int) -> float:
    """Records per second of a load like those of the parts, which is then read, too."""
    topic = stage.topic()
    records = max(1000, round(SIZES[100] * stage.scale / (2 if nodes == 1 else 4)))
    found = fill(
        side, topic, records=records, value_bytes=100, name="warm-up", replicas=min(3, nodes)
    )
    stored = records + WARM_UP_RECORDS
    drain(side, topic, records=stored, value_bytes=100, name="warm-up", partitions=PARTITIONS)
    drop(side, topic)
    return found[f"{side.name} warm-up"]


# --- record size ---------------------------------------------------------------------------------


def record_sizes(stage: Stage) -> Workload:
    """In and out again, for three sizes."""

    def measure(run: Run) -> Iterator[Round]:
        sides = stage.sides()

        def side_of(side: Served) -> Callable[[], Round]:
            def both_ways() -> Round:
                found: dict[str, float] = {}
                for size, records in SIZES.items():
                    topic, some = stage.topic(), run.scaled(records)
                    found.update(
                        fill(side, topic, records=some, value_bytes=size, name=f"in {size} B")
                    )
                    out = some + WARM_UP_RECORDS
                    read = drain(
                        side,
                        topic,
                        records=out,
                        value_bytes=size,
                        name=f"out {size} B",
                        partitions=PARTITIONS,
                    )
                    found.update(read)
                    drop(side, topic)
                return found

            return both_ways

        yield from run.interleaved(**{name: side_of(side) for name, side in sides.items()})

    return Workload(
        name="record size",
        measures="Records of 100 B, 1 KB and 10 KB through librdkafka (one producer, acks=all, its "
        "defaults; then one consumer without a group), four partitions, one broker.",
        function=measure,
        needs=frozenset({LIBRDKAFKA}),
        figures=tuple(_size_figures()),
        plots=[
            Plot(
                title=f"{_WAYS[way].capitalize()}: {what} over record size",
                x=Axis("bytes of a record's value", "log"),
                y=axis,
                series=series({size: f"{way} {size} B{end}" for size in SIZES}),
            )
            for way in _WAYS
            for what, end, axis in (
                ("throughput", "", RATE),
                ("brokers' processor time", " cpu", Axis("microseconds per record", "log")),
            )
        ],
        rounds=4,
        seconds=75,
    )


def _size_figures() -> Iterator[Figure]:
    both = [(word, way, size) for way, word in _WAYS.items() for size in SIZES]
    for word, way, size in both:
        limit = 1.2 if size <= 1000 else None
        yield over_apache(f"{word} {size} B", f"{way} {size} B", at_least=limit)
    for word, way, size in both:
        yield over_apache(
            f"{word} {size} B, brokers' processor time",
            f"{way} {size} B cpu",
            at_most=_CPU_LIMITS.get(size) if way == "in" else None,
        )
    for word, way, size in both:
        for side in SIDES:
            name = f"{side}, {word} {size} B"
            yield Figure(name=name, unit="records/s", of=f"{side} {way} {size} B")


# --- the shape of the load -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Shape:
    name: str
    partitions: int = PARTITIONS
    producers: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


def load_shapes(stage: Stage) -> Workload:
    """100 bytes, with one thing different at a time."""
    over_partitions = {one: _Shape(counted(one, "partition"), one) for one in PARTITION_COUNTS}
    over_producers = {
        one: _Shape(counted(one, "producer"), producers=one) for one in PRODUCER_COUNTS
    }
    over_batches = {
        one: _Shape(f"batches of {one} B", settings={"batch.size": one, "linger.ms": 5})
        for one in BATCH_BYTES
    }
    shapes = [*over_partitions.values(), *over_producers.values(), *over_batches.values()]

    def measure(run: Run) -> Iterator[Round]:
        sides = stage.sides()
        for number in run.numbers():
            found: dict[str, float] = {}
            for shape in shapes:
                for side in sides.values():
                    run.say(f"round {number} of {run.rounds}: {shape.name}, {side.name}")
                    topic = stage.topic()
                    found.update(
                        fill(
                            side,
                            topic,
                            records=run.scaled(SHAPE_RECORDS),
                            value_bytes=SHAPE_BYTES,
                            name=shape.name,
                            partitions=shape.partitions,
                            producers=shape.producers,
                            settings=shape.settings,
                        )
                    )
                    drop(side, topic)
            yield found

    axes = (
        (Axis("partitions of the topic", "log"), "partitions", over_partitions),
        (Axis("producers, each with its own connections", "log"), "connections", over_producers),
        (Axis("batch.size in bytes", "log"), "batch size", over_batches),
    )
    return Workload(
        name="shape of the load",
        measures=f"Producing {SHAPE_BYTES} B records with one thing different at a time: "
        "partitions of the topic, producers at once (one process, connections of their own), "
        "librdkafka's batch.size. Otherwise four partitions, one producer, its defaults.",
        function=measure,
        needs=frozenset({LIBRDKAFKA}),
        figures=tuple(
            over_apache(
                shape.name,
                shape.name,
                at_least=1.2 if shape.producers == _PRODUCER_TARGET else None,
            )
            for shape in shapes
        ),
        plots=[
            Plot(
                title=f"Throughput over {what}",
                x=axis,
                y=RATE,
                series=series({position: shape.name for position, shape in some.items()}),
            )
            for axis, what, some in axes
        ],
        rounds=3,
        seconds=70,
    )


# --- Kafka's own tool ----------------------------------------------------------------------------


def perf_test(stage: Stage) -> Workload:
    """kafka-producer-perf-test: Java's producer instead of librdkafka."""

    def measure(run: Run) -> Iterator[Round]:
        sides = stage.sides()

        def side_of(side: Served) -> Callable[[], Round]:
            return lambda: _run_perf_test(side, stage.topic(), run.scaled(SIZES[1000]))

        yield from run.interleaved(**{name: side_of(side) for name, side in sides.items()})

    return Workload(
        name="kafka-producer-perf-test",
        measures="Kafka's own load (the class behind the script, of 4.3.1, the latest of which "
        "Maven Central has the tools): 1,000 B, no limit to the rate, acks=all, four partitions. A "
        "new JVM for each run, so it measures a cold client.",
        function=measure,
        needs=frozenset({APACHE}),
        figures=(
            over_apache("records per second", "perf-test", at_least=1.2),
            over_apache("brokers' processor time", "perf-test cpu", at_most=0.4),
            *(Figure(name=side, unit="records/s", of=f"{side} perf-test") for side in SIDES),
            *(
                Figure(
                    name=f"{side}, {what} percentile of the latency",
                    unit="ms",
                    of=f"{side} perf-test {what}",
                )
                for what in ("50th", "99th")
                for side in SIDES
            ),
        ),
        rounds=3,
        seconds=30,
    )


def _run_perf_test(side: Served, topic: str, records: int) -> Round:
    from tests.peers.java_runtime import java_command

    create_topic(side.bootstrap, topic, PARTITIONS, 1)
    have_memory(_PERF_TEST_MEMORY_BYTES)
    before = side.cpu_seconds()
    finished = subprocess.run(
        java_command(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", topic, "--num-records", str(records), "--record-size", "1000"),
            *("--throughput", "-1", "--bootstrap-server", side.bootstrap),
            heap_mb=256,
            log_level="error",
            flags=("-server", "-XX:+UseG1GC"),
        ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=LOAD_SECONDS_MAX,
    )
    spent = side.cpu_seconds() - before
    found = read_perf_test(finished.stdout)
    stored = count(side.bootstrap, topic, PARTITIONS)
    drop(side, topic)
    if finished.returncode or found is None or stored != records:
        said = (finished.stdout + finished.stderr)[-1000:]
        raise ProcessFailedError(
            f"kafka-producer-perf-test ended with {finished.returncode}, the topic has {stored} of "
            f"{records} records; it said:\n{said}"
        )
    measures = {
        f"{side.name} perf-test": found["rate"],
        f"{side.name} perf-test cpu": 1e6 * spent / records,
    }
    return measures | {f"{side.name} perf-test {one}": found[one] for one in ("50th", "99th")}


def read_perf_test(output: str) -> dict[str, float] | None:
    """The last line of kafka-producer-perf-test, which is about all records; None without it.

    Returns:
        ``records``, ``rate`` (per second), and ``50th`` and ``99th`` (ms).
    """
    lines = [found for line in output.splitlines() if (found := _LINE.search(line))]
    if not lines:
        return None
    records, rate, _, _, half, _, most, _ = lines[-1].groups()
    return {
        "records": float(records),
        "rate": float(rate),
        "50th": float(half),
        "99th": float(most),
    }
