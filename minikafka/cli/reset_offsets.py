"""``minikafka group reset-offsets``: where a group reads on; shown first, done with --execute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import click

from .cluster_command import Target, cluster_command, connected, require_topics
from .failure import CommandFailed
from .output import note, print_json, print_table

if TYPE_CHECKING:
    from minikafka_client import AdminClient, OffsetAndMetadata, TopicPartition

_RESETTABLE_STATES = ("Empty", "Dead")


@dataclass(frozen=True, slots=True)
class _Goal:
    """Where to: `number` is an offset, a time in ms, or how far to shift."""

    kind: Literal["earliest", "latest", "offset", "datetime", "shift"]
    number: int = 0


class _Moment(click.ParamType[int]):
    """A time: ISO 8601, UTC unless it says otherwise; its value is in ms since 1970."""

    name = "datetime"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Read it."""
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a time such as 2013-01-31T08:00:00 (UTC)", param, ctx)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)


@click.command("reset-offsets")
@click.argument("group_id", metavar="GROUP")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:PARTITION,...]",
    help="Which partitions; may be repeated.",
)
@click.option("--all-topics", is_flag=True, help="All partitions with a committed offset.")
@click.option("--to-earliest", is_flag=True, help="To the oldest record.")
@click.option("--to-latest", is_flag=True, help="To the end: skip everything.")
@click.option("--to-offset", type=click.IntRange(min=0), help="To this offset.")
@click.option(
    "--to-datetime",
    type=_Moment(),
    metavar="TIME",
    help="To the first record at or after this time (ISO 8601, UTC).",
)
@click.option("--shift-by", type=int, metavar="N", help="N records forward, or back if negative.")
@click.option("--execute", is_flag=True, help="Do it; without this, only show what would be done.")
@cluster_command
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
    r"""Set the committed offsets of a group that has no members.

    Shows old and new offsets, and changes nothing without --execute. An offset outside the log
    becomes the nearest one inside.

    \b
    Examples:
      minikafka group reset-offsets billing --all-topics --to-earliest
      minikafka group reset-offsets billing --topic orders:0,1 --shift-by -10 --execute
      minikafka group reset-offsets billing --topic orders --to-datetime 2013-01-31T08:00 --execute
    """
    goals = [
        _Goal("earliest") if to_earliest else None,
        _Goal("latest") if to_latest else None,
        None if to_offset is None else _Goal("offset", to_offset),
        None if to_datetime is None else _Goal("datetime", to_datetime),
        None if shift_by is None else _Goal("shift", shift_by),
    ]
    chosen = [goal for goal in goals if goal is not None]
    if len(chosen) != 1:
        raise click.UsageError(
            "give exactly one of --to-earliest, --to-latest, --to-offset, --to-datetime, --shift-by"
        )
    if bool(topics) == all_topics:
        raise click.UsageError("give either --topic or --all-topics")
    async with connected(target) as admin:
        state = (await admin.describe_groups([group_id]))[group_id].state
        if state not in _RESETTABLE_STATES:
            raise CommandFailed(
                f"group {group_id!r} is {state}: its members would overwrite the offsets; "
                f"stop them first"
            )
        committed = await admin.list_group_offsets(group_id)
        partitions = await _partitions(admin, topics, committed)
        if not partitions:
            raise CommandFailed(
                f"group {group_id!r} has no committed offsets; name partitions with --topic"
            )
        new = await _new_offsets(admin, chosen[0], partitions, committed)
        if execute:
            await admin.alter_group_offsets(group_id, new)
    _show(target, group_id, committed, new, execute)


async def _partitions(
    admin: AdminClient,
    texts: Sequence[str],
    committed: Iterable[TopicPartition],
) -> list[TopicPartition]:
    """The partitions that ``--topic`` texts name; without any, those with a committed offset."""
    from minikafka_client import TopicPartition

    if not texts:
        topics = await admin.describe_topics()
        return sorted(
            partition
            for partition in committed
            if partition.topic in topics
            and partition.partition < len(topics[partition.topic].partitions)
        )
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
                raise CommandFailed(
                    f"topic {topic!r} has no partition {number}; it has {count}, from 0 on"
                )
            wanted.add(TopicPartition(topic, number))
    return sorted(wanted)


async def _new_offsets(
    admin: AdminClient,
    goal: _Goal,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, OffsetAndMetadata],
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
                if wanted < 0:  # no record is as late
                    wanted = end
            case "shift":
                if partition not in committed:
                    raise CommandFailed(
                        f"partition {partition.partition} of topic {partition.topic!r} has no "
                        f"committed offset to shift; use --to-earliest or --to-offset"
                    )
                wanted = committed[partition].offset + goal.number
        new[partition] = min(max(wanted, start), end)
        if new[partition] != wanted:
            note(
                f"{partition.topic}:{partition.partition} has offsets {start} to {end}; "
                f"{new[partition]} instead of {wanted}"
            )
    return new


def _show(
    target: Target,
    group_id: str,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    new: Mapping[TopicPartition, int],
    executed: bool,
) -> None:
    rows = [
        (
            partition.topic,
            partition.partition,
            committed[partition].offset if partition in committed else None,
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
        note("nothing was changed; add --execute to do it")
