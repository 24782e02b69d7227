"""The delivery patterns for ordinary programs: the same promises, without trio.

    with AtLeastOnce("localhost:9092", ["orders"], group_id="billing") as orders:
        for order in orders:
            charge(order)

The patterns run in a thread of their own. Callbacks about partitions, and a store's methods, are
called in the thread that asks for records; `on_commit` is called in the pattern's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, TypeVarTuple, Unpack

from minikafka_client.consumer_options import ConsumerOptions
from minikafka_client.core.fetched import FetchedRecords
from minikafka_client.errors import ClosedError
from minikafka_client.patterns import (
    at_least_once,
    at_most_once,
    auto_commit,
    consume_transform_produce,
    exactly_once,
)
from minikafka_client.patterns.exactly_once import OffsetStore
from minikafka_client.patterns.subscribed import Subscribed, Topics, check_pattern
from minikafka_client.producer_options import ProducerOptions
from minikafka_client.sync.consumer import Consumer, RebalanceCallback
from minikafka_client.sync.portal import Held, Portal, run_in_caller
from minikafka_client.trio_face.commits import CommitCallback
from minikafka_client.trio_face.reading import RebalanceCallback as AsyncRebalanceCallback
from minikafka_client.types import ConsumerRecord, Headers, Key, TopicPartition, Value

if TYPE_CHECKING:
    from minikafka_client.serializers import Deserializer, Serializer

__all__ = [
    "AtLeastOnce",
    "AtMostOnce",
    "AutoCommit",
    "ConsumeTransformProduce",
    "ExactlyOnceInto",
    "OffsetStore",
    "TransformBatch",
]

_Pattern = TypeVar("_Pattern", bound=Subscribed[Any, Any])
_Result = TypeVar("_Result")
_Args = TypeVarTuple("_Args")


class AutoCommit(Generic[Key, Value]):
    """Commits what is processed, every ``auto_commit_interval_ms`` (5 s).

    **A crash loses nothing and repeats** what was processed since the last commit: up to
    ``auto_commit_interval_ms`` of work, and the up to 500 records (with ``batches()``, one batch)
    that were taken together with the record in process. Without a crash nothing is repeated. See
    `minikafka_client.patterns.AutoCommit` for arguments and errors.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        topics: Topics,
        *,
        on_partitions_revoked: RebalanceCallback | None = None,
        on_partitions_assigned: RebalanceCallback | None = None,
        on_partitions_lost: RebalanceCallback | None = None,
        key_deserializer: Deserializer[Key] | None = None,
        value_deserializer: Deserializer[Value] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        check_pattern("AutoCommit", topics, options)
        options.setdefault("auto_offset_reset", auto_commit.AutoCommit.reset)
        self._topics = topics
        self._open = ExitStack()
        self.consumer: Consumer[Key, Value] = Consumer(
            bootstrap,
            on_partitions_revoked=on_partitions_revoked,
            on_partitions_assigned=on_partitions_assigned,
            on_partitions_lost=on_partitions_lost,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            **options,
        )

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.consumer).subscribe(self._topics)
            self._open = stack.pop_all()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._open.__exit__(exc_type, exc, traceback)

    def __iter__(self) -> Iterator[ConsumerRecord[Key, Value]]:
        """Iterate over records without end."""
        return iter(self.consumer)

    def batches(self) -> Iterator[FetchedRecords[Key, Value]]:
        """Iterate over runs of one partition's records without end."""
        return self.consumer.batches()


class _Blocking(Generic[_Pattern]):
    """A pattern that lives in a portal's thread."""

    def __init__(self, pattern: AbstractAsyncContextManager[_Pattern, bool | None]) -> None:
        self._made = pattern
        self._portal = Portal(type(self).__name__)
        self._held: Held[_Pattern] | None = None

    def __enter__(self) -> Self:
        self._held = self._portal.enter(lambda: self._made)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.close(exc_type, exc, traceback)

    @property
    def _pattern(self) -> _Pattern:
        if self._held is None:
            raise ClosedError(f"use the {type(self).__name__} inside its `with` block")
        return self._held.value

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read now."""
        return self._pattern.consumer.assignment


class AtMostOnce(_Blocking[at_most_once.AtMostOnce[Key, Value]], Generic[Key, Value]):
    """Commits records before it hands them out.

    **A crash repeats nothing and loses** what was committed and not processed: up to
    ``max_records`` records (with ``batches()``, one batch). Without a crash nothing is lost. See
    `minikafka_client.patterns.AtMostOnce` for arguments and errors.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        topics: Topics,
        *,
        max_records: int = 500,
        on_partitions_revoked: RebalanceCallback | None = None,
        on_partitions_assigned: RebalanceCallback | None = None,
        on_partitions_lost: RebalanceCallback | None = None,
        key_deserializer: Deserializer[Key] | None = None,
        value_deserializer: Deserializer[Value] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        super().__init__(
            at_most_once.AtMostOnce(
                bootstrap,
                topics,
                max_records=max_records,
                on_partitions_revoked=_crossing(on_partitions_revoked),
                on_partitions_assigned=_crossing(on_partitions_assigned),
                on_partitions_lost=_crossing(on_partitions_lost),
                key_deserializer=key_deserializer,
                value_deserializer=value_deserializer,
                **options,
            )
        )

    def __iter__(self) -> Iterator[ConsumerRecord[Key, Value]]:
        """Iterate over records without end."""
        pattern = self._pattern
        while True:
            record = pattern.handed_out.next_record()
            yield self._portal.call(pattern.__anext__) if record is None else record

    def batches(self) -> Iterator[FetchedRecords[Key, Value]]:
        """Iterate over runs of one partition's records without end."""
        pattern = self._pattern
        self._portal.call(_soon, pattern.batches)
        while True:
            yield self._portal.call(pattern.next_batch)


class AtLeastOnce(_Blocking[at_least_once.AtLeastOnce[Key, Value]], Generic[Key, Value]):
    """Commits what is processed before it takes more.

    **A crash loses nothing and repeats** what was handed out since the last commit: up to
    ``max_records`` records (with ``batches()``, one batch), and in the background mode what was
    handed out while a commit was on its way, too. Without a crash nothing is repeated. See
    `minikafka_client.patterns.AtLeastOnce` for arguments and errors; ``on_commit`` is called in
    another thread.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        topics: Topics,
        *,
        max_records: int = 500,
        in_background: bool = False,
        on_commit: CommitCallback | None = None,
        on_partitions_revoked: RebalanceCallback | None = None,
        on_partitions_assigned: RebalanceCallback | None = None,
        on_partitions_lost: RebalanceCallback | None = None,
        key_deserializer: Deserializer[Key] | None = None,
        value_deserializer: Deserializer[Value] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        super().__init__(
            at_least_once.AtLeastOnce(
                bootstrap,
                topics,
                max_records=max_records,
                in_background=in_background,
                on_commit=on_commit,
                on_partitions_revoked=_crossing(on_partitions_revoked),
                on_partitions_assigned=_crossing(on_partitions_assigned),
                on_partitions_lost=_crossing(on_partitions_lost),
                key_deserializer=key_deserializer,
                value_deserializer=value_deserializer,
                **options,
            )
        )

    def __iter__(self) -> Iterator[ConsumerRecord[Key, Value]]:
        """Iterate over records without end."""
        pattern = self._pattern
        while True:
            record = pattern.handed_out.next_record()
            yield self._portal.call(pattern.__anext__) if record is None else record

    def batches(self) -> Iterator[FetchedRecords[Key, Value]]:
        """Iterate over runs of one partition's records without end."""
        pattern = self._pattern
        self._portal.call(_soon, pattern.batches)
        while True:
            yield self._portal.call(pattern.next_batch)


class ExactlyOnceInto(_Blocking[exactly_once.ExactlyOnceInto[Key, Value]], Generic[Key, Value]):
    """Hands out batches, each in an open transaction of ``store``: write the results into it.

    **A crash loses nothing and repeats nothing** of what is in the store, which is used from the
    thread that iterates. See `minikafka_client.patterns.ExactlyOnceInto` for arguments and errors.
    """

    def __init__(
        self,
        store: OffsetStore,
        bootstrap: str | Sequence[str],
        topics: Topics,
        *,
        on_partitions_revoked: RebalanceCallback | None = None,
        on_partitions_assigned: RebalanceCallback | None = None,
        on_partitions_lost: RebalanceCallback | None = None,
        key_deserializer: Deserializer[Key] | None = None,
        value_deserializer: Deserializer[Value] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._store = store
        super().__init__(
            _ExactlyOnceInto(
                store,
                bootstrap,
                topics,
                on_partitions_revoked=_crossing(on_partitions_revoked),
                on_partitions_assigned=_crossing(on_partitions_assigned),
                on_partitions_lost=_crossing(on_partitions_lost),
                key_deserializer=key_deserializer,
                value_deserializer=value_deserializer,
                **options,
            )
        )

    def __iter__(self) -> Iterator[FetchedRecords[Key, Value]]:
        """Iterate over runs of one partition's records without end."""
        pattern = self._pattern
        while True:
            yield self._portal.call(pattern.__anext__)

    def roll_back(self) -> None:
        """Undo what was written for the present batch; it is handed out again."""
        self._store.roll_back()
        self._portal.call(_soon, self._pattern.go_back)


class TransformBatch(Generic[Key, Value]):
    """Records to work on, and the open transaction that the results go into.

    Attributes:
        records: in the order of their offsets, partition by partition.
    """

    def __init__(
        self, portal: Portal, batch: consume_transform_produce.TransformBatch[Key, Value]
    ) -> None:
        self.records = batch.records
        self._portal = portal
        self._batch = batch

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[ConsumerRecord[Key, Value]]:
        return iter(self.records)

    def send(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> None:
        """Send a record; it is delivered with the others, or none of them is.

        When the transaction is lost already, it does nothing: the batch will be handed out again.

        Raises:
            KafkaError: the topic's metadata or room was not to be had within ``max_block_ms``.
            RecordTooLargeError: the record can never be sent.
        """
        self._portal.call(
            self._batch.send,
            topic,
            value,
            key,
            partition=partition,
            timestamp_ms=timestamp_ms,
            headers=headers,
        )


class ConsumeTransformProduce(
    _Blocking[consume_transform_produce.ConsumeTransformProduce[Key, Value]], Generic[Key, Value]
):
    """Hands out batches of records, each in a transaction that its results are sent into.

    **A crash loses nothing and repeats nothing** of what readers of committed records see. See
    `minikafka_client.patterns.ConsumeTransformProduce` for arguments and errors.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        topics: Topics,
        *,
        transactional_id: str,
        max_records: int = 500,
        producer_options: ProducerOptions | None = None,
        key_serializer: Serializer[Any] | None = None,
        value_serializer: Serializer[Any] | None = None,
        on_partitions_revoked: RebalanceCallback | None = None,
        on_partitions_assigned: RebalanceCallback | None = None,
        on_partitions_lost: RebalanceCallback | None = None,
        key_deserializer: Deserializer[Key] | None = None,
        value_deserializer: Deserializer[Value] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        super().__init__(
            consume_transform_produce.ConsumeTransformProduce(
                bootstrap,
                topics,
                transactional_id=transactional_id,
                max_records=max_records,
                producer_options=producer_options,
                key_serializer=key_serializer,
                value_serializer=value_serializer,
                on_partitions_revoked=_crossing(on_partitions_revoked),
                on_partitions_assigned=_crossing(on_partitions_assigned),
                on_partitions_lost=_crossing(on_partitions_lost),
                key_deserializer=key_deserializer,
                value_deserializer=value_deserializer,
                **options,
            )
        )

    def __iter__(self) -> Iterator[TransformBatch[Key, Value]]:
        """Iterate over batches without end; asking for one commits the one before."""
        pattern = self._pattern
        while True:
            yield TransformBatch(self._portal, self._portal.call(pattern.__anext__))


class _ExactlyOnceInto(exactly_once.ExactlyOnceInto[Key, Value]):
    """Calls the store in the thread that asks for batches: a connection belongs to one thread."""

    async def _in_store(self, method: Callable[[Unpack[_Args]], _Result], *args: *_Args) -> _Result:
        return await run_in_caller(method, *args)


async def _soon(function: Callable[[], object]) -> None:
    """What is no coroutine has to be called in the portal's thread all the same."""
    function()


def _crossing(callback: RebalanceCallback | None) -> AsyncRebalanceCallback | None:
    """The same callback for the pattern, run in the thread that asks for records."""
    if callback is None:
        return None

    async def cross(partitions: Sequence[TopicPartition]) -> None:
        await run_in_caller(callback, partitions)

    return cross
