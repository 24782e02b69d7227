"""Records of one partition from one fetch response: kept as bytes until they are accessed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from minikafka.protocol.records.batch import BatchHeader, iter_batches, parse_batch_header
from minikafka.protocol.records.control import ControlType, decode_control_type
from minikafka.protocol.records.errors import CorruptBatchError
from minikafka.protocol.records.record import decode_records
from minikafka_client.core.record_columns import Headers, RecordColumns, decode_columns
from minikafka_client.core.serialization import Deserializers, deserialized
from minikafka_client.errors import CorruptRecordsError
from minikafka_client.types import ConsumerRecord, Key, TopicPartition, Value

if TYPE_CHECKING:
    from minikafka_client.serializers import Deserializer

_Item = TypeVar("_Item")

_NO_END: Final = 1 << 63


class AbortedTransactions:
    """Which of a fetch response's transactional batches were aborted (KIP-98).

    ``aborted``: (producer id, first offset) of the aborted transactions that may overlap them.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._ahead = sorted(aborted, key=lambda each: each[1], reverse=True)
        self._open: set[int] = set()

    def hides(self, header: BatchHeader, control_type: int | None) -> bool:
        """Whether the application must not see a batch; ask in offset order."""
        while self._ahead and self._ahead[-1][1] <= header.last_offset:
            self._open.add(self._ahead.pop()[0])
        if header.is_control:
            if control_type == ControlType.ABORT:
                self._open.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._open


class ConsumedBatch(Generic[Key, Value]):
    """Consecutive records of one partition, as columns and as records.

    ``consumer.batches()`` yields them. Nothing is decoded before it is accessed; with a
    deserializer, ``keys``, ``values`` and ``records`` may raise `DeserializationError`.

    Attributes:
        topic, partition: where the records come from.
        payload: the record batches as they were fetched, to be decoded by others.
        batch_positions: where its visible batches begin.
        first_offset: records before it are skipped, though they may be in the payload.
        end_offset: neither are those from it on.
        next_offset: where the next run begins; beyond the last record if others are hidden.
        epoch_before: leader epoch of the record before the first, -1 when unknown.
        leader_epoch: leader epoch of the last batch.
        record_count_max: an upper bound that needs no decoding.
        size_bytes: the memory it takes until it is consumed.
        deserializers: what makes keys and values of bytes.
    """

    def __init__(
        self,
        partition: TopicPartition,
        payload: memoryview,
        fetch_offset: int,
        *,
        aborted: Iterable[tuple[int, int]] | None = None,
        check_crcs: bool = True,
    ) -> None:
        self.topic, self.partition = partition
        self.topic_partition = partition
        self.first_offset = fetch_offset
        self.next_offset = fetch_offset
        self.end_offset = _NO_END
        self.epoch_before = -1
        self.leader_epoch = -1
        self._epochs: list[tuple[int, int]] = []  # first offset and leader epoch, where it changes
        self.size_bytes = len(payload)
        self.payload = payload
        self.deserializers = Deserializers()
        self._check_crcs = check_crcs
        self.batch_positions: list[int] = []
        self.record_count_max = 0
        self._find_batches(payload, None if aborted is None else AbortedTransactions(aborted))

    def _find_batches(self, payload: memoryview, aborted: AbortedTransactions | None) -> None:
        for position, header in iter_batches(payload):
            if header.next_offset <= self.first_offset:
                continue  # a broker answers with the whole batch that holds the offset, or more
            is_hidden = header.is_control
            if aborted is not None:
                control_type = self._control_type(position) if is_hidden else None
                is_hidden = aborted.hides(header, control_type)
            if not is_hidden:
                self.batch_positions.append(position)
                self.record_count_max += header.record_count
            self.next_offset = header.next_offset
            if header.partition_leader_epoch != self.leader_epoch:
                self.leader_epoch = header.partition_leader_epoch
                self._epochs.append((header.base_offset, self.leader_epoch))

    def leader_epoch_before(self, offset: int) -> int:
        """Leader epoch of the record before an offset of this run (or the one after it)."""
        if offset > self.first_offset:
            for first, leader_epoch in reversed(self._epochs):
                if first < offset:
                    return leader_epoch
        return self.epoch_before

    def _control_type(self, position: int) -> int | None:
        records = decode_records(self.payload, position)
        return decode_control_type(records[0].key)[1] if records else None

    @cached_property
    def _columns(self) -> list[RecordColumns]:
        columns: list[RecordColumns] = []
        for position in self.batch_positions:
            if self.end_offset != _NO_END and (
                parse_batch_header(self.payload, position).base_offset >= self.end_offset
            ):
                break  # it may be one that cannot be decoded
            try:
                columns.append(
                    decode_columns(
                        self.payload,
                        position,
                        self.first_offset,
                        self.end_offset,
                        check_crc=self._check_crcs,
                    )
                )
            except CorruptBatchError as error:
                header = parse_batch_header(self.payload, position)
                raise CorruptRecordsError(
                    self.topic,
                    self.partition,
                    max(self.first_offset, header.base_offset),
                    header.next_offset,
                    str(error),
                ) from error
        return columns

    def rest(self, offset: int) -> ConsumedBatch[Key, Value]:
        """The same run without the records before an offset."""
        rest = self._undecoded()
        rest.epoch_before = self.leader_epoch_before(offset)
        rest.first_offset = offset
        return rest

    def until(self, offset: int) -> ConsumedBatch[Key, Value]:
        """The same run without the records from an offset on."""
        head = self._undecoded()
        head.end_offset = offset
        return head

    def split(self, offset: int) -> tuple[ConsumedBatch[Key, Value], ConsumedBatch[Key, Value]]:
        """The records before an offset, and those from it on, as two runs."""
        head, rest = self.until(offset), self.rest(offset)
        head.next_offset = offset
        head.leader_epoch = rest.epoch_before
        head.size_bytes = 0  # the rest holds the memory
        return head, rest

    def _undecoded(self) -> ConsumedBatch[Key, Value]:
        other = copy(self)
        other.__dict__.pop("_columns", None)
        other.__dict__.pop("records", None)
        return other

    def __len__(self) -> int:
        """How many records there are; this decodes them."""
        return sum(map(len, self._columns))

    @cached_property
    def records(self) -> Sequence[ConsumerRecord[Key, Value]]:
        """The records themselves, in offset order.

        Raises:
            DeserializationError: the key or the value of one of them cannot be deserialized.
        """
        topic, partition = self.topic, self.partition
        if not self.deserializers:
            found = _joined([columns.records(topic, partition) for columns in self._columns])
            return cast("list[ConsumerRecord[Key, Value]]", found)
        offsets, timestamps_ms, headers = self.offsets, self.timestamps_ms, self.headers
        rows = zip(offsets, timestamps_ms, self.keys, self.values, headers, strict=True)
        return [ConsumerRecord(topic, partition, *row) for row in rows]

    @property
    def offsets(self) -> Sequence[int]:
        """Offset of each record, rising."""
        return _joined([columns.offsets() for columns in self._columns])

    @property
    def timestamps_ms(self) -> Sequence[int]:
        """Timestamp of each record."""
        return _joined([columns.timestamps_ms() for columns in self._columns])

    @property
    def keys(self) -> Sequence[Key | None]:
        """Key of each record.

        Raises:
            DeserializationError: one of them cannot be deserialized.
        """
        encoded = _joined([columns.keys() for columns in self._columns])
        return self._deserialized("key", self.deserializers.key, encoded)

    @property
    def values(self) -> Sequence[Value | None]:
        """Value of each record.

        Raises:
            DeserializationError: one of them cannot be deserialized.
        """
        encoded = _joined([columns.values() for columns in self._columns])
        return self._deserialized("value", self.deserializers.value, encoded)

    def _deserialized(
        self, part: str, deserializer: Deserializer[Any] | None, encoded: list[bytes | None]
    ) -> list[Any]:
        if deserializer is None:
            return encoded
        return deserialized(deserializer, encoded, part, self.topic, self.partition, self.offsets)

    @property
    def headers(self) -> Sequence[Headers]:
        """Headers of each record."""
        return _joined([columns.headers() for columns in self._columns])


def _joined(columns: list[Sequence[_Item]]) -> list[_Item]:
    return list(chain.from_iterable(columns))
