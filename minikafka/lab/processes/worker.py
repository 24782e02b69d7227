"""A client in a process of its own, which ends or stops itself at exactly the point it is told.

``python -m minikafka.lab.processes.worker``, with a job as a line of JSON on stdin. It writes what
it does to stdout, a line of JSON each: ``read``, ``process``, ``commit``, ``position``, ``pause``.
The end of stdin asks it to leave.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

import trio

from minikafka_client import ConsumerRecord, PreparedTransactionState, Producer, TopicPartition
from minikafka_client.errors import KafkaError
from minikafka_client.patterns.at_least_once import AtLeastOnce
from minikafka_client.patterns.at_most_once import AtMostOnce
from minikafka_client.patterns.consume_transform_produce import ConsumeTransformProduce
from minikafka_client.patterns.exactly_once import ExactlyOnceInto
from minikafka_client.patterns.sqlite import RecordTable, SqliteOffsets
from minikafka_client.patterns.subscribed import PatternOptions
from minikafka_client.trio_api.consumer import Consumer
from minikafka_client.types import Offsets

from .link import connection_options

PORTION: Final = 3
"""Records between commits."""
_FETCH_BYTES: Final = 800
"""About as many, where a fetch decides."""
_INTERVAL_MS: Final = 60
_STDOUT: Final = 1
_STDIN: Final = 0


@dataclass
class Job:
    """What to do; the parent fills it in.

    Attributes:
        mode: a value of `minikafka.lab.matrix.Commit`.
        point: ``before``, ``between`` or ``after``: where it ends, or stops if `is_pause`.
        count: at the how manieth time it reaches the point; 0 for never.
        properties: what its clients connect with, by Kafka's names.
        is_leading: with a timer that commits, whether processing leads it or lags it.
    """

    mode: str
    bootstrap: str
    topic: str
    partitions: int
    database: str = ""
    is_read_committed: bool = False
    instance: str | None = None
    name: str = ""
    session_ms: int = 1_000
    point: str = ""
    count: int = 0
    is_pause: bool = False
    is_leading: bool = False
    is_busy: bool = False
    properties: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def is_due(self) -> bool:
        """Whether the next time at its point is the one."""
        return self.count == 1

    def say(self, kind: str, **what: object) -> None:
        """Report something."""
        line = json.dumps({"kind": kind, "at": time.time(), **what})
        os.write(_STDOUT, line.encode() + b"\n")

    def reach(self, point: str) -> None:
        """Be somewhere; it may be the end."""
        if point == "after":
            self.say("commit")
        if point != self.point or not self.count:
            return
        self.count -= 1
        if self.count:
            return
        if self.is_pause:
            self.say("pause")
            os.kill(os.getpid(), signal.SIGSTOP)
            self.say("resume")
        else:
            self.say("kill")
            os.kill(os.getpid(), signal.SIGKILL)

    def took(self, records: Sequence[ConsumerRecord]) -> None:
        """Report what was read."""
        self.is_busy = self.is_busy or bool(records)
        for record in records:
            self.say("read", value=value_of(record), offset=record.offset)

    def process(self, record: ConsumerRecord) -> None:
        """Have an effect that cannot be undone: the parent hears of it."""
        self.say("process", value=value_of(record))

    def options(self) -> PatternOptions[bytes, bytes]:
        """Of the consumer."""
        options = PatternOptions[bytes, bytes](
            client_id=self.name or self.topic,
            group_id=self.topic,
            auto_offset_reset="earliest",
            isolation_level="read_committed" if self.is_read_committed else "read_uncommitted",
            session_timeout_ms=self.session_ms,
            heartbeat_interval_ms=self.session_ms // 5,
            request_timeout_ms=3_000,
            metadata_max_age_ms=1_000,
            retry_backoff_ms=50,
            retry_backoff_max_ms=200,
            fetch_max_wait_ms=100,
            max_partition_fetch_bytes=_FETCH_BYTES,
        )
        if self.instance is not None:
            options["group_instance_id"] = self.instance
        return cast("PatternOptions[bytes, bytes]", connection_options(self.properties) | options)


def value_of(record: ConsumerRecord) -> str:
    """As in the ledger."""
    return (record.value or b"").decode()


def watch(job: Job, consumer: Consumer[bytes, bytes]) -> None:
    """Have a consumer's polls reported."""
    poll = consumer.poll

    async def watched(max_records: int = 500, timeout_ms: float | None = None) -> Any:
        job.is_busy = False
        records = await poll(max_records, timeout_ms)
        job.took(records)
        return records

    # The patterns make their consumers themselves.
    consumer.poll = watched  # type: ignore[method-assign]


# --- the modes ------------------------------------------------------------------------------------


async def auto(job: Job, watching: Watching) -> None:
    """A timer commits what was returned, whether it has been processed or not."""
    options = job.options()
    options["enable_auto_commit"] = False
    is_committed = trio.Event()

    async def commit(consumer: Consumer[bytes, bytes]) -> None:
        nonlocal is_committed
        while True:
            await trio.sleep(_INTERVAL_MS / 1000)
            positions = consumer.positions()
            if positions:
                try:
                    await consumer.commit(positions)
                except KafkaError:
                    continue
                is_committed.set()
                is_committed = trio.Event()

    async with Consumer(job.bootstrap, **options) as consumer, trio.open_nursery() as own:
        watch(job, consumer)
        await consumer.subscribe([job.topic])
        watching.begin(consumer)
        own.start_soon(commit, consumer)
        while True:
            records = await consumer.poll(PORTION)
            job.reach("before")
            if not job.is_leading:
                if job.point == "between" and job.is_due:
                    await is_committed.wait()
                job.reach("between")
            for record in records:
                job.process(record)
            if job.is_leading:
                job.reach("between")
            await is_committed.wait()
            job.reach("after")


async def auto_on_poll(job: Job, watching: Watching) -> None:
    """The client commits by a timer what was returned before the last poll."""
    options = job.options()
    options["enable_auto_commit"] = True
    options["auto_commit_interval_ms"] = _INTERVAL_MS
    async with Consumer(job.bootstrap, **options) as consumer:
        watch(job, consumer)
        await consumer.subscribe([job.topic])
        watching.begin(consumer)
        while True:
            records = await consumer.poll(PORTION)
            job.reach("before")
            for record in records:
                job.process(record)
            job.reach("between")
            await trio.sleep(2 * _INTERVAL_MS / 1000)
            job.reach("after")


class _AtMostOnce(AtMostOnce[bytes, bytes]):
    job: Job

    async def _commit(self, offsets: Offsets) -> bool:
        self.job.reach("before")
        return await super()._commit(offsets)


async def before(job: Job, watching: Watching) -> None:
    """Commit, then process."""
    async with _AtMostOnce(
        job.bootstrap, [job.topic], max_records=PORTION, **job.options()
    ) as records:
        records.job = job
        watch(job, records.consumer)
        watching.begin(records.consumer)
        async for record in records:
            job.reach("between")
            job.process(record)
            if not records.buffer.records:
                job.reach("after")


class _AtLeastOnce(AtLeastOnce[bytes, bytes]):
    job: Job
    has_new = False

    async def _commit_processed(self) -> None:
        has_new, self.has_new = self.has_new, False
        if has_new:
            self.job.reach("between")
        await super()._commit_processed()
        if has_new and not self._in_background:
            self.job.reach("after")


async def after(job: Job, watching: Watching, *, in_background: bool = False) -> None:
    """Process, then commit."""

    def committed(_: Offsets, error: KafkaError | None) -> None:
        if error is None:
            job.reach("after")

    async with _AtLeastOnce(
        job.bootstrap,
        [job.topic],
        max_records=PORTION,
        in_background=in_background,
        on_commit=committed if in_background else None,
        **job.options(),
    ) as records:
        records.job = job
        watch(job, records.consumer)
        watching.begin(records.consumer)
        async for record in records:
            if not records.has_new:
                job.reach("before")
            records.has_new = True
            job.process(record)


async def after_async(job: Job, watching: Watching) -> None:
    """Process, then commit in the background."""
    await after(job, watching, in_background=True)


async def upsert(job: Job, watching: Watching) -> None:
    """Process into a table in which a record has one row, then commit."""
    database = sqlite3.connect(job.database)
    table = RecordTable(database, "results", {"value": "TEXT"})
    async with _AtLeastOnce(
        job.bootstrap, [job.topic], max_records=PORTION, **job.options()
    ) as records:
        records.job = job
        watch(job, records.consumer)
        watching.begin(records.consumer)
        async for record in records:
            if not records.has_new:
                job.reach("before")
            records.has_new = True
            with database:
                table.upsert(record, value=value_of(record))


class _Offsets(SqliteOffsets):
    job: Job

    def begin(
        self, group_id: str, partition: TopicPartition, expected: int | None, next_offset: int
    ) -> bool:
        self.job.reach("before")
        return super().begin(group_id, partition, expected, next_offset)

    def commit(self) -> None:
        self.job.reach("between")
        super().commit()
        self.job.is_busy = False
        self.job.reach("after")


async def with_result(job: Job, watching: Watching) -> None:
    """Results and position are in one transaction of a database."""
    database = sqlite3.connect(job.database)
    database.execute("CREATE TABLE IF NOT EXISTS results (value TEXT)")
    offsets = _Offsets(database)
    offsets.job = job
    async with ExactlyOnceInto(offsets, job.bootstrap, [job.topic], **job.options()) as source:
        watching.begin(source.consumer)
        async for batch in source:
            job.took(batch.records)
            for record in batch.records:
                database.execute("INSERT INTO results VALUES (?)", (value_of(record),))


class _Transforming(ConsumeTransformProduce[bytes, bytes]):
    job: Job

    async def _end_batch(self) -> None:
        has_batch = self._batch is not None
        if has_batch:
            self.job.reach("between")
        await super()._end_batch()
        if has_batch:
            self.job.reach("after")


def results_topic_of(topic: str) -> str:
    """Where results go that are records."""
    return f"{topic}-results"


async def transaction(job: Job, watching: Watching) -> None:
    """Results and position are in one transaction of Kafka."""
    async with _Transforming(
        job.bootstrap,
        [job.topic],
        transactional_id=job.name or job.topic,
        max_records=PORTION,
        producer_options={"transaction_timeout_ms": 10_000},
        **job.options(),
    ) as source:
        source.job = job
        watch(job, source.consumer)
        watching.begin(source.consumer)
        async for batch in source:
            job.reach("before")
            for record in batch.records:
                await batch.send(results_topic_of(job.topic), record.value)


class _Books:
    """A database with results, a position, and what was decided about a prepared transaction.

    A program that was replaced finds another owner in it, and decides nothing any more.
    """

    def __init__(self, path: str, owner: str) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._owner = owner
        self._database.executescript(
            "CREATE TABLE IF NOT EXISTS results (value TEXT);"
            "CREATE TABLE IF NOT EXISTS state "
            "(id INTEGER PRIMARY KEY, owner TEXT, position INTEGER, prepared TEXT);"
            "INSERT OR IGNORE INTO state VALUES (1, '', 0, '')"
        )

    def own(self) -> tuple[int, PreparedTransactionState]:
        """Be the owner; the position, and what is to be committed."""
        self._database.execute("UPDATE state SET owner = ?", (self._owner,))
        row = self._database.execute("SELECT position, prepared FROM state").fetchone()
        return int(row[0]), PreparedTransactionState.parse(row[1])

    def decide(
        self, values: Collection[str], position: int, prepared: PreparedTransactionState
    ) -> bool:
        """Commit results, position and decision together; False if there is another owner."""
        self._database.execute("BEGIN IMMEDIATE")
        (owner,) = self._database.execute("SELECT owner FROM state").fetchone()
        if owner != self._owner:
            self._database.execute("ROLLBACK")
            return False
        self._database.executemany("INSERT INTO results VALUES (?)", [(one,) for one in values])
        self._database.execute(
            "UPDATE state SET position = ?, prepared = ?", (position, str(prepared))
        )
        self._database.execute("COMMIT")
        return True


async def two_phase(job: Job, watching: Watching) -> None:
    """A transaction of Kafka and one of a database, by two-phase commit (KIP-939)."""
    books = _Books(job.database, f"{os.getpid()}")
    options = job.options()
    options["group_id"] = None
    options.pop("group_instance_id", None)
    options["enable_auto_commit"] = False
    place = TopicPartition(job.topic, 0)
    async with (
        Producer(
            job.bootstrap,
            transactional_id=f"{job.topic}-two-phase",
            transaction_two_phase_commit_enable=True,
            **connection_options(job.properties),
        ) as producer,
        Consumer(job.bootstrap, **options) as consumer,
    ):
        watch(job, consumer)
        position, prepared = books.own()
        await producer.complete_transaction(prepared)
        await consumer.assign([place])
        consumer.seek(place, position)
        watching.begin(consumer)
        while True:
            records = await consumer.poll(PORTION)
            job.reach("before")
            async with producer.transaction() as open_one:
                for record in records:
                    await producer.send(results_topic_of(job.topic), record.value)
                prepared = await open_one.prepare()
            if not job.is_leading:
                job.reach("between")
            end = records[-1].offset + 1
            if not books.decide([value_of(one) for one in records], end, prepared):
                return
            if job.is_leading:
                job.reach("between")
            await producer.complete_transaction(prepared)
            job.reach("after")


# --- the process ----------------------------------------------------------------------------------


class Watching:
    """Reports positions, and ends the work when stdin does."""

    def __init__(self, job: Job, nursery: trio.Nursery) -> None:
        self._job = job
        self._nursery = nursery
        self.scope = trio.CancelScope()

    def begin(self, consumer: Consumer[bytes, bytes]) -> None:
        """The consumer is ready."""
        self._job.say("start")
        self._nursery.start_soon(self._report, consumer)
        self._nursery.start_soon(self._leave_at_the_end)

    async def _report(self, consumer: Consumer[bytes, bytes]) -> None:
        said: dict[int, int] = {}
        while not self.scope.cancelled_caught:
            for partition in sorted(consumer.assignment):
                with trio.move_on_after(1):
                    try:
                        position = await consumer.position(partition)
                    except (KafkaError, ValueError, KeyError):
                        continue
                    # Only what is processed and committed, too.
                    if not self._job.is_busy and said.get(partition.partition) != position:
                        said[partition.partition] = position
                        self._job.say("position", partition=partition.partition, position=position)
            await trio.sleep(0.02)

    async def _leave_at_the_end(self) -> None:
        while True:
            await trio.lowlevel.wait_readable(_STDIN)
            if not os.read(_STDIN, 1_000):
                break
        while self._job.is_busy:  # noqa: ASYNC110 - it becomes so in code that need not know of it
            await trio.sleep(0.01)
        self.scope.cancel()


MODES: Final[Mapping[str, Callable[[Job, Watching], Awaitable[None]]]] = {
    "auto": auto,
    "auto-on-poll": auto_on_poll,
    "before": before,
    "after-sync": after,
    "after-async": after_async,
    "with-result": with_result,
    "upsert": upsert,
    "transaction": transaction,
    "two-phase": two_phase,
}


async def consume(job: Job) -> None:
    """Do the job until it is over."""
    async with trio.open_nursery() as nursery:
        watching = Watching(job, nursery)
        with watching.scope:
            await MODES[job.mode](job, watching)
        nursery.cancel_scope.cancel()


async def produce(
    topic: str,
    values: Sequence[str],
    options: dict[str, Any],
    bootstrap: str,
    properties: Mapping[str, str],
) -> None:
    """Send values, and die in the middle of it: the last two are on their way."""

    def say(kind: str, value: str) -> None:
        line = json.dumps({"kind": kind, "at": time.time(), "value": value})
        os.write(_STDOUT, line.encode() + b"\n")

    async def send_all(producer: Producer[bytes, bytes]) -> None:
        for value in values[:-2]:
            say("send", value)
            await producer.send_and_wait(topic, value.encode(), partition=0)
            say("acknowledge", value)
        for value in values[-2:]:
            say("send", value)
            await producer.send(topic, value.encode(), partition=0)
        await trio.lowlevel.checkpoint()
        os.kill(os.getpid(), signal.SIGKILL)

    every: dict[str, Any] = {**connection_options(properties), **options}
    async with Producer(bootstrap, **every) as producer:
        if options.get("transactional_id") is None:
            await send_all(producer)
        else:
            async with producer.transaction():
                await send_all(producer)


def main() -> None:
    """Read a job and do it."""
    text = b""
    while not text.endswith(b"\n"):
        more = os.read(_STDIN, 1 << 16)
        if not more:
            return
        text += more
    job = json.loads(text)
    if "values" in job:
        trio.run(partial(produce, **job))
    else:
        trio.run(consume, Job(**job))


if __name__ == "__main__":
    main()
