"""The records of one batch, as columns and as records, decoded the quickest way they allow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, Final, cast

from minikafka.protocol.records.batch import (
    BATCH_HEADER_SIZE_BYTES,
    BatchHeader,
    crc_is_valid,
    parse_batch_header,
)
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.errors import CorruptBatchError
from minikafka.protocol.records.record import Record, decode_records
from minikafka_client.core.uniform_records import UniformBatch, decode_uniform
from minikafka_client.types import ConsumerRecord

Headers = tuple[tuple[str, bytes | None], ...]

_NO_HEADERS: Final[Headers] = ()

# What ConsumerRecord(...) ends up calling, without the Python function in between.
_new_record: Final = cast(
    "Callable[[Any, tuple[object, ...]], ConsumerRecord]",
    tuple.__new__,  # pyright: ignore[reportUnknownMemberType] - a generic method, not yet bound
)


class AnyRecords:
    """Records of any shape, decoded one by one."""

    def __init__(self, records: list[Record]) -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    def offsets(self) -> list[int]:
        return [record[0] for record in self._records]

    def timestamps_ms(self) -> list[int]:
        return [record[1] for record in self._records]

    def keys(self) -> list[bytes | None]:
        return [record[2] for record in self._records]

    def values(self) -> list[bytes | None]:
        return [record[3] for record in self._records]

    def headers(self) -> list[Headers]:
        return [record[4] for record in self._records]

    def records(self, topic: str, partition: int) -> list[ConsumerRecord]:
        new, where = _new_record, (topic, partition)
        return [new(ConsumerRecord, where + record) for record in self._records]


class UniformRecords:
    """Records of one shape: a slice of a `UniformBatch`."""

    def __init__(self, batch: UniformBatch, header: BatchHeader, first: int, end: int) -> None:
        self._batch = batch
        self._header = header
        self._first = first
        self._end = end

    def __len__(self) -> int:
        return self._end - self._first

    def offsets(self) -> range:
        base_offset = self._header.base_offset
        return range(base_offset + self._first, base_offset + self._end)

    def timestamps_ms(self) -> list[int]:
        header = self._header
        if header.has_log_append_time:
            return [header.max_timestamp] * len(self)
        doubled = self._batch.timestamp_deltas[self._first : self._end]
        return [header.base_timestamp + (delta >> 1) for delta in doubled]

    def keys(self) -> Sequence[bytes | None]:
        keys = self._batch.keys
        return [None] * len(self) if keys is None else keys[self._first : self._end]

    def values(self) -> Sequence[bytes | None]:
        values = self._batch.values
        return [None] * len(self) if values is None else values[self._first : self._end]

    def headers(self) -> list[Headers]:
        return [_NO_HEADERS] * len(self)

    def records(self, topic: str, partition: int) -> list[ConsumerRecord]:
        rows = zip(
            repeat(topic),
            repeat(partition),
            self.offsets(),
            self.timestamps_ms(),
            self.keys(),
            self.values(),
            repeat(_NO_HEADERS),
            strict=False,  # three of them have no end
        )
        return list(map(_new_record, repeat(ConsumerRecord), rows))


RecordColumns = AnyRecords | UniformRecords
"""Some records of a batch, in offset order."""


def decode_columns(
    payload: memoryview, position: int, first_offset: int, end_offset: int, *, check_crc: bool
) -> RecordColumns:
    """Decode a batch without records outside the offsets, or raise `CorruptBatchError`."""
    header = parse_batch_header(payload, position, must_be_whole=True)
    if check_crc and not crc_is_valid(payload, position, header):
        raise CorruptBatchError(
            f"batch at offset {header.base_offset}: its CRC is not {header.crc:#010x} as it says"
        )
    uniform = _decode_uniform(payload, position, header)
    if uniform is not None:
        first = min(max(0, first_offset - header.base_offset), uniform.record_count)
        end = max(first, min(uniform.record_count, end_offset - header.base_offset))
        return UniformRecords(uniform, header, first, end)
    records = decode_records(payload, position)
    if records and (records[0].offset < first_offset or records[-1].offset >= end_offset):
        records = [record for record in records if first_offset <= record.offset < end_offset]
    return AnyRecords(records)


def _decode_uniform(payload: memoryview, position: int, header: BatchHeader) -> UniformBatch | None:
    if header.compression is not Compression.NONE:
        return None
    start, end = position + BATCH_HEADER_SIZE_BYTES, position + header.size_bytes
    return decode_uniform(bytes(payload[start:end]), header)
