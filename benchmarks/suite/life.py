"""Start, memory and stop of one broker of each side, which is new in every round."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final

from ..peers import APACHE, LIBRDKAFKA, OURS
from ..peers.apache_kafka import apache_node
from ..plots import Axis
from ..processes import ROOT, broker, resident_bytes
from ..workload import Figure, Plot, Round, Run, Workload
from .loads import fill
from .one_broker import SIDES, over_apache
from .servers import Served, Stage, long_turns_noted

RECORDS: Final = 200_000
VALUE_BYTES: Final = 100
_IMPORT: Final = "import trio"
_MEASURES: Final = (
    ("start to ready", "ready", "s"),
    ("memory after the start", "memory", "MB"),
    ("memory after a load", "loaded", "MB"),
    ("stop", "stop", "s"),
)


def life(stage: Stage) -> Workload:
    """From start to stop, with a load between."""

    def loaded(run: Run, side: Served) -> None:
        if LIBRDKAFKA not in stage.absent:
            records = run.scaled(RECORDS)
            fill(side, "life", records=records, value_bytes=VALUE_BYTES, name="load")

    def measure(run: Run) -> Iterator[Round]:
        stage.close()
        if LIBRDKAFKA in stage.absent:
            reason = f"{LIBRDKAFKA}, the load, is missing: {stage.absent[LIBRDKAFKA]}"
            run.left_out.update({f"{side} loaded": reason for side in SIDES})
        sides: dict[str, Callable[[], Round]] = {
            "import trio": _import_trio,
            OURS: lambda: _ours(run, loaded),
        }
        if APACHE not in stage.absent:
            sides[APACHE] = lambda: _apache(run, loaded)
        if run.scale >= 1:
            _ours(run, loaded)  # compiles what has changed since the last run
        yield from run.interleaved(**sides)

    return Workload(
        name="start, memory, stop",
        measures="From the start of the process until it serves, on an empty directory; resident "
        "memory then and after 200,000 records of 100 B; SIGTERM to the end. Apache Kafka's disk "
        "is formatted before, and it is asked five times a second whether it serves.",
        function=measure,
        figures=tuple(_figures()),
        plots=[
            _bars("Start and stop", Axis("seconds"), {"start": "ready", "stop": "stop"}),
            _bars(
                "Resident memory",
                Axis("MB"),
                {"after the start": "memory", "after a load": "loaded"},
            ),
        ],
        rounds=3,
        seconds=45,
    )


def _figures() -> Iterator[Figure]:
    yield Figure(
        name="start to ready, over `import trio`",
        unit="x",
        of=f"{OURS} ready",
        per=_IMPORT,
        at_most=1.8,
    )
    for name, measure, _ in _MEASURES:
        yield over_apache(name, measure, is_lower_better=True)
    for name, measure, unit in _MEASURES:
        for side in SIDES:
            yield Figure(name=f"{side}, {name}", unit=unit, of=f"{side} {measure}")
    yield Figure(name="a new interpreter and `import trio`", unit="s", of=_IMPORT)


def _bars(title: str, y: Axis, groups: dict[str, str]) -> Plot:
    series: dict[str, list[tuple[float | str, str]]] = {
        side: [(group, f"{side} {measure}") for group, measure in groups.items()] for side in SIDES
    }
    return Plot(title=title, x=None, y=y, series=series)


def _import_trio() -> Round:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", _IMPORT], check=True, cwd=ROOT)
    return {_IMPORT: time.perf_counter() - started}


def _ours(run: Run, load: Callable[[Run, Served], None]) -> Round:
    found: dict[str, float] = {}
    with long_turns_noted(run.notes), run.fresh_folder() as folder, broker(folder) as server:
        found = {
            f"{OURS} ready": server.process.ready_seconds,
            f"{OURS} memory": resident_bytes(server.pid) / 1e6,
        }
        load(run, Served(OURS, server.bootstrap, lambda: [server.pid]))
        found[f"{OURS} loaded"] = resident_bytes(server.pid) / 1e6
        started = time.perf_counter()
        server.stop()
        found[f"{OURS} stop"] = time.perf_counter() - started
    return found


def _apache(run: Run, load: Callable[[Run, Served], None]) -> Round:
    with run.fresh_folder() as folder, apache_node(folder / "apache") as node:
        found = {
            f"{APACHE} ready": node.ready_seconds,
            f"{APACHE} memory": resident_bytes(node.pid) / 1e6,
        }
        load(run, Served(APACHE, node.bootstrap, lambda: [node.pid]))
        found[f"{APACHE} loaded"] = resident_bytes(node.pid) / 1e6
        started = time.perf_counter()
        node.stop()
        found[f"{APACHE} stop"] = time.perf_counter() - started
        return found
