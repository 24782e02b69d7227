"""What the blocking producers return: a handle on a record's fate."""

from __future__ import annotations

import threading

from minikafka_client.core.producer_batch import BatchState, ProducerBatch
from minikafka_client.errors import KafkaError
from minikafka_client.types import RecordMetadata


class Delivery(tuple[ProducerBatch, int]):
    """What becomes of one record: ``delivery.result()`` gives a `RecordMetadata` or raises."""

    __slots__ = ()

    @property
    def is_done(self) -> bool:
        """Whether the record is delivered or has failed."""
        batch = self[0]
        if batch.parts:
            batch, _ = batch.part_of(self[1])
        return batch.state is BatchState.DONE

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Wait for the outcome.

        Raises:
            KafkaError: the record was not delivered.
            TimeoutError: it is not decided after ``timeout_s``.
        """
        batch, index = self
        if batch.state is not BatchState.DONE:
            self._wait(batch, timeout_s)
        if batch.parts:
            batch, index = batch.part_of(index)
        if batch.error is not None:
            batch.is_observed = True
            raise batch.error
        offset = batch.base_offset + index if batch.base_offset >= 0 else -1
        return RecordMetadata(batch.topic, batch.partition, offset, batch.timestamp_of(index))

    @staticmethod
    def _wait(batch: ProducerBatch, timeout_s: float | None) -> None:
        done = threading.Event()
        # The other thread first says DONE and then calls what is here by then. Whoever comes too
        # late for that sees DONE.
        batch.on_done.append(done.set)
        if batch.state is not BatchState.DONE and not done.wait(timeout_s):
            raise TimeoutError(f"the delivery is not decided after {timeout_s} s")

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
