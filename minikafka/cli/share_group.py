"""``minikafka share-group``: list, describe, reset-offsets, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .failure import CommandFailed
from .group import (
    SHARE,
    Goal,
    Moment,
    delete_all,
    print_share_group,
    reset,
    share_document,
    unknown_group,
)
from .output import print_json, print_table
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
    goals = [
        Goal("earliest") if to_earliest else None,
        Goal("latest") if to_latest else None,
        None if to_datetime is None else Goal("datetime", to_datetime),
    ]
    chosen = [goal for goal in goals if goal is not None]
    if len(chosen) != 1:
        raise click.UsageError("give exactly one of --to-earliest, --to-latest, --to-datetime")
    if bool(topics) == all_topics:
        raise click.UsageError("give either --topic or --all-topics")
    async with connected(target) as admin:
        group = await _require(admin, group_id)
        await reset(target, admin, group, topics, chosen[0], execute=execute)


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
