"""``minikafka produce``: each line of stdin becomes a record."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from .failure import CommandFailed
from .output import Progress, count_of, note, print_json
from .signals import Stop, cancelled_by_signals
from .target import Target, assignments, client_command, connected, no_partition, require_topics

if TYPE_CHECKING:
    from minikafka_client import AdminClient, Delivery, KafkaError, Producer, ProducerRecord
    from minikafka_client.producer_options import CompressionType

    from .stdin_records import LineParser, StdinLines

_FLUSH_PATIENCE_S: Final = 2
_RECORDS_PER_STEP: Final = 200
_AUTO_CREATE: Final = "auto.create.topics.enable"
_ACKS: dict[str, Literal["all", 0, 1]] = {"0": 0, "1": 1, "all": "all"}


@click.command("produce")
@click.argument("topic")
@click.option(
    "--key-separator",
    metavar="TEXT",
    help="Text between key and value; without it, records have no key.",
)
@click.option(
    "--acks",
    type=click.Choice(list(_ACKS)),
    default="all",
    show_default=True,
    help="Brokers that must have a record before it is acknowledged: none, the leader, or all "
    "in-sync replicas.",
)
@click.option(
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
    help="How batches are compressed.",
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="KEY=VALUE",
    help="A header for every record; may be repeated.",
)
@click.option("--partition", type=click.IntRange(min=0), help="Send everything to this partition.")
@click.option(
    "--null",
    "null_text",
    metavar="TEXT",
    help="A value that equals this text becomes null: a tombstone in a compacted topic.",
)
@client_command
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
    r"""Send each line of stdin as a record, and report on stderr how many were acknowledged.

    Ctrl-C stops reading stdin, waits up to two seconds for outstanding acknowledgements, and
    reports what was acknowledged.

    \b
    Examples:
      seq 1000 | minikafka produce numbers
      echo 'alice:hello' | minikafka produce chat --key-separator :
      minikafka produce events --acks 1 --compression zstd < events.jsonl
      echo 'alice:-' | minikafka produce latest --key-separator : --null -
    """
    import trio

    from minikafka_client import KafkaError, Producer

    from .stdin_records import LineParser, StdinLines

    if key_separator == "":
        raise click.UsageError("--key-separator may not be empty; omit it for records without keys")
    parser = LineParser(
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
            target.bootstrap, acks=_ACKS[acks], compression_type=compression, **target.connection
        ) as producer,
    ):
        with cancelled_by_signals(stop):
            try:
                await _check_topic(admin, producer, topic, partition)
                await _send_all(producer, topic, parser, StdinLines(), tally)
            except (KafkaError, CommandFailed) as error:
                failure = error
        # Better to know what became of the records in flight than to report them as unknown.
        with cancelled_by_signals(Stop()), trio.move_on_after(_FLUSH_PATIENCE_S):
            await producer.flush()
        tally.finish()
        if target.as_json:
            print_json(tally.document())
        failure = failure or tally.first_error
        # Raised in here, because a normal exit would wait for records that are not sent.
        if stop.signal_number:
            raise stop.error(f"stopped by a signal; {tally.summary}")
        if failure is not None:
            raise CommandFailed(f"{failure}; {tally.summary}")
    if not target.as_json:
        note(tally.summary)


async def _check_topic(
    admin: AdminClient, producer: Producer, topic: str, partition: int | None
) -> None:
    """Fail now, rather than at the first record, if the topic or partition does not exist."""
    is_new = topic not in await admin.list_topics(include_internal=True)
    if is_new and not await _creates_topics(admin):
        await require_topics(admin, [topic])
    partitions = await producer.partitions_for(topic)
    if is_new:
        note(f"topic {topic!r} did not exist; the broker has created it")
    if partition is not None and partition not in partitions:
        raise no_partition(topic, partition, len(partitions))


async def _creates_topics(admin: AdminClient) -> bool:
    """Whether brokers create a topic at the first write; assumed if they do not say."""
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
    parser: LineParser,
    lines: StdinLines,
    tally: DeliveryTally,
) -> None:
    """Send until stdin ends or a record fails; sending more after a failure would be guesswork."""
    with Progress("producing", lines.size_bytes) as progress:
        while not tally.failed and (texts := await lines.read_lines()) is not None:
            for start in range(0, len(texts), _RECORDS_PER_STEP):
                records = parser.records(texts[start : start + _RECORDS_PER_STEP])
                await _send(producer, topic, records, tally)
                tally.count_done()
                progress.update(lines.bytes_read, tally.progress_text)
        await producer.flush()
        tally.count_done()


async def _send(
    producer: Producer, topic: str, records: Sequence[ProducerRecord], tally: DeliveryTally
) -> None:
    """Send one by one, so that a record that was sent is counted even if a signal arrives."""
    import trio

    from minikafka_client import BufferFullError

    await trio.lowlevel.checkpoint()
    for record in records:
        value, key, headers, _, partition = record
        try:
            delivery = producer.send_nowait(topic, value, key, partition=partition, headers=headers)
        except BufferFullError:
            delivery = await producer.send(topic, value, key, partition=partition, headers=headers)
        tally.sent(record, delivery)


@dataclass(slots=True)
class _PartitionTally:
    records: int
    first_offset: int
    last_offset: int


class DeliveryTally:
    """Counts what became of the records; at most a producer's buffer full of them is undecided.

    Attributes:
        acknowledged: records acknowledged as ``acks`` demands; with acks=0, records sent.
        failed: records that were refused or timed out.
        unknown: records without an answer when the command ended.
        size_bytes: keys and values of all records sent.
    """

    def __init__(self, topic: str, acks: str) -> None:
        self.acknowledged = 0
        self.failed = 0
        self.unknown = 0
        self.size_bytes = 0
        self.first_error: KafkaError | None = None
        self._topic = topic
        self._acks = acks
        self._open: deque[Delivery] = deque()
        self._partitions: dict[int, _PartitionTally] = {}
        self._started_at = time.monotonic()
        self._seconds = 0.0

    def sent(self, record: ProducerRecord, delivery: Delivery) -> None:
        self._open.append(delivery)
        self.size_bytes += len(record.value or b"") + len(record.key or b"")

    def count_done(self) -> None:
        """Count deliveries in order, up to the first that is still undecided."""
        waiting = self._open
        while waiting and waiting[0].is_done:
            self._count(waiting.popleft())

    def finish(self) -> None:
        """Count all deliveries that are done; the others remain unknown."""
        self._seconds = time.monotonic() - self._started_at
        for delivery in self._open:
            if delivery.is_done:
                self._count(delivery)
            else:
                self.unknown += 1
        self._open.clear()

    def _count(self, delivery: Delivery) -> None:
        error = delivery.error
        if error is not None:
            self.failed += 1
            self.first_error = self.first_error or error
            return
        self.acknowledged += 1
        where = delivery.result()
        partition = self._partitions.get(where.partition)
        if partition is None:
            self._partitions[where.partition] = _PartitionTally(1, where.offset, where.offset)
            return
        partition.records += 1
        partition.first_offset = min(partition.first_offset, where.offset)
        partition.last_offset = max(partition.last_offset, where.offset)

    @property
    def progress_text(self) -> str:
        return f"{self.acknowledged} acknowledged"

    @property
    def summary(self) -> str:
        if self._acks == "0":
            text = f"{count_of(self.acknowledged, 'record')} sent, acks=0 waits for no answer"
        else:
            text = f"{count_of(self.acknowledged, 'record')} acknowledged (acks={self._acks})"
        if self.failed:
            text += f", {self.failed} failed"
        if self.unknown:
            text += f", {self.unknown} without an answer (stored or not)"
        seconds = max(self._seconds, 1e-3)
        return f"{text} in {seconds:.2f} s ({self.size_bytes / 1e6 / seconds:.1f} MB/s)"

    def document(self) -> dict[str, Any]:
        partitions: list[dict[str, Any]] = [
            {
                "partition": number,
                "records": partition.records,
                "first_offset": partition.first_offset,
                "last_offset": partition.last_offset,
            }
            for number, partition in sorted(self._partitions.items())
        ]
        return {
            "topic": self._topic,
            "acks": self._acks,
            "acknowledged": self.acknowledged,
            "failed": self.failed,
            "unknown": self.unknown,
            "size_bytes": self.size_bytes,
            "seconds": round(self._seconds, 3),
            "partitions": partitions,
        }
