"""``minikafka topic``: create, list, describe, alter, delete, dump, load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from .failure import CommandFailed
from .output import count_of, note, print_json, print_table
from .target import Target, assignments, client_command, connected, require_topics, settings_command
from .topic_details import PATIENCE_MS, Details, ReplicaLog, find_details
from .topic_files import dump, load

if TYPE_CHECKING:
    from minikafka_client import (
        AdminClient,
        ConfigEntry,
        KafkaError,
        OffsetAndTimestamp,
        PartitionDescription,
        TopicDescription,
        TopicPartition,
    )

    _Offsets = Mapping[TopicPartition, OffsetAndTimestamp]


@click.group("topic")
def command() -> None:
    """Create, list, describe, alter and delete topics, and copy their records to files."""


command.add_command(dump)
command.add_command(load)


@command.command("create")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    help="Number of partitions.  [default: the broker's]",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(min=1),
    help="Replicas of each partition.  [default: the broker's]",
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE|FILE",
    help="A topic setting, e.g. retention.ms=60000; may be repeated. Or a client.properties file.",
)
@click.option("--if-not-exists", is_flag=True, help="Do not fail if the topic exists.")
@click.option("--validate-only", is_flag=True, help="Only check whether it could be created.")
@settings_command
async def create(
    target: Target,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    validate_only: bool,
) -> None:
    r"""Create topics.

    \b
    Examples:
      minikafka topic create orders
      minikafka topic create orders payments --partitions 6
      minikafka topic create latest --config cleanup.policy=compact
    """
    from minikafka.protocol.errors import ErrorCode
    from minikafka_client import KafkaError, NewTopic

    settings = dict(assignments("--config", configs))
    wanted = [
        NewTopic(name, partitions or -1, replication_factor or -1, settings) for name in names
    ]
    created: list[dict[str, Any]] = []
    existing: list[str] = []
    failed: list[KafkaError] = []
    async with connected(target) as admin:
        for topic in wanted:
            try:
                answer = await admin.create_topics([topic], validate_only=validate_only)
            except KafkaError as error:
                if if_not_exists and error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                    existing.append(topic.name)
                else:
                    failed.append(error)
                continue
            made = answer[topic.name]
            created.append(
                {
                    "name": made.name,
                    "topic_id": made.topic_id.hex(),
                    "partitions": made.num_partitions,
                    "replication_factor": made.replication_factor,
                }
            )
    if target.as_json:
        print_json({"created": created, "existing": existing, "validate_only": validate_only})
    else:
        done = "could create" if validate_only else "created"
        for entry in created:
            click.echo(
                f"{done} {entry['name']}: {count_of(entry['partitions'], 'partition')}, "
                f"replication factor {entry['replication_factor']}"
            )
        for name in existing:
            click.echo(f"{name} already exists")
    _fail_with(failed)


def _fail_with(errors: Iterable[KafkaError]) -> None:
    """Report all errors, the last one as the command's own."""
    texts = [str(error) for error in errors]
    for text in texts[:-1]:
        note(text)
    if texts:
        raise CommandFailed(texts[-1])


@command.command("list")
@click.option("--internal", is_flag=True, help="Include internal topics, e.g. __consumer_offsets.")
@client_command
async def list_(target: Target, internal: bool) -> None:
    r"""List the topics, one name per line.

    \b
    Examples:
      minikafka topic list
      minikafka topic list --json --internal
    """
    async with connected(target) as admin:
        if not target.as_json:
            for name in await admin.list_topics(include_internal=internal):
                click.echo(name)
            return
        described = await admin.describe_topics()
    print_json(
        {
            "topics": [
                {
                    "name": name,
                    "topic_id": topic.topic_id.hex(),
                    "is_internal": topic.is_internal,
                    "partitions": len(topic.partitions),
                    "replication_factor": _replication_factor(topic),
                }
                for name, topic in sorted(described.items())
                if internal or not topic.is_internal
            ]
        }
    )


def _replication_factor(topic: TopicDescription) -> int:
    return max((len(partition.replicas) for partition in topic.partitions), default=0)


@command.command("describe")
@click.argument("names", metavar="[TOPIC...]", nargs=-1)
@client_command
async def describe(target: Target, names: tuple[str, ...]) -> None:
    r"""Describe topics: partitions, replicas, offsets, and settings that differ from the default.

    Without a name, all topics except internal ones. Records below the high watermark are committed
    and visible to consumers; the log may extend beyond it, to the end offset. The end of each
    replica is shown as NODE:OFFSET. Eligible replicas (KIP-966) are out of sync, but have every
    committed record.

    \b
    Examples:
      minikafka topic describe orders
      minikafka topic describe --json
    """
    from minikafka_client import EARLIEST, LATEST, ConfigResource, TopicPartition

    # Offsets that cannot be had soon are left out: a partition may have no leader for a long time.
    async with connected(
        target,
        socket_connection_setup_timeout_ms=PATIENCE_MS,
        request_timeout_ms=PATIENCE_MS,
        default_api_timeout_ms=2 * PATIENCE_MS,
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
    """The leaders' offsets, without partitions whose leader does not answer."""
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


@command.command("alter")
@click.argument("name", metavar="TOPIC")
@click.option(
    "--partitions", type=click.IntRange(min=1), help="Raise the number of partitions to this."
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE|FILE",
    help="A setting to change; may be repeated. Or a client.properties file.",
)
@click.option(
    "--delete-config",
    "deleted",
    multiple=True,
    metavar="KEY",
    help="A setting to reset to its default; may be repeated.",
)
@settings_command
async def alter(
    target: Target,
    name: str,
    partitions: int | None,
    configs: tuple[str, ...],
    deleted: tuple[str, ...],
) -> None:
    r"""Add partitions to a topic, or change its settings.

    \b
    Examples:
      minikafka topic alter orders --partitions 12
      minikafka topic alter orders --config retention.ms=3600000
      minikafka topic alter orders --delete-config retention.ms
    """
    from minikafka_client import ConfigChange, ConfigOperation, ConfigResource

    changes = [ConfigChange(key, value) for key, value in assignments("--config", configs)]
    changes += [ConfigChange(key, None, ConfigOperation.DELETE) for key in deleted]
    if partitions is None and not changes:
        raise click.UsageError("nothing to alter: give --partitions, --config or --delete-config")
    async with connected(target) as admin:
        await require_topics(admin, [name])
        if changes:
            await admin.alter_configs({ConfigResource.topic(name): changes})
        if partitions is not None:
            await admin.create_partitions({name: partitions})
    if target.as_json:
        print_json(
            {
                "name": name,
                "partitions": partitions,
                "configs": {change.name: change.value for change in changes},
            }
        )
        return
    what = [f"{change.name}={change.value}" for change in changes if change.value is not None]
    what += [f"{key} reset to its default" for key in deleted]
    what += [] if partitions is None else [count_of(partitions, "partition")]
    click.echo(f"altered {name}: {', '.join(what)}")


@command.command("delete")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="Do not fail if the topic does not exist.")
@client_command
async def delete(target: Target, names: tuple[str, ...], if_exists: bool) -> None:
    r"""Delete topics and all their records.

    \b
    Examples:
      minikafka topic delete orders
      minikafka topic delete scratch --if-exists
    """
    async with connected(target) as admin:
        missing: list[str] = []
        if if_exists:
            known = set(await admin.list_topics(include_internal=True))
            missing = [name for name in names if name not in known]
        else:
            await require_topics(admin, names)
        doomed = [name for name in names if name not in missing]
        if doomed:
            await admin.delete_topics(doomed)
    if target.as_json:
        print_json({"deleted": doomed, "missing": missing})
        return
    for name in doomed:
        click.echo(f"deleted {name}")
    for name in missing:
        click.echo(f"{name} does not exist")
