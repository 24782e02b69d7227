"""What ``async for`` runs over. Not async generators: those must not be left with ``break``."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Self

from minikafka_client.core.fetched import FetchedRecords
from minikafka_client.trio_face.reading import Reading
from minikafka_client.types import ConsumerRecord


class RecordIterator:
    """Records one by one."""

    __slots__ = ("_reading", "_records")

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._records: Iterator[ConsumerRecord] = iter(())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        if not self._reading.is_interrupted:
            record = next(self._records, None)
            if record is not None:
                return record
        return await self._next_of_another_run()

    async def _next_of_another_run(self) -> ConsumerRecord:
        self._records = iter(())  # also if this is cancelled
        await self._reading.begin()
        while True:
            iteration = await self._reading.next_iteration(inf)
            assert iteration is not None
            self._records = iteration.iterator
            for record in self._records:
                self._reading.handout.one_by_one()
                return record


class BatchIterator:
    """Runs of one partition's records."""

    __slots__ = ("_reading",)

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> FetchedRecords:
        await self._reading.begin()
        while True:
            run = await self._reading.next_run(inf)
            assert run is not None
            if len(run):
                return run
