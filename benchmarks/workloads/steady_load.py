"""Mixed load without retention: does the broker's memory grow with time?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from ..load.mixed import Mixed, MixedJob
from ..processes import LoadProcess, broker, resident_bytes
from ..workload import Figure, Round, Run, Workload

SECONDS = 540
PARTITIONS = 4
VALUE_BYTES = 1000
_SAMPLE_SECONDS = 0.5
_WARM_UP_SHARE = 0.4
_HOUR_SECONDS = 3600
_SETTINGS = {
    "log.retention.ms": -1,
    "log.segment.bytes": 8 * 1024 * 1024,
    "group.initial.rebalance.delay.ms": 0,
}


def measure(run: Run) -> Iterator[Round]:
    """In each round a new broker under load; what it has warmed up with does not count."""
    seconds = run.scaled(SECONDS)
    for number in range(1, run.rounds + 1):
        run.say(f"round {number} of {run.rounds}: mixed load for {seconds} s")
        with run.fresh_folder() as folder:
            yield _round(folder, seconds)


def _round(folder: Path, seconds: int) -> Round:
    samples: list[tuple[float, int]] = []
    with broker(folder, _SETTINGS) as server:
        before = resident_bytes(server.pid)
        job = MixedJob(
            bootstrap=server.bootstrap,
            seconds=seconds,
            partitions=PARTITIONS,
            value_bytes=VALUE_BYTES,
        )
        load = LoadProcess("mixed", asdict(job))
        started = time.perf_counter()
        try:
            while load.is_running():
                samples.append((time.perf_counter() - started, resident_bytes(server.pid)))
                time.sleep(_SAMPLE_SECONDS)
        except BaseException:
            load.kill()
            raise
        done = Mixed(**load.finish())
    elapsed = samples[-1][0]
    slope = slope_of([one for one in samples if one[0] >= elapsed * _WARM_UP_SHARE])
    return {
        "growth per hour": slope * _HOUR_SECONDS / 1e6,
        "growth": (samples[-1][1] - before) / 1e6,
        "peak": max(size for _, size in samples) / 1e6,
        "records": done.records / elapsed,
        "transactions": (done.committed + done.aborted) / elapsed,
    }


def slope_of(samples: list[tuple[float, int]]) -> float:
    """Units per second of the straight line through samples (seconds, size): least squares."""
    mean_at = sum(at for at, _ in samples) / len(samples)
    mean_size = sum(size for _, size in samples) / len(samples)
    spread = sum((at - mean_at) ** 2 for at, _ in samples)
    return sum((at - mean_at) * (size - mean_size) for at, size in samples) / spread


WORKLOAD = Workload(
    name="steady-load",
    measures="500 records of 1,000 bytes a second, up to 20 transactions a second over four "
    "partitions (every second one aborted), and a consumer group that reads and commits them, for "
    "nine minutes without retention: the slope of the broker's resident memory after the first 40% "
    "of the time, as growth in an hour.",
    function=measure,
    figures=(
        Figure(name="growth in an hour", unit="MB", of="growth per hour", at_most=10),
        Figure(name="growth since the start", unit="MB", of="growth"),
        Figure(name="peak", unit="MB", of="peak"),
        Figure(name="records", unit="1/s", of="records"),
        Figure(name="transactions", unit="1/s", of="transactions"),
    ),
    rounds=1,
)
