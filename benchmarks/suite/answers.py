"""How long one broker of each side takes for an answer at a fixed rate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import Final

from ..load.scheduled import PERCENTILES, Scheduled, ScheduledJob
from ..peers import APACHE, ECHO, OURS
from ..plots import Axis
from ..processes import peer, run_load
from ..workload import Figure, Plot, Round, Run, Workload
from .servers import Stage

RATES: Final = (500, 2000)
"""Requests per second."""
SECONDS: Final = 2.5
VALUE_BYTES: Final = 100
_SERVERS: Final = (OURS, APACHE, ECHO)
_REQUESTS_MIN: Final = 50
_WARM_UP_REQUESTS: Final = 20_000
_WARM_UP_OF_RUN: Final = 1000


def ask_steadily(
    name: str,
    address: str,
    topic: str,
    *,
    rate: float,
    requests: int,
    acks: int = 1,
    warm_up: int = 1000,
) -> Round:
    """Send at a fixed rate; returns latencies in microseconds, and per cent that had to wait.

    The measures are ``NAME RATE/s`` with ``p50`` and so on, ``highest``, ``late`` (per cent), and
    ``unscheduled``: p50 of requests that follow each other without a pause, sent before.
    """
    job = ScheduledJob(
        address=address,
        topic=topic,
        is_echo=name == ECHO,
        value_bytes=VALUE_BYTES,
        acks=acks,
        rate=rate,
        requests=requests,
        warm_up=warm_up,
    )
    outcome = Scheduled(**run_load("scheduled", asdict(job)))
    pairs = zip(PERCENTILES, outcome.percentiles, strict=True)
    found = {f"{name} {rate:g}/s p{percent:g}": value for percent, value in pairs}
    found[f"{name} {rate:g}/s unscheduled"] = outcome.median_of_warm_up
    found[f"{name} {rate:g}/s highest"] = outcome.highest
    found[f"{name} {rate:g}/s late"] = 100 * outcome.late / requests
    return found


def latency(stage: Stage) -> Workload:
    """Single records from a bare socket, beside an echo."""

    def measure(run: Run) -> Iterator[Round]:
        sides = stage.sides()
        with ExitStack() as stack:
            folder = stack.enter_context(run.fresh_folder())
            addresses = {name: side.bootstrap for name, side in sides.items()}
            addresses[ECHO] = stack.enter_context(peer("echo", folder)).address
            topic = stage.topic()

            def one(name: str, address: str, rate: float, warm_up: int) -> Round:
                requests = max(_REQUESTS_MIN, run.scaled(round(rate * SECONDS)))
                return ask_steadily(
                    name, address, topic, rate=rate, requests=requests, warm_up=warm_up
                )

            for name, address in addresses.items():
                run.say(f"warming up {name}")
                one(name, address, RATES[-1], run.scaled(_WARM_UP_REQUESTS))
            for number in run.numbers():
                found: dict[str, float] = {}
                for rate in RATES:
                    for name, address in addresses.items():
                        run.say(f"round {number} of {run.rounds}: {name}, {rate}/s")
                        found.update(one(name, address, rate, _WARM_UP_OF_RUN))
                yield found

    return Workload(
        name="latency at a fixed rate",
        measures="One record of 100 B per request, acks=1, from a bare socket at 500 and 2,000 "
        "requests per second. A request's latency counts from the moment at which it should have "
        'been sent, also if the one before it was late (no coordinated omission). "Without a '
        'pause" is one request right after the other. The echo, a bare trio server, is the floor.',
        function=measure,
        figures=(*_ratios(), *_values()),
        plots=[
            Plot(
                title=f"Latency at {rate} requests per second",
                x=Axis("percentile of the requests", "percentile"),
                y=Axis("microseconds from the scheduled time", "log"),
                series={
                    name: [(percent, f"{name} {rate}/s p{percent:g}") for percent in PERCENTILES]
                    for name in _SERVERS
                },
            )
            for rate in RATES
        ],
        rounds=4,
        seconds=75,
    )


def _ratios() -> Iterator[Figure]:
    for other, limit in ((APACHE, 0.6), (ECHO, 4.0)):
        yield Figure(
            name=f"p50 without a pause, over {other}",
            unit="x",
            of=f"{OURS} {RATES[-1]}/s unscheduled",
            per=f"{other} {RATES[-1]}/s unscheduled",
            at_most=limit,
        )
    for rate in RATES:
        for percent, limit in (("50", 0.6), ("99", 0.3)):
            yield Figure(
                name=f"p{percent} at {rate}/s, over Apache Kafka",
                unit="x",
                of=f"{OURS} {rate}/s p{percent}",
                per=f"{APACHE} {rate}/s p{percent}",
                at_most=limit,
            )
        yield Figure(
            name=f"p50 at {rate}/s, over echo",
            unit="x",
            of=f"{OURS} {rate}/s p50",
            per=f"{ECHO} {rate}/s p50",
            good="lower",
        )


def _values() -> Iterator[Figure]:
    for name in _SERVERS:
        measure = f"{name} {RATES[-1]}/s unscheduled"
        yield Figure(name=f"{name}, p50 without a pause", unit="us", of=measure)
    for rate in RATES:
        for name in _SERVERS:
            for measure in ("p50", "p99", "p99.9"):
                yield Figure(
                    name=f"{name}, {measure} at {rate}/s",
                    unit="us",
                    of=f"{name} {rate}/s {measure}",
                )
            yield Figure(
                name=f"{name}, requests that had to wait at {rate}/s",
                unit="%",
                of=f"{name} {rate}/s late",
            )
