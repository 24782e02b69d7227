"""What every client under comparison is asked to do, and what it says afterwards.

There is one module per client, and one process per job. All of them do the same: the same values,
the same loop around each client's own call, every record's value looked at, every outcome counted.
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
        topic: it exists.
        partitions: how many it has.
        records: how many are timed; producers send `WARM_UP_RECORDS` before.
        value_bytes: size of each value.
        acks: "1" or "all", of single round trips.
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
    """What a client needed for its job.

    Attributes:
        records: how many were timed.
        seconds: the time for them.
        cpu_seconds: the process's own processor time meanwhile.
        resident_before_bytes: its memory before the clock ran, imports and connection included.
        resident_peak_bytes: the most it ever had.
        latencies_seconds: p50 and p99 of single round trips, where these were the job.
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
    """Runs from where it is made to `stop`, with the garbage collector off."""

    def __init__(self) -> None:
        gc.collect()
        gc.disable()
        self._resident_before_bytes = _memory("VmRSS")
        self._cpu_started = time.process_time()
        self._started = time.perf_counter()

    def stop(self, records: int, latencies_seconds: Sequence[float] = ()) -> ClientOutcome:
        """What was measured since."""
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
    # Not getrusage(): its maximum begins with that of the process that started this one.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"the kernel does not tell {name} in /proc/self/status")


def chunks(job: ClientJob, records: int) -> list[list[bytes]]:
    """Values for a number of records, in lists of up to `CHUNK_RECORDS`.

    A thousand different values come again and again: memory holds them once.
    """
    values = [
        str(number).zfill(job.value_bytes).encode()[-job.value_bytes :]
        for number in range(CHUNK_RECORDS)
    ]
    whole, rest = divmod(records, CHUNK_RECORDS)
    return [values] * whole + ([values[:rest]] if rest else [])


def check_delivered(job: ClientJob, delivered: int, failures: Sequence[object] = ()) -> None:
    """See that every record was acknowledged.

    Raises:
        RuntimeError: some were not.
    """
    if delivered != job.records or failures:
        shown = list(failures)[:3]
        raise RuntimeError(f"{delivered} of {job.records} records delivered; failures: {shown}")


def check_consumed(job: ClientJob, records: int, value_bytes: int | None = None) -> None:
    """See that as many records came as were asked for, and that their values are whole.

    Raises:
        RuntimeError: it is not so.
    """
    if records != job.records:
        raise RuntimeError(f"{records} records came, not {job.records}")
    if value_bytes is not None and value_bytes != records * job.value_bytes:
        raise RuntimeError(f"{records} values have {value_bytes} bytes, not {job.value_bytes} each")


def serve_client(works: Mapping[str, Callable[[ClientJob], ClientOutcome]]) -> None:
    """Do the job on stdin, print its outcome, both as JSON.

    Raises:
        KeyError: the client has no such way of working.
    """
    job = ClientJob(**json.load(sys.stdin))
    outcome: dict[str, Any] = asdict(works[job.work](job))
    print(json.dumps(outcome))
