"""One broker of ours and one of another make, by turns under the same load."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from ..peers import APACHE, ECHO, KFAKE, OURS
from ..peers.apache_kafka import apache_kafka
from ..peers.kfake import kfake
from ..processes import broker, cpu_seconds, peer, server_of
from ..raw_client import RawClient, produce_request
from ..workload import Figure, Round, Run, Workload
from .client_produce import produce_with
from .produce_latency import BLOCK_REQUESTS, TOPIC, prepare_topic

REQUESTS = 5000
WARM_UP_REQUESTS = 20_000
LATENCY_VALUE_BYTES = 100
RECORDS = {100: 1_000_000, 1000: 300_000}
"""Of a round, by the size of their values."""
_RECORD_OVERHEAD_BYTES = 10
_ROUNDS_KEPT = 2

_OTHERS: Final[Mapping[str, Callable[[Path], AbstractContextManager[str]]]] = {
    APACHE: apache_kafka,
    KFAKE: kfake,
}
"""How to run them."""


@contextmanager
def both(folder: Path, other: str) -> Generator[dict[str, str]]:
    """The bootstrap addresses of ours and of another one, which run during a block."""
    with ExitStack() as stack:
        yield {
            OURS: stack.enter_context(broker(folder / "ours")).bootstrap,
            other: stack.enter_context(_OTHERS[other](folder / "other")),
        }


# --- latency -------------------------------------------------------------------------------------


def measure_latency(other: str, run: Run) -> Iterator[Round]:
    """Blocks of requests to the three servers by turns, over one connection each."""
    with ExitStack() as stack:
        folder = stack.enter_context(run.fresh_folder())
        addresses = stack.enter_context(both(folder, other))
        echo = stack.enter_context(peer("echo", folder)).address
        request = produce_request(TOPIC, 0, b"x" * LATENCY_VALUE_BYTES)
        clients: dict[str, tuple[RawClient, int]] = {}
        for name, address in {**addresses, ECHO: echo}.items():
            client = stack.enter_context(closing(RawClient(address)))
            size = len(request) if name == ECHO else prepare_topic(client, request)
            clients[name] = client, size
        run.say("warming up")
        for client, size in clients.values():
            client.latencies_seconds(request, size, WARM_UP_REQUESTS)
        for number in range(1, run.rounds + 1):
            run.say(f"round {number} of {run.rounds}: {', '.join(clients)} by turns")
            yield _latencies(clients, request, run.scaled(REQUESTS))


def _latencies(
    clients: Mapping[str, tuple[RawClient, int]], request: bytes, requests: int
) -> Round:
    taken: dict[str, list[float]] = {name: [] for name in clients}
    for _ in range(max(1, requests // BLOCK_REQUESTS)):
        for name, (client, size) in clients.items():
            taken[name] += client.latencies_seconds(request, size, BLOCK_REQUESTS)
    found: dict[str, float] = {}
    for name, seconds in taken.items():
        found[name] = 1e6 * statistics.median(seconds)
        found[f"{name} p99"] = 1e6 * statistics.quantiles(seconds, n=100)[98]
    return found


def _latency_figures(other: str, *, has_targets: bool) -> tuple[Figure, ...]:
    p50, p99, echo = (0.6, 0.3, 4.0) if has_targets else (None, None, None)
    return (
        Figure(name=f"p50 over {other}", unit="x", of=OURS, per=other, at_most=p50),
        Figure(
            name=f"p99 over {other}", unit="x", of=f"{OURS} p99", per=f"{other} p99", at_most=p99
        ),
        Figure(name="p50 over echo", unit="x", of=OURS, per=ECHO, at_most=echo),
        *(Figure(name=f"{name} p50", unit="us", of=name) for name in (OURS, other, ECHO)),
        *(Figure(name=f"{name} p99", unit="us", of=f"{name} p99") for name in (OURS, other)),
    )


LATENCY = Workload(
    name="latency-beside-apache",
    measures="One record of 100 bytes per request, acks=1, from a blocking socket with pre-encoded "
    "requests, beside Apache Kafka 4.4 with 1 GB (warmed by 20,000 requests) and an echo in trio.",
    function=partial(measure_latency, APACHE),
    figures=_latency_figures(APACHE, has_targets=True),
    rounds=5,
)

LATENCY_BESIDE_KFAKE = Workload(
    name="latency-beside-kfake",
    measures="One record of 100 bytes per request, acks=1, from a blocking socket with pre-encoded "
    "requests, beside kfake of franz-go, which is written in Go and keeps all in memory, and "
    "an echo in trio.",
    function=partial(measure_latency, KFAKE),
    figures=_latency_figures(KFAKE, has_targets=False),
    rounds=5,
)


# --- throughput ----------------------------------------------------------------------------------


def measure_produce(run: Run) -> Iterator[Round]:
    """Both brokers run all the time; a topic for each of them, size and round."""
    room = sum(
        run.scaled(records) * (size + _RECORD_OVERHEAD_BYTES) for size, records in RECORDS.items()
    )
    with run.fresh_folder(2 * _ROUNDS_KEPT * room) as folder, both(folder, APACHE) as addresses:
        servers = {name: server_of(address) for name, address in addresses.items()}
        topics = iter(range(1_000_000))

        def side(name: str) -> Callable[[], Round]:
            def produce() -> Round:
                found: dict[str, float] = {}
                for size, records in RECORDS.items():
                    before = cpu_seconds(servers[name])
                    outcome = produce_with(
                        "client_confluent",
                        "produce unobserved",
                        addresses[name],
                        f"filled-{next(topics)}",
                        run.scaled(records),
                        size,
                    )
                    found[f"{name} {size} B"] = outcome.records_per_second
                    spent = cpu_seconds(servers[name]) - before
                    found[f"{name} {size} B cpu"] = 1e6 * spent / outcome.records
                return found

            return produce

        for name in addresses:
            run.say(f"warming up {name}")
            side(name)()
        yield from run.interleaved(**{name: side(name) for name in addresses})


PRODUCE = Workload(
    name="produce-beside-apache",
    measures="1 M records of 100 bytes and 300,000 of 1 KB from librdkafka, acks=all, outcomes "
    "unobserved, to one broker, beside Apache Kafka 4.4 with 1 GB, warmed by one such load.",
    function=measure_produce,
    figures=(
        *(
            Figure(
                name=f"{size} B over Apache Kafka",
                unit="x",
                of=f"{OURS} {size} B",
                per=f"{APACHE} {size} B",
                at_least=1.2,
            )
            for size in RECORDS
        ),
        *(
            Figure(
                name=f"{size} B, broker's processor time over Apache Kafka's",
                unit="x",
                of=f"{OURS} {size} B cpu",
                per=f"{APACHE} {size} B cpu",
                at_most=limit,
            )
            for size, limit in ((100, 0.3), (1000, 0.4))
        ),
        *(
            Figure(name=f"{name}, {size} B", unit="records/s", of=f"{name} {size} B")
            for size in RECORDS
            for name in (OURS, APACHE)
        ),
    ),
    rounds=5,
)
