"""Runs workloads one after another, and collects their results."""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from .environment import OthersClock
from .processes import longest_turn
from .results import Result, draw, judge, missing_figures
from .workload import Round, Run, Workload


def run_all(
    workloads: Iterable[Workload],
    *,
    rounds: int | None,
    scale: float,
    say: Callable[[str], None],
) -> Iterator[Result]:
    """Run each workload; a failure becomes a result with an error, and the next one runs.

    Args:
        workloads: what to run, in this order.
        rounds: overrides the workloads' own numbers of rounds.
        scale: factor for counts.
        say: reports progress.
    """
    for workload in workloads:
        yield run_one(workload, rounds=rounds, scale=scale, say=say)


def run_one(
    workload: Workload,
    *,
    rounds: int | None,
    scale: float,
    say: Callable[[str], None],
    absent: Mapping[str, str] | None = None,
    until: float = math.inf,
) -> Result:
    """Run one workload in a temporary directory that is removed afterwards.

    Args:
        workload: what to run.
        rounds: overrides the workload's own number of rounds.
        scale: factor for counts.
        say: reports progress.
        absent: peers that are not here, by name, with the reason.
        until: when to stop, by `time.monotonic`, though not before the second round is done.
    """
    folder = Path(tempfile.mkdtemp(prefix="minikafka-benchmark-"))
    run = Run(
        rounds=rounds or workload.rounds,
        scale=scale,
        folder=folder,
        say=lambda text: say(f"{workload.name}: {text}"),
        until=until,
    )
    measured: list[Round] = []
    started, others = time.perf_counter(), OthersClock()
    try:
        if not workload.needs & set(absent or ()):
            measured.extend(workload.function(run))
        figures = judge(workload, measured, {**(absent or {}), **run.left_out})
        error = None
    except Exception as failure:  # noqa: BLE001 - the report names any failure, and the others run
        figures = ()
        error = f"{type(failure).__name__}: {failure}"
        run.say(error)
    finally:
        longest = longest_turn(folder)
        shutil.rmtree(folder, ignore_errors=True)
    return Result(
        workload=workload,
        seconds=time.perf_counter() - started,
        rounds=measured,
        figures=figures,
        error=error,
        others_cpus=others.cpus(),
        longest_turn=longest,
        missing=missing_figures(workload, {**(absent or {}), **run.left_out}),
        plots=draw(workload, measured),
        notes=run.notes,
    )
