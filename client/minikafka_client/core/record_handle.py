"""Handles on records that were put into a producer's buffer; both APIs add how to wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Generic, TypeVar, overload

from minikafka_client.core.producer_batch import BatchState, ProducerBatch
from minikafka_client.errors import KafkaError
from minikafka_client.types import RecordMetadata


class RecordHandle(tuple[ProducerBatch, int]):
    """One record. It is a tuple because nothing else is made as quickly."""

    __slots__ = ()

    @property
    def is_done(self) -> bool:
        """Whether the record is delivered or has failed."""
        batch = self[0]
        if batch.parts:
            batch, _ = batch.part_of(self[1])
        return batch.state is BatchState.DONE

    @property
    def error(self) -> KafkaError | None:
        """Why it failed; None while undecided and after success."""
        batch = self[0]
        if batch.parts:
            batch, _ = batch.part_of(self[1])
        error = batch.error
        if error is not None:
            batch.is_observed = True
        return error


def metadata_of(batch: ProducerBatch, index: int) -> RecordMetadata:
    """Where a record went, or the error of its batch; `ValueError` while that is not decided."""
    if batch.parts:
        batch, index = batch.part_of(index)
    if batch.state is not BatchState.DONE:
        raise ValueError("the delivery is not decided yet; await it")
    if batch.error is not None:
        batch.is_observed = True
        raise batch.error
    offset = batch.base_offset + index if batch.base_offset >= 0 else -1
    return RecordMetadata(batch.topic, batch.partition, offset, batch.timestamp_of(index))


_Handle = TypeVar("_Handle", bound=RecordHandle)


class RecordHandles(Sequence[_Handle], Generic[_Handle]):
    """Many records: runs of records of a batch, so that there is no step of Python for each."""

    def __init__(self, handle: type[_Handle]) -> None:
        self._handle = handle
        self._runs: list[tuple[ProducerBatch, int, int]] = []  # batch, first index, first position
        self._count = 0

    def add(self, batch: ProducerBatch, first_index: int, count: int) -> None:
        """Add ``count`` records of a batch, from ``first_index`` on."""
        if count:
            self._runs.append((batch, first_index, self._count))
            self._count += count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, position: int) -> _Handle: ...

    @overload
    def __getitem__(self, position: slice) -> list[_Handle]: ...

    def __getitem__(self, position: int | slice) -> _Handle | list[_Handle]:
        if isinstance(position, slice):
            return [self[each] for each in range(*position.indices(self._count))]
        if position < 0:
            position += self._count
        if not 0 <= position < self._count:
            raise IndexError(f"there are {self._count} deliveries, not {position + 1}")
        for batch, first_index, first_position in reversed(self._runs):
            if first_position <= position:
                return self._handle((batch, first_index + position - first_position))
        raise AssertionError("the runs cover every position")

    def __iter__(self) -> Iterator[_Handle]:
        ends = [run[2] for run in self._runs[1:]] + [self._count]
        return chain.from_iterable(
            map(
                self._handle, zip(repeat(batch), range(first, first + end - position), strict=False)
            )
            for (batch, first, position), end in zip(self._runs, ends, strict=True)
        )

    def _batches(self) -> list[ProducerBatch]:
        return [batch for batch, _, _ in self._runs]

    def _results(self) -> list[RecordMetadata]:
        """Where the records went, once all are decided; raises the first error."""
        for batch in self._batches():
            batch.is_observed = batch.error is not None
        return [metadata_of(*handle) for handle in self]
