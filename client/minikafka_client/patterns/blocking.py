"""The delivery patterns for ordinary programs: the same promises, without trio.

    with AtLeastOnce("localhost:9092", ["orders"], group_id="billing") as orders:
        for order in orders:
            charge(order)

The patterns run in a thread of their own. Callbacks about partitions, and a store's methods, are
called in the thread that asks for records; ``on_commit`` is called in the pattern's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, TypeVarTuple, Unpack

from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.patterns import (
    at_least_once,
    at_most_once,
    auto_commit,
    consume_transform_produce,
    exactly_once,
)
from minikafka_client.patterns.exactly_once import OffsetStore
from minikafka_client.patterns.record_buffer import BufferedPattern
from minikafka_client.patterns.subscribed import Subscribed, Topics, with_pattern_options
from minikafka_client.producer_options import ProducerOptions
from minikafka_client.sync.consumer import BlockingConsumerArguments, BlockingOptions, Consumer
from minikafka_client.sync.trio_thread import (
    ContextProxy,
    Proxy,
    TrioThread,
    blocking,
    makes,
    proxy,
    run_in_caller,
)
from minikafka_client.trio_api.commits import CommitCallback
from minikafka_client.types import ConsumerRecord, Key, TopicPartition, Value

if TYPE_CHECKING:
    from minikafka_client.serializers import Serializer

__all__ = [
    "AtLeastOnce",
    "AtMostOnce",
    "AutoCommit",
    "ConsumeTransformProduce",
    "ExactlyOnceInto",
    "OffsetStore",
    "TransformBatch",
]

_Result = TypeVar("_Result")
_Args = TypeVarTuple("_Args")
_Pattern = TypeVar("_Pattern", bound=Subscribed[Any, Any], covariant=True)
_Buffered = TypeVar("_Buffered", bound=BufferedPattern[Any, Any], covariant=True)


_with_options = partial(with_pattern_options, BlockingConsumerArguments)


class _Blocking(ContextProxy[_Pattern], Generic[_Pattern, Key, Value]):
    @property
    def consumer(self) -> Consumer[Key, Value]:
        """To pause partitions, to ask for lag and the like: do not seek or commit."""
        return proxy(Consumer[Key, Value], self._thread, self._trio.consumer)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are being read."""
        return self._trio.assignment


class _BlockingBuffered(_Blocking[_Buffered, Key, Value]):
    def __iter__(self) -> Iterator[ConsumerRecord[Key, Value]]:
        """Iterate over records without end; asking for one means that those before are processed.

        Raises:
            KafkaError: as for `Consumer`, or a commit failed; iterating again goes on with the
                same records.
        """
        pattern = self._trio
        while True:
            record = pattern.buffer.next_record()
            yield self._thread.call(pattern.__anext__) if record is None else record

    def batches(self) -> Iterator[ConsumedBatch[Key, Value]]:
        """Iterate over runs of one partition's records; there is a commit for each.

        Raises:
            KafkaError: as when iterating over records.
        """
        batches = self._thread.call_plain(self._trio.batches)
        yield from self._thread.iterate(batches)


class AutoCommit(_Blocking[auto_commit.AutoCommit[Key, Value], Key, Value], Generic[Key, Value]):
    """Commits what is processed, every ``auto_commit_interval_ms`` (5 s).

    **A crash loses nothing and repeats** what was processed since the last commit: up to
    ``auto_commit_interval_ms`` of work, and the record in process (with ``batches()``, the batch).
    Without a crash nothing is repeated. See `minikafka_client.patterns.AutoCommit` for arguments
    and errors.
    """

    @_with_options()
    @makes(auto_commit.AutoCommit)
    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        topics: Topics,
        **options: Unpack[BlockingOptions[Key, Value]],
    ) -> None: ...

    def __iter__(self) -> Iterator[ConsumerRecord[Key, Value]]:
        """Iterate over records without end.

        Raises:
            KafkaError: as for `Consumer`.
        """
        return iter(self.consumer)

    def batches(self) -> Iterator[ConsumedBatch[Key, Value]]:
        """Iterate over runs of one partition's records without end.

        Raises:
            KafkaError: as for `Consumer`.
        """
        return self.consumer.batches()


class AtMostOnce(
    _BlockingBuffered[at_most_once.AtMostOnce[Key, Value], Key, Value], Generic[Key, Value]
):
    """Commits records before it hands them out.

    **A crash repeats nothing and loses** what was committed and not processed: up to
    ``max_records`` records (with ``batches()``, one batch). Without a crash nothing is lost. See
    `minikafka_client.patterns.AtMostOnce` for arguments and errors.
    """

    @_with_options(auto_offset_reset="latest")
    @makes(at_most_once.AtMostOnce)
    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        topics: Topics,
        *,
        max_records: int = 500,
        **options: Unpack[BlockingOptions[Key, Value]],
    ) -> None: ...


class AtLeastOnce(
    _BlockingBuffered[at_least_once.AtLeastOnce[Key, Value], Key, Value], Generic[Key, Value]
):
    """Commits what is processed before it takes more.

    **A crash loses nothing and repeats** what was handed out since the last commit: up to
    ``max_records`` records (with ``batches()``, one batch), and in background mode also what was
    handed out during a commit. Without a crash nothing is repeated. See
    `minikafka_client.patterns.AtLeastOnce` for arguments and errors; ``on_commit`` is called in
    another thread.
    """

    @_with_options()
    @makes(at_least_once.AtLeastOnce)
    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        topics: Topics,
        *,
        max_records: int = 500,
        in_background: bool = False,
        on_commit: CommitCallback | None = None,
        **options: Unpack[BlockingOptions[Key, Value]],
    ) -> None: ...


class _ExactlyOnceInto(exactly_once.ExactlyOnceInto[Key, Value]):
    """Calls the store in the thread that asks for batches: a connection belongs to one thread."""

    async def _in_store(self, method: Callable[[Unpack[_Args]], _Result], *args: *_Args) -> _Result:
        return await run_in_caller(method, *args)

    async def roll_back_in_caller(self) -> None:
        await self._in_store(self._store.roll_back)
        self._read_again()


_ExactlyOnceInto.__name__ = exactly_once.ExactlyOnceInto.__name__  # in messages


class ExactlyOnceInto(_Blocking[_ExactlyOnceInto[Key, Value], Key, Value], Generic[Key, Value]):
    """Hands out batches, each in an open transaction of ``store``: write the results into it.

    **A crash loses nothing and repeats nothing** of what is in the store, which is used from the
    iterating thread. See `minikafka_client.patterns.ExactlyOnceInto` for arguments and errors.
    """

    @_with_options()
    @makes(_ExactlyOnceInto)
    def __init__(
        self,
        store: OffsetStore,
        bootstrap_servers: str | Sequence[str],
        topics: Topics,
        **options: Unpack[BlockingOptions[Key, Value]],
    ) -> None: ...

    def __iter__(self) -> Iterator[ConsumedBatch[Key, Value]]:
        """Iterate over runs of one partition's records without end.

        Raises:
            NoOffsetError: a stored offset does not, or no longer, exist in the partition.
            KafkaError: as for `Consumer`.
            Exception: whatever the store raises.
        """
        return self._thread.iterate(self._trio)

    def roll_back(self) -> None:
        """Undo what was written for the current batch; it is handed out again."""
        self._thread.call(self._trio.roll_back_in_caller)


class TransformBatch(
    Proxy[consume_transform_produce.TransformBatch[Key, Value]], Generic[Key, Value]
):
    """Records to work on, and the open transaction that the results go into.

    Attributes:
        records: in the order of their offsets, partition by partition.
    """

    def __init__(
        self, thread: TrioThread, batch: consume_transform_produce.TransformBatch[Key, Value]
    ) -> None:
        super().__init__(thread, batch)
        self.records = batch.records

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[ConsumerRecord[Key, Value]]:
        return iter(self.records)

    send = blocking(consume_transform_produce.TransformBatch[Key, Value].send)


class ConsumeTransformProduce(
    _Blocking[consume_transform_produce.ConsumeTransformProduce[Key, Value], Key, Value],
    Generic[Key, Value],
):
    """Hands out batches of records, each in a transaction that its results are sent into.

    **A crash loses nothing and repeats nothing** of what readers of committed records see. See
    `minikafka_client.patterns.ConsumeTransformProduce` for arguments and errors.
    """

    @_with_options(isolation_level="read_committed")
    @makes(consume_transform_produce.ConsumeTransformProduce)
    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        topics: Topics,
        *,
        transactional_id: str,
        max_records: int = 500,
        producer_options: ProducerOptions | None = None,
        key_serializer: Serializer[Any] | None = None,
        value_serializer: Serializer[Any] | None = None,
        **options: Unpack[BlockingOptions[Key, Value]],
    ) -> None: ...

    def __iter__(self) -> Iterator[TransformBatch[Key, Value]]:
        """Iterate over batches without end; asking for one commits the previous one.

        Raises:
            TransactionAbortableError: too many transactions in a row have failed.
            FencedError: another process has the same ``transactional_id`` or
                ``group_instance_id``.
            KafkaError: as for `Consumer` and `Producer`.
        """
        for batch in self._thread.iterate(self._trio):
            yield TransformBatch(self._thread, batch)
