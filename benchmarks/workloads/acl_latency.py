"""What an authorizer with many ACLs costs a produce request."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import closing

from minikafka_client import Acl, AclOperation, AclPattern, AclResourceType
from minikafka_client.sync import AdminClient

from ..processes import broker, one_processor
from ..raw_client import RawClient, produce_request
from ..workload import Figure, Round, Run, Workload
from .produce_latency import BLOCK_REQUESTS, REQUESTS, TOPIC, VALUE_BYTES, prepare_topic

ACLS = 10_000
ACLS_PER_REQUEST = 1000
SETTINGS = {"authorizer.class.name": "standard", "allow.everyone.if.no.acl.found": "true"}


def measure(run: Run) -> Iterator[Round]:
    """Blocks of requests to a broker with ACLs and to one without an authorizer, by turns."""
    with (
        one_processor(),
        run.fresh_folder() as guarded_folder,
        run.fresh_folder() as open_folder,
        broker(guarded_folder, SETTINGS) as guarded_broker,
        broker(open_folder) as open_broker,
        closing(RawClient(guarded_broker.bootstrap)) as guarded,
        closing(RawClient(open_broker.bootstrap)) as unguarded,
    ):
        request = produce_request(TOPIC, 0, b"x" * VALUE_BYTES)
        answer_bytes = prepare_topic(guarded, request)
        prepare_topic(unguarded, request)
        create_acls(guarded_broker.bootstrap)
        for number in range(1, run.rounds + 1):
            run.say(f"round {number} of {run.rounds}: with ACLs and without by turns")
            with_acls: list[float] = []
            without: list[float] = []
            for _ in range(max(1, run.scaled(REQUESTS) // BLOCK_REQUESTS)):
                with_acls += guarded.latencies_seconds(request, answer_bytes, BLOCK_REQUESTS)
                without += unguarded.latencies_seconds(request, answer_bytes, BLOCK_REQUESTS)
            yield {
                "with ACLs": 1e6 * statistics.median(with_acls),
                "without": 1e6 * statistics.median(without),
            }


def create_acls(bootstrap: str) -> None:
    """Rules for the topic, for prefixes of it, for everybody and for others."""
    topic, write = AclResourceType.TOPIC, AclOperation.WRITE
    acls = [Acl(topic, TOPIC, "User:ANONYMOUS", write)]
    while len(acls) < ACLS:
        number = len(acls)
        name, pattern = (
            (f"topic-{number}", AclPattern.LITERAL)
            if number % 2
            else (TOPIC[: number % len(TOPIC) + 1], AclPattern.PREFIXED)
        )
        acls.append(Acl(topic, name, f"User:user-{number}", write, pattern=pattern))
    with AdminClient(bootstrap) as admin:
        for start in range(0, ACLS, ACLS_PER_REQUEST):
            admin.create_acls(acls[start : start + ACLS_PER_REQUEST])


WORKLOAD = Workload(
    name="acl-latency",
    measures="produce-latency of a broker whose authorizer has 10,000 ACLs, half of them for the "
    "topic or a prefix of its name, against one without an authorizer.",
    function=measure,
    figures=(
        Figure(name="p50 over none", unit="x", of="with ACLs", per="without", at_most=1.05),
        Figure(name="with ACLs p50", unit="us", of="with ACLs"),
        Figure(name="without p50", unit="us", of="without"),
    ),
    rounds=5,
)
