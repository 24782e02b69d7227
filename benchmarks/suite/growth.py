"""Whether the cost of a record stays flat: larger topics, and more of everything, on our side."""

from __future__ import annotations

import os
import resource
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from ..load.cluster_admin import create_topic
from ..load.many_producers import WARM_UP_RECORDS
from ..peers import LIBRDKAFKA, OURS
from ..plots import Axis
from ..raw_client import RawClient, api_versions_request
from ..workload import Figure, Plot, Round, Run, Workload
from .loads import PARTITIONS, drain, drop, fill
from .servers import Served, Stage, long_turns_noted, one_of_ours
from .three_brokers import fill_new_cluster

GIGABYTES: Final = (1, 2, 5, 10, 20)
PARTITION_COUNTS: Final = (10, 100, 1000, 10_000)
CONNECTION_COUNTS: Final = (1, 10, 100, 1000, 2000)
PRODUCER_COUNTS: Final = (1, 5, 20, 50)
BROKER_COUNTS: Final = (1, 3, 5, 9)
RECORDS: Final = 200_000
VALUE_BYTES: Final = 100
LARGE_BYTES: Final = 1000
_PARTITIONS_PER_TOPIC: Final = 1000
BUSY_PARTITIONS: Final = 10
_FREE_KEPT_BYTES: Final = 5_000_000_000
_TIMED_RECORDS: Final = 1_000_000
_PLAIN_BYTES: Final = 500_000_000
_PLAIN_AT_ONCE_BYTES: Final = 100_000
_COST: Final = Axis("microseconds per record", "log")


def _workload(
    name: str,
    measures: str,
    function: Callable[[Run], Iterator[Round]],
    points: Sequence[int],
    x: Axis,
    limits: Mapping[int, float],
    *,
    unit: str,
    ways: Sequence[str] = ("",),
    limited: str = "cpu",
    seconds: float = 120,
) -> Workload:
    """Points along one axis: processor time and time on the clock for each record.

    Args:
        name: of the part.
        measures: what is measured, in a sentence or two.
        function: yields ``minikafka POINT UNIT WAY`` and the same with ``cpu`` and, if that is
            what is limited, with ``user``; us per record.
        points: along the axis; the first is what the others are compared with.
        x: the axis.
        limits: how much more a record's processor time may be than at the first point.
        unit: of the points, for the names of figures and measures.
        ways: "" or "in", "out".
        limited: "cpu", or "user" for the processor time in user mode alone.
        seconds: about how long it takes.
    """

    def measure_of(point: int, way: str, end: str = "") -> str:
        return " ".join(word for word in (OURS, str(point), unit, way, end) if word)

    ends = {"cpu": "processor time", "": "time"}
    if limited == "user":
        ends = {"user": "processor time in user mode", **ends}
    figures = [
        Figure(
            name=f"{point:,} over {points[0]} {unit}{', ' if way else ''}{way}, {words} per record",
            unit="x",
            of=measure_of(point, way, end),
            per=measure_of(points[0], way, end),
            at_most=limits.get(point) if end == limited and way != "out" else None,
            good="lower",
        )
        for way in ways
        for end, words in ends.items()
        for point in points[1:]
    ]
    plot = Plot(
        title=f"Cost of a record over {name}",
        x=x,
        y=_COST,
        series={
            f"{words}{', ' if way else ''}{way}": [
                (point, measure_of(point, way, end)) for point in points
            ]
            for way in ways
            for end, words in (("cpu", "brokers' processor time"), ("", "time on the clock"))
        },
    )
    return Workload(
        name=f"growth: {name}",
        measures=measures,
        function=function,
        needs=frozenset({LIBRDKAFKA}),
        figures=figures,
        plots=[plot],
        rounds=3,
        seconds=seconds,
    )


def _costs(found: Round, name: str, new_name: str) -> dict[str, float]:
    """Rates as time for each record."""
    return {
        f"{OURS} {new_name}": 1e6 / found[f"{OURS} {name}"],
        f"{OURS} {new_name} cpu": found[f"{OURS} {name} cpu"],
        f"{OURS} {new_name} user": found[f"{OURS} {name} user"],
    }


# --- large topics --------------------------------------------------------------------------------


def topic_size(stage: Stage) -> Workload:
    """A topic grows; at each size a fixed number of records goes in and comes out again."""
    del stage

    def measure(run: Run) -> Iterator[Round]:
        for number in run.numbers():
            room = shutil.disk_usage(run.folder).free - _FREE_KEPT_BYTES
            leave_out_large(run, room)
            found: Round = {}
            with (
                long_turns_noted(run.notes),
                run.fresh_folder() as folder,
                one_of_ours(folder) as side,
            ):
                found = _grow(run, side, folder, number)
            yield found

    workload = _workload(
        "size of the topic",
        "1 KB into one topic of four partitions until it has 1, 2, 5, 10 and 20 GB: the last "
        "million records in, and all of it out again, at each size. The target is for the time in "
        "user mode: how long the kernel takes for a page of a file depends on what else it has to "
        'do with memory and disk. "A plain write" of 500 MB beside the topic shows that.',
        measure,
        GIGABYTES,
        Axis("GB in the topic", "log"),
        {20: 1.1},
        unit="GB",
        ways=("in", "out"),
        limited="user",
        seconds=480,
    )
    plain = [
        Figure(
            name=f"{size} over {GIGABYTES[0]} GB, a plain write, processor time per KB",
            unit="x",
            of=_plain(size),
            per=_plain(GIGABYTES[0]),
            good="lower",
        )
        for size in GIGABYTES[1:]
    ]
    return replace(workload, figures=[*workload.figures, *plain])


def _plain(size: int) -> str:
    return f"{OURS} {size} GB plain write"


def _write_plainly(folder: Path, size_bytes: int) -> float:
    """Write a file and remove it; returns microseconds of processor time for a thousand bytes."""
    chunk = bytes(_PLAIN_AT_ONCE_BYTES)
    path = folder / "plain"
    with path.open("wb", buffering=0) as file:
        started = time.process_time()
        for _ in range(max(1, size_bytes // len(chunk))):
            file.write(chunk)
        spent = time.process_time() - started
        written = file.tell()
    path.unlink()
    return 1e9 * spent / written


def leave_out_large(run: Run, room_bytes: float) -> None:
    """Leave out the sizes that do not fit on the disk; once left out, a size stays so."""
    for size in GIGABYTES:
        if size * 1e9 * run.scale * 1.1 > room_bytes:
            run.left_out.setdefault(
                f"{OURS} {size} GB",
                f"it does not fit; the log directory has {room_bytes / 1e9:.0f} GB to spare (5 GB "
                "are kept free), set TMPDIR to a directory on a larger disk",
            )


def _grow(run: Run, side: Served, folder: Path, number: int) -> Round:
    """The costs at each size of one topic."""
    found: dict[str, float] = {}
    timed = run.scaled(_TIMED_RECORDS)
    grown = 0
    # What a broker does once in its life, at its first fetch for instance, is not a topic's cost.
    fill(side, "first", records=timed, value_bytes=LARGE_BYTES, name="first")
    stored = timed + WARM_UP_RECORDS
    sizes = {"value_bytes": LARGE_BYTES, "partitions": PARTITIONS}
    drain(side, "first", records=stored, name="first", **sizes)
    for size in GIGABYTES:
        if f"{OURS} {size} GB" in run.left_out:
            break
        run.say(f"round {number} of {run.rounds}: {size} GB")
        wanted = round(size * 1e9 * run.scale / LARGE_BYTES)
        filler = max(0, wanted - grown - timed)
        for records, name in ((filler, "filler"), (timed, "timed")):
            if records:
                os.sync()
                measured = fill(
                    side,
                    "grown",
                    records=records,
                    value_bytes=LARGE_BYTES,
                    name=name,
                    stored_before=grown or None,
                )
                grown += records + WARM_UP_RECORDS
                if name == "timed":
                    found.update(_costs(measured, name, f"{size} GB in"))
                    found[_plain(size)] = _write_plainly(folder, run.scaled(_PLAIN_BYTES))
        read = drain(side, "grown", records=grown, name="out", **sizes)
        found.update(_costs(read, "out", f"{size} GB out"))
    return found


# --- more of everything --------------------------------------------------------------------------


def partitions(stage: Stage) -> Workload:
    """A broker with more and more partitions, all of which take records."""
    del stage

    def measure(run: Run) -> Iterator[Round]:
        for number in run.numbers():
            found: dict[str, float] = {}
            for point in PARTITION_COUNTS:
                run.say(f"round {number} of {run.rounds}: {point} partitions")
                some = max(1, round(point * min(1.0, run.scale)))
                with (
                    long_turns_noted(run.notes),
                    run.fresh_folder() as folder,
                    one_of_ours(folder) as side,
                ):
                    # The load goes to ten partitions; the others are there and idle.
                    for idle, count in idle_topics(some):
                        create_topic(side.bootstrap, idle, count, 1)
                    measured = fill(
                        side,
                        "busy",
                        records=run.scaled(RECORDS),
                        value_bytes=VALUE_BYTES,
                        name="busy",
                        partitions=BUSY_PARTITIONS,
                    )
                found.update(_costs(measured, "busy", f"{point} partitions"))
            yield found

    return _workload(
        "partitions",
        "200,000 records of 100 B into a topic of ten partitions, on a new broker that has 10, "
        "100, 1,000 and 10,000 partitions.",
        measure,
        PARTITION_COUNTS,
        Axis("partitions of the broker", "log"),
        {1000: 1.5, 10_000: 2.0},
        unit="partitions",
        seconds=150,
    )


def idle_topics(partition_count: int) -> Iterator[tuple[str, int]]:
    """Topics that make up for what a broker has besides the busy one: names, and partitions."""
    for first in range(BUSY_PARTITIONS, partition_count, _PARTITIONS_PER_TOPIC):
        yield f"idle-{first}", min(_PARTITIONS_PER_TOPIC, partition_count - first)


def raise_open_files() -> None:
    """Allow this process, and the brokers that it starts, as many open files as it may allow."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections(stage: Stage) -> Workload:
    """A broker with more and more open connections."""

    def measure(run: Run) -> Iterator[Round]:
        raise_open_files()
        side = stage.sides()[OURS]
        request = api_versions_request()
        for number in run.numbers():
            found: dict[str, float] = {}
            for point in CONNECTION_COUNTS:
                run.say(f"round {number} of {run.rounds}: {point} connections")
                some = max(1, round(point * min(1.0, run.scale)))
                with ExitStack() as stack:
                    for _ in range(some):
                        client = stack.enter_context(closing(RawClient(side.bootstrap)))
                        client.ask(request)
                    topic = stage.topic()
                    measured = fill(
                        side,
                        topic,
                        records=run.scaled(RECORDS),
                        value_bytes=VALUE_BYTES,
                        name="busy",
                    )
                    drop(side, topic)
                found.update(_costs(measured, "busy", f"{point} connections"))
            yield found

    return _workload(
        "connections",
        "200,000 records of 100 B from one producer beside 1 to 2,000 connections that have asked "
        "for the versions and wait.",
        measure,
        CONNECTION_COUNTS,
        Axis("open connections", "log"),
        {},
        unit="connections",
    )


def producers(stage: Stage) -> Workload:
    """The same number of records from more and more producers."""

    def measure(run: Run) -> Iterator[Round]:
        side = stage.sides()[OURS]
        for number in run.numbers():
            found: dict[str, float] = {}
            for point in PRODUCER_COUNTS:
                run.say(f"round {number} of {run.rounds}: {point} producers")
                topic = stage.topic()
                measured = fill(
                    side,
                    topic,
                    records=run.scaled(2 * RECORDS),
                    value_bytes=VALUE_BYTES,
                    name="busy",
                    producers=point,
                )
                drop(side, topic)
                found.update(_costs(measured, "busy", f"{point} producers"))
            yield found

    return _workload(
        "producers",
        "400,000 records of 100 B from 1 to 50 producers at once, in one process. Their batches "
        "are smaller the more there are, so a record's share of a request grows.",
        measure,
        PRODUCER_COUNTS,
        Axis("producers", "log"),
        {},
        unit="producers",
    )


def brokers(stage: Stage) -> Workload:
    """The same number of records into more and more brokers."""

    def measure(run: Run) -> Iterator[Round]:
        stage.close()
        for number in run.numbers():
            found: dict[str, float] = {}
            for point in BROKER_COUNTS:
                run.say(f"round {number} of {run.rounds}: {point} brokers")
                measured = fill_new_cluster(run, point, "busy", run.scaled(2 * RECORDS))
                found.update(_costs(measured, "busy", f"{point} brokers"))
            yield found

    return _workload(
        "brokers",
        "400,000 records of 100 B from four producers into one replica, spread over 1, 3, 5 and 9 "
        "brokers on this machine.",
        measure,
        BROKER_COUNTS,
        Axis("brokers on this machine", "log"),
        {},
        unit="brokers",
        seconds=150,
    )
