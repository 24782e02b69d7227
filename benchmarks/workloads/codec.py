"""Microseconds per message of the hot path: `benchmarks.micro.codec`, as a workload."""

from __future__ import annotations

from collections.abc import Iterator

from ..micro.codec import WORK
from ..micro.codec import measure as microseconds
from ..workload import Figure, Round, Run, Workload

_ROUNDS_INSIDE = 3


def measure(run: Run) -> Iterator[Round]:
    """Every piece of work once per round."""
    for number in range(1, run.rounds + 1):
        run.say(f"round {number} of {run.rounds}: {len(WORK)} pieces of work")
        yield {name: microseconds(work, rounds=_ROUNDS_INSIDE) for name, work in WORK.items()}


WORKLOAD = Workload(
    name="codec",
    measures="Reading and writing one message of the hot path, in one process, best of three.",
    function=measure,
    figures=tuple(Figure(name=name, unit="us", of=name) for name in WORK),
    rounds=5,
)
