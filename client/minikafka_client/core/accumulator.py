"""Records that wait to be sent: one open batch per partition, and a limit on their total size.

A batch reserves its full size when it is opened, so that appending needs no bookkeeping. A thousand
slow partitions must not reserve a thousand large batches: a partition starts with a small batch,
and gets one of twice the size after each that was filled, up to ``batch_size``; a batch that was
sent half empty halves the size again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from minikafka.protocol.records.batch import BATCH_HEADER_SIZE_BYTES
from minikafka_client.core.producer_batch import (
    NO_PRODUCER_ID,
    RECORD_OVERHEAD_SIZE_BYTES,
    BatchState,
    ProducerBatch,
)

FIRST_BATCH_SIZE_BYTES: Final = 16 * 1024


class PartitionQueue:
    """One partition's batches, oldest first: unacknowledged, ready, open.

    Attributes:
        unacknowledged: SENT and RETRY batches in the order in which they were first sent.
        producer_id, producer_epoch, next_sequence: what the next new batch gets.
        next_ordinal: how many batches were ever sent.
        needs_new_epoch: client and broker disagree about sequences; see `core.sender`.
        stored_identity: the producer id and epoch of the newest batch that a broker has stored.
    """

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.unacknowledged: deque[ProducerBatch] = deque()
        self.ready: deque[ProducerBatch] = deque()
        self.open: ProducerBatch | None = None
        self.batch_size = FIRST_BATCH_SIZE_BYTES
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = -1
        self.next_sequence = 0
        self.next_ordinal = 0
        self.needs_new_epoch = False
        self.stored_identity: tuple[int, int] = (NO_PRODUCER_ID, -1)

    @property
    def identity(self) -> tuple[int, int]:
        return self.producer_id, self.producer_epoch

    def __bool__(self) -> bool:
        return bool(self.unacknowledged or self.ready or self.open)

    @property
    def oldest(self) -> ProducerBatch | None:
        if self.unacknowledged:
            return self.unacknowledged[0]
        return self.ready[0] if self.ready else self.open

    def batches(self) -> list[ProducerBatch]:
        last = [] if self.open is None else [self.open]
        return [*self.unacknowledged, *self.ready, *last]


class Accumulator:
    """All producer batches that are not DONE, within ``buffer_memory``.

    Attributes:
        queues: every partition that was ever sent to; it keeps the partition's sequence.
        active: those that hold a batch now.
        sticky: per topic, the open batch that takes records without a key.
        topic_size_bytes: no larger batches for these topics, because larger ones were refused.
    """

    def __init__(self, *, batch_size: int, buffer_memory: int, delivery_timeout_s: float) -> None:
        self.batch_size = batch_size
        self.buffer_memory = buffer_memory
        self._delivery_timeout_s = delivery_timeout_s
        self.queues: dict[tuple[str, int], PartitionQueue] = {}
        self.active: dict[tuple[str, int], PartitionQueue] = {}
        self.sticky: dict[str, ProducerBatch] = {}
        self.used_bytes = 0
        self.topic_size_bytes: dict[str, int] = {}

    def open_batch(self, topic: str, partition: int) -> ProducerBatch | None:
        queue = self.queues.get((topic, partition))
        return None if queue is None else queue.open

    def open_new(
        self, topic: str, partition: int, record_size_bytes: int, now: float
    ) -> ProducerBatch | None:
        """Close the partition's open batch and open another that has room for a record.

        Returns None, and changes nothing, when the buffer has no room for it.
        """
        key = (topic, partition)
        queue = self.queues.get(key)
        if queue is None:
            queue = self.queues[key] = PartitionQueue(topic, partition)
        least = BATCH_HEADER_SIZE_BYTES + RECORD_OVERHEAD_SIZE_BYTES + record_size_bytes
        most = self.topic_size_bytes.get(topic, self.batch_size)
        size = max(min(queue.batch_size, most), least)
        # Closing gives back what the open batch did not use.
        unused = queue.open.reserved_bytes - len(queue.open) if queue.open is not None else 0
        if self.used_bytes + size - unused > self.buffer_memory:
            if self.used_bytes + least - unused > self.buffer_memory:
                return None
            size = self.buffer_memory - self.used_bytes + unused
        if queue.open is not None:
            self.close(queue, is_full=True)
        batch = ProducerBatch(
            topic, partition, size, now=now, deadline=now + self._delivery_timeout_s
        )
        queue.open = batch
        self.used_bytes += size
        self.active[key] = queue
        return batch

    def add_built(
        self, topic: str, partition: int, payload: bytearray, record_count: int, now: float
    ) -> ProducerBatch | None:
        """Take a batch that was encoded elsewhere; None, and nothing changes, without room."""
        if self.used_bytes + len(payload) > self.buffer_memory:
            return None
        key = (topic, partition)
        queue = self.queues.setdefault(key, PartitionQueue(topic, partition))
        if queue.open is not None:
            self.close(queue, is_full=False)
        deadline = now + self._delivery_timeout_s
        batch = ProducerBatch.prebuilt(
            topic, partition, payload, record_count, now=now, deadline=deadline
        )
        queue.ready.append(batch)
        self.active[key] = queue
        self.used_bytes += len(payload)
        return batch

    def close(self, queue: PartitionQueue, *, is_full: bool) -> None:
        batch = queue.open
        assert batch is not None
        queue.open = None
        if self.sticky.get(batch.topic) is batch:
            del self.sticky[batch.topic]
        size_bytes = len(batch)
        self.used_bytes -= batch.reserved_bytes - size_bytes
        batch.reserved_bytes = size_bytes
        batch.state = BatchState.READY
        queue.ready.append(batch)
        if is_full:
            queue.batch_size = min(queue.batch_size * 2, self.batch_size)
        elif size_bytes * 2 < queue.batch_size:
            queue.batch_size = max(queue.batch_size // 2, FIRST_BATCH_SIZE_BYTES)

    def close_all(self) -> None:
        for queue in self.active.values():
            if queue.open is not None:
                self.close(queue, is_full=False)

    def replace(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        queue = self.queues[batch.topic, batch.partition]
        index = queue.unacknowledged.index(batch)
        del queue.unacknowledged[index]
        for part in reversed(parts):
            queue.unacknowledged.insert(index, part)
        self.used_bytes += sum(part.reserved_bytes for part in parts) - batch.reserved_bytes

    def refused_as_too_large(self, topic: str, size_bytes: int) -> None:
        """Open no batches of a topic from now on that are larger than this, uncompressed."""
        before = self.topic_size_bytes.get(topic, self.batch_size)
        self.topic_size_bytes[topic] = min(before, size_bytes)

    def remove(self, batch: ProducerBatch) -> None:
        key = (batch.topic, batch.partition)
        queue = self.queues[key]
        if queue.open is batch:
            self.close(queue, is_full=False)
        if batch in queue.unacknowledged:
            queue.unacknowledged.remove(batch)
        else:
            queue.ready.remove(batch)
        self.used_bytes -= batch.reserved_bytes
        if not queue:
            del self.active[key]

    def batches(self) -> list[ProducerBatch]:
        return [batch for queue in self.active.values() for batch in queue.batches()]


class StickyPartitions:
    """Chooses the partition for records without a key: the same one until a batch is closed.

    The next one is drawn at random from those that have a leader (KIP-480), because a partition
    without one would only fill the buffer.
    """

    def __init__(self, dice: Callable[[], float]) -> None:
        self._dice = dice
        self._last: dict[str, int] = {}

    def choose(self, topic: str, partition_count: int, has_leader: Callable[[int], bool]) -> int:
        """The partition for the next batch; a different one, if possible."""
        last = self._last.get(topic)
        # A topic may have thousands of partitions: nearly always the first draw will do.
        chosen = self._draw(range(partition_count))
        if chosen == last or not has_leader(chosen):
            choices = list(filter(has_leader, range(partition_count)))
            if last in choices and len(choices) > 1:
                choices.remove(last)
            chosen = self._draw(choices or range(partition_count))
        self._last[topic] = chosen
        return chosen

    def _draw(self, choices: Sequence[int]) -> int:
        return choices[int(self._dice() * len(choices))]
