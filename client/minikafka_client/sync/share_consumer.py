"""The consumer of share groups for ordinary programs: the trio one, run in a thread of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, Self, Unpack

from minikafka_client.options import ConnectionConfig
from minikafka_client.properties import share_consumer_options
from minikafka_client.share_options import (
    ShareConsumerArguments,
    ShareConsumerConfig,
    ShareConsumerOptions,
)
from minikafka_client.signatures import with_options
from minikafka_client.sync.trio_thread import ContextProxy, blocking, makes
from minikafka_client.trio_api import share_consumer as trio_share_consumer
from minikafka_client.types import Key, ShareRecord, TopicPartition, Value


class BlockingShareOptions(ShareConsumerOptions, ShareConsumerArguments[Key, Value], total=False):
    """All keyword arguments of a blocking share consumer."""


class ShareConsumer(
    ContextProxy[trio_share_consumer.ShareConsumer[Key, Value]], Generic[Key, Value]
):
    """Works on a queue: ``with ShareConsumer("localhost:9092", "workers") as consumer``.

    The consumers of a share group (KIP-932, Kafka 4.2) share the *records* of its topics, not their
    partitions: there may be more consumers than partitions. Each record is locked for the consumer
    that has it, until that one acknowledges it or the lock ends; then it is delivered again, up to
    a limit.

        for job in consumer:
            try:
                work(job.value)
            except Busy:
                consumer.acknowledge(job, "release")  # another worker, or later

    A record that is not acknowledged by the time the next one is asked for is accepted, unless
    ``share_acknowledgement_mode="explicit"``. Leaving the block in good order accepts the last one
    too; leaving it with an exception releases it. What was acquired and not seen is released.

    Only one thread may ask for records at a time; others may acknowledge them.

    Args:
        bootstrap_servers: ``"host:port"``, several with commas between, or a sequence of them.
        group_id: the share group.
        on_acknowledged: called with partition, offsets and None when acknowledgements took effect,
            or with the error for which they did not. It runs in the consumer's thread, and may not
            use the consumer.
        key_deserializer, value_deserializer: convert the bytes of keys and values, in the
            consumer's thread; see `minikafka_client.serializers`. None: they stay bytes.
        options: see `minikafka_client.share_options.ShareConsumerConfig` and
            `minikafka_client.options.ConnectionConfig`.

    Raises:
        TypeError: there is no such option.
        ValueError: an option is refused.
    """

    @with_options(ShareConsumerConfig, ConnectionConfig, arguments=ShareConsumerArguments)
    @makes(trio_share_consumer.ShareConsumer)
    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        group_id: str,
        **options: Unpack[BlockingShareOptions[Key, Value]],
    ) -> None: ...

    @classmethod
    @with_options(arguments=ShareConsumerArguments)
    def from_config(
        cls, config: Mapping[str, object], **arguments: Unpack[ShareConsumerArguments[Key, Value]]
    ) -> Self:
        """Make a share consumer of a Java client's properties, or of librdkafka's.

        ``{"bootstrap.servers": "localhost:9092", "group.id": "workers"}``: the names are Kafka's;
        `minikafka_client.properties` has them all. The other arguments are those of the class.

        Raises:
            TypeError: Kafka has no such property.
            ValueError: a property cannot be set here, or its value is malformed.
        """
        bootstrap_servers, group_id, options = share_consumer_options(config, cls.__name__)
        return cls(bootstrap_servers, group_id, **arguments, **options)

    def __iter__(self) -> Iterator[ShareRecord[Key, Value]]:
        """Iterate over records without end; the loop may be left with ``break`` and started again.

        Raises:
            KafkaError: the group cannot be joined, or records cannot be read; iterating again
                continues.
            DeserializationError: a record's key or value cannot be deserialized; it was released.
        """
        return self._thread.iterate(aiter(self._trio))

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this consumer may fetch from now, perhaps together with others."""
        return self._trio.assignment

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long the broker locks records for this consumer; None before the first fetch."""
        return self._trio.acquisition_lock_timeout_ms

    subscribe = blocking(trio_share_consumer.ShareConsumer[Key, Value].subscribe)
    unsubscribe = blocking(trio_share_consumer.ShareConsumer[Key, Value].unsubscribe)
    poll = blocking(trio_share_consumer.ShareConsumer[Key, Value].poll)
    acknowledge = blocking(trio_share_consumer.ShareConsumer[Key, Value].acknowledge)
    commit = blocking(trio_share_consumer.ShareConsumer[Key, Value].commit)
    commit_nowait = blocking(trio_share_consumer.ShareConsumer[Key, Value].commit_nowait)
    statistics = blocking(trio_share_consumer.ShareConsumer[Key, Value].statistics)
