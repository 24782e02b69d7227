"""One record at a time through whole clients: from send to its acknowledgement."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..processes import broker
from ..workload import Figure, Round, Run, Workload
from .client_produce import produce_with

REQUESTS = 5000

_SIDES = (
    ("minikafka", "client_minikafka", "round trips"),
    ("confluent", "client_confluent", "round trips"),
    ("blocking writer", "client_minikafka", "blocking round trips"),
    ("aiokafka", "client_aiokafka", "round trips"),
    ("kafka-python", "client_kafka_python", "round trips"),
)


def measure(run: Run) -> Iterator[Round]:
    """One broker; the clients by turns, each with its own topic per round."""
    with run.fresh_folder() as folder, broker(folder) as server:

        def side(name: str, module: str, work: str) -> Callable[[], Round]:
            topics = iter(range(run.rounds))

            def send_singly() -> Round:
                topic = f"{name}-{next(topics)}".replace(" ", "-")
                requests = max(100, run.scaled(REQUESTS))
                outcome = produce_with(module, work, server.bootstrap, topic, requests)
                p50, p99 = outcome.latencies_seconds
                cpu_seconds = outcome.cpu_seconds / requests
                return {
                    name: 1e6 * p50,
                    f"{name} p99": 1e6 * p99,
                    f"{name} cpu": 1e6 * cpu_seconds,
                }

            return send_singly

        yield from run.interleaved(**{one[0]: side(*one) for one in _SIDES})


WORKLOAD = Workload(
    name="client-latency",
    measures="One record of 100 bytes at a time, acks=1, no linger: from the call until its "
    "outcome is known.",
    function=measure,
    figures=(
        Figure(name="p50 over confluent", unit="x", of="minikafka", per="confluent", at_most=1.5),
        Figure(name="our blocking writer's", unit="x", of="blocking writer", per="confluent"),
        *(Figure(name=f"{name} p50", unit="us", of=name) for name, *_ in _SIDES),
        *(Figure(name=f"{name} p99", unit="us", of=f"{name} p99") for name, *_ in _SIDES),
        *(
            Figure(name=f"{name}, processor time", unit="us/request", of=f"{name} cpu")
            for name, *_ in _SIDES
        ),
    ),
    rounds=5,
)
