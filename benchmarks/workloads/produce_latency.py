"""One record at a time: what a request costs from end to end."""

from __future__ import annotations

import statistics
import struct
from collections.abc import Iterator
from contextlib import closing

from ..processes import broker, one_processor, peer
from ..raw_client import RawClient, metadata_request, produce_request
from ..workload import Figure, Round, Run, Workload

VALUE_BYTES = 100
REQUESTS = 5000
BLOCK_REQUESTS = 100
TOPIC = "single"


def measure(run: Run) -> Iterator[Round]:
    """Blocks of requests to both servers by turns, over one connection each."""
    with (
        one_processor(),
        run.fresh_folder() as folder,
        broker(folder) as server,
        peer("echo", folder) as echo,
        closing(RawClient(server.bootstrap)) as producer,
        closing(RawClient(echo.address)) as echoed,
    ):
        request = produce_request(TOPIC, 0, b"x" * VALUE_BYTES)
        answer_bytes = prepare_topic(producer, request)
        for number in range(1, run.rounds + 1):
            run.say(f"round {number} of {run.rounds}: minikafka and echo by turns")
            produced: list[float] = []
            bounced: list[float] = []
            for _ in range(max(1, run.scaled(REQUESTS) // BLOCK_REQUESTS)):
                produced += producer.latencies_seconds(request, answer_bytes, BLOCK_REQUESTS)
                bounced += echoed.latencies_seconds(request, len(request), BLOCK_REQUESTS)
            yield {
                "produce": 1e6 * statistics.median(produced),
                "echo": 1e6 * statistics.median(bounced),
                "produce p99": 1e6 * statistics.quantiles(produced, n=100)[98],
                "echo p99": 1e6 * statistics.quantiles(bounced, n=100)[98],
            }


def prepare_topic(client: RawClient, request: bytes) -> int:
    """Create the topic, and return the size of a produce response, with its frame.

    Raises:
        RuntimeError: the broker refuses to produce.
    """
    error_code = -1
    for _ in range(100):
        client.ask(metadata_request(TOPIC))
        error_code = client.produce_error(request)
        if error_code == 0:
            return len(client.ask(request)) + struct.calcsize(">i")
    raise RuntimeError(f"the broker refuses to produce to {TOPIC}: error code {error_code}")


WORKLOAD = Workload(
    name="produce-latency",
    measures="One record of 100 bytes per request, acks=1, no linger, from a blocking socket with "
    "pre-encoded requests, against a plain trio server that echoes the same bytes; all "
    "three processes on one processor.",
    function=measure,
    figures=(
        Figure(name="p50 over echo", unit="x", of="produce", per="echo", at_most=3.0),
        Figure(name="produce p50", unit="us", of="produce"),
        Figure(name="echo p50", unit="us", of="echo"),
        Figure(name="produce p99", unit="us", of="produce p99"),
        Figure(name="echo p99", unit="us", of="echo p99"),
    ),
    rounds=5,
)
