"""Rows to record batches: choose topic and partition, then encode the columns."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from minikafka.protocol.records import Compression

from ..columns.encoder import encode_batches
from ..columns.large_records import encode_large_batches, has_large_values
from ..kafka_properties import Partitioning
from .errors import RefusedRowError
from .input_schema import InputColumns
from .partitioner import partitions_for_keys

_GATHERED_PER_PARTITION_BYTES: Final = 64 * 1024
_GATHERED_MIN_BYTES: Final = 1024 * 1024
_GATHERED_MAX_BYTES: Final = 16 * 1024 * 1024

_RECORD_COUNT: Final = Struct(">i")
_RECORD_COUNT_POSITION: Final = 57


class EncodedBatch(NamedTuple):
    topic: str
    partition: int
    payload: bytearray
    record_count: int


class RowEncoder:
    """Encodes Arrow batches of rows as record batches.

    Args:
        columns: the positions of key, value and the others.
        topic: the topic of all rows; None takes it from the column.
        partition_count: returns the number of partitions of a topic.
        batch_size_bytes_max: limit of a batch's records, uncompressed.
        compression: the codec.
        partitioning: where rows without a partition go.
        clock_ms: returns the timestamp of records.
    """

    def __init__(
        self,
        columns: InputColumns,
        topic: str | None,
        partition_count: Callable[[str], int],
        *,
        batch_size_bytes_max: int,
        compression: Compression = Compression.NONE,
        partitioning: Partitioning = "default",
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._columns = columns
        self._topic = topic
        self._partition_count = partition_count
        self._batch_size_bytes_max = batch_size_bytes_max
        self._compression = compression
        self._partitioning = partitioning
        self._clock_ms = clock_ms
        self._last: dict[str, int] = {}

    def encode(self, batches: Iterable[pa.RecordBatch]) -> Iterator[EncodedBatch]:
        """Encode rows, keeping the order within each partition.

        Raises:
            RefusedRowError: a row has no topic, or a partition that the topic does not have.
        """
        for rows in gathered(batches, self._size_wanted()):
            yield from self._encode(rows)

    def _size_wanted(self) -> int:
        """Bytes of rows that make worthwhile batches for all partitions."""
        count = self._partition_count(self._topic) if self._topic is not None else 1
        wanted = count * _GATHERED_PER_PARTITION_BYTES
        return min(max(wanted, _GATHERED_MIN_BYTES), _GATHERED_MAX_BYTES)

    def _encode(self, rows: pa.RecordBatch) -> Iterator[EncodedBatch]:
        columns = self._columns
        values = _as_bytes(rows.column(columns.value))
        keys = None if columns.key is None else _as_bytes(rows.column(columns.key))
        if keys is not None and keys.null_count == len(keys):
            keys = None
        headers = None if columns.headers is None else _checked_headers(rows, columns.headers)
        partitions = None if columns.partition is None else rows.column(columns.partition)
        if columns.topic is None:
            assert self._topic is not None
            yield from self._encode_topic(self._topic, keys, values, headers, partitions)
            return
        topics = rows.column(columns.topic)
        if topics.null_count:
            raise RefusedRowError(
                "a row has null in the column 'topic'; fill it, drop such rows, or set the option "
                "'topic'"
            )
        coded = topics.dictionary_encode()
        for code, topic in enumerate(coded.dictionary.to_pylist()):
            chosen = pc.equal(coded.indices, code)
            yield from self._encode_topic(
                topic,
                None if keys is None else keys.filter(chosen),
                values.filter(chosen),
                None if headers is None else headers.filter(chosen),
                None if partitions is None else partitions.filter(chosen),
            )

    def _encode_topic(
        self,
        topic: str,
        keys: pa.Array | None,
        values: pa.Array,
        headers: pa.Array | None,
        partitions: pa.Array | None,
    ) -> Iterator[EncodedBatch]:
        where = self._partitions(topic, keys, len(values), partitions)
        counts = np.bincount(where)
        used = np.flatnonzero(counts).tolist()
        if not self._compression and has_large_values(values):
            for partition in used:
                for payload in encode_large_batches(
                    keys,
                    values,
                    headers,
                    np.flatnonzero(where == partition).tolist(),
                    timestamp_ms=self._clock_ms(),
                    batch_size_bytes_max=self._batch_size_bytes_max,
                ):
                    yield _encoded(topic, partition, payload)
            return
        if len(used) > 1:
            # NumPy sorts 16-bit numbers by radix, which is several times faster.
            small = where.astype(np.uint16) if used[-1] < 1 << 16 else where
            order = pa.array(np.argsort(small, kind="stable"))
            values = values.take(order)
            keys = None if keys is None else keys.take(order)
            headers = None if headers is None else headers.take(order)
        first = 0
        for partition in used:
            count = int(counts[partition])
            for payload in encode_batches(
                None if keys is None else keys.slice(first, count),
                values.slice(first, count),
                None if headers is None else headers.slice(first, count),
                timestamp_ms=self._clock_ms(),
                batch_size_bytes_max=self._batch_size_bytes_max,
                compression=self._compression,
            ):
                yield _encoded(topic, partition, payload)
            first += count

    def _partitions(
        self, topic: str, keys: pa.Array | None, count: int, given: pa.Array | None
    ) -> NDArray[np.int64]:
        partition_count = self._partition_count(topic)
        if given is not None and not given.null_count:
            return self._checked(topic, given.to_numpy().astype(np.int64), partition_count)
        if self._partitioning == "round-robin":
            first = self._next(topic, partition_count, count)
            where = (first + np.arange(count)) % partition_count
        elif keys is None or self._partitioning == "sticky":
            where = np.full(count, self._next(topic, partition_count), np.int64)
        else:
            where = partitions_for_keys(keys, partition_count)
            if keys.null_count:
                has_none = keys.is_null().to_numpy(zero_copy_only=False)
                where[has_none] = self._next(topic, partition_count)
        if given is not None and given.null_count < count:
            chosen = given.is_valid().to_numpy(zero_copy_only=False)
            wanted = given.drop_null().to_numpy().astype(np.int64)
            where[chosen] = self._checked(topic, wanted, partition_count)
        return where

    def _checked(
        self, topic: str, wanted: NDArray[np.int64], partition_count: int
    ) -> NDArray[np.int64]:
        wrong = (wanted < 0) | (wanted >= partition_count)
        if wrong.any():
            raise RefusedRowError(
                f"a row has {int(wanted[wrong][0])} in the column 'partition', and topic {topic!r} "
                f"has the partitions 0 to {partition_count - 1}"
            )
        return wanted

    def _next(self, topic: str, partition_count: int, used: int = 1) -> int:
        """The partition after the last one used, from a random start.

        Rows without a key stick to one partition until the gathered rows are encoded (KIP-480).
        """
        last = self._last.get(topic)
        if last is None:
            last = random.randrange(partition_count)
        self._last[topic] = (last + used) % partition_count
        return (last + 1) % partition_count


def _encoded(topic: str, partition: int, payload: bytearray) -> EncodedBatch:
    (record_count,) = _RECORD_COUNT.unpack_from(payload, _RECORD_COUNT_POSITION)
    return EncodedBatch(topic, partition, payload, record_count)


def gathered(batches: Iterable[pa.RecordBatch], size_bytes: int) -> Iterator[pa.RecordBatch]:
    """Join batches of rows until they reach a size; empty ones are dropped."""
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            waiting_bytes += batch.nbytes
        if waiting_bytes >= size_bytes:
            yield _joined(waiting)
            waiting, waiting_bytes = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _checked_headers(rows: pa.RecordBatch, index: int) -> pa.Array:
    headers = rows.column(index)
    if isinstance(headers, pa.ListArray):
        each = headers.flatten()
        if each.null_count or (isinstance(each, pa.StructArray) and each.field(0).null_count):
            raise RefusedRowError("a row has a header without a key in the column 'headers'")
    return headers


def _as_bytes(column: pa.Array) -> pa.Array:
    return column if column.type == pa.binary() else column.cast(pa.binary())
