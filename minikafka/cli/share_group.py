"""``minikafka share-group``: list, describe, reset-offsets, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .failure import CommandFailed
from .group import (
    SHARE,
    Moment,
    delete_all,
    partitions_named,
    print_share_group,
    share_document,
    unknown_group,
)
from .output import note, print_json, print_table
from .target import Target, client_command, connected

if TYPE_CHECKING:
    from minikafka_client import AdminClient, GroupDescription


@click.group("share-group")
def command() -> None:
    """List and describe share groups (queues), and reset where they start."""


@command.command("list")
@client_command
async def list_(target: Target) -> None:
    r"""List the share groups: id and state.

    \b
    Examples:
      minikafka share-group list
      minikafka share-group list --json
    """
    async with connected(target) as admin:
        groups = await admin.list_groups(types=["share"])
    if target.as_json:
        found = [{"group": each.group_id, "state": each.state or None} for each in groups]
        print_json({"groups": found})
        return
    print_table(["group", "state"], [[each.group_id, each.state or None] for each in groups])


@command.command("describe")
@click.argument("group_ids", metavar="GROUP...", nargs=-1, required=True)
@client_command
async def describe(target: Target, group_ids: tuple[str, ...]) -> None:
    r"""Describe share groups: state, members, and where they are in their topics.

    Everything before a partition's start offset was processed, or given up. Lag is how many
    records are not processed yet.

    \b
    Examples:
      minikafka share-group describe workers
      minikafka share-group describe workers --json | jq '.groups[0].lag'
    """
    async with connected(target) as admin:
        groups = [await _require(admin, group_id) for group_id in group_ids]
        documents = [await share_document(admin, group) for group in groups]
    if target.as_json:
        print_json({"groups": documents})
        return
    for each in documents:
        print_share_group(each)


async def _require(admin: AdminClient, group_id: str) -> GroupDescription:
    group = (await admin.describe_groups([group_id]))[group_id]
    if group.state == "Dead":
        raise await unknown_group(admin, group_id)
    if group.type != SHARE:
        raise CommandFailed(
            f"group {group_id!r} is no share group but a {group.type.lower()} one; "
            f"use `minikafka group`"
        )
    return group


@command.command("reset-offsets")
@click.argument("group_id", metavar="GROUP")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:PARTITION,...]",
    help="Partitions to reset, by default all of the topic; may be repeated.",
)
@click.option("--all-topics", is_flag=True, help="Reset all partitions that the group has read.")
@click.option("--to-earliest", is_flag=True, help="To the oldest record.")
@click.option("--to-latest", is_flag=True, help="To the end, skipping everything.")
@click.option(
    "--to-datetime",
    type=Moment(),
    metavar="TIME",
    help="To the first record at or after this time (ISO 8601, UTC).",
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
    to_datetime: int | None,
    execute: bool,
) -> None:
    r"""Set where a share group without members starts.

    Shows the old and new offsets, and changes nothing without --execute. What was processed after
    the new offset is delivered again.

    \b
    Examples:
      minikafka share-group reset-offsets workers --all-topics --to-earliest
      minikafka share-group reset-offsets workers --topic jobs:0 --to-latest --execute
    """
    from minikafka_client import EARLIEST, LATEST

    if to_earliest + to_latest + (to_datetime is not None) != 1:
        raise click.UsageError("give exactly one of --to-earliest, --to-latest, --to-datetime")
    if bool(topics) == all_topics:
        raise click.UsageError("give either --topic or --all-topics")
    async with connected(target) as admin:
        group = await _require(admin, group_id)
        if group.members:
            raise CommandFailed(f"group {group_id!r} has members; stop them first")
        before = await admin.list_share_group_offsets(group_id)
        partitions = await partitions_named(admin, topics, before)
        if not partitions:
            raise CommandFailed(f"group {group_id!r} has read nothing; name topics with --topic")
        ends = await admin.list_offsets(dict.fromkeys(partitions, LATEST))
        spec = EARLIEST if to_earliest else LATEST if to_datetime is None else to_datetime
        found = await admin.list_offsets(dict.fromkeys(partitions, spec))
        new = {
            partition: ends[partition].offset if each.offset < 0 else each.offset
            for partition, each in found.items()
        }
        if execute:
            await admin.alter_share_group_offsets(group_id, new)
    rows = [
        (*partition, before[partition].offset if partition in before else None, new[partition])
        for partition in partitions
    ]
    if target.as_json:
        names = ("topic", "partition", "old_offset", "new_offset")
        changes = [dict(zip(names, row, strict=True)) for row in rows]
        print_json({"group": group_id, "executed": execute, "partitions": changes})
        return
    print_table(["topic", "partition", "old offset", "new offset"], rows)
    if not execute:
        note("nothing was changed; add --execute to reset the offsets")


@command.command("delete")
@click.argument("group_ids", metavar="GROUP...", nargs=-1, required=True)
@client_command
async def delete(target: Target, group_ids: tuple[str, ...]) -> None:
    r"""Delete share groups that have no members.

    \b
    Examples:
      minikafka share-group delete workers
    """
    async with connected(target) as admin:
        for group_id in group_ids:
            await _require(admin, group_id)
    await delete_all(target, group_ids)
