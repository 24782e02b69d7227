"""``minikafka topic``: create, list, describe, alter, delete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from .assignment import assignments
from .cluster_command import Target, cluster_command, connected, require_topics
from .failure import CommandFailed
from .output import count_of, note, print_json
from .topic_describe import describe

if TYPE_CHECKING:
    from minikafka_client import KafkaError, TopicDescription


@click.group("topic")
def command() -> None:
    """Create, list, describe, alter and delete topics."""


command.add_command(describe)


@command.command("create")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option(
    "--partitions", type=click.IntRange(min=1), help="Partition count.  [default: the broker's]"
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
    metavar="KEY=VALUE",
    help="A topic setting, e.g. retention.ms=60000; may be repeated.",
)
@click.option("--if-not-exists", is_flag=True, help="An existing topic is no failure.")
@click.option("--validate-only", is_flag=True, help="Only ask whether it could be created.")
@cluster_command
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
            click.echo(f"{name} exists already")
    _fail_with(failed)


def _fail_with(errors: Iterable[KafkaError]) -> None:
    """Report all errors, the last one as the command's."""
    texts = [str(error) for error in errors]
    for text in texts[:-1]:
        note(text)
    if texts:
        raise CommandFailed(texts[-1])


@command.command("list")
@click.option("--internal", is_flag=True, help="Also internal ones, e.g. __consumer_offsets.")
@cluster_command
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


@command.command("alter")
@click.argument("name", metavar="TOPIC")
@click.option("--partitions", type=click.IntRange(min=1), help="Raise the partition count to this.")
@click.option(
    "--config", "configs", multiple=True, metavar="KEY=VALUE", help="Set it; may be repeated."
)
@click.option(
    "--delete-config",
    "deleted",
    multiple=True,
    metavar="KEY",
    help="Back to the default; may be repeated.",
)
@cluster_command
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
    what += [f"{key} back to its default" for key in deleted]
    what += [] if partitions is None else [count_of(partitions, "partition")]
    click.echo(f"altered {name}: {', '.join(what)}")


@command.command("delete")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="A missing topic is no failure.")
@cluster_command
async def delete(target: Target, names: tuple[str, ...], if_exists: bool) -> None:
    r"""Delete topics with everything in them.

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
