"""Two thousand clients that are half open or stuck, and whether a good one notices them."""

from __future__ import annotations

import socket
import statistics
import struct
from collections.abc import Iterator
from contextlib import ExitStack, closing

from minikafka.testing import Broker

from ..certificates import secured_broker
from ..processes import one_processor, resident_bytes
from ..raw_client import RawClient, produce_request
from ..workload import Figure, Round, Run, Workload
from .produce_latency import TOPIC, VALUE_BYTES, prepare_topic

STRANGERS = 2000
REQUESTS = 3000
_PATIENCE_MS = 600_000

# What each kind of stranger says before it is silent.
_HALF_A_SIZE = b"\0\0"
_HALF_A_FRAME = struct.pack(">ihhi", 90_000_000, 0, 9, 1) + b"x" * 8_000
_HALF_A_HANDSHAKE = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
_KINDS = (
    ("PLAINTEXT", b""),
    ("PLAINTEXT", _HALF_A_SIZE),
    ("PLAINTEXT", _HALF_A_FRAME),
    ("SSL", b""),
    ("SSL", _HALF_A_HANDSHAKE),
)


def measure(run: Run) -> Iterator[Round]:
    """A connection alone, then beside the strangers; repeatedly."""
    with (
        one_processor(),
        run.fresh_folder() as folder,
        secured_broker(
            folder,
            minikafka_login_timeout_ms=_PATIENCE_MS,
            minikafka_frame_timeout_ms=_PATIENCE_MS,
        ) as (server, _),
        closing(RawClient(server.bootstrap)) as good,
    ):
        request = produce_request(TOPIC, 0, b"x" * VALUE_BYTES)
        answer_bytes = prepare_topic(good, request)
        count = run.scaled(STRANGERS)

        def p99() -> float:
            latencies = good.latencies_seconds(request, answer_bytes, run.scaled(REQUESTS))
            return 1e6 * statistics.quantiles(latencies, n=100)[98]

        p99()  # the first few thousand requests warm up the broker
        before = resident_bytes(server.pid)
        for number in range(1, run.rounds + 1):
            run.say(f"round {number} of {run.rounds}: alone, then beside {count} strangers")
            alone = p99()
            with ExitStack() as stack:
                _open(server, stack, count)
                beside = p99()
                occupied = resident_bytes(server.pid) - before
            yield {"alone": alone, "beside": beside, "memory": occupied / 1000 / count}


def _open(server: Broker, stack: ExitStack, count: int) -> None:
    for number in range(count):
        listener, said = _KINDS[number % len(_KINDS)]
        host, _, port = server.bootstrap_of(listener).rpartition(":")
        stranger = stack.enter_context(socket.create_connection((host, int(port))))
        stranger.sendall(said)


WORKLOAD = Workload(
    name="strangers",
    measures="2,000 connections that stop inside a frame's size, a frame of 90 MB, or a TLS "
    "handshake, or say nothing: p99 of produce on another connection, and the broker's memory.",
    function=measure,
    figures=(
        Figure(name="p99 over p99 alone", unit="x", of="beside", per="alone", at_most=2),
        Figure(name="each stranger", unit="KB", of="memory", at_most=60),
        Figure(name="p99 alone", unit="us", of="alone"),
        Figure(name="p99 beside them", unit="us", of="beside"),
    ),
    rounds=5,
)
