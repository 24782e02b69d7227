"""A thousand idle clients: how much memory they take, and whether others notice them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import ExitStack, closing

from minikafka.testing import Broker

from ..processes import broker, one_processor, resident_bytes
from ..raw_client import RawClient, api_versions_request, metadata_request, produce_request
from ..workload import Figure, Round, Run, Workload
from .produce_latency import TOPIC, VALUE_BYTES, prepare_topic

CONNECTIONS = 1000
REQUESTS = 3000


def measure(run: Run) -> Iterator[Round]:
    """An active connection alone, then beside the idle ones; repeatedly."""
    with (
        one_processor(),
        run.fresh_folder() as folder,
        broker(folder) as server,
        closing(RawClient(server.bootstrap)) as active,
    ):
        request = produce_request(TOPIC, 0, b"x" * VALUE_BYTES)
        answer_bytes = prepare_topic(active, request)
        count = run.scaled(CONNECTIONS)

        def p50() -> float:
            latencies = active.latencies_seconds(request, answer_bytes, run.scaled(REQUESTS))
            return 1e6 * statistics.median(latencies)

        p50()  # the first few thousand requests warm up the broker
        before = resident_bytes(server.pid)
        for number in range(1, run.rounds + 1):
            run.say(f"round {number} of {run.rounds}: alone, then beside {count} idle connections")
            alone = p50()
            with ExitStack() as idle:
                clients = _open_idle(server, idle, count, request)
                occupied = resident_bytes(server.pid) - before
                crowded = p50()
                for client in clients:
                    client.ask(api_versions_request())  # raises if it was dropped meanwhile
            yield {
                "alone": alone,
                "crowded": crowded,
                "memory": occupied / 1000 / count,
            }


def _open_idle(server: Broker, stack: ExitStack, count: int, request: bytes) -> list[RawClient]:
    """Connections with the first requests of a client, and nothing after these."""
    clients: list[RawClient] = []
    for _ in range(count):
        client = stack.enter_context(closing(RawClient(server.bootstrap)))
        client.ask(api_versions_request())
        client.ask(metadata_request(TOPIC))
        if client.produce_error(request) != 0:
            raise RuntimeError("an idle connection's one record was refused")
        clients.append(client)
    return clients


WORKLOAD = Workload(
    name="idle-connections",
    measures="1,000 connections that have requested versions and metadata, produced one record and "
    "are idle: growth of the broker's memory, and p50 of produce on another connection.",
    function=measure,
    figures=(
        Figure(name="each idle connection", unit="KB", of="memory", at_most=40),
        Figure(name="p50 over p50 alone", unit="x", of="crowded", per="alone", at_most=1.2),
        Figure(name="p50 alone", unit="us", of="alone"),
        Figure(name="p50 beside them", unit="us", of="crowded"),
    ),
    rounds=5,
)
