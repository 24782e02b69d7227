"""The job of every client under comparison, and its outcome.

There is one module per client, and one process per job. All of them do the same: the same values,
the same loop around each client's own call, every value touched, every outcome counted.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

WARM_UP_RECORDS = 1000
CHUNK_RECORDS = 1000
TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class ClientJob:
    """What to do.

    Attributes:
        work: the way of producing or consuming; see ``WORKS`` of each client.
        bootstrap: the broker's ``HOST:PORT``.
        topic: an existing one.
        partitions: how many it has.
        records: how many are timed; producers send `WARM_UP_RECORDS` before.
        value_bytes: size of each value.
        acks: "1" or "all", for single round trips.
    """

    work: str
    bootstrap: str
    topic: str
    partitions: int
    records: int
    value_bytes: int
    acks: str = "1"


@dataclass(frozen=True, kw_only=True)
class ClientOutcome:
    """What a job cost a client.

    Attributes:
        records: how many were timed.
        seconds: the time for them.
        cpu_seconds: processor time of the process during it.
        resident_before_bytes: memory before the clock started, with imports and connection.
        resident_peak_bytes: peak memory of the process.
        latencies_seconds: p50 and p99, if the job was single round trips.
    """

    records: int
    seconds: float
    cpu_seconds: float
    resident_before_bytes: int
    resident_peak_bytes: int
    latencies_seconds: Sequence[float] = field(default_factory=tuple)

    @property
    def records_per_second(self) -> float:
        """Records over the time to the last of them."""
        return self.records / self.seconds


class Clock:
    """Runs from its construction until `stop`, with the garbage collector off."""

    def __init__(self) -> None:
        gc.collect()
        gc.disable()
        self._resident_before_bytes = _memory("VmRSS")
        self._cpu_started = time.process_time()
        self._started = time.perf_counter()

    def stop(self, records: int, latencies_seconds: Sequence[float] = ()) -> ClientOutcome:
        """The time since then."""
        seconds, cpu_seconds = time.perf_counter(), time.process_time()
        tail: Sequence[float] = ()
        if latencies_seconds:
            hundredths = statistics.quantiles(latencies_seconds, n=100)
            tail = (statistics.median(latencies_seconds), hundredths[98])
        return ClientOutcome(
            records=records,
            seconds=seconds - self._started,
            cpu_seconds=cpu_seconds - self._cpu_started,
            resident_before_bytes=self._resident_before_bytes,
            resident_peak_bytes=_memory("VmHWM"),
            latencies_seconds=tail,
        )


def _memory(name: str) -> int:
    # Not getrusage(), whose maximum starts with that of the parent process.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"there is no {name} in /proc/self/status")


def chunks(job: ClientJob, records: int) -> list[list[bytes]]:
    """Values for a number of records, in lists of up to `CHUNK_RECORDS`.

    A thousand different values are repeated, so that they are in memory only once.
    """
    values = [
        str(number).zfill(job.value_bytes).encode()[-job.value_bytes :]
        for number in range(CHUNK_RECORDS)
    ]
    whole, rest = divmod(records, CHUNK_RECORDS)
    return [values] * whole + ([values[:rest]] if rest else [])


def check_delivered(job: ClientJob, delivered: int, failures: Sequence[object] = ()) -> None:
    """Check that every record was acknowledged.

    Raises:
        RuntimeError: some records were not.
    """
    if delivered != job.records or failures:
        shown = list(failures)[:3]
        raise RuntimeError(f"{delivered} of {job.records} records delivered; failures: {shown}")


def check_consumed(job: ClientJob, records: int, value_bytes: int | None = None) -> None:
    """Check the number of records, and the size of their values.

    Raises:
        RuntimeError: one of them is wrong.
    """
    if records != job.records:
        raise RuntimeError(f"read {records} records, not {job.records}")
    if value_bytes is not None and value_bytes != records * job.value_bytes:
        raise RuntimeError(f"{records} values have {value_bytes} bytes, not {job.value_bytes} each")


def serve_client(works: Mapping[str, Callable[[ClientJob], ClientOutcome]]) -> None:
    """Read a job from stdin, do it, and print its outcome, both as JSON.

    Raises:
        KeyError: the client does not have this way of working.
    """
    job = ClientJob(**json.load(sys.stdin))
    outcome: dict[str, Any] = asdict(works[job.work](job))
    print(json.dumps(outcome))
