"""``minikafka group``: list, describe, reset-offsets, delete; groups of all kinds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from .failure import CommandFailed, unknown_name
from .output import note, print_json, print_table
from .target import Target, client_command, connected, no_partition, require_topics

if TYPE_CHECKING:
    from minikafka_client import (
        AdminClient,
        GroupDescription,
        MemberDescription,
        TopicDescription,
        TopicPartition,
    )

SHARE: Final = "Share"
STREAMS: Final = "Streams"
_DEAD: Final = "Dead"
_RESETTABLE_STATES: Final = ("Empty", _DEAD)


@click.group("group")
def command() -> None:
    """List, describe and delete groups of all kinds, and reset their offsets."""


@command.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    help="Only groups in this state, e.g. Stable or Empty.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(["classic", "consumer", "share", "streams"]),
    help="Only groups of this type.",
)
@client_command
async def list_(target: Target, states: tuple[str, ...], types: tuple[str, ...]) -> None:
    r"""List the groups: id, type, state and protocol.

    \b
    Examples:
      minikafka group list
      minikafka group list --state Empty --json
      minikafka group list --type share
    """
    async with connected(target) as admin:
        groups = await admin.list_groups(states=states, types=types)
    if target.as_json:
        print_json(
            {
                "groups": [
                    {
                        "group": group.group_id,
                        "state": group.state or None,
                        "protocol_type": group.protocol_type,
                        "type": group.type or None,
                    }
                    for group in groups
                ]
            }
        )
        return
    print_table(
        ["group", "type", "state", "protocol"],
        [
            [
                group.group_id,
                group.type or None,
                group.state or None,
                group.protocol_type or None,
            ]
            for group in groups
        ],
    )


@command.command("describe")
@click.argument("group_ids", metavar="GROUP...", nargs=-1, required=True)
@client_command
async def describe(target: Target, group_ids: tuple[str, ...]) -> None:
    r"""Describe groups of any kind: state, members, their assignments, offsets and lag.

    Lag is how far the group is behind: end offset minus committed offset.

    \b
    Examples:
      minikafka group describe billing
      minikafka group describe billing --json | jq '.groups[0].lag'
    """
    async with connected(target) as admin:
        described = await admin.describe_groups(group_ids)
        documents = [await _document_of_any(admin, described[group_id]) for group_id in group_ids]
        for document in documents:
            if document["state"] == _DEAD and not document["partitions"]:
                raise await unknown_group(admin, document["group"])
    if target.as_json:
        print_json({"groups": documents})
        return
    for document in documents:
        if document["type"] == SHARE:
            print_share_group(document)
        else:
            _print_group(document)


async def _document_of_any(admin: AdminClient, group: GroupDescription) -> dict[str, Any]:
    if group.type == SHARE:
        return await share_document(admin, group)
    return await _document(admin, group)


async def unknown_group(admin: AdminClient, group_id: str) -> CommandFailed:
    """The error for a group that does not exist."""
    known = [group.group_id for group in await admin.list_groups()]
    return unknown_name("group", group_id, known, "list them with `minikafka group list`")


async def _document(admin: AdminClient, group: GroupDescription) -> dict[str, Any]:
    from minikafka_client import LATEST, KafkaError

    committed = await admin.list_group_offsets(group.group_id)
    owners = {partition: member for member in group.members for partition in member.assignment}
    topics = await admin.describe_topics()
    if group.type == STREAMS:  # a task may read topics with fewer partitions than it has tasks
        owners = {each: member for each, member in owners.items() if _exists(each, topics)}
    partitions = sorted({*committed, *owners})
    existing = [partition for partition in partitions if _exists(partition, topics)]
    try:
        ends = await admin.list_offsets(dict.fromkeys(existing, LATEST))
    except KafkaError as error:
        note(f"end offsets are not available: {error}")
        ends = {}
    rows: list[dict[str, Any]] = []
    for partition in partitions:
        offset = committed[partition].offset if partition in committed else None
        end = ends[partition].offset if partition in ends else None
        owner = owners.get(partition)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed_offset": offset,
                "metadata": committed[partition].metadata if partition in committed else None,
                "log_end_offset": end,
                "lag": None if offset is None or end is None else max(0, end - offset),
                "member": None if owner is None else owner.member_id,
            }
        )
    lags = [row["lag"] for row in rows if row["lag"] is not None]
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "epoch": None if group.group_epoch < 0 else group.group_epoch,
        "assignment_epoch": None if group.assignment_epoch < 0 else group.assignment_epoch,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "lag": sum(lags),
        "members": [
            {
                "member": member.member_id,
                "epoch": None if member.member_epoch < 0 else member.member_epoch,
                "instance": member.group_instance_id,
                "client_id": member.client_id,
                "host": member.client_host,
                "topics": list(member.topics),
                "topic_pattern": member.topic_pattern,
                "rack": member.rack_id,
                "assignment": _places(member.assignment),
                "target_assignment": _places(member.target_assignment),
                **(_tasks(member) if group.type == STREAMS else {}),
            }
            for member in group.members
        ],
        "partitions": rows,
    }


def _tasks(member: MemberDescription) -> dict[str, Any]:
    return {
        "process": member.process_id,
        "active_tasks": list(member.active_tasks),
        "standby_tasks": list(member.standby_tasks),
    }


def _places(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": number} for topic, number in partitions]


def _exists(partition: TopicPartition, topics: Mapping[str, TopicDescription]) -> bool:
    topic = topics.get(partition.topic)
    return topic is not None and partition.partition < len(topic.partitions)


def _print_group(document: Mapping[str, Any]) -> None:
    facts = [document["group"], document["state"], f"lag {document['lag']}"]
    facts += [f"assignor {document['assignor']}"] if document["assignor"] else []
    facts += [f"epoch {document['epoch']}"] if document["epoch"] is not None else []
    facts.append(f"coordinator {document['coordinator']}")
    print_table(
        ["topic", "partition", "committed", "end", "lag", "member"],
        [
            [
                row["topic"],
                row["partition"],
                row["committed_offset"],
                row["log_end_offset"],
                row["lag"],
                row["member"],
            ]
            for row in document["partitions"]
        ],
        title="  ".join(facts),
    )
    print_members(document["members"])


def print_members(members: Sequence[Mapping[str, Any]]) -> None:
    """A table of members; with epochs where there are some, and what is still to be moved."""
    if not members:
        return
    has_epochs = any(member["epoch"] is not None for member in members)
    is_moving = any(
        member.get("target_assignment", member["assignment"]) != member["assignment"]
        for member in members
    )
    has_tasks = any("active_tasks" in member for member in members)
    columns = {
        "member": "member",
        **({"epoch": "epoch"} if has_epochs else {}),
        "instance": "instance",
        "client": "client_id",
        "host": "host",
        **(
            {"active": "active_tasks", "standby": "standby_tasks"}
            if has_tasks
            else {"partitions": "assignment"}
        ),
        **({"target": "target_assignment"} if has_epochs and is_moving else {}),
    }
    print_table(
        list(columns),
        [
            [
                _short_assignment(member.get(name, ()))
                if name.endswith("assignment")
                else " ".join(member.get(name, ())) or None
                if name.endswith("tasks")
                else member.get(name)
                for name in columns.values()
            ]
            for member in members
        ],
    )


def _short_assignment(assignment: Iterable[Mapping[str, Any]]) -> str | None:
    numbers: dict[str, list[int]] = {}
    for entry in assignment:
        numbers.setdefault(entry["topic"], []).append(entry["partition"])
    return " ".join(f"{topic}:{','.join(map(str, its))}" for topic, its in numbers.items()) or None


async def share_document(admin: AdminClient, group: GroupDescription) -> dict[str, Any]:
    """What ``describe --json`` prints of a share group."""
    offsets = await admin.list_share_group_offsets(group.group_id)
    lags = [each.lag for each in offsets.values() if each.lag is not None]
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "lag": sum(lags) if len(lags) == len(offsets) else None,
        "members": [
            {
                "member": member.member_id,
                "epoch": member.member_epoch,
                "client_id": member.client_id,
                "host": member.client_host,
                "topics": list(member.topics),
                "assignment": [
                    {"topic": topic, "partition": number} for topic, number in member.assignment
                ],
            }
            for member in group.members
        ],
        "partitions": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "start_offset": each.offset,
                "lag": each.lag,
            }
            for partition, each in sorted(offsets.items())
        ],
    }


def print_share_group(document: Mapping[str, Any]) -> None:
    """The same as tables."""
    facts = [document["group"], "share", document["state"], f"lag {document['lag']}"]
    facts += [f"epoch {document['epoch']}", f"coordinator {document['coordinator']}"]
    print_table(
        ["topic", "partition", "start", "lag"],
        [
            [row["topic"], row["partition"], row["start_offset"], row["lag"]]
            for row in document["partitions"]
        ],
        title="  ".join(facts),
    )
    print_members(document["members"])


@dataclass(frozen=True, slots=True)
class Goal:
    """The new offset; `number` is an offset, a timestamp in ms, or a distance."""

    kind: Literal["earliest", "latest", "offset", "datetime", "shift"]
    number: int = 0


class Moment(click.ParamType[int]):
    """A time in ISO 8601, by default UTC; its value is in ms since 1970."""

    name = "datetime"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a time such as 2013-01-31T08:00:00 (UTC)", param, ctx)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)


@command.command("reset-offsets")
@click.argument("group_id", metavar="GROUP")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:PARTITION,...]",
    help="Partitions to reset, by default all of the topic; may be repeated.",
)
@click.option("--all-topics", is_flag=True, help="Reset all partitions with a committed offset.")
@click.option("--to-earliest", is_flag=True, help="To the oldest record.")
@click.option("--to-latest", is_flag=True, help="To the end, skipping everything.")
@click.option("--to-offset", type=click.IntRange(min=0), help="To this offset.")
@click.option(
    "--to-datetime",
    type=Moment(),
    metavar="TIME",
    help="To the first record at or after this time (ISO 8601, UTC).",
)
@click.option(
    "--shift-by", type=int, metavar="N", help="Forward by N offsets, or back if negative."
)
@click.option(
    "--execute", is_flag=True, help="Reset the offsets; without this, only show what would change."
)
@client_command
async def reset_offsets(
    target: Target,
    group_id: str,
    topics: tuple[str, ...],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: int | None,
    shift_by: int | None,
    execute: bool,
) -> None:
    r"""Set the offsets of a group of any kind that has no members.

    These are the committed offsets of a classic or consumer group, and of a share group where it
    starts: what it processed after that is delivered again. Shows the old and new offsets, and
    changes nothing without --execute. Offsets outside of the log are moved to its start or end.

    \b
    Examples:
      minikafka group reset-offsets billing --all-topics --to-earliest
      minikafka group reset-offsets billing --topic orders:0,1 --shift-by -10 --execute
      minikafka group reset-offsets billing --topic orders --to-datetime 2013-01-31T08:00 --execute
    """
    goals = [
        Goal("earliest") if to_earliest else None,
        Goal("latest") if to_latest else None,
        None if to_offset is None else Goal("offset", to_offset),
        None if to_datetime is None else Goal("datetime", to_datetime),
        None if shift_by is None else Goal("shift", shift_by),
    ]
    chosen = [goal for goal in goals if goal is not None]
    if len(chosen) != 1:
        raise click.UsageError(
            "give exactly one of --to-earliest, --to-latest, --to-offset, --to-datetime, --shift-by"
        )
    if bool(topics) == all_topics:
        raise click.UsageError("give either --topic or --all-topics")
    async with connected(target) as admin:
        group = (await admin.describe_groups([group_id]))[group_id]
        await reset(target, admin, group, topics, chosen[0], execute=execute)


async def reset(
    target: Target,
    admin: AdminClient,
    group: GroupDescription,
    topics: Sequence[str],
    goal: Goal,
    *,
    execute: bool,
) -> None:
    """Move a group of any kind: the committed offsets, or where a share group starts.

    Raises:
        CommandFailed: the group has members, or nothing to reset.
    """
    if group.state not in _RESETTABLE_STATES:
        raise CommandFailed(
            f"group {group.group_id!r} is {group.state}: its members would overwrite the offsets; "
            f"stop them first"
        )
    is_share = group.type == SHARE
    before = await _offsets_before(admin, group)
    partitions = await partitions_named(admin, topics, before)
    if not partitions:
        raise CommandFailed(
            f"group {group.group_id!r} has "
            + ("read nothing" if is_share else "no committed offsets")
            + "; name partitions with --topic"
        )
    new = await _new_offsets(admin, goal, partitions, before)
    if execute and is_share:
        await admin.alter_share_group_offsets(group.group_id, new)
    elif execute:
        await admin.alter_group_offsets(group.group_id, new)
    _show(target, group.group_id, before, new, execute)


async def _offsets_before(admin: AdminClient, group: GroupDescription) -> dict[TopicPartition, int]:
    if group.type == SHARE:
        starts = await admin.list_share_group_offsets(group.group_id)
        # A partition that was never read has no start yet.
        return {where: each.offset for where, each in starts.items() if each.offset >= 0}
    committed = await admin.list_group_offsets(group.group_id)
    return {where: each.offset for where, each in committed.items()}


async def partitions_named(
    admin: AdminClient,
    texts: Sequence[str],
    committed: Iterable[TopicPartition],
) -> list[TopicPartition]:
    """The partitions named by ``--topic``; by default, those with a committed offset."""
    from minikafka_client import TopicPartition

    if not texts:
        topics = await admin.describe_topics()
        return sorted(partition for partition in committed if _exists(partition, topics))
    wanted: set[TopicPartition] = set()
    for text in texts:
        topic, colon, listed = text.partition(":")
        numbers = listed.split(",") if colon else []
        if not all(number.isascii() and number.isdigit() for number in numbers):
            raise click.UsageError(f"--topic takes TOPIC or TOPIC:PARTITION,..., not {text!r}")
        await require_topics(admin, [topic])
        count = len((await admin.describe_topics([topic]))[topic].partitions)
        for number in map(int, numbers) if colon else range(count):
            if number >= count:
                raise no_partition(topic, number, count)
            wanted.add(TopicPartition(topic, number))
    return sorted(wanted)


async def _new_offsets(
    admin: AdminClient,
    goal: Goal,
    partitions: Sequence[TopicPartition],
    before: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    from minikafka_client import EARLIEST, LATEST

    starts = await admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(partitions, LATEST))
    found = (
        await admin.list_offsets(dict.fromkeys(partitions, goal.number))
        if goal.kind == "datetime"
        else {}
    )
    new: dict[TopicPartition, int] = {}
    for partition in partitions:
        start, end = starts[partition].offset, ends[partition].offset
        match goal.kind:
            case "earliest":
                wanted = start
            case "latest":
                wanted = end
            case "offset":
                wanted = goal.number
            case "datetime":
                wanted = found[partition].offset
                if wanted < 0:  # no record is that late
                    wanted = end
            case "shift":
                if partition not in before:
                    raise CommandFailed(
                        f"partition {partition.partition} of topic {partition.topic!r} has no "
                        f"committed offset to shift; use --to-earliest or --to-offset"
                    )
                wanted = before[partition] + goal.number
        new[partition] = min(max(wanted, start), end)
        if new[partition] != wanted:
            note(
                f"{partition.topic}:{partition.partition} has offsets {start} to {end}; "
                f"using {new[partition]} instead of {wanted}"
            )
    return new


def _show(
    target: Target,
    group_id: str,
    before: Mapping[TopicPartition, int],
    new: Mapping[TopicPartition, int],
    executed: bool,
) -> None:
    rows = [
        (
            partition.topic,
            partition.partition,
            before.get(partition),
            offset,
        )
        for partition, offset in new.items()
    ]
    if target.as_json:
        names = ("topic", "partition", "old_offset", "new_offset")
        print_json(
            {
                "group": group_id,
                "executed": executed,
                "partitions": [dict(zip(names, row, strict=True)) for row in rows],
            }
        )
        return
    print_table(["topic", "partition", "old offset", "new offset"], rows)
    if not executed:
        note("nothing was changed; add --execute to reset the offsets")


@command.command("delete")
@click.argument("group_ids", metavar="GROUP...", nargs=-1, required=True)
@client_command
async def delete(target: Target, group_ids: tuple[str, ...]) -> None:
    r"""Delete groups that have no members, with their offsets.

    \b
    Examples:
      minikafka group delete billing
    """
    await delete_all(target, group_ids)


async def delete_all(target: Target, group_ids: Sequence[str]) -> None:
    """Delete groups of any kind; raises `CommandFailed` with the last failure."""
    from minikafka.protocol.errors import ErrorCode
    from minikafka_client import KafkaError

    deleted: list[str] = []
    failed: list[str] = []
    async with connected(target) as admin:
        for group_id in group_ids:
            try:
                await admin.delete_groups([group_id])
            except KafkaError as error:
                is_unknown = error.code is ErrorCode.GROUP_ID_NOT_FOUND
                failed.append(str(await unknown_group(admin, group_id) if is_unknown else error))
            else:
                deleted.append(group_id)
    if target.as_json:
        print_json({"deleted": deleted})
    else:
        for group_id in deleted:
            click.echo(f"deleted {group_id}")
    for text in failed[:-1]:
        note(text)
    if failed:
        raise CommandFailed(failed[-1])
