"""What became of the records that were sent: counted as the answers come in."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .output import count_of

if TYPE_CHECKING:
    from minikafka_client import Delivery, KafkaError, ProducerRecord


@dataclass(slots=True)
class _PartitionTally:
    records: int
    first_offset: int
    last_offset: int


class DeliveryTally:
    """Counts deliveries; those still open are at most what the producer's buffer holds.

    Attributes:
        acknowledged: records that the broker has as ``acks`` demands; with 0: that went out.
        failed: records that were refused, or not answered in time.
        unknown: records without an answer when the command ended.
        size_bytes: keys and values of all records sent.
    """

    def __init__(self, topic: str, acks: str) -> None:
        self.acknowledged = 0
        self.failed = 0
        self.unknown = 0
        self.size_bytes = 0
        self.first_error: KafkaError | None = None
        self._topic = topic
        self._acks = acks
        self._open: deque[Delivery] = deque()
        self._partitions: dict[int, _PartitionTally] = {}
        self._started_at = time.monotonic()
        self._seconds = 0.0

    def sent(self, record: ProducerRecord, delivery: Delivery) -> None:
        """A record is in the producer's buffer."""
        self._open.append(delivery)
        self.size_bytes += len(record.value or b"") + len(record.key or b"")

    def count_finished(self) -> None:
        """Count the deliveries that are decided, as far as the oldest that is not."""
        waiting = self._open
        while waiting and waiting[0].is_done:
            self._count(waiting.popleft())

    def abandon_rest(self) -> None:
        """The end: count what is decided, wherever it stands; the rest will never be known."""
        self._seconds = time.monotonic() - self._started_at
        for delivery in self._open:
            if delivery.is_done:
                self._count(delivery)
            else:
                self.unknown += 1
        self._open.clear()

    def _count(self, delivery: Delivery) -> None:
        error = delivery.error
        if error is not None:
            self.failed += 1
            self.first_error = self.first_error or error
            return
        self.acknowledged += 1
        where = delivery.result()
        partition = self._partitions.get(where.partition)
        if partition is None:
            self._partitions[where.partition] = _PartitionTally(1, where.offset, where.offset)
            return
        partition.records += 1
        partition.first_offset = min(partition.first_offset, where.offset)
        partition.last_offset = max(partition.last_offset, where.offset)

    @property
    def progress_text(self) -> str:
        """For a progress bar."""
        return f"{self.acknowledged} acknowledged"

    @property
    def summary(self) -> str:
        """What was done, in a few words."""
        if self._acks == "0":
            text = f"{count_of(self.acknowledged, 'record')} sent, acks=0 asks for no answer"
        else:
            text = f"{count_of(self.acknowledged, 'record')} acknowledged (acks={self._acks})"
        if self.failed:
            text += f", {self.failed} failed"
        if self.unknown:
            text += f", {self.unknown} without an answer (stored or not)"
        seconds = max(self._seconds, 1e-3)
        return f"{text} in {seconds:.2f} s ({self.size_bytes / 1e6 / seconds:.1f} MB/s)"

    def document(self) -> dict[str, Any]:
        """The outcome, for JSON."""
        partitions: list[dict[str, Any]] = [
            {
                "partition": number,
                "records": partition.records,
                "first_offset": partition.first_offset,
                "last_offset": partition.last_offset,
            }
            for number, partition in sorted(self._partitions.items())
        ]
        return {
            "topic": self._topic,
            "acks": self._acks,
            "acknowledged": self.acknowledged,
            "failed": self.failed,
            "unknown": self.unknown,
            "size_bytes": self.size_bytes,
            "seconds": round(self._seconds, 3),
            "partitions": partitions,
        }
