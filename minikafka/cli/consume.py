"""``minikafka consume``: records to stdout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

import click

from .failure import CommandFailed
from .output import count_of
from .signals import Stop, cancelled_by_signals
from .target import Target, client_command, connected, no_partition, require_topics

if TYPE_CHECKING:
    from minikafka_client import AdminClient, Consumer, TopicPartition

    from .record_filter import RecordFilter
    from .record_format import RecordFormat
    from .record_printer import RecordPrinter

_COMMIT_PATIENCE_S: Final = 5
_SHARE_EXCLUDES: Final = (
    "--share excludes --group, --partition and --isolation-level (a share group has the setting "
    "share.isolation.level)"
)


@click.command("consume")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option(
    "--from-beginning",
    is_flag=True,
    help="Start at the oldest record; with --group, only where it has no committed offset; with "
    "--share, where the group has not begun (sets its share.auto.offset.reset).",
)
@click.option(
    "--group", "group_id", metavar="GROUP", help="Join this consumer group, and commit offsets."
)
@click.option(
    "--share",
    "share_group_id",
    metavar="GROUP",
    help="Take records of this share group (a queue), and accept those that were printed.",
)
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(min=0),
    multiple=True,
    help="Read only this partition; may be repeated.",
)
@click.option("--max-records", type=click.IntRange(min=1), help="Stop after this many records.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop when no record has arrived for this long.",
)
@click.option(
    "--format",
    "template",
    metavar="TEXT",
    help=r"Template of a record, e.g. '{partition}:{offset} {key}={value}'.  [default: {value}]",
)
@click.option(
    "--delimiter",
    metavar="TEXT",
    help=r"Text after each record, e.g. '\0'.  [default: \n]",
)
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
    help="Whether to show records of open and aborted transactions.",
)
@click.option(
    "--filter",
    "expressions",
    multiple=True,
    metavar="EXPRESSION",
    help="Show only records of which this is true; may be repeated, then all must be.",
)
@client_command
async def command(
    target: Target,
    topics: tuple[str, ...],
    from_beginning: bool,
    group_id: str | None,
    share_group_id: str | None,
    partitions: tuple[int, ...],
    max_records: int | None,
    timeout_s: float | None,
    template: str | None,
    delimiter: str | None,
    isolation_level: Literal["read_uncommitted", "read_committed"],
    expressions: tuple[str, ...],
) -> None:
    r"""Print the records of topics until Ctrl-C, --max-records or --timeout.

    With --json, each record is a line of JSON; bytes that are not UTF-8 become
    {"base64": "..."}. With --group, only offsets of records that were printed are committed. With
    --share, other consumers of the group take records of the same partitions.

    \b
    Placeholders of --format: {topic} {partition} {offset} {timestamp} (UTC)
    {timestamp_ms} {key} {value} {headers}; and \n \t \0 \\ \x1f.

    \b
    --filter: key, value or header.NAME, then = (is this text), != (is not) or ~ (contains
    a match of this regular expression), then the text.

    \b
    Examples:
      minikafka consume orders --from-beginning --filter key=alice --filter 'value~pears?'
      minikafka consume orders --group billing --max-records 100
      minikafka consume jobs --share workers --max-records 1
      minikafka consume orders --format '{key}\t{value}' --timeout 5
      minikafka consume orders --json --from-beginning | jq .offset
    """
    from minikafka_client import Consumer

    from .record_printer import RecordPrinter
    from .share_records import print_shared

    _check_options(group_id, share_group_id, partitions, isolation_level)
    printer = RecordPrinter(
        _format(target, template, delimiter),
        max_records=max_records,
        timeout_s=timeout_s,
        commits=bool(group_id),
        is_shown=_filter(expressions),
    )
    async with connected(target) as admin:
        await require_topics(admin, topics)
        if share_group_id and from_beginning:
            await _begin_with_the_oldest(admin, share_group_id)
        in_group = group_id or share_group_id
        wanted = [] if in_group else await _partitions_of(admin, topics, partitions)
    stop = Stop()
    if share_group_id:
        await print_shared(target, topics, share_group_id, printer, stop)
    else:
        consumer = Consumer(
            target.bootstrap,
            group_id=group_id,
            auto_offset_reset="earliest" if from_beginning else "latest",
            enable_auto_commit=False,
            isolation_level=isolation_level,
            on_partitions_revoked=printer.commit_before_rebalance if group_id else None,
            **target.connection,
        )
        await _print_consumed(consumer, topics if group_id else wanted, printer, stop)
    _check_end(printer, stop, max_records, timeout_s)


def _check_options(
    group_id: str | None,
    share_group_id: str | None,
    partitions: Sequence[int],
    isolation_level: str,
) -> None:
    if group_id is not None and partitions:
        raise click.UsageError("--group and --partition exclude each other: a group assigns them")
    if share_group_id and (group_id or partitions or isolation_level != "read_uncommitted"):
        raise click.UsageError(_SHARE_EXCLUDES)


async def _print_consumed(
    consumer: Consumer,
    wanted: Sequence[str] | Sequence[TopicPartition],
    printer: RecordPrinter,
    stop: Stop,
) -> None:
    """Print topics (as a member of a group), or partitions."""
    import trio

    async with consumer:
        printer.consumer = consumer
        with cancelled_by_signals(stop):
            partitions = [each for each in wanted if not isinstance(each, str)]
            if partitions:
                await consumer.assign(partitions)
            else:
                await consumer.subscribe([each for each in wanted if isinstance(each, str)])
            await printer.run()
        # A signal ends the printing, not the consumer, which can still commit and leave its group.
        with cancelled_by_signals(Stop()), trio.move_on_after(_COMMIT_PATIENCE_S):
            await printer.commit()


def _format(target: Target, template: str | None, delimiter: str | None) -> RecordFormat:
    from .record_format import compile_format, json_line

    if not target.as_json:
        return compile_format(template or "{value}", "\\n" if delimiter is None else delimiter)
    if template is not None or delimiter is not None:
        raise click.UsageError("--json and --format (or --delimiter) exclude each other")
    return json_line


def _filter(expressions: tuple[str, ...]) -> RecordFilter | None:
    from .record_filter import compile_filters

    return compile_filters(expressions) if expressions else None


def _check_end(
    printer: RecordPrinter, stop: Stop, max_records: int | None, timeout_s: float | None
) -> None:
    """Raise if it ended for another reason than the one that was asked for."""
    if stop.signal_number:
        raise stop.error(f"stopped by a signal; {count_of(printer.printed, 'record')} printed")
    if printer.reader_is_gone:
        raise BrokenPipeError
    if max_records is not None and printer.printed < max_records:
        raise CommandFailed(
            f"{printer.printed} of {count_of(max_records, 'record')} arrived, then none for "
            f"{timeout_s} s (--timeout)"
        )


async def _begin_with_the_oldest(admin: AdminClient, share_group_id: str) -> None:
    from minikafka_client import ConfigChange, ConfigResource, ConfigResourceType

    group = ConfigResource(ConfigResourceType.GROUP, share_group_id)
    await admin.alter_configs({group: [ConfigChange("share.auto.offset.reset", "earliest")]})


async def _partitions_of(
    admin: AdminClient, topics: Sequence[str], partitions: Sequence[int]
) -> list[TopicPartition]:
    from minikafka_client import TopicPartition

    wanted: list[TopicPartition] = []
    for name, topic in (await admin.describe_topics(topics)).items():
        existing = [partition.partition for partition in topic.partitions]
        for number in partitions or existing:
            if number not in existing:
                raise no_partition(name, number, len(existing))
            wanted.append(TopicPartition(name, number))
    return wanted
