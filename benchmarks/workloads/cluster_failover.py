"""How long a partition stalls when its leader, or the controller, is killed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise

from ..cluster import MeasuredCluster, cluster
from ..load.cluster_admin import create_topic
from ..load.steady import SteadyJob, SteadyOutcome
from ..processes import SteadyLoad
from ..workload import Figure, Round, Run, Workload

KILLS = 20
PARTITIONS = 6
VALUE_BYTES = 100
TOPIC = "failover"
_UNDISTURBED_SECONDS = 1.0

Kill = tuple[float, Sequence[int]]
"""When it was, and the partitions that the victim led."""


def stall_after(outcome: SteadyOutcome, kill: Kill) -> float:
    """Seconds from a kill to the first acknowledgement of a record sent after it.

    The longest of all partitions that the victim led.
    """
    moment, partitions = kill
    return max(
        next(acked for sent, acked in outcome.acks[partition] if sent > moment) - moment
        for partition in partitions
    )


def longest_pause(outcome: SteadyOutcome, begin: float, end: float) -> float:
    """The longest time in which a partition acknowledged nothing, in seconds."""
    longest = 0.0
    for acks in outcome.acks:
        moments = [begin, *(acked for _, acked in acks if begin < acked < end), end]
        longest = max(longest, *(b - a for a, b in pairwise(moments)))
    return longest


def _kill_again_and_again(
    run: Run, running: MeasuredCluster, victim_of: Callable[[], int]
) -> list[Kill]:
    kills: list[Kill] = []
    for number in range(run.scaled(KILLS)):
        running.prefer_first_replicas()
        running.wait_until_healthy()
        time.sleep(_UNDISTURBED_SECONDS)
        victim = victim_of()
        led = [one for one, leader in enumerate(running.leaders(TOPIC)) if leader == victim]
        run.say(f"kill {number + 1} of {run.scaled(KILLS)}: node {victim}")
        kills.append((time.monotonic(), led))
        running.kill(victim)
        time.sleep(_UNDISTURBED_SECONDS)
        running.start(victim)
    running.wait_until_healthy()
    time.sleep(_UNDISTURBED_SECONDS)
    return kills


def _measure(
    run: Run, client: str, choose: Callable[[MeasuredCluster], int]
) -> tuple[list[float], SteadyOutcome]:
    with run.fresh_folder() as folder, cluster(folder, 3) as running:
        create_topic(running.bootstrap, TOPIC, PARTITIONS, 3)
        job = SteadyJob(
            client=client,
            bootstrap=running.bootstrap,
            topic=TOPIC,
            partitions=PARTITIONS,
            value_bytes=VALUE_BYTES,
        )
        load = SteadyLoad(asdict(job))
        try:
            kills = _kill_again_and_again(run, running, lambda: choose(running))
            outcome = SteadyOutcome(**load.finish())
        except BaseException:
            load.kill()
            raise
    return [stall_after(outcome, kill) for kill in kills if kill[1]], outcome


def _side(
    run: Run, name: str, client: str, choose: Callable[[MeasuredCluster], int]
) -> Callable[[], Round]:
    def measure_one() -> Round:
        stalls, outcome = _measure(run, client, choose)
        run.say(f"{name}: " + " ".join(f"{stall:.2f}" for stall in stalls))
        return {
            f"{name} median": statistics.median(stalls),
            f"{name} worst": max(stalls),
            f"{name} lost": outcome.lost,
            f"{name} duplicates": outcome.duplicates,
            f"{name} errors": len(outcome.errors),
        }

    return measure_one


def measure(run: Run) -> Iterator[Round]:
    """Kill leaders, then controllers, with our producer and with confluent-kafka."""

    def leader(running: MeasuredCluster) -> int:
        return running.leaders(TOPIC)[0]

    def controller(running: MeasuredCluster) -> int:
        return running.metadata_leader()

    return run.interleaved(
        leader=_side(run, "leader", "minikafka", leader),
        controller=_side(run, "controller", "minikafka", controller),
        leader_confluent=_side(run, "leader, confluent", "confluent", leader),
    )


_SIDES = ("leader", "controller", "leader, confluent")

WORKLOAD = Workload(
    name="cluster-failover",
    measures="kill -9 of a leader, or of the active controller, to the first acks=all "
    "acknowledgement of a record sent afterwards, on the slowest of the partitions that it led: "
    "three brokers, three replicas, default settings, an idempotent producer, 20 kills each.",
    function=measure,
    figures=(
        *(
            Figure(name=f"{name}, median", unit="s", of=f"{name} median", at_most=1.0)
            for name in _SIDES
        ),
        *(
            Figure(name=f"{name}, worst", unit="s", of=f"{name} worst", at_most=3.0)
            for name in _SIDES
        ),
        *(
            Figure(name=f"{name}, {what}", unit="records", of=f"{name} {what}", at_most=0)
            for name in _SIDES
            for what in ("lost", "duplicates", "errors")
        ),
    ),
    rounds=1,
)
