"""A batch on its way from `send` to the broker's acknowledgement.

    state    means                                        leaves it by
    OPEN     records are appended                         full, linger over, flush -> READY
    READY    closed, never sent                           its turn has come -> SENT
    SENT     in a request that is not answered            success -> DONE; retriable -> RETRY
    RETRY    sent before, result bad or not known         its turn has come -> SENT
    SPLIT    too large; two others have its records       both are DONE -> DONE
    DONE     acknowledged or failed; never changes

From every state but DONE, the end of delivery_timeout_ms and a closing producer lead to DONE. A
batch that was once SENT keeps its place (and with idempotence its sequence) before all later ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from enum import Enum
from itertools import accumulate
from struct import Struct
from typing import Final

from minikafka.protocol.crc import crc32c
from minikafka.protocol.records.batch import BATCH_HEADER_SIZE_BYTES
from minikafka.protocol.records.builder import BatchBuilder
from minikafka.protocol.records.compression import Compression
from minikafka_client.core.plain_records import OVERHEAD_SIZE_BYTES, Run, encode_plain_batch
from minikafka_client.errors import KafkaError
from minikafka_client.types import Headers

NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1
SEQUENCE_MASK: Final = 0x7FFFFFFF
RECORD_OVERHEAD_SIZE_BYTES: Final = 36
"""No record takes more than this besides key, value and headers: five varints of 32 bits, one of
64, and its attributes."""

_NO_TIMESTAMP_YET: Final = -(1 << 63) - 1
"""No record has it."""

_PRODUCER = Struct(">qhi")
_PRODUCER_POSITION = 43
_CRC = Struct(">I")
_CRC_POSITION = 17
_CRC_START = 21
_ATTRIBUTES_POSITION = 22
_TRANSACTIONAL = 0x10


class BatchState(Enum):
    OPEN = 0
    READY = 1
    SENT = 2
    RETRY = 3
    DONE = 4
    SPLIT = 5


class ProducerBatch:
    """Records of one partition that are sent, repeated and acknowledged together.

    A batch begins *plain*: as long as records are nothing but values, these are collected in
    ``values`` and encoded when it is closed (`core.plain_records`). A record with more to it
    makes the batch continue with a `BatchBuilder`.

    Callers with many plain records may append without a call: while ``room`` is not
    less than the value's size and the clock has not come to ``now_until_s``, append the value to
    ``values``, take its size and `OVERHEAD_SIZE_BYTES` from ``room``, and add one to
    ``record_count``. (A clock that is set back finds the batch's timestamp for a while.)

    Attributes:
        values: where plain records with ``timestamp_ms`` go.
        room: bytes left for plain records; negative once the batch takes none.
        record_count: how many records it has.
        timestamp_ms: of the last record; ``timestamps`` has (index, timestamp) where it changed.
        now_until_s: until when ``timestamp_ms`` is now, by the clock of the callers; they set
            it, and it is 0 after a record with another timestamp.
        reserved_bytes: how much of the buffer it occupies.
        deadline: when it fails.
        ordinal: its number among the batches of its partition that were ever sent.
        retry_at: no earlier than this is it sent again to the same leader ...
        leader_epoch: ... which was the one of this epoch.
        base_offset: offset of the first record once DONE, -1 if the broker does not return it.
        append_time_ms: the broker's timestamp for all records, or -1.
        sent_bytes: its size on the wire, once DONE.
        is_doubtful: its sequence alone keeps it from being stored twice; see `core.sender`.
        error: why it failed; of a split one, why the first failed part did.
        parts: index of the first record, and the batch that has it now, of each half of a split
            one; `part_of` finds a record.
        on_awaited: called when a caller starts to wait for it, if the sender wants to know.
        on_done: called, in order, when it is DONE.
    """

    __slots__ = (
        "_builder",
        "_runs",
        "append_time_ms",
        "attempts",
        "base_offset",
        "base_sequence",
        "created_at",
        "deadline",
        "error",
        "is_doubtful",
        "is_observed",
        "last_error",
        "leader_epoch",
        "now_until_s",
        "on_awaited",
        "on_done",
        "ordinal",
        "partition",
        "parts",
        "payload",
        "record_count",
        "reserved_bytes",
        "retry_at",
        "room",
        "sent_bytes",
        "size_bytes_max",
        "state",
        "timestamp_ms",
        "timestamps",
        "topic",
        "values",
    )

    def __init__(
        self, topic: str, partition: int, size_bytes_max: int, *, now: float, deadline: float
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.size_bytes_max = size_bytes_max
        self._builder: BatchBuilder | None = None
        self._runs: list[Run] = []
        self.values: list[bytes] = []
        self.room = size_bytes_max - BATCH_HEADER_SIZE_BYTES - OVERHEAD_SIZE_BYTES
        self.record_count = 0
        self.timestamp_ms = _NO_TIMESTAMP_YET
        self.timestamps: list[tuple[int, int]] = []
        self.now_until_s = 0.0
        self.reserved_bytes = size_bytes_max
        self.created_at = now
        self.deadline = deadline
        self.state = BatchState.OPEN
        self.payload: bytearray | None = None
        self.base_sequence = NO_SEQUENCE
        self.ordinal = 0
        self.attempts = 0
        self.retry_at = 0.0
        self.leader_epoch = -1
        self.is_doubtful = False
        self.last_error: KafkaError | None = None
        self.base_offset = -1
        self.append_time_ms = -1
        self.sent_bytes = 0
        self.error: KafkaError | None = None
        self.is_observed = False
        self.parts: list[tuple[int, ProducerBatch]] = []
        self.on_awaited: Callable[[], None] | None = None
        self.on_done: list[Callable[[], None]] = []

    def __len__(self) -> int:
        """Size in bytes: of the payload, or an estimate of its size without compression."""
        if self.payload is not None:
            return len(self.payload)
        if self._builder is not None:
            return self._builder.size_bytes
        return self.size_bytes_max - OVERHEAD_SIZE_BYTES - self.room

    @classmethod
    def prebuilt(
        cls,
        topic: str,
        partition: int,
        payload: bytearray,
        record_count: int,
        *,
        now: float,
        deadline: float,
    ) -> ProducerBatch:
        """A batch that was encoded elsewhere; it is READY."""
        batch = cls(topic, partition, len(payload), now=now, deadline=deadline)
        batch.payload = payload
        batch.room = -1
        batch.record_count = record_count
        batch.state = BatchState.READY
        return batch

    def append(
        self, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers
    ) -> int:
        """Append any record; returns its index, or -1 when there is no room."""
        if key is None and value is not None and not headers and self._builder is None:
            if self.room < len(value):
                return -1
            if timestamp_ms != self.timestamp_ms:
                self.values = []
                self._runs.append((timestamp_ms, self.values))
            self.values.append(value)
            self.room -= len(value) + OVERHEAD_SIZE_BYTES
        else:
            builder = self._builder or self._become_mixed()
            if not builder.append(key, value, timestamp_ms, headers):
                return -1
        return self._count_record(timestamp_ms)

    def _count_record(self, timestamp_ms: int) -> int:
        index = self.record_count
        self.record_count = index + 1
        if timestamp_ms != self.timestamp_ms:
            self.timestamp_ms = timestamp_ms
            self.now_until_s = 0.0
            self.timestamps.append((index, timestamp_ms))
        return index

    def append_values(self, values: list[bytes], start: int, timestamp_ms: int) -> int:
        """Append values from ``start`` on, as plain records; returns how many there was room for.

        None is taken of those that do not begin a plain batch, or continue one.
        """
        if self._builder is not None or not self.record_count:
            return 0
        sizes = list(map(len, values[start:]))
        if sum(sizes) + OVERHEAD_SIZE_BYTES * (len(sizes) - 1) > self.room:
            fits = accumulate(size + OVERHEAD_SIZE_BYTES for size in sizes)
            del sizes[bisect_right(list(fits), self.room + OVERHEAD_SIZE_BYTES) :]
        count = len(sizes)
        if not count:
            return 0
        if timestamp_ms != self.timestamp_ms:
            self.values = []
            self._runs.append((timestamp_ms, self.values))
        self.values += values[start : start + count]
        self.room -= sum(sizes) + OVERHEAD_SIZE_BYTES * count
        self._count_record(timestamp_ms)
        self.record_count += count - 1
        return count

    def _become_mixed(self) -> BatchBuilder:
        # What is here must fit, however much larger than estimated it is.
        slack_bytes = self.record_count * (RECORD_OVERHEAD_SIZE_BYTES - OVERHEAD_SIZE_BYTES)
        self._builder = BatchBuilder(size_bytes_max=self.size_bytes_max + slack_bytes)
        for timestamp_ms, values in self._runs:
            self._builder.append_many(values, timestamp_ms)
        self._runs = []
        self.values = []
        self.room = -1
        return self._builder

    def timestamp_of(self, index: int) -> int:
        """The timestamp of a record: the broker's if it sets them, else its own."""
        if self.append_time_ms >= 0:
            return self.append_time_ms
        for first, timestamp_ms in reversed(self.timestamps):
            if first <= index:
                return timestamp_ms
        return -1

    def build(self, compression: Compression, level: int | None) -> None:
        if self.payload is not None:
            return
        if self._builder is not None:
            self.payload = self._builder.build(compression=compression, level=level)
        else:
            self.payload = encode_plain_batch(self._runs, compression=compression, level=level)
        self._forget_records()

    def _forget_records(self) -> None:
        """They hold on to the application's values."""
        self._builder = None
        self._runs = []
        self.values = []
        self.room = -1

    def stamp(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        *,
        is_transactional: bool = False,
    ) -> None:
        assert self.payload is not None
        if is_transactional:
            self.payload[_ATTRIBUTES_POSITION] |= _TRANSACTIONAL
        self.base_sequence = base_sequence
        _PRODUCER.pack_into(
            self.payload, _PRODUCER_POSITION, producer_id, producer_epoch, base_sequence
        )
        _CRC.pack_into(self.payload, _CRC_POSITION, crc32c(self.payload, _CRC_START))

    def next_sequence(self) -> int:
        """The sequence after the last record's; it wraps from 2**31 - 1 to 0."""
        return (self.base_sequence + self.record_count) & SEQUENCE_MASK

    def succeed(self, base_offset: int, append_time_ms: int) -> None:
        """Record the acknowledgement; `tell` notifies the waiters."""
        self.base_offset = base_offset
        self.append_time_ms = append_time_ms
        self._finish()

    def fail(self, error: KafkaError) -> None:
        """Record the failure; `tell` notifies the waiters."""
        self.error = error
        self._finish()

    def _finish(self) -> None:
        self.sent_bytes = len(self)
        # Last, because another thread may look: with DONE it must see the outcome.
        self.state = BatchState.DONE
        self.payload = None
        self.on_awaited = None
        self._forget_records()

    def become(self, parts: list[ProducerBatch]) -> None:
        """Hand all records over to other batches: SPLIT, until these are DONE."""
        first = 0
        for part in parts:
            self.parts.append((first, part))
            first += part.record_count
            part.on_done.append(self._part_done)
        self.state = BatchState.SPLIT
        self.payload = None
        self.on_awaited = None

    def _part_done(self) -> None:
        if all(part.state is BatchState.DONE for _, part in self.parts):
            errors = [part.error for _, part in self.parts if part.error is not None]
            self.error = errors[0] if errors else None
            self.state = BatchState.DONE
            self.tell()

    def part_of(self, index: int) -> tuple[ProducerBatch, int]:
        """The batch that has a record now, and the record's index there."""
        batch = self
        while batch.parts:
            first, part = next(each for each in reversed(batch.parts) if each[0] <= index)
            batch, index = part, index - first
        return batch, index

    def tell(self) -> None:
        hooks, self.on_done = self.on_done, []
        for hook in hooks:
            hook()
