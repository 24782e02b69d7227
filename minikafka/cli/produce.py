"""``minikafka produce``: each line of stdin becomes a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import click

from .assignment import assignments
from .cluster_command import (
    Stop,
    Target,
    cancelled_by_signals,
    cluster_command,
    connected,
    require_topics,
)
from .failure import CommandFailed
from .output import note, print_json

if TYPE_CHECKING:
    from minikafka_client import AdminClient, Producer, ProducerRecord
    from minikafka_client.trio_face.producer import CompressionType

    from .delivery_tally import DeliveryTally
    from .record_line import LineReader
    from .stdin_lines import StdinLines

_FLUSH_PATIENCE_S = 2
_RECORDS_PER_STEP = 200
_AUTO_CREATE = "auto.create.topics.enable"
_ACKS: dict[str, Literal["all", 0, 1]] = {"0": 0, "1": 1, "all": "all"}


@click.command("produce")
@click.argument("topic")
@click.option(
    "--key-separator",
    metavar="TEXT",
    help="What stands between key and value; without it, records have no key.",
)
@click.option(
    "--acks",
    type=click.Choice(list(_ACKS)),
    default="all",
    show_default=True,
    help="Who must have a record before it counts as sent: nobody, the leader, all replicas.",
)
@click.option(
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
    help="Codec of the batches.",
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="KEY=VALUE",
    help="A header for every record; may be repeated.",
)
@click.option("--partition", type=click.IntRange(min=0), help="Send everything there.")
@click.option(
    "--null",
    "null_text",
    metavar="TEXT",
    help="A value of exactly this text becomes null: a tombstone in a compacted topic.",
)
@cluster_command
async def command(
    target: Target,
    topic: str,
    key_separator: str | None,
    acks: str,
    compression: CompressionType,
    headers: tuple[str, ...],
    partition: int | None,
    null_text: str | None,
) -> None:
    r"""Send each line of stdin as a record, and say on stderr how many were acknowledged.

    Ctrl-C stops reading, waits a moment for what is on its way, and reports what was acknowledged.

    \b
    Examples:
      seq 1000 | minikafka produce numbers
      echo 'alice:hello' | minikafka produce chat --key-separator :
      minikafka produce events --acks 1 --compression zstd < events.jsonl
      echo 'alice:-' | minikafka produce latest --key-separator : --null -
    """
    import trio

    from minikafka_client import KafkaError, Producer

    from .delivery_tally import DeliveryTally
    from .record_line import LineReader
    from .stdin_lines import StdinLines

    if key_separator == "":
        raise click.UsageError("--key-separator may not be empty; leave it out for no keys")
    reader = LineReader(
        key_separator=None if key_separator is None else key_separator.encode(),
        null_text=None if null_text is None else null_text.encode(),
        headers=[(key, text.encode()) for key, text in assignments("--header", headers)],
        partition=partition,
    )
    tally = DeliveryTally(topic, acks)
    failure: Exception | None = None
    stop = Stop()
    async with (
        connected(target) as admin,
        Producer(
            target.bootstrap, acks=_ACKS[acks], compression=compression, **target.connection
        ) as producer,
    ):
        with cancelled_by_signals(stop):
            try:
                await _check_topic(admin, producer, topic, partition)
                await _send_all(producer, topic, reader, StdinLines(), tally)
            except (KafkaError, CommandFailed) as error:
                failure = error
        # Of records that are on their way it is better to know than to guess.
        with cancelled_by_signals(Stop()), trio.move_on_after(_FLUSH_PATIENCE_S):
            await producer.flush()
        tally.abandon_rest()
        if target.as_json:
            print_json(tally.document())
        failure = failure or tally.first_error
        # Leaving by an exception drops what is not sent; leaving without one would wait for it.
        if stop.signal_number:
            raise stop.error(f"stopped by a signal; {tally.summary}")
        if failure is not None:
            raise CommandFailed(f"{failure}; {tally.summary}")
    if not target.as_json:
        note(tally.summary)


async def _check_topic(
    admin: AdminClient, producer: Producer, topic: str, partition: int | None
) -> None:
    """Find out now, not at the first record, that the topic or partition does not exist."""
    is_new = topic not in await admin.list_topics(include_internal=True)
    if is_new and not await _creates_topics(admin):
        await require_topics(admin, [topic])
    partitions = await producer.partitions_for(topic)
    if is_new:
        note(f"there was no topic {topic!r}; the broker has created it")
    if partition is not None and partition not in partitions:
        raise CommandFailed(
            f"topic {topic!r} has no partition {partition}; it has {len(partitions)}, from 0 on"
        )


async def _creates_topics(admin: AdminClient) -> bool:
    """Whether a broker creates topics that somebody writes to; if it does not tell, it may."""
    from minikafka_client import ConfigResource, KafkaError

    try:
        cluster = await admin.describe_cluster()
        resource = ConfigResource.broker(cluster.brokers[0].node_id)
        entries = (await admin.describe_configs([resource], names=[_AUTO_CREATE]))[resource]
    except KafkaError:
        return True
    return _AUTO_CREATE not in entries or entries[_AUTO_CREATE].value != "false"


async def _send_all(
    producer: Producer,
    topic: str,
    reader: LineReader,
    lines: StdinLines,
    tally: DeliveryTally,
) -> None:
    """Send until stdin ends or a record fails: what comes after that one would be guesswork."""
    from .progress import Progress

    with Progress("producing", lines.size_bytes) as progress:
        while not tally.failed and (texts := await lines.read_lines()) is not None:
            for start in range(0, len(texts), _RECORDS_PER_STEP):
                records = reader.records(texts[start : start + _RECORDS_PER_STEP])
                await _send(producer, topic, records, tally)
                tally.count_finished()
                progress.update(lines.bytes_read, tally.progress_text)
        await producer.flush()
        tally.count_finished()


async def _send(
    producer: Producer, topic: str, records: Sequence[ProducerRecord], tally: DeliveryTally
) -> None:
    """Send one by one, so that every record that was sent is counted, whenever a signal comes."""
    import trio

    await trio.lowlevel.checkpoint()
    for record in records:
        value, key, headers, _, partition = record
        try:
            delivery = producer.send_nowait(topic, value, key, partition=partition, headers=headers)
        except trio.WouldBlock:
            delivery = await producer.send(topic, value, key, partition=partition, headers=headers)
        tally.sent(record, delivery)
