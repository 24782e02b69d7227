"""The consumer for ordinary programs: the trio consumer, run in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, Self, TypedDict, Unpack

from minikafka_client.consumer_options import ConsumerConfig, ConsumerOptions
from minikafka_client.core.fetched import ConsumedBatch
from minikafka_client.options import ConnectionConfig
from minikafka_client.properties import consumer_options
from minikafka_client.signatures import with_options
from minikafka_client.sync.trio_thread import ContextProxy, TrioThread, blocking, makes
from minikafka_client.trio_api import consumer as trio_consumer
from minikafka_client.trio_api.poller import RecordIterator
from minikafka_client.types import ConsumerRecord, Key, TopicPartition, Value

if TYPE_CHECKING:
    from minikafka_client.serializers import Deserializer

RebalanceCallback = Callable[[Sequence[TopicPartition]], object]


class BlockingConsumerArguments(TypedDict, Generic[Key, Value], total=False):
    """Keyword arguments of a blocking consumer besides its options; see `Consumer`."""

    on_partitions_revoked: RebalanceCallback | None
    on_partitions_assigned: RebalanceCallback | None
    on_partitions_lost: RebalanceCallback | None
    key_deserializer: Deserializer[Key] | None
    value_deserializer: Deserializer[Value] | None


class BlockingOptions(ConsumerOptions, BlockingConsumerArguments[Key, Value], total=False):
    """All keyword arguments of a blocking consumer."""


class Consumer(ContextProxy[trio_consumer.Consumer[Key, Value]], Generic[Key, Value]):
    """Reads records: ``with Consumer("localhost:9092", group_id="g") as consumer``.

    Only one thread may use it at a time. Callbacks about partitions run in the thread that asks for
    records, and may use the consumer (to commit, say). The callback of `commit_nowait` runs in the
    consumer's thread, and may not.

    Args:
        bootstrap_servers: ``"host:port"``, several with commas between, or a sequence of them.
        on_partitions_revoked, on_partitions_assigned, on_partitions_lost: called while records are
            asked for; "revoked" may still commit, "lost" is too late for that.
        key_deserializer, value_deserializer: convert the bytes of keys and values, in the
            consumer's thread; see `minikafka_client.serializers`. None: they stay bytes.
        options: see `minikafka_client.consumer_options.ConsumerConfig` and
            `minikafka_client.options.ConnectionConfig`.

    Raises:
        TypeError: there is no such option.
        ValueError: an option is refused.
    """

    @with_options(ConsumerConfig, ConnectionConfig, arguments=BlockingConsumerArguments)
    @makes(trio_consumer.Consumer)
    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        **options: Unpack[BlockingOptions[Key, Value]],
    ) -> None: ...

    @classmethod
    @with_options(arguments=BlockingConsumerArguments)
    def from_config(
        cls,
        config: Mapping[str, object],
        **arguments: Unpack[BlockingConsumerArguments[Key, Value]],
    ) -> Self:
        """Make a consumer of a dictionary for confluent-kafka, or of a Java client's properties.

        ``{"bootstrap.servers": "localhost:9092", "group.id": "g"}``: the names are Kafka's, or
        librdkafka's where they mean the same; `minikafka_client.properties` has them all. The other
        arguments are those of the class.

        Raises:
            TypeError: Kafka has no such property.
            ValueError: a property cannot be set here, or its value is malformed.
        """
        bootstrap_servers, options = consumer_options(config, cls.__name__)
        return cls(bootstrap_servers, **arguments, **options)

    def __iter__(self) -> Iterator[ConsumerRecord[Key, Value]]:
        """Iterate over records without end: ``for record in consumer``.

        The loop may be left with ``break`` and started again; it continues with the next record.

        Raises:
            KafkaError: a partition has failed, or the group cannot be joined; iterating again
                continues once the cause is fixed (`seek`, for a position that does not exist).
            DeserializationError: the next record's key or value cannot be deserialized; seek past
                it to continue.
        """
        return drawn(self._thread, aiter(self._trio))

    def batches(self) -> Iterator[ConsumedBatch[Key, Value]]:
        """Iterate over runs of one partition's records: ``for batch in consumer.batches()``.

        Keys and values are deserialized on access, which may raise `DeserializationError`; the
        position is past the batch by then.

        Raises:
            KafkaError: as when iterating over records.
        """
        return self._thread.iterate(self._trio.batches())

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are being read."""
        return self._trio.assignment

    subscribe = blocking(trio_consumer.Consumer[Key, Value].subscribe)
    assign = blocking(trio_consumer.Consumer[Key, Value].assign)
    unsubscribe = blocking(trio_consumer.Consumer[Key, Value].unsubscribe)
    poll = blocking(trio_consumer.Consumer[Key, Value].poll)

    seek = blocking(trio_consumer.Consumer[Key, Value].seek)
    seek_to_beginning = blocking(trio_consumer.Consumer[Key, Value].seek_to_beginning)
    seek_to_end = blocking(trio_consumer.Consumer[Key, Value].seek_to_end)
    position = blocking(trio_consumer.Consumer[Key, Value].position)
    positions = blocking(trio_consumer.Consumer[Key, Value].positions)
    pause = blocking(trio_consumer.Consumer[Key, Value].pause)
    resume = blocking(trio_consumer.Consumer[Key, Value].resume)
    lag = blocking(trio_consumer.Consumer[Key, Value].lag)
    statistics = blocking(trio_consumer.Consumer[Key, Value].statistics)

    beginning_offsets = blocking(trio_consumer.Consumer[Key, Value].beginning_offsets)
    end_offsets = blocking(trio_consumer.Consumer[Key, Value].end_offsets)
    offsets_for_times = blocking(trio_consumer.Consumer[Key, Value].offsets_for_times)
    partitions_for = blocking(trio_consumer.Consumer[Key, Value].partitions_for)

    commit = blocking(trio_consumer.Consumer[Key, Value].commit)
    commit_nowait = blocking(trio_consumer.Consumer[Key, Value].commit_nowait)
    committed = blocking(trio_consumer.Consumer[Key, Value].committed)
    group_metadata = blocking(trio_consumer.Consumer[Key, Value].group_metadata)


def drawn(
    thread: TrioThread, records: RecordIterator[Key, Value]
) -> Iterator[ConsumerRecord[Key, Value]]:
    """Iterate over a consumer's records in the caller's thread.

    It waits for the trio thread only once per run of records. Records are drawn from the same
    iterator as in a trio program, so positions, commits and rebalances see what was drawn.
    """
    poller = records.poller
    while True:
        record = next(poller.records, None)
        yield thread.call(records.__anext__) if record is None else record
