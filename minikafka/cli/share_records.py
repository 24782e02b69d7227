"""What ``consume --share`` prints: records of a share group, accepted when they are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import trio

from minikafka_client import ConsumerRecord, ShareConsumer, ShareRecord, TopicPartition

from .record_printer import RecordPrinter
from .signals import Stop, cancelled_by_signals
from .target import Target

_CLOSE_PATIENCE_S: Final = 5


class ShareRecords:
    """The records of a share consumer; what was returned is accepted with the next poll."""

    def __init__(self, consumer: ShareConsumer) -> None:
        self.returned = 0
        self._consumer = consumer
        self._unaccepted: list[ShareRecord] = []

    async def poll(
        self, max_records: int = 500, timeout_ms: float | None = None
    ) -> list[ConsumerRecord]:
        """As `Consumer.poll`."""
        self.accept()
        self._unaccepted = await self._consumer.poll(max_records, timeout_ms)
        self.returned += len(self._unaccepted)
        return [ConsumerRecord(*record[:7]) for record in self._unaccepted]

    def accept(self) -> None:
        """What was returned last has been written."""
        for record in self._unaccepted:
            self._consumer.acknowledge(record)
        self._unaccepted = []

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Nothing: a share group has no offsets to commit."""


async def print_shared(
    target: Target, topics: tuple[str, ...], group_id: str, printer: RecordPrinter, stop: Stop
) -> None:
    """Print until a limit is reached or a signal comes; what was not written is released."""
    async with ShareConsumer(
        target.bootstrap, group_id, share_acknowledgement_mode="explicit", **target.connection
    ) as consumer:
        records = ShareRecords(consumer)
        printer.consumer = records
        with cancelled_by_signals(stop):
            await consumer.subscribe(topics)
            await printer.run()
        if printer.printed == records.returned:
            records.accept()
        with cancelled_by_signals(Stop()), trio.move_on_after(_CLOSE_PATIENCE_S):
            await consumer.commit()
