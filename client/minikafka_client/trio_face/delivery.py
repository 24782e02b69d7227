"""What `Producer.send` returns: a handle on a record's fate."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import chain, repeat
from typing import Any, overload

import trio

from minikafka_client.core.producer_batch import BatchState, ProducerBatch
from minikafka_client.errors import KafkaError
from minikafka_client.types import RecordMetadata


class Delivery(tuple[ProducerBatch, int]):
    """What becomes of one record: ``await delivery`` gives a `RecordMetadata` or raises.

    It is a tuple because nothing else is made as quickly; what is inside may change.
    """

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, RecordMetadata]:
        return self._wait().__await__()

    async def _wait(self) -> RecordMetadata:
        batch, _ = self
        await wait_until_done(batch)
        return self.result()

    @property
    def is_done(self) -> bool:
        """Whether the record is delivered or has failed."""
        batch = self[0]
        if batch.parts:
            batch, _ = batch.part_of(self[1])
        return batch.state is BatchState.DONE

    def result(self) -> RecordMetadata:
        """The outcome of a delivery that `is_done`.

        Raises:
            KafkaError: the record was not delivered.
            ValueError: it is not decided yet.
        """
        batch, index = self
        if batch.parts:
            batch, index = batch.part_of(index)
        if batch.state is not BatchState.DONE:
            raise ValueError("the delivery is not decided yet; await it")
        if batch.error is not None:
            batch.is_observed = True
            raise batch.error
        offset = batch.base_offset + index if batch.base_offset >= 0 else -1
        return RecordMetadata(batch.topic, batch.partition, offset, batch.timestamp_of(index))

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


async def wait_until_done(batch: ProducerBatch) -> None:
    """Wait until a batch is acknowledged or given up."""
    if batch.state is BatchState.DONE:
        await trio.lowlevel.checkpoint()
        return
    done = trio.Event()
    batch.on_done.append(done.set)
    if batch.on_awaited is not None:
        batch.on_awaited()
    await done.wait()


class Deliveries(Sequence[Delivery]):
    """The handles of many records; ``await deliveries`` gives a list of `RecordMetadata`.

    Awaiting raises the error of the first record that failed, once all are decided.
    """

    def __init__(self) -> None:
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
    def __getitem__(self, position: int) -> Delivery: ...

    @overload
    def __getitem__(self, position: slice) -> list[Delivery]: ...

    def __getitem__(self, position: int | slice) -> Delivery | list[Delivery]:
        """One handle, or some of them."""
        if isinstance(position, slice):
            return [self[each] for each in range(*position.indices(self._count))]
        if position < 0:
            position += self._count
        if not 0 <= position < self._count:
            raise IndexError(f"there are {self._count} deliveries, not {position + 1}")
        for batch, first_index, first_position in reversed(self._runs):
            if first_position <= position:
                return Delivery((batch, first_index + position - first_position))
        raise AssertionError("the runs cover every position")

    def __iter__(self) -> Iterator[Delivery]:
        # Without a step of Python for each: they may be a thousand times as many as the runs.
        ends = [run[2] for run in self._runs[1:]] + [self._count]
        return chain.from_iterable(
            map(Delivery, zip(repeat(batch), range(first, first + end - position), strict=False))
            for (batch, first, position), end in zip(self._runs, ends, strict=True)
        )

    def __await__(self) -> Generator[Any, Any, list[RecordMetadata]]:
        return self._wait().__await__()

    async def _wait(self) -> list[RecordMetadata]:
        for batch, _, _ in self._runs:
            await wait_until_done(batch)
        for batch, _, _ in self._runs:
            batch.is_observed = batch.error is not None
        return [delivery.result() for delivery in self]
