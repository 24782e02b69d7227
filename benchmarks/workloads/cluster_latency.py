"""What it costs to wait for the in-sync replicas instead of the leader alone."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict

from ..cluster import MeasuredCluster, cluster
from ..load.client_job import ClientJob, ClientOutcome
from ..load.cluster_admin import create_topic
from ..processes import run_load
from ..raw_client import RawClient, produce_request
from ..workload import Figure, Round, Run, Workload

REQUESTS = 3000
BLOCK_REQUESTS = 100
VALUE_BYTES = 100
TOPIC = "latency"
_ANSWER_FRAME_BYTES = 4


def measure(run: Run) -> Iterator[Round]:
    """One record at a time to one partition of three replicas, acks=1 and acks=all by turns."""
    with run.fresh_folder() as folder, cluster(folder, 3) as running:
        create_topic(running.bootstrap, TOPIC, 1, 3)

        def client(module: str, name: str, acks: str) -> Callable[[], Round]:
            def send_singly() -> Round:
                job = ClientJob(
                    work="round trips",
                    bootstrap=running.bootstrap,
                    topic=TOPIC,
                    partitions=1,
                    records=max(100, run.scaled(REQUESTS)),
                    value_bytes=VALUE_BYTES,
                    acks=acks,
                )
                outcome = ClientOutcome(**run_load(module, asdict(job)))
                return {f"{name} {acks}": 1e6 * outcome.latencies_seconds[0]}

            return send_singly

        yield from run.interleaved(
            our_client_acks_1=client("client_minikafka", "ours", "1"),
            our_client_acks_all=client("client_minikafka", "ours", "all"),
            confluent_acks_1=client("client_confluent", "confluent", "1"),
            confluent_acks_all=client("client_confluent", "confluent", "all"),
            raw=lambda: _raw(run, running),
        )


def _raw(run: Run, running: MeasuredCluster) -> Round:
    """The same from a blocking socket, with pre-encoded requests."""
    leader = running.nodes[running.leaders(TOPIC)[0]]
    with closing(RawClient(leader.bootstrap)) as producer:
        requests = {
            name: produce_request(TOPIC, 0, b"x" * VALUE_BYTES, acks=acks)
            for name, acks in (("1", 1), ("all", -1))
        }
        latencies: dict[str, list[float]] = {name: [] for name in requests}
        sizes = {
            name: len(producer.ask(request)) + _ANSWER_FRAME_BYTES
            for name, request in requests.items()
        }
        for _ in range(max(1, run.scaled(REQUESTS) // BLOCK_REQUESTS)):
            for name, request in requests.items():
                latencies[name] += producer.latencies_seconds(request, sizes[name], BLOCK_REQUESTS)
    return {f"raw {name}": 1e6 * statistics.median(some) for name, some in latencies.items()}


WORKLOAD = Workload(
    name="cluster-latency",
    measures="One record of 100 bytes at a time, no linger, to a partition of three replicas: p50 "
    "with acks=all over p50 with acks=1, through our client, confluent-kafka, and a bare socket "
    "(which itself costs next to nothing, so that it shows the brokers' ratio).",
    function=measure,
    figures=(
        Figure(name="all over 1", unit="x", of="ours all", per="ours 1", at_most=2.5),
        Figure(name="confluent", unit="x", of="confluent all", per="confluent 1", at_most=2.5),
        Figure(name="bare socket", unit="x", of="raw all", per="raw 1"),
        *(
            Figure(name=f"{name}, acks={acks}", unit="us", of=f"{name} {acks}")
            for name in ("ours", "confluent", "raw")
            for acks in ("1", "all")
        ),
    ),
    rounds=5,
)
