"""``minikafka consume``: records to stdout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from .failure import CommandFailed
from .output import count_of
from .places import BEGINNING, END, Place, PlaceType
from .signals import Stop, cancelled_by_signals
from .target import Target, client_command, connected, no_partition, require_topics

if TYPE_CHECKING:
    from minikafka_client import AdminClient, TopicPartition

    from .ranges import Ranges
    from .record_filter import RecordFilter
    from .record_format import RecordFormat
    from .record_printer import RecordPrinter

_COMMIT_PATIENCE_S: Final = 5
_SHARE_EXCLUDES: Final = (
    "--share excludes --group, --partition and --isolation-level (a share group has the setting "
    "share.isolation.level)"
)
_GROUPS_EXCLUDE: Final = (
    "--from and --until exclude --group and --share, which go on where the group is; move it with "
    "`minikafka group reset-offsets`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """What was asked for."""

    topics: tuple[str, ...]
    from_beginning: bool
    first: Place | None
    until: Place | None
    group_id: str | None
    share_group_id: str | None
    partitions: tuple[int, ...]
    max_records: int | None
    timeout_s: float | None
    template: str | None
    delimiter: str | None
    isolation_level: Literal["read_uncommitted", "read_committed"]
    expressions: tuple[str, ...]


@click.command("consume")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option(
    "--from-beginning",
    is_flag=True,
    help="Start at the oldest record; with --group, only where it has no committed offset; with "
    "--share, where the group has not begun (sets its share.auto.offset.reset).",
)
@click.option(
    "--from",
    "first",
    type=PlaceType(),
    metavar="PLACE",
    help="Start here in every partition: an offset, a time, a duration ago, beginning or end.",
)
@click.option(
    "--until",
    type=PlaceType(),
    metavar="PLACE",
    help="Stop before this place in every partition, and end when all are there; without --from, "
    "from the beginning. Only records that exist when the command starts are printed.",
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
async def command(target: Target, **given: Any) -> None:
    r"""Print the records of topics until Ctrl-C, --until, --max-records or --timeout.

    With --json, each record is a line of JSON; bytes that are not UTF-8 become
    {"base64": "..."}. With --group, only offsets of records that were printed are committed. With
    --share, other consumers of the group take records of the same partitions.

    \b
    PLACE of --from and --until, each partition for itself:
      100               this offset
      -10               10 offsets before the end
      2013-01-31T08:00  the first record at or after this time (ISO 8601, UTC)
      @1359619200000    the same in ms since 1970
      -1h30m, '5m ago'  the same, counted back from now: w, d, h, m, s, ms
      beginning, end    the oldest record; behind the last one

    \b
    Placeholders of --format: {topic} {partition} {offset} {timestamp} (UTC)
    {timestamp_ms} {key} {value} {headers}; and \n \t \0 \\ \x1f.

    \b
    --filter: key, value or header.NAME, then = (is this text), != (is not) or ~ (contains
    a match of this regular expression), then the text.

    \b
    Examples:
      minikafka consume orders --from-beginning --filter key=alice --filter 'value~pears?'
      minikafka consume orders --from -1h                      # the last hour, and what comes
      minikafka consume orders --from 2013-01-31T08:00 --until 2013-01-31T09:00 --json
      minikafka consume orders --partition 0 --from 100 --until 200
      minikafka consume orders --until end                     # everything there is, then exit
      minikafka consume orders --group billing --max-records 100
      minikafka consume jobs --share workers --max-records 1
      minikafka consume orders --format '{key}\t{value}' --timeout 5
      minikafka consume orders --json --from-beginning | jq .offset
    """
    options = _Options(**given)
    _check_options(options)
    await _consume(target, options)


async def _consume(target: Target, options: _Options) -> None:
    from .record_printer import RecordPrinter
    from .share_records import print_shared

    printer = RecordPrinter(
        _format(target, options.template, options.delimiter),
        max_records=options.max_records,
        timeout_s=options.timeout_s,
        commits=bool(options.group_id),
        is_shown=_filter(options.expressions),
    )
    stop = Stop()
    if options.share_group_id:
        async with connected(target) as admin:
            await require_topics(admin, options.topics)
            if options.from_beginning:
                await _begin_with_the_oldest(admin, options.share_group_id)
        await print_shared(target, options.topics, options.share_group_id, printer, stop)
    elif options.until is not None:
        await _print_ranges(target, options, printer, stop)
        options = replace(options, max_records=None)  # fewer are not a failure
    else:
        await _print_consumed(target, options, printer, stop)
    _check_end(printer, stop, options.max_records, options.timeout_s)


def _check_options(options: _Options) -> None:
    if options.group_id is not None and options.partitions:
        raise click.UsageError("--group and --partition exclude each other: a group assigns them")
    if options.share_group_id and (
        options.group_id or options.partitions or options.isolation_level != "read_uncommitted"
    ):
        raise click.UsageError(_SHARE_EXCLUDES)
    has_place = options.first is not None or options.until is not None
    if has_place and (options.group_id is not None or options.share_group_id is not None):
        raise click.UsageError(_GROUPS_EXCLUDE)
    if options.first is not None and options.from_beginning:
        raise click.UsageError("--from and --from-beginning exclude each other")


async def _print_ranges(
    target: Target, options: _Options, printer: RecordPrinter, stop: Stop
) -> None:
    """Print what is between two places."""
    from minikafka_client.sync import Reader

    from .ranges import RangeRecords

    ranges = await _ranges(target, options)
    with Reader(
        target.bootstrap, ranges, isolation_level=options.isolation_level, **target.connection
    ) as reader:
        printer.consumer = RangeRecords(reader)
        with cancelled_by_signals(stop):
            await printer.run()


async def _ranges(target: Target, options: _Options) -> Ranges:
    from .ranges import ranges_between

    async with connected(target) as admin:
        await require_topics(admin, options.topics)
        return await ranges_between(
            admin,
            await _partitions_of(admin, options.topics, options.partitions),
            options.first or BEGINNING,
            options.until or END,
            isolation_level=options.isolation_level,
        )


async def _print_consumed(
    target: Target, options: _Options, printer: RecordPrinter, stop: Stop
) -> None:
    """Print topics (as a member of a group) or partitions, without an end."""
    import trio

    from minikafka_client import Consumer

    firsts: dict[TopicPartition, int] = {}
    if options.first is not None:
        ranges = await _ranges(target, options)
        firsts = {partition: first for partition, (first, _) in ranges.items()}
    async with connected(target) as admin:
        await require_topics(admin, options.topics)
        wanted = (
            []
            if options.group_id
            else await _partitions_of(admin, options.topics, options.partitions)
        )
    async with Consumer(
        target.bootstrap,
        group_id=options.group_id,
        auto_offset_reset="earliest" if options.from_beginning else "latest",
        enable_auto_commit=False,
        isolation_level=options.isolation_level,
        on_partitions_revoked=printer.commit_before_rebalance if options.group_id else None,
        **target.connection,
    ) as consumer:
        printer.consumer = consumer
        with cancelled_by_signals(stop):
            if wanted:
                await consumer.assign(wanted)
                for partition, offset in firsts.items():
                    consumer.seek(partition, offset)
            else:
                await consumer.subscribe(options.topics)
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
