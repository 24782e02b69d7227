"""``minikafka topic describe``: partitions, their replicas, and how far each of these is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from .cluster_command import Target, cluster_command, connected, require_topics
from .output import print_json, print_table
from .topic_details import PATIENCE_MS, Details, ReplicaLog, find_details

if TYPE_CHECKING:
    from minikafka_client import (
        AdminClient,
        ConfigEntry,
        OffsetAndTimestamp,
        PartitionDescription,
        TopicDescription,
        TopicPartition,
    )

    _Offsets = Mapping[TopicPartition, OffsetAndTimestamp]


@click.command("describe")
@click.argument("names", metavar="[TOPIC...]", nargs=-1)
@cluster_command
async def describe(target: Target, names: tuple[str, ...]) -> None:
    r"""Describe topics: partitions, replicas, offsets, and the settings that were changed.

    Without a name: all topics but the internal ones. A partition's records are committed, and
    consumers see them, up to the high watermark; its log may already go on to the end offset. Ends
    of replicas are shown as NODE:OFFSET. Eligible replicas (KIP-966) are not in sync, but have
    everything that is committed.

    \b
    Examples:
      minikafka topic describe orders
      minikafka topic describe --json
    """
    from minikafka_client import EARLIEST, LATEST, ConfigResource, TopicPartition

    # What cannot be had soon is left out: a partition may be without a leader for a long time.
    async with connected(
        target,
        connect_timeout_ms=PATIENCE_MS,
        request_timeout_ms=PATIENCE_MS,
        api_timeout_ms=2 * PATIENCE_MS,
    ) as admin:
        await require_topics(admin, names)
        everything = await admin.describe_topics(names or None)
        topics = [
            topic for _, topic in sorted(everything.items()) if names or not topic.is_internal
        ]
        with_leader = [
            TopicPartition(topic.name, partition.partition)
            for topic in topics
            for partition in topic.partitions
            if partition.leader >= 0
        ]
        starts = await _list_offsets(admin, dict.fromkeys(with_leader, EARLIEST))
        ends = await _list_offsets(admin, dict.fromkeys(with_leader, LATEST))
        details = await admin.run_plan(lambda cluster: find_details(cluster, topics))
        resources = [ConfigResource.topic(topic.name) for topic in topics]
        entries = await admin.describe_configs(resources) if resources else {}
    documents = [
        {
            "name": topic.name,
            "topic_id": topic.topic_id.hex(),
            "is_internal": topic.is_internal,
            "configs": _changed(entries[ConfigResource.topic(topic.name)]),
            "partitions": [
                _partition(topic, partition, starts, ends, details)
                for partition in topic.partitions
            ],
        }
        for topic in topics
    ]
    if target.as_json:
        print_json({"topics": documents})
        return
    for document in documents:
        _print_topic(document)


async def _list_offsets(admin: AdminClient, specs: Mapping[TopicPartition, int]) -> _Offsets:
    """What leaders say; without the partitions whose leader cannot say it now."""
    from minikafka_client import KafkaError, SomeFailedError

    try:
        return await admin.list_offsets(specs)
    except SomeFailedError as error:
        return error.succeeded
    except KafkaError:
        return {}


def _changed(entries: Mapping[str, ConfigEntry]) -> dict[str, str | None]:
    from minikafka_client import ConfigSource

    return {
        name: entry.value
        for name, entry in sorted(entries.items())
        if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    }


def _partition(
    topic: TopicDescription,
    partition: PartitionDescription,
    starts: _Offsets,
    ends: _Offsets,
    details: Details,
) -> dict[str, Any]:
    from minikafka_client import TopicPartition

    key = TopicPartition(topic.name, partition.partition)
    logs = details.logs[key]
    eligible = details.eligible.get(key)
    high_watermark = ends[key].offset if key in ends else None
    end = next((log.log_end_offset for log in logs if log.node_id == partition.leader), None)
    return {
        "partition": partition.partition,
        "leader": partition.leader if partition.leader >= 0 else None,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replicas),
        "in_sync_replicas": list(partition.in_sync_replicas),
        "eligible_leader_replicas": None if eligible is None else list(eligible.eligible),
        "last_known_eligible_leaders": None if eligible is None else list(eligible.last_known),
        "offline_replicas": list(partition.offline_replicas),
        "log_start_offset": starts[key].offset if key in starts else None,
        "high_watermark": high_watermark,
        "log_end_offset": high_watermark if end is None else end,
        "replica_logs": [log._asdict() for log in logs],
    }


def _print_topic(document: Mapping[str, Any]) -> None:
    settings = ", ".join(f"{name}={value}" for name, value in document["configs"].items())
    title = f"{document['name']}  id {document['topic_id']}"
    columns = ["partition", "leader", "epoch", "replicas", "in sync", "eligible", "offline"]
    print_table(
        [*columns, "start", "high watermark", "end", "ends of replicas"],
        [
            [
                row["partition"],
                row["leader"],
                row["leader_epoch"],
                _node_ids(row["replicas"]),
                _node_ids(row["in_sync_replicas"]),
                _node_ids(row["eligible_leader_replicas"] or ()),
                _node_ids(row["offline_replicas"]),
                row["log_start_offset"],
                row["high_watermark"],
                row["log_end_offset"],
                _ends([ReplicaLog(**log) for log in row["replica_logs"]]),
            ]
            for row in document["partitions"]
        ],
        title=f"{title}  {settings}" if settings else title,
    )


def _ends(logs: Sequence[ReplicaLog]) -> str | None:
    if len(logs) < 2:
        return None
    return " ".join(
        f"{log.node_id}:{'?' if log.log_end_offset is None else log.log_end_offset}" for log in logs
    )


def _node_ids(nodes: Sequence[int]) -> str | None:
    return ",".join(map(str, nodes)) or None
