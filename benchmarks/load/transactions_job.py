"""What a transactional client is asked to do, and what it says afterwards.

There is one module per client, and one process per job, as in `client_job`.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

WARM_UP_TRANSACTIONS = 5

WORKS = ("transactions", "flushes", "stream", "commits", "round trips")
"""What every client can be asked for.

- transactions: portions of records, each in a transaction of its own.
- flushes: the same portions from an idempotent producer, which flushes after each.
- stream: the same from an idempotent producer, which flushes once, after all of them.
- commits: one record to each partition in a transaction; steps are timed one by one.
- round trips: one record with acks=all to one partition at a time; likewise.
"""


@dataclass(frozen=True, kw_only=True)
class TransactionsJob:
    """What to do; every client does `WARM_UP_TRANSACTIONS` portions before the clock runs.

    Attributes:
        work: one of `WORKS`.
        bootstrap: ``HOST:PORT,...``.
        topic: it exists.
        partitions: how many it has.
        transactions: how many portions are timed.
        records: in each of them.
        value_bytes: size of each value.
    """

    work: str
    bootstrap: str
    topic: str
    partitions: int
    transactions: int
    records: int
    value_bytes: int

    @property
    def records_sent(self) -> int:
        """All of them, with those that warm up."""
        return (self.transactions + WARM_UP_TRANSACTIONS) * self.records

    def values(self) -> list[bytes]:
        """Those of one portion."""
        return [
            str(number).zfill(self.value_bytes).encode()[-self.value_bytes :]
            for number in range(self.records)
        ]


@dataclass(frozen=True, kw_only=True)
class TransactionsOutcome:
    """What a client needed for its job.

    Attributes:
        transactions: how many portions were timed.
        seconds: the time for them.
        cpu_seconds: the process's own processor time meanwhile.
        median_seconds: by step, of the works that are timed one by one.
    """

    transactions: int
    seconds: float
    cpu_seconds: float
    median_seconds: Mapping[str, float] = field(default_factory=dict[str, float])


class Stopwatch:
    """Runs from where it is made to `stop`, with the garbage collector off."""

    def __init__(self) -> None:
        gc.collect()
        gc.disable()
        self._steps: dict[str, list[float]] = {}
        self._cpu_started = time.process_time()
        self._started = time.perf_counter()

    def step(self, name: str, seconds: float) -> None:
        """A step took so long."""
        self._steps.setdefault(name, []).append(seconds)

    def stop(self, transactions: int) -> TransactionsOutcome:
        """What was measured since."""
        seconds, cpu_seconds = time.perf_counter(), time.process_time()
        return TransactionsOutcome(
            transactions=transactions,
            seconds=seconds - self._started,
            cpu_seconds=cpu_seconds - self._cpu_started,
            median_seconds={name: statistics.median(one) for name, one in self._steps.items()},
        )


def serve_transactions(
    works: Mapping[str, Callable[[TransactionsJob], TransactionsOutcome]],
) -> None:
    """Do the job on stdin, print its outcome, both as JSON.

    Raises:
        KeyError: the client has no such way of working.
    """
    job = TransactionsJob(**json.load(sys.stdin))
    outcome: dict[str, Any] = asdict(works[job.work](job))
    print(json.dumps(outcome))


def check_sent(job: TransactionsJob, ends: Sequence[int]) -> None:
    """See that every record is in the topic once.

    Args:
        job: what was to be sent.
        ends: the end offsets of its partitions; markers of transactions count, too.

    Raises:
        RuntimeError: some are missing, or there are too many.
    """
    markers_max = 0
    if job.work in ("transactions", "commits"):
        markers_max = (job.transactions + WARM_UP_TRANSACTIONS) * job.partitions
    if not job.records_sent <= sum(ends) <= job.records_sent + markers_max:
        raise RuntimeError(
            f"sent {job.records_sent} records to topic {job.topic}, with at most {markers_max} "
            f"markers; its end offsets add up to {sum(ends)}"
        )
