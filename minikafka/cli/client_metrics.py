"""``minikafka client-metrics``: what clients say about themselves (KIP-714)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from .failure import CommandFailed, unknown_name
from .output import iso_time, print_json, print_table
from .target import Target, client_command, connected

if TYPE_CHECKING:
    from minikafka_client import ConsumerRecord

    from .otlp import Point

_TOPIC: Final = "__client_telemetry"
_FACTS: Final = (
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


@dataclass(slots=True)
class _Client:
    instance_id: str
    facts: dict[str, str]
    pushes: int = 0
    last_push_ms: int = -1
    is_terminated: bool = False
    points: list[Point] = field(default_factory=list["Point"])


@click.group("client-metrics")
def command() -> None:
    r"""Look at the metrics that clients push to minikafka (KIP-714).

    Clients push what a subscription asks for, and nothing without one. Subscriptions are config
    resources, which Kafka's own tool can create:

    \b
      kafka-configs --bootstrap-server localhost:9092 --alter --entity-type client-metrics \
        --entity-name all --add-config 'metrics=*,interval.ms=10000'

    The pushes of the last day are in the topic __client_telemetry.
    """


@command.command("list")
@client_command
async def list_clients(target: Target) -> None:
    r"""List the clients that have pushed metrics.

    \b
    Example:
      minikafka client-metrics list
    """
    clients = await _clients(target)
    if target.as_json:
        print_json({"clients": [_document(one) for one in clients]})
        return
    print_table(
        ["CLIENT INSTANCE", "CLIENT ID", "SOFTWARE", "ADDRESS", "PUSHES", "LAST PUSH", "METRICS"],
        [
            [
                one.instance_id,
                one.facts["client_id"],
                f"{one.facts['client_software_name']} {one.facts['client_software_version']}",
                f"{one.facts['client_source_address']}:{one.facts['client_source_port']}",
                one.pushes,
                iso_time(one.last_push_ms),
                len(one.points),
            ]
            for one in clients
        ],
    )


@command.command("show")
@click.argument("client")
@client_command
async def show(target: Target, client: str) -> None:
    r"""Show the metrics in the last push of a client.

    CLIENT is its client instance id or its client id; of several with one client id, the one that
    pushed last is shown. Counters are what was counted since the push before.

    \b
    Example:
      minikafka client-metrics show billing
    """
    clients = await _clients(target)
    found = [one for one in clients if client in (one.instance_id, one.facts["client_id"])]
    if not found:
        known = [text for one in clients for text in (one.facts["client_id"], one.instance_id)]
        raise unknown_name("client", client, known, "`minikafka client-metrics list` shows all")
    chosen = max(found, key=lambda one: one.last_push_ms)
    if target.as_json:
        metrics = [
            {
                "name": point.name,
                "unit": point.unit,
                "attributes": dict(point.attributes),
                "time_ms": point.time_ms,
                "value": point.value,
            }
            for point in chosen.points
        ]
        print_json({**_document(chosen), "metrics": metrics})
        return
    print_table(
        ["METRIC", "ATTRIBUTES", "VALUE", "UNIT"],
        [
            [
                point.name,
                ",".join(f"{key}={value}" for key, value in point.attributes) or None,
                point.value,
                point.unit or None,
            ]
            for point in sorted(chosen.points)
        ],
        f"{chosen.instance_id} ({chosen.facts['client_id']}), {iso_time(chosen.last_push_ms)}",
    )


def _document(client: _Client) -> dict[str, Any]:
    return {
        "client_instance_id": client.instance_id,
        **client.facts,
        "pushes": client.pushes,
        "last_push_ms": client.last_push_ms,
        "is_terminated": client.is_terminated,
        "metric_count": len(client.points),
    }


async def _clients(target: Target) -> list[_Client]:
    """Every client in the topic, the one that pushed last at the end."""
    from minikafka_client.sync import Reader

    from .ranges import whole_ranges

    async with connected(target) as admin:
        if _TOPIC not in await admin.list_topics(include_internal=True):
            return []
        ranges = await whole_ranges(admin, [_TOPIC])
    clients: dict[str, _Client] = {}
    with Reader(target.bootstrap, ranges, **target.connection) as reader:
        for run in reader:
            for record in run.records:
                _take(record, clients)
    return sorted(clients.values(), key=lambda one: one.last_push_ms)


def _take(record: ConsumerRecord, clients: dict[str, _Client]) -> None:
    from .otlp import MalformedMetricsError, points

    headers = {name: (value or b"").decode() for name, value in record.headers}
    instance_id = (record.key or b"").decode()
    facts = {name: headers.get(name, "") for name in _FACTS}
    client = clients.setdefault(instance_id, _Client(instance_id, facts))
    client.pushes += 1
    if record.timestamp_ms < client.last_push_ms:
        return
    client.facts = facts
    client.last_push_ms = record.timestamp_ms
    client.is_terminated = headers.get("terminating") == "true"
    try:
        client.points = points(record.value or b"")
    except MalformedMetricsError as error:
        raise CommandFailed(
            f"client {instance_id} has pushed what is no metrics: {error}"
        ) from None
