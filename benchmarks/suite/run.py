"""Runs the parts of a suite within a time, and collects what a report needs."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ..environment import describe_environment
from ..peers import APACHE, OURS
from ..report import as_json
from ..results import Result
from ..runner import run_one
from ..workload import Workload
from . import answers, growth, life, one_broker, three_brokers, transactions
from .servers import Stage, heap

Part = Callable[[Stage], Workload]

SIDE_BY_SIDE: Final[tuple[Part, ...]] = (
    one_broker.record_sizes,
    one_broker.load_shapes,
    answers.latency,
    one_broker.perf_test,
    transactions.on_one,
    life.life,
    three_brokers.replicated,
    three_brokers.acknowledged,
    transactions.on_three,
    three_brokers.failover,
    three_brokers.more_brokers,
)
GROWTH: Final[tuple[Part, ...]] = (
    growth.topic_size,
    growth.partitions,
    growth.connections,
    growth.producers,
    growth.brokers,
)
Advance = Callable[[float, str], None]
"""Takes the share of all that is done (0 to 1), and what happens now."""


def run_suite(
    parts: Sequence[Part],
    *,
    rounds: int | None,
    scale: float,
    seconds: float,
    absent: Mapping[str, str],
    advance: Advance,
    names: Sequence[str] = (OURS, APACHE),
    only: Sequence[str] = (),
) -> dict[str, Any]:
    """Run the parts; returns what goes into the result file.

    Args:
        parts: in this order; those that need the same servers should follow each other.
        rounds: overrides the parts' own numbers of rounds.
        scale: factor for counts.
        seconds: how long all of it may take. A part that is late does fewer rounds, at least two.
        absent: peers that cannot run here, by name, with the reason.
        advance: is told how far it is.
        names: of the sides that are started.
        only: names of parts; all parts if there are none.

    Raises:
        ValueError: there is no part of a name.
    """
    started = time.monotonic()
    environment = describe_environment()
    folder = Path(tempfile.mkdtemp(prefix="minikafka-suite-"))
    at: list[float] = [0.0]
    stage = Stage(
        folder=folder,
        scale=scale,
        say=lambda text: advance(at[0], text),
        absent=dict(absent),
        names=names,
    )
    stage.warm_up = lambda side, nodes: one_broker.warm_up(stage, side, nodes)
    results: list[Result] = []
    try:
        chosen = choose([part(stage) for part in parts], only)
        total = sum(one.seconds for one in chosen)
        left = total
        for workload in chosen:
            left -= workload.seconds
            until = started + seconds - left
            begin, share = at[0], workload.seconds / total
            results.append(
                _run_part(stage, workload, rounds, scale, until, (begin, share, advance))
            )
            at[0] = begin + share
    finally:
        stage.close()
        shutil.rmtree(folder, ignore_errors=True)
    advance(1.0, "done")
    if APACHE in names and APACHE not in stage.absent:
        environment.update(heap())
    found = as_json(environment, results, scale)
    notes = [*stage.notes, f"All of it took {time.monotonic() - started:.0f} s."]
    return {**found, "peers": stage.absent, "notes": notes}


def choose(workloads: Sequence[Workload], only: Sequence[str]) -> list[Workload]:
    """The workloads of these names, in their own order; all if there are no names.

    Raises:
        ValueError: there is no workload of a name.
    """
    names = [one.name for one in workloads]
    unknown = [name for name in only if name not in names]
    if unknown:
        raise ValueError(f"there is no part {', '.join(unknown)}; use one of {', '.join(names)}")
    return [one for one in workloads if not only or one.name in only]


def _run_part(
    stage: Stage,
    workload: Workload,
    rounds: int | None,
    scale: float,
    until: float,
    progress: tuple[float, float, Advance],
) -> Result:
    if any(peer in stage.absent for peer in workload.needs):
        return run_one(workload, rounds=1, scale=scale, say=_silent, absent=stage.absent)
    begin, share, advance = progress
    part_started = time.monotonic()

    def say(text: str) -> None:
        # A part's progress is a guess by its usual time, and never says that it is done.
        spent = (time.monotonic() - part_started) / workload.seconds
        advance(begin + share * min(0.99, spent), text)

    return run_one(workload, rounds=rounds, scale=scale, say=say, absent=stage.absent, until=until)


def _silent(text: str) -> None:
    del text


@contextmanager
def progress_bar() -> Iterator[Advance]:
    """A bar on stderr, or lines where stderr is not a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:

        def say(share: float, text: str) -> None:
            console.print(f"{share:4.0%} {text}", highlight=False, soft_wrap=True)

        yield say
        return
    columns = (
        BarColumn(24),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    # Drawn when something is said: a thread that draws would be other work on the machine.
    with Progress(*columns, console=console, auto_refresh=False) as progress:
        task = progress.add_task("", total=1.0)

        def draw(share: float, text: str) -> None:
            progress.update(task, completed=share, description=text, refresh=True)

        yield draw
