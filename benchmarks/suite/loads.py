"""The loads of the parts: processes of their own, and checks that no record is missing."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from minikafka_client import LATEST, TopicPartition
from minikafka_client.sync import AdminClient

from ..load.cluster_admin import create_topic
from ..load.many_producers import WARM_UP_RECORDS, ManyJob, ManyProduced
from ..processes import run_load
from ..workload import Round, touch_memory
from .servers import Served

PARTITIONS: Final = 4
_RECORD_OVERHEAD_BYTES: Final = 100
"""What a record takes in a client's queue, beside its value."""
_MEMORY_BYTES_MAX: Final = 2_000_000_000


def have_memory(size_bytes: int) -> None:
    """Have memory for what a load is about to write, and for its clients.

    A virtual machine gives idle memory back to its host within a minute, and gets it again at an
    eighth of the speed of a copy. Neither side of a comparison should be charged for that.
    """
    with tempfile.TemporaryDirectory(prefix="minikafka-memory-") as folder:
        touch_memory(Path(folder) / "touched", min(size_bytes, _MEMORY_BYTES_MAX))


def fill(
    side: Served,
    topic: str,
    *,
    records: int,
    value_bytes: int,
    name: str,
    partitions: int = PARTITIONS,
    replicas: int = 1,
    producers: int = 1,
    settings: Mapping[str, Any] | None = None,
    stored_before: int | None = None,
) -> Round:
    """Create a topic and fill it; returns its rate and the processor time of the servers.

    Args:
        side: where.
        topic: a new one.
        records: how many are timed.
        value_bytes: the size of each.
        name: the measures are called ``SIDE NAME`` (records per second) and ``SIDE NAME cpu``
            (microseconds of the servers' processor time for each record) and ``SIDE NAME user``
            (the part of it in user mode).
        partitions: of the topic.
        replicas: of each partition.
        producers: how many produce at once, in one process.
        settings: of the producers, beside librdkafka's defaults.
        stored_before: the topic is not new, and has so many records.

    Raises:
        RuntimeError: the topic has fewer records than were sent, or more.
    """
    if stored_before is None:
        create_topic(side.bootstrap, topic, partitions, replicas)
    job = ManyJob(
        bootstrap=side.bootstrap,
        topic=topic,
        producers=producers,
        records=records,
        value_bytes=value_bytes,
        settings=dict(settings or {}),
    )
    have_memory(records * (replicas + 1) * (value_bytes + _RECORD_OVERHEAD_BYTES))
    before, user_before = side.cpu_seconds(), side.user_seconds()
    produced = ManyProduced(**run_load("many_producers", asdict(job)))
    spent, user = side.cpu_seconds() - before, side.user_seconds() - user_before
    sent = records + producers * WARM_UP_RECORDS
    stored = count(side.bootstrap, topic, partitions) - (stored_before or 0)
    if stored != sent:
        raise RuntimeError(f"{side.name}: sent {sent} records, topic {topic} has {stored}")
    return {
        f"{side.name} {name}": records / produced.seconds,
        f"{side.name} {name} cpu": 1e6 * spent / sent,
        f"{side.name} {name} user": 1e6 * user / sent,
    }


def count(bootstrap: str, topic: str, partitions: int) -> int:
    """How many records a topic has, by its end offsets."""
    keys = [TopicPartition(topic, partition) for partition in range(partitions)]
    with AdminClient(bootstrap) as admin:
        found = admin.list_offsets(dict.fromkeys(keys, LATEST))
    return sum(one.offset for one in found.values())


def drain(
    side: Served, topic: str, *, records: int, value_bytes: int, name: str, partitions: int
) -> Round:
    """Read all of a topic; returns the rate and the processor time of the servers.

    Args:
        side: where.
        topic: an existing one.
        records: how many it has.
        value_bytes: the size of each.
        name: of the measures, as for `fill`.
        partitions: of the topic.
    """
    job = {
        "bootstrap": side.bootstrap,
        "topic": topic,
        "partitions": partitions,
        "records": records,
    }
    have_memory(records * (value_bytes + _RECORD_OVERHEAD_BYTES))
    before, user_before = side.cpu_seconds(), side.user_seconds()
    consumed = run_load("consume", job)
    spent, user = side.cpu_seconds() - before, side.user_seconds() - user_before
    return {
        f"{side.name} {name}": consumed["records"] / consumed["seconds"],
        f"{side.name} {name} cpu": 1e6 * spent / consumed["records"],
        f"{side.name} {name} user": 1e6 * user / consumed["records"],
    }


def drop(side: Served, topic: str) -> None:
    """Delete a topic, so that its pages are not in the way of the next one."""
    with AdminClient(side.bootstrap) as admin:
        admin.delete_topics([topic])
