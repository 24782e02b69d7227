"""Finds the batch for a record, and opens one if there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, Final

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records.batch import BATCH_HEADER_SIZE_BYTES
from minikafka_client.core.accumulator import Accumulator, StickyPartitions
from minikafka_client.core.cluster import NO_LEADER, Cluster
from minikafka_client.core.producer_batch import RECORD_OVERHEAD_SIZE_BYTES, ProducerBatch
from minikafka_client.core.record_handle import RecordHandles
from minikafka_client.errors import RecordTooLargeError, SerializationError, broker_error
from minikafka_client.partitioner import partition_for_key
from minikafka_client.types import Headers, ProducerRecord

Partitioner = Callable[[str, bytes | None, bytes | None, int], int]


class NoMetadata(Exception):
    """The topic's partitions are not known yet."""


class NoRoom(Exception):
    """The buffer is full."""


class Appender:
    """Appends records to the accumulator.

    ``clock`` is called only when a batch is opened, and `append` raises its errors. ``on_opened``
    is called with each new batch, whose linger time begins; ``on_full`` when a batch can be sent,
    or must be to make room.
    """

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        sticky_partitions: StickyPartitions,
        partitioner: Partitioner | None,
        record_size_bytes_max: int,
        *,
        clock: Callable[[], float],
        on_opened: Callable[[ProducerBatch], None],
        on_full: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._sticky_partitions = sticky_partitions
        self._partitioner = partitioner
        self._record_size_bytes_max = record_size_bytes_max
        self._clock = clock
        self._on_opened = on_opened
        self._on_full = on_full

    def append(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp_ms: int,
        headers: Headers,
    ) -> tuple[ProducerBatch, int]:
        """Append a record; returns its batch and its index there.

        Raises:
            NoMetadata: the topic must be looked up first.
            NoRoom: other records must be delivered first.
            RecordTooLargeError: it can never be sent.
            SerializationError: value or key is not bytes.
            UnknownTopicError: the topic has no such partition.
        """
        if value.__class__ is not bytes:
            _check_bytes("value", value)
        if key is not None:
            _check_bytes("key", key)
        if partition is None and key is None and self._partitioner is None:
            return self._append_sticky(topic, value, timestamp_ms, headers)
        count = self._partition_count(topic)
        if partition is None:
            if self._partitioner is not None:
                partition = self._partitioner(topic, key, value, count)
            else:
                assert key is not None, "records without a key stick to a partition"
                partition = partition_for_key(key, count)
        if not 0 <= partition < count:
            raise broker_error(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"partition {partition} of topic {topic!r}, which has {count}",
            )
        batch = self._accumulator.open_batch(topic, partition)
        if batch is not None:
            index = batch.append(key, value, timestamp_ms, headers)
            if index >= 0:
                return batch, index
            self._on_full()
        batch = self._open(topic, partition, self._size_bytes(topic, value, key, headers))
        return batch, batch.append(key, value, timestamp_ms, headers)

    def _append_sticky(
        self, topic: str, value: bytes | None, timestamp_ms: int, headers: Headers
    ) -> tuple[ProducerBatch, int]:
        full = self._accumulator.sticky.get(topic)
        if full is not None:
            index = full.append(None, value, timestamp_ms, headers)
            if index >= 0:
                return full, index
        count = self._partition_count(topic)
        size_bytes = self._size_bytes(topic, value, None, headers)
        if full is not None:
            self._accumulator.close(self._accumulator.queues[topic, full.partition], is_full=True)
            self._on_full()

        def has_leader(partition: int) -> bool:
            return self._cluster.leader(topic, partition) != NO_LEADER

        partition = self._sticky_partitions.choose(topic, count, has_leader)
        batch = self._open(topic, partition, size_bytes)
        self._accumulator.sticky[topic] = batch
        return batch, batch.append(None, value, timestamp_ms, headers)

    def _partition_count(self, topic: str) -> int:
        count = self._cluster.partition_count(topic)
        if not count:
            raise NoMetadata(topic)
        return count

    def _size_bytes(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Headers
    ) -> int:
        size_bytes = len(value or b"") + len(key or b"")
        for name, header in headers:
            # Four bytes per character at most, and two varints.
            size_bytes += 4 * len(name) + len(header or b"") + 10
        least = BATCH_HEADER_SIZE_BYTES + RECORD_OVERHEAD_SIZE_BYTES + size_bytes
        if least > self._record_size_bytes_max:
            raise RecordTooLargeError(
                f"a record of {size_bytes} bytes for topic {topic!r} may need {least} bytes; "
                f"max_request_size and buffer_memory allow "
                f"{self._record_size_bytes_max}"
            )
        return size_bytes

    def _open(self, topic: str, partition: int, record_size_bytes: int) -> ProducerBatch:
        batch = self._accumulator.open_new(topic, partition, record_size_bytes, self._clock())
        if batch is None:
            self._on_full()
            raise NoRoom(topic)
        self._on_opened(batch)
        return batch


def _check_bytes(name: str, given: object) -> None:
    if given is not None and not isinstance(given, bytes):
        raise SerializationError(
            f"the {name} is {type(given).__name__} {given!r:.50}, not bytes; encode it first"
        )


RECORDS_PER_CHUNK: Final = 1_024


def append_many(
    topic: str,
    records: Iterable[Any],
    handles: RecordHandles[Any],
    sticky: Mapping[str, ProducerBatch],
    lock: AbstractContextManager[object],
    now_ms: Callable[[], int],
) -> Iterator[list[ProducerRecord[Any, Any]]]:
    """Append what needs no waiting, and yield what must be sent one by one before it goes on.

    It yields before each chunk, too (nothing, then), so that full batches are sent meanwhile.
    ``handles`` get what is appended here; the caller adds what it sends. ``lock`` is held while a
    batch changes.
    """
    stream = iter(records)
    while chunk := list(islice(stream, RECORDS_PER_CHUNK)):
        yield []
        if set(map(type, chunk)) != {bytes}:
            yield [
                record if isinstance(record, ProducerRecord) else ProducerRecord(record)
                for record in chunk
            ]
            continue
        start = 0
        while start < len(chunk):
            with lock:
                batch = sticky.get(topic)
                if batch is not None:
                    first = batch.record_count
                    count = batch.append_values(chunk, start, now_ms())
                    handles.add(batch, first, count)
                    start += count
            if start < len(chunk):
                yield [ProducerRecord(chunk[start])]  # opens a batch with room
                start += 1
