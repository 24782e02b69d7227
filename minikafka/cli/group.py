"""``minikafka group``: list, describe, delete; resetting offsets is in `reset_offsets`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from .cluster_command import Target, cluster_command, connected
from .failure import CommandFailed, unknown_name
from .output import note, print_json, print_table
from .reset_offsets import reset_offsets

if TYPE_CHECKING:
    from minikafka_client import AdminClient, GroupDescription

_DEAD = "Dead"


@click.group("group")
def command() -> None:
    """Look at consumer groups and move their offsets."""


command.add_command(reset_offsets)


@command.command("list")
@click.option(
    "--state", "states", multiple=True, metavar="STATE", help="Only these, e.g. Stable or Empty."
)
@cluster_command
async def list_(target: Target, states: tuple[str, ...]) -> None:
    r"""List the groups: id, state and protocol.

    \b
    Examples:
      minikafka group list
      minikafka group list --state Empty --json
    """
    async with connected(target) as admin:
        groups = await admin.list_groups(states=states)
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
        ["group", "state", "protocol"],
        [[group.group_id, group.state or None, group.protocol_type or None] for group in groups],
    )


@command.command("describe")
@click.argument("group_ids", metavar="GROUP...", nargs=-1, required=True)
@cluster_command
async def describe(target: Target, group_ids: tuple[str, ...]) -> None:
    r"""Describe groups: state, members, committed offsets and lag.

    Lag is how many offsets the group has still to read: end offset minus committed offset.

    \b
    Examples:
      minikafka group describe billing
      minikafka group describe billing --json | jq '.groups[0].lag'
    """
    async with connected(target) as admin:
        described = await admin.describe_groups(group_ids)
        documents = [await _document(admin, described[group_id]) for group_id in group_ids]
        for document in documents:
            if document["state"] == _DEAD and not document["partitions"]:
                raise await unknown_group(admin, document["group"])
    if target.as_json:
        print_json({"groups": documents})
        return
    for document in documents:
        _print_group(document)


async def unknown_group(admin: AdminClient, group_id: str) -> CommandFailed:
    """The error for a group that does not exist."""
    known = [group.group_id for group in await admin.list_groups()]
    return unknown_name("group", group_id, known, "list them with `minikafka group list`")


async def _document(admin: AdminClient, group: GroupDescription) -> dict[str, Any]:
    from minikafka_client import LATEST, KafkaError

    committed = await admin.list_group_offsets(group.group_id)
    owners = {partition: member for member in group.members for partition in member.assignment}
    partitions = sorted({*committed, *owners})
    topics = await admin.describe_topics()
    there = [
        partition
        for partition in partitions
        if partition.topic in topics
        and partition.partition < len(topics[partition.topic].partitions)
    ]
    try:
        ends = await admin.list_offsets(dict.fromkeys(there, LATEST))
    except KafkaError as error:
        note(f"without end offsets: {error}")
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
        "state": group.state,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "lag": sum(lags),
        "members": [
            {
                "member": member.member_id,
                "instance": member.group_instance_id,
                "client_id": member.client_id,
                "host": member.client_host,
                "topics": list(member.topics),
                "assignment": [
                    {"topic": topic, "partition": number} for topic, number in member.assignment
                ],
            }
            for member in group.members
        ],
        "partitions": rows,
    }


def _print_group(document: Mapping[str, Any]) -> None:
    facts = [document["group"], document["state"], f"lag {document['lag']}"]
    facts += [f"assignor {document['assignor']}"] if document["assignor"] else []
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
    if document["members"]:
        print_table(
            ["member", "instance", "client", "host", "partitions"],
            [
                [
                    member["member"],
                    member["instance"],
                    member["client_id"],
                    member["host"],
                    _short_assignment(member["assignment"]),
                ]
                for member in document["members"]
            ],
        )


def _short_assignment(assignment: Iterable[Mapping[str, Any]]) -> str | None:
    numbers: dict[str, list[int]] = {}
    for entry in assignment:
        numbers.setdefault(entry["topic"], []).append(entry["partition"])
    return " ".join(f"{topic}:{','.join(map(str, its))}" for topic, its in numbers.items()) or None


@command.command("delete")
@click.argument("group_ids", metavar="GROUP...", nargs=-1, required=True)
@cluster_command
async def delete(target: Target, group_ids: tuple[str, ...]) -> None:
    r"""Delete groups without members, and their offsets.

    \b
    Examples:
      minikafka group delete billing
    """
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
