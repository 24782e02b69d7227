"""The job of a transactional client, and its outcome.

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
- round trips: one record with acks=all to one partition at a time, in the same way.
"""


@dataclass(frozen=True, kw_only=True)
class TransactionsJob:
    """What to do, after `WARM_UP_TRANSACTIONS` portions that are not timed.

    Attributes:
        work: one of `WORKS`.
        bootstrap: ``HOST:PORT,...``.
        topic: an existing one.
        partitions: how many it has.
        transactions: how many portions are timed.
        records: how many are in a portion.
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
        """All records, including the warm-up."""
        return (self.transactions + WARM_UP_TRANSACTIONS) * self.records

    def values(self) -> list[bytes]:
        """The values of one portion."""
        return [
            str(number).zfill(self.value_bytes).encode()[-self.value_bytes :]
            for number in range(self.records)
        ]


@dataclass(frozen=True, kw_only=True)
class TransactionsOutcome:
    """What a job cost a client.

    Attributes:
        transactions: how many portions were timed.
        seconds: the time for them.
        cpu_seconds: processor time of the process during it.
        median_seconds: by step, of the works whose steps are timed.
    """

    transactions: int
    seconds: float
    cpu_seconds: float
    median_seconds: Mapping[str, float] = field(default_factory=dict[str, float])


class Stopwatch:
    """Runs from its construction until `stop`, with the garbage collector off."""

    def __init__(self) -> None:
        gc.collect()
        gc.disable()
        self._steps: dict[str, list[float]] = {}
        self._cpu_started = time.process_time()
        self._started = time.perf_counter()

    def step(self, name: str, seconds: float) -> None:
        """Record the time of a step."""
        self._steps.setdefault(name, []).append(seconds)

    def stop(self, transactions: int) -> TransactionsOutcome:
        """The time since then."""
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
    """Read a job from stdin, do it, and print its outcome, both as JSON.

    Raises:
        KeyError: the client does not have this way of working.
    """
    job = TransactionsJob(**json.load(sys.stdin))
    outcome: dict[str, Any] = asdict(works[job.work](job))
    print(json.dumps(outcome))


def check_sent(job: TransactionsJob, ends: Sequence[int]) -> None:
    """Check that every record is in the topic once.

    Args:
        job: what was sent.
        ends: the end offsets of its partitions, which include transaction markers.

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
