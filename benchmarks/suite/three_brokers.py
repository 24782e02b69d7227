"""Three brokers of each side: throughput and latency of acks=all, and failover."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Final

from minikafka_client import KafkaError
from minikafka_client.sync import AdminClient

from ..cluster import cluster
from ..load.cluster_admin import create_topic, prefer_first_replicas
from ..load.scheduled import PERCENTILES
from ..peers import LIBRDKAFKA, OURS
from ..plots import Axis
from ..processes import ProcessFailedError, SteadyLoad
from ..workload import Figure, Plot, Round, Run, Workload
from .answers import ask_steadily
from .loads import drop, fill
from .one_broker import RATE, SIDES, counted, over_apache, series
from .servers import NODES, Served, Stage, long_turns_noted

PARTITIONS: Final = 6
SIZES: Final = {100: 300_000, 1000: 100_000}
LATENCY_RATE: Final = 200
LATENCY_SECONDS: Final = 3.0
_REQUESTS_MIN: Final = 50
_ACKS: Final = {"1": 1, "all": -1}
_UNDISTURBED_SECONDS: Final = 1.0
_RECOVERY_SECONDS_MAX: Final = 90.0
_LOOK_AGAIN_SECONDS: Final = 0.05


# --- throughput ----------------------------------------------------------------------------------


def replicated(stage: Stage) -> Workload:
    """acks=all with one, two and three replicas."""
    loads = [(size, NODES) for size in SIZES] + [(1000, copies) for copies in range(1, NODES)]

    def measure(run: Run) -> Iterator[Round]:
        sides = stage.sides(NODES)

        def side_of(side: Served) -> Callable[[], Round]:
            def produce() -> Round:
                found: dict[str, float] = {}
                for size, copies in loads:
                    topic = stage.topic()
                    found.update(
                        fill(
                            side,
                            topic,
                            records=run.scaled(SIZES[size]),
                            value_bytes=size,
                            name=f"{size} B x {copies}",
                            partitions=PARTITIONS,
                            replicas=copies,
                        )
                    )
                    drop(side, topic)
                return found

            return produce

        yield from run.interleaved(**{name: side_of(side) for name, side in sides.items()})

    limits = {100: 6.0, 1000: 4.0}
    whole = [(size, f"{size} B x {NODES}") for size in SIZES]
    return Workload(
        name="three brokers, throughput",
        measures="Producing with acks=all through librdkafka (one producer, its defaults) into six "
        "partitions on three brokers of one machine, with one, two and three replicas.",
        function=measure,
        needs=frozenset({LIBRDKAFKA}),
        figures=(
            *(
                over_apache(f"{size} B, three replicas", name, at_least=limits[size])
                for size, name in whole
            ),
            *(
                over_apache(f"{size} B, three replicas, brokers' processor time", f"{name} cpu")
                for size, name in whole
            ),
            *(
                Figure(name=f"{side}, {size} B", unit="records/s", of=f"{side} {name}")
                for size, name in whole
                for side in SIDES
            ),
        ),
        plots=[
            Plot(
                title=f"1 KB with acks=all: {what} over replicas",
                x=Axis("replicas of each partition"),
                y=axis,
                series=series({one: f"1000 B x {one}{end}" for one in range(1, NODES + 1)}),
            )
            for what, end, axis in (
                ("throughput", "", RATE),
                ("brokers' processor time", " cpu", Axis("microseconds per record", "log")),
            )
        ],
        rounds=3,
        seconds=80,
    )


# --- latency -------------------------------------------------------------------------------------


def acknowledged(stage: Stage) -> Workload:
    """One record at a time with acks=1 and acks=all."""

    def measure(run: Run) -> Iterator[Round]:
        sides = stage.sides(NODES)
        topics = {name: stage.topic() for name in sides}
        for name, side in sides.items():
            create_topic(side.bootstrap, topics[name], 1, NODES)
        requests = max(_REQUESTS_MIN, run.scaled(round(LATENCY_RATE * LATENCY_SECONDS)))
        for number in run.numbers():
            found: dict[str, float] = {}
            for word, acks in _ACKS.items():
                for name, side in sides.items():
                    run.say(f"round {number} of {run.rounds}: acks={word}, {name}")
                    one = ask_steadily(
                        name,
                        leader_address(side.bootstrap, topics[name]),
                        topics[name],
                        rate=LATENCY_RATE,
                        requests=requests,
                        acks=acks,
                        warm_up=max(_REQUESTS_MIN, run.scaled(1000)),
                    )
                    rate = f"{LATENCY_RATE}/s"
                    found.update({key.replace(rate, word): one[key] for key in one})
            yield found

    return Workload(
        name="three brokers, latency",
        measures=f"One record of 100 B per request at {LATENCY_RATE}/s from a bare socket to a "
        "partition of three replicas, with acks=all and acks=1, timed from the scheduled moment; "
        '"without a pause" is one request right after the other.',
        function=measure,
        figures=(
            over_apache("acks=all, p50", "all p50", at_most=0.5),
            over_apache("acks=all, p99", "all p99", at_most=0.5),
            *(
                Figure(
                    name=f"{side}, p50 without a pause, acks=all over acks=1",
                    unit="x",
                    of=f"{side} all unscheduled",
                    per=f"{side} 1 unscheduled",
                    at_most=2.0 if side == OURS else None,
                    good="lower",
                )
                for side in SIDES
            ),
            *(
                Figure(name=f"{side}, acks={acks}, p50", unit="us", of=f"{side} {acks} p50")
                for acks in _ACKS
                for side in SIDES
            ),
        ),
        plots=[
            Plot(
                title=f"Latency of acks=all and acks=1 at {LATENCY_RATE}/s",
                x=Axis("percentile of the requests", "percentile"),
                y=Axis("microseconds from the scheduled time", "log"),
                series={
                    f"{side}, acks={acks}": [
                        (percent, f"{side} {acks} p{percent:g}") for percent in PERCENTILES
                    ]
                    for side in SIDES
                    for acks in _ACKS
                },
            )
        ],
        rounds=4,
        seconds=50,
    )


def leader_address(bootstrap: str, topic: str) -> str:
    """``HOST:PORT`` of the leader of partition 0."""
    with AdminClient(bootstrap) as admin:
        leader = admin.describe_topics([topic])[topic].partitions[0].leader
        node = next(one for one in admin.describe_cluster().brokers if one.node_id == leader)
    return f"{node.host}:{node.port}"


# --- failover ------------------------------------------------------------------------------------


def failover(stage: Stage) -> Workload:
    """Kill -9 of a leader under load."""

    def measure(run: Run) -> Iterator[Round]:
        sides = stage.sides(NODES)

        def side_of(side: Served) -> Callable[[], Round]:
            return lambda: fail_over(side, stage.topic())

        yield from run.interleaved(**{name: side_of(side) for name, side in sides.items()})

    return Workload(
        name="three brokers, failover",
        measures="kill -9 of the broker that leads a partition to the next acknowledgement "
        "(acks=all, an idempotent librdkafka producer that never pauses) of a record sent "
        "afterwards, on the slowest of the partitions that it led; default settings. A round kills "
        "one broker of each side. Afterwards everything is read back.",
        function=measure,
        needs=frozenset({LIBRDKAFKA}),
        figures=(
            over_apache("failover", "failover", at_most=0.1),
            *(Figure(name=side, unit="s", of=f"{side} failover") for side in SIDES),
            *(
                Figure(
                    name=f"{side}, records lost or doubled",
                    unit="records",
                    of=f"{side} wrong",
                    at_most=0 if side == OURS else None,
                )
                for side in SIDES
            ),
        ),
        plots=[
            Plot(
                title="From kill -9 of a leader to the next acknowledgement",
                x=None,
                y=Axis("seconds"),
                series={side: [("failover", f"{side} failover")] for side in SIDES},
            )
        ],
        rounds=2,
        seconds=60,
    )


def fail_over(side: Served, topic: str) -> Round:
    """Kill the leader of a new topic's first partition, under load, and start it again."""
    from ..load.steady import SteadyJob, SteadyOutcome
    from ..workloads.cluster_failover import stall_after

    create_topic(side.bootstrap, topic, PARTITIONS, NODES)
    prefer_first_replicas(side.bootstrap)
    job = SteadyJob(
        client="confluent",
        bootstrap=side.bootstrap,
        topic=topic,
        partitions=PARTITIONS,
        value_bytes=100,
    )
    load = SteadyLoad(asdict(job))
    try:
        time.sleep(_UNDISTURBED_SECONDS)
        leaders = _leaders(side.bootstrap, topic)
        victim = leaders[0]
        led = [partition for partition, leader in enumerate(leaders) if leader == victim]
        killed_at = time.monotonic()
        side.kill(victim)
        _wait(lambda: not {victim, -1} & set(_leaders(side.bootstrap, topic)), "new leaders")
        time.sleep(_UNDISTURBED_SECONDS)
        side.start(victim)
        _wait(lambda: _is_in_sync(side.bootstrap, topic), "every replica in sync")
        outcome = SteadyOutcome(**load.finish())
    except BaseException:
        load.kill()
        raise
    drop(side, topic)
    return {
        f"{side.name} failover": stall_after(outcome, (killed_at, led)),
        f"{side.name} wrong": outcome.lost + outcome.duplicates,
    }


def _wait(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _RECOVERY_SECONDS_MAX
    while not is_so():
        if time.monotonic() > deadline:
            raise ProcessFailedError(f"waited {_RECOVERY_SECONDS_MAX:g} s for {what}")
        time.sleep(_LOOK_AGAIN_SECONDS)


def _leaders(bootstrap: str, topic: str) -> list[int]:
    """The leaders that the cluster names; -1 for all as long as nobody answers."""
    try:
        with AdminClient(bootstrap) as admin:
            return [one.leader for one in admin.describe_topics([topic])[topic].partitions]
    except KafkaError:
        return [-1]


def _is_in_sync(bootstrap: str, topic: str) -> bool:
    try:
        with AdminClient(bootstrap) as admin:
            partitions = admin.describe_topics([topic])[topic].partitions
    except KafkaError:
        return False
    return all(len(one.in_sync_replicas) == NODES for one in partitions)


# --- more brokers on the same cores --------------------------------------------------------------


def more_brokers(stage: Stage) -> Workload:
    """One, two and three brokers of ours, without replication."""

    def measure(run: Run) -> Iterator[Round]:
        stage.close()
        counts = {counted(nodes, "broker"): nodes for nodes in range(1, NODES + 1)}

        def side_of(name: str, nodes: int) -> Callable[[], Round]:
            return lambda: fill_new_cluster(run, nodes, name, run.scaled(SIZES[100]))

        yield from run.interleaved(**{name: side_of(name, one) for name, one in counts.items()})

    names = [counted(nodes, "broker") for nodes in range(1, NODES + 1)]
    return Workload(
        name="more brokers",
        measures="100 B from four producers at once (acks=all) into six partitions of one replica, "
        "spread over one, two and three brokers on this machine. The producers need processors, "
        "too: with two cores, two brokers and their load have to share them.",
        function=measure,
        needs=frozenset({LIBRDKAFKA}),
        figures=(
            *(
                Figure(
                    name=f"{name}, over one",
                    unit="x",
                    of=f"{OURS} {name}",
                    per=f"{OURS} {names[0]}",
                    good="higher",
                )
                for name in names[1:]
            ),
            *(
                Figure(
                    name=f"{name}, processor time per record, over one",
                    unit="x",
                    of=f"{OURS} {name} cpu",
                    per=f"{OURS} {names[0]} cpu",
                    good="lower",
                )
                for name in names[1:]
            ),
            *(Figure(name=name, unit="records/s", of=f"{OURS} {name}") for name in names),
        ),
        plots=[
            Plot(
                title="Throughput over brokers, one replica",
                x=Axis("brokers on this machine"),
                y=Axis("records per second"),
                series={
                    OURS: [(number, f"{OURS} {name}") for number, name in enumerate(names, start=1)]
                },
            )
        ],
        rounds=3,
        seconds=30,
    )


def fill_new_cluster(run: Run, nodes: int, name: str, records: int) -> Round:
    """Produce from four producers into a new cluster of ours."""
    found: dict[str, float] = {}
    with (
        long_turns_noted(run.notes),
        run.fresh_folder() as folder,
        cluster(folder, nodes) as running,
    ):
        side = Served(OURS, running.bootstrap, lambda: [one.pid for one in running.nodes.values()])
        measured = fill(
            side,
            "spread",
            records=records,
            value_bytes=100,
            name=name,
            partitions=max(PARTITIONS, nodes),
            producers=4,
        )
        found.update(measured)
    return found
