"""Requests at a fixed rate from a bare socket, timed from when each one *should* have been sent.

A client that waits for an answer before it sends the next request stops asking while the server is
slow, and so leaves out the very requests that would have been late (coordinated omission). Here
every request has its moment beforehand. If the answer before it is late, it is sent late, and the
time that it had to wait counts as its own latency.
"""

from __future__ import annotations

import ctypes
import gc
import math
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from ..raw_client import RawClient, produce_request
from .job import serve_one_job

PERCENTILES = (0.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9)
_SPUN_SECONDS = 0.0001
_SET_TIMER_SLACK = 29
_TRIES_MAX = 100
_FRAME_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class ScheduledJob:
    """What to send.

    Attributes:
        address: of the broker that leads the partition, or of an echo.
        topic: for produce requests to partition 0; created by the broker if need be.
        is_echo: whether the server returns every request as it is.
        value_bytes: the size of the one record of each request.
        acks: 1, or -1 for all.
        rate: requests per second.
        requests: how many.
        warm_up: how many are sent before, each as soon as the one before is answered.
    """

    address: str
    topic: str
    is_echo: bool
    value_bytes: int
    acks: int
    rate: float
    requests: int
    warm_up: int = 1000


@dataclass(frozen=True)
class Scheduled:
    """Latencies in microseconds.

    Attributes:
        percentiles: one for each of `PERCENTILES`.
        highest: the longest.
        median_of_warm_up: p50 of the second half of the warm-up, which has no schedule.
        late: how many requests were sent late because the answer before had not come.
        seconds: how long all of it took.
    """

    percentiles: list[float] = field(default_factory=list[float])
    highest: float = 0.0
    median_of_warm_up: float = 0.0
    late: int = 0
    seconds: float = 0.0


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest value that so many per cent of all values do not exceed.

    Args:
        ordered: at least one value, in ascending order.
        percent: 0 to 100.
    """
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def _work(job: ScheduledJob) -> Scheduled:
    # The kernel may end a sleep 50 us late to save wake-ups; this process is not to be late.
    ctypes.CDLL(None).prctl(_SET_TIMER_SLACK, 1, 0, 0, 0)
    request = produce_request(job.topic, 0, b"x" * job.value_bytes, job.acks)
    with closing(RawClient(job.address)) as client:
        size = len(request) if job.is_echo else _answer_bytes(client, request, job.topic)
        warming = client.latencies_seconds(request, size, max(2, job.warm_up))
        gc.disable()
        taken, late, seconds = send_on_schedule(
            lambda: client.latencies_seconds(request, size, 1), job.rate, job.requests
        )
    taken.sort()
    return Scheduled(
        percentiles=[1e6 * percentile(taken, one) for one in PERCENTILES],
        highest=1e6 * taken[-1],
        median_of_warm_up=1e6 * percentile(sorted(warming[len(warming) // 2 :]), 50),
        late=late,
        seconds=seconds,
    )


def _answer_bytes(client: RawClient, request: bytes, topic: str) -> int:
    """The size of an answer, with its frame, once the broker takes records."""
    code = -1
    for _ in range(_TRIES_MAX):
        client.ask_for_topic(topic)
        code = client.produce_error(request)
        if code == 0:
            return len(client.ask(request)) + _FRAME_BYTES
    raise RuntimeError(f"the broker refuses to produce to {topic}: error code {code}")


def send_on_schedule(
    exchange: Callable[[], object],
    rate: float,
    requests: int,
    now: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[list[float], int, float]:
    """Call `exchange` at its moments, or as soon after them as the call before has returned.

    Args:
        exchange: sends a request and waits for the answer.
        rate: calls per second.
        requests: how many calls.
        now: a clock, in seconds.
        sleep: waits for so many seconds.

    Returns:
        For each call the seconds from its moment until it returned; how many calls began late;
        and the seconds that all of it took.
    """
    taken: list[float] = []
    late = 0
    started = now() + _SPUN_SECONDS
    for number in range(requests):
        moment = started + number / rate
        early = moment - now()
        if early < 0:
            late += 1
        elif early > _SPUN_SECONDS:
            sleep(early - _SPUN_SECONDS)
        while now() < moment:
            pass
        exchange()
        taken.append(now() - moment)
    return taken, late, now() - started


if __name__ == "__main__":
    serve_one_job(ScheduledJob, _work)
