"""What a program does with our client, seen at the client's public methods.

Records are not touched. Everything is noted with the simulated time and the life of the process
that did it; what it was worth is judged afterwards, with the brokers' logs (`judging`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, cast
from unittest.mock import patch

import trio

from minikafka_client.core.producer_batch import BatchState, ProducerBatch
from minikafka_client.core.serialization import Serializers
from minikafka_client.errors import CommitUnknownError
from minikafka_client.trio_api.consumer import Consumer
from minikafka_client.trio_api.poller import BatchIterator, Poller, RecordIterator
from minikafka_client.trio_api.producer import Producer
from minikafka_client.trio_api.producer_engine import ProducerEngine
from minikafka_client.trio_api.transactions import Transaction
from minikafka_client.types import ConsumerRecord, ProducerRecord, RecordMetadata, TopicPartition

from .life import LIFE, Life

Partition = tuple[str, int]
"""A topic and the number of a partition."""


class Fate(Enum):
    """What a program knows of a record that it sent, or of a transaction."""

    UNKNOWN = "unknown"
    DONE = "acknowledged"
    FAILED = "failed"


@dataclass(slots=True, eq=False)
class Sent:
    """A call of `Producer.send`, for one record.

    Attributes:
        at_s: when it was sent.
        life: who sent it.
        topic: where to.
        key, value: as bytes.
        fate: what its sender could know in the end.
        done_at_s: since when.
        partition: of the topic; -1 if it was never put into a batch.
        offset: if it is known.
        error: why it failed.
        transaction: which it is part of.
    """

    at_s: float
    life: Life
    topic: str
    key: bytes | None
    value: bytes | None
    fate: Fate = Fate.UNKNOWN
    done_at_s: float = -1.0
    partition: int = -1
    offset: int = -1
    error: BaseException | None = None
    transaction: TransactionSeen | None = None


@dataclass(slots=True, eq=False)
class TransactionSeen:
    """One transaction of a program, as its producer sees it."""

    at_s: float
    life: Life
    fate: Fate = Fate.UNKNOWN
    done_at_s: float = -1.0


@dataclass(slots=True, eq=False)
class Consumed:
    """A record that a consumer returned.

    Attributes:
        at_s: when.
        life: to whom.
        reader: which consumer.
        place: topic and partition.
        offset: of the record.
    """

    at_s: float
    life: Life
    reader: Reader
    place: Partition
    offset: int
    key: Any
    value: Any


@dataclass(slots=True, eq=False)
class Processed:
    """A record that the program declares as processed."""

    at_s: float
    life: Life
    place: Partition
    offset: int


@dataclass(slots=True, eq=False)
class Reader:
    """A consumer.

    Attributes:
        name: of it, in the history.
        is_committed: it reads only what is committed.
        session_s: its session timeout.
        assigned: when, what it had to read changed.
    """

    name: str
    is_committed: bool
    session_s: float


@dataclass(slots=True)
class Observations:
    """Everything that was seen of a program.

    Attributes:
        sent, consumed, processed, transactions: in the order in which they happened.
        events: all of these, and for each change of what a consumer reads the consumer.
        session_s: the longest session timeout of a consumer.
        is_over: nothing counts any longer.
    """

    sent: list[Sent] = field(default_factory=list[Sent])
    consumed: list[Consumed] = field(default_factory=list[Consumed])
    processed: list[Processed] = field(default_factory=list[Processed])
    events: list[Sent | Consumed | Reader] = field(default_factory=list["Sent | Consumed | Reader"])
    session_s: float = 0.0
    is_over: bool = False
    last_at_s: float = 0.0
    _readers: dict[int, tuple[Poller, Reader]] = field(
        default_factory=dict[int, "tuple[Poller, Reader]"]
    )
    _serializers: dict[int, tuple[ProducerEngine, Serializers]] = field(
        default_factory=dict[int, "tuple[ProducerEngine, Serializers]"]
    )
    _transactions: dict[int, tuple[object, TransactionSeen]] = field(
        default_factory=dict[int, "tuple[object, TransactionSeen]"]
    )

    def life(self) -> Life | None:
        """Whose task this is, if it counts."""
        return None if self.is_over else LIFE.get()

    def now(self) -> float:
        """The time, at which something happened."""
        self.last_at_s = trio.current_time()
        return self.last_at_s

    @property
    def undecided(self) -> int:
        """How many records are on their way, of processes that live."""
        return sum(
            one.fate is Fate.UNKNOWN and one.partition >= 0 and not one.life.is_killed
            for one in self.sent
        )

    # --- producers -------------------------------------------------------------------------------

    def sending(self, producer: Any, topic: str, value: Any, key: Any) -> Sent | None:
        """A record is about to be sent."""
        life = self.life()
        if life is None:
            return None
        engine = producer._engine
        serializers = self._serializers.get(id(engine), (engine, Serializers()))[1]
        sent = Sent(
            self.now(),
            life,
            topic,
            _encoded(serializers.key, topic, key),
            _encoded(serializers.value, topic, value),
            transaction=self._transactions.get(id(engine.transactions), (None, None))[1],
        )
        self.sent.append(sent)
        self.events.append(sent)
        return sent

    def put(self, sent: Sent, batch: ProducerBatch, index: int) -> None:
        """It is in a batch, whose outcome will be its own."""
        sent.partition = batch.partition

        def done() -> None:
            part, position = batch.part_of(index)
            if part.state is not BatchState.DONE or self.is_over or sent.life.is_killed:
                return
            sent.done_at_s = self.now()
            if part.error is not None:
                sent.fate, sent.error = Fate.FAILED, part.error
            else:
                sent.fate = Fate.DONE
                sent.offset = part.base_offset + position if part.base_offset >= 0 else -1

        if batch.state is BatchState.DONE:
            done()
        else:
            batch.on_done.insert(0, done)

    def refused(self, sent: Sent, error: BaseException) -> None:
        """It was never put into a batch."""
        sent.fate, sent.error, sent.done_at_s = Fate.FAILED, error, self.now()

    def new_engine(self, engine: ProducerEngine, serializers: Serializers) -> None:
        """A producer is made."""
        self._serializers[id(engine)] = engine, serializers

    def began(self, transactions: object) -> None:
        """A transaction has begun."""
        life = self.life()
        if life is not None:
            seen = TransactionSeen(self.now(), life)
            self._transactions[id(transactions)] = transactions, seen

    def ended(self, transactions: object, inner: object, error: BaseException | None) -> None:
        """A transaction's block was left; `inner` is what the program raised inside."""
        _, seen = self._transactions.pop(id(transactions), (None, None))
        if seen is None or self.is_over:
            return
        seen.done_at_s = self.now()
        if inner is None and error is None:
            seen.fate = Fate.DONE
        elif isinstance(error, Exception) and not isinstance(error, CommitUnknownError):
            # One that could not be aborted in time will be aborted: nobody can commit it.
            seen.fate = Fate.FAILED
        elif inner is not None and error is None:
            seen.fate = Fate.FAILED

    # --- consumers -------------------------------------------------------------------------------

    def opened(self, consumer: Any) -> None:
        """A consumer is used."""
        life = self.life()
        if life is None:
            return
        group = consumer._group
        session_s = 0.0 if group is None else group.member._config.session_timeout_ms / 1000
        self.session_s = max(self.session_s, session_s)
        name = f"{life} consumer {len(self._readers) + 1}"
        reader = Reader(name, bool(consumer._isolation_level), session_s)
        self._readers[id(consumer._poller)] = consumer._poller, reader

    def moved(self, poller: Poller) -> None:
        """A consumer reads other partitions, or from elsewhere."""
        _, reader = self._readers.get(id(poller), (None, None))
        if reader is not None and not self.is_over:
            self.events.append(reader)

    def returned(self, poller: Poller, records: Iterable[ConsumerRecord[Any, Any]]) -> None:
        """A consumer returns records."""
        life, (_, reader) = self.life(), self._readers.get(id(poller), (None, None))
        if life is None or reader is None:
            return
        for one in records:
            place = one.topic, one.partition
            seen = Consumed(self.now(), life, reader, place, one.offset, one.key, one.value)
            self.consumed.append(seen)
            self.events.append(seen)

    def has_processed(self, place: Partition, offset: int) -> None:
        """The program says so."""
        life = self.life()
        if life is not None:
            self.processed.append(Processed(self.now(), life, place, offset))


def _encoded(serializer: Any, topic: str, given: Any) -> bytes | None:
    if given is None or serializer is None:
        return given if isinstance(given, bytes | None) else repr(given).encode()
    encoded: bytes = serializer.serialize(topic, given)
    return encoded


# --- where it is seen ----------------------------------------------------------------------------


@contextmanager
def observed(seen: Observations) -> Generator[None]:
    """Watch all clients of this process."""
    with ExitStack() as stack:
        for owner, name, replacement in (*_of_producers(seen), *_of_consumers(seen)):
            stack.enter_context(patch.object(owner, name, replacement))
        yield


_Replacement = tuple[Any, str, Callable[..., Any]]


def _of_producers(seen: Observations) -> Iterator[_Replacement]:
    send, send_nowait, init = Producer.send, Producer.send_nowait, ProducerEngine.__init__
    enter, leave = Transaction.__aenter__, Transaction.__aexit__

    async def observed_send(
        self: Any, topic: str, value: Any, key: Any = None, **options: Any
    ) -> Any:
        sent = seen.sending(self, topic, value, key)
        try:
            delivery = await send(self, topic, value, key, **options)
        except Exception as error:
            if sent is not None:
                seen.refused(sent, error)
            raise
        if sent is not None:
            seen.put(sent, *delivery)
        return delivery

    def observed_send_nowait(
        self: Any, topic: str, value: Any, key: Any = None, **options: Any
    ) -> Any:
        # What raises was not sent; the program will wait, or try another way.
        delivery = send_nowait(self, topic, value, key, **options)
        sent = seen.sending(self, topic, value, key)
        if sent is not None:
            seen.put(sent, *delivery)
        return delivery

    async def observed_send_many(self: Any, topic: str, records: Iterable[Any]) -> Any:
        deliveries = _Deliveries()
        for given in records:
            one = _as_record(given)
            deliveries.append(
                await self.send(
                    topic,
                    one.value,
                    one.key,
                    headers=one.headers,
                    timestamp_ms=one.timestamp_ms,
                    partition=one.partition,
                )
            )
        return deliveries

    def observed_init(self: Any, *arguments: Any, **options: Any) -> None:
        init(self, *arguments, **options)
        seen.new_engine(self, options.get("serializers", Serializers()))

    async def observed_enter(self: Any) -> Any:
        entered = await enter(self)
        seen.began(self._transactions)
        return entered

    async def observed_leave(self: Any, *details: Any) -> None:
        error: BaseException | None = None
        try:
            await leave(self, *details)
        except BaseException as failure:
            error = failure
            raise
        finally:
            seen.ended(self._transactions, details[1], error)

    yield Producer, "send", observed_send
    yield Producer, "send_nowait", observed_send_nowait
    yield Producer, "send_many", observed_send_many
    yield ProducerEngine, "__init__", observed_init
    yield Transaction, "__aenter__", observed_enter
    yield Transaction, "__aexit__", observed_leave


def _as_record(given: Any) -> ProducerRecord[Any, Any]:
    if not isinstance(given, ProducerRecord):
        return ProducerRecord(given)
    record: ProducerRecord[Any, Any] = cast("Any", given)
    return record


class _Deliveries(list[Any]):
    """What `Producer.send_many` returns, for records that were sent one by one."""

    def __await__(self) -> Generator[Any, Any, list[RecordMetadata]]:
        return self._wait().__await__()

    async def _wait(self) -> list[RecordMetadata]:
        error: Exception | None = None
        found: list[RecordMetadata] = []
        for one in self:
            try:
                found.append(await one)
            except Exception as failure:  # noqa: BLE001  # raised when all are decided
                error = error or failure
        if error is not None:
            raise error
        return found


_CHANGES: Final = ("add", "drop")


def _of_consumers(seen: Observations) -> Iterator[_Replacement]:
    enter, poll = Consumer.__aenter__, Consumer.poll
    reset: Any = getattr(Consumer, "_moved")  # noqa: B009  # seeking has no other common place
    next_record, next_batch = RecordIterator.__anext__, BatchIterator.__anext__

    async def observed_enter(self: Any) -> Any:
        seen.opened(self)
        return await enter(self)

    async def observed_poll(self: Any, *arguments: Any, **options: Any) -> Any:
        records = await poll(self, *arguments, **options)
        seen.returned(self._poller, records)
        return records

    async def observed_next(self: Any) -> Any:
        record = await next_record(self)
        seen.returned(self.poller, [record])
        return record

    async def observed_batch(self: Any) -> Any:
        run = await next_batch(self)
        seen.returned(self._poller, run.records)
        return run

    def observed_reset(self: Any) -> None:
        reset(self)
        seen.moved(self._poller)

    def observed_change(name: str) -> Callable[..., None]:
        change = getattr(Poller, name)

        def changed(self: Poller, partitions: Iterable[TopicPartition]) -> None:
            change(self, partitions)
            seen.moved(self)

        return changed

    yield Consumer, "__aenter__", observed_enter
    yield Consumer, "poll", observed_poll
    yield Consumer, "_moved", observed_reset
    yield RecordIterator, "__anext__", observed_next
    yield BatchIterator, "__anext__", observed_batch
    for name in _CHANGES:
        yield Poller, name, observed_change(name)
