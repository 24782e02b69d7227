"""``minikafka consume``: records to stdout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import click

from .cluster_command import (
    Stop,
    Target,
    cancelled_by_signals,
    cluster_command,
    connected,
    require_topics,
)
from .failure import CommandFailed
from .output import count_of

if TYPE_CHECKING:
    from minikafka_client import AdminClient, TopicPartition

    from .record_format import RecordFormat

_COMMIT_PATIENCE_S = 5


@click.command("consume")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option(
    "--from-beginning",
    is_flag=True,
    help="Start with the oldest record; with --group, where it has no committed offset.",
)
@click.option("--group", "group_id", metavar="GROUP", help="Share the work, and commit offsets.")
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only this partition; may be repeated.",
)
@click.option("--max-records", type=click.IntRange(min=1), help="Stop after so many.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop when no record has come for so long.",
)
@click.option(
    "--format",
    "template",
    metavar="TEXT",
    help=r"How a record looks, e.g. '{partition}:{offset} {key}={value}'.  [default: {value}]",
)
@click.option(
    "--delimiter",
    metavar="TEXT",
    help=r"What follows each record, e.g. '\0'.  [default: \n]",
)
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
    help="Whether records of aborted transactions are shown.",
)
@cluster_command
async def command(
    target: Target,
    topics: tuple[str, ...],
    from_beginning: bool,
    group_id: str | None,
    partitions: tuple[int, ...],
    max_records: int | None,
    timeout_s: float | None,
    template: str | None,
    delimiter: str | None,
    isolation_level: Literal["read_uncommitted", "read_committed"],
) -> None:
    r"""Print the records of topics until Ctrl-C, --max-records or --timeout.

    With --json, each record is a line of JSON; bytes that are not UTF-8 become
    {"base64": "..."}. A group commits what has been printed, nothing else.

    \b
    Placeholders of --format: {topic} {partition} {offset} {timestamp} (UTC)
    {timestamp_ms} {key} {value} {headers}; and \n \t \0 \\ \x1f.

    \b
    Examples:
      minikafka consume orders --from-beginning
      minikafka consume orders --group billing --max-records 100
      minikafka consume orders --format '{key}\t{value}' --timeout 5
      minikafka consume orders --json --from-beginning | jq .offset
    """
    import trio

    from minikafka_client import Consumer

    from .record_format import compile_format, json_line
    from .record_pump import RecordPump

    if target.as_json and (template is not None or delimiter is not None):
        raise click.UsageError("--json and --format (or --delimiter) exclude each other")
    if group_id is not None and partitions:
        raise click.UsageError("--group and --partition exclude each other: a group assigns them")
    render: RecordFormat
    if target.as_json:
        render = json_line
    else:
        render = compile_format(template or "{value}", "\\n" if delimiter is None else delimiter)
    pump = RecordPump(render, max_records=max_records, timeout_s=timeout_s, commits=bool(group_id))
    async with connected(target) as admin:
        await require_topics(admin, topics)
        wanted = [] if group_id else await _partitions_of(admin, topics, partitions)
    stop = Stop()
    async with Consumer(
        target.bootstrap,
        group_id=group_id,
        auto_offset_reset="earliest" if from_beginning else "latest",
        enable_auto_commit=False,
        isolation_level=isolation_level,
        on_partitions_revoked=pump.commit_before_rebalance if group_id else None,
        **target.connection,
    ) as consumer:
        pump.consumer = consumer
        with cancelled_by_signals(stop):
            if group_id:
                await consumer.subscribe(topics)
            else:
                await consumer.assign(wanted)
            await pump.run()
        # Signals end the pump and not the consumer, which can so commit and leave its group.
        with cancelled_by_signals(Stop()), trio.move_on_after(_COMMIT_PATIENCE_S):
            await pump.commit()
    if stop.signal_number:
        raise stop.error(f"stopped by a signal; {count_of(pump.printed, 'record')} printed")
    if pump.reader_is_gone:
        raise BrokenPipeError
    if max_records is not None and pump.printed < max_records:
        raise CommandFailed(
            f"{pump.printed} of {count_of(max_records, 'record')} came, then none for "
            f"{timeout_s} s (--timeout)"
        )


async def _partitions_of(
    admin: AdminClient, topics: Sequence[str], partitions: Sequence[int]
) -> list[TopicPartition]:
    from minikafka_client import TopicPartition

    wanted: list[TopicPartition] = []
    for name, topic in (await admin.describe_topics(topics)).items():
        there = [partition.partition for partition in topic.partitions]
        missing = [number for number in partitions if number not in there]
        if missing:
            raise CommandFailed(
                f"topic {name!r} has no partition {missing[0]}; it has {len(there)}, from 0 on"
            )
        wanted += [TopicPartition(name, number) for number in partitions or there]
    return wanted
