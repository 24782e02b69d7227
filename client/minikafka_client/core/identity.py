"""An idempotent producer's id and epoch, and the sequences that its partitions' batches get.

A partition keeps its identity while batches are in flight; another one (a raised epoch, a new id)
starts with sequence 0 when nothing is in flight, or after `restart`.
"""

from __future__ import annotations

import logging
import math
from typing import Final

from minikafka_client.core.accumulator import PartitionQueue
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.producer_batch import NO_PRODUCER_ID, ProducerBatch
from minikafka_client.log_events import LogEvent

logger = logging.getLogger(__name__)

EPOCH_MAX: Final = 32767


class ProducerIdentity:
    """The granted identity; ``ask_again_at`` is infinite while a request for one is in flight."""

    def __init__(self, backoff: Backoff, *, is_transactional: bool = False) -> None:
        self._is_transactional = is_transactional
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = -1
        self.ask_again_at = 0.0
        self._backoff = backoff
        self._attempts = 0

    @property
    def is_known(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID

    def asked(self) -> None:
        """A new id is being requested; the old one is no longer used."""
        self.producer_id = NO_PRODUCER_ID
        self.ask_again_at = math.inf

    def granted(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self._attempts = 0

    def refused(self, now: float) -> None:
        self.ask_again_at = now + self._backoff.seconds(self._attempts)
        self._attempts += 1

    def stamp_next(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        identity = (self.producer_id, self.producer_epoch)
        if len(queue.unacknowledged) == 1 and queue.identity != identity:
            queue.producer_id, queue.producer_epoch = identity
            queue.next_sequence = 0
        batch.stamp(
            queue.producer_id,
            queue.producer_epoch,
            queue.next_sequence,
            is_transactional=self._is_transactional,
        )
        queue.next_sequence = batch.next_sequence()

    def restart(self, queue: PartitionQueue) -> bool:
        """Restamp a partition's batches from sequence 0; False if the epochs are used up."""
        if queue.identity == (self.producer_id, self.producer_epoch):
            if self.producer_epoch == EPOCH_MAX:
                return False
            self.producer_epoch += 1
            logger.info(
                "partition %d of topic %r: sequences restart with epoch %d of producer %d",
                queue.partition,
                queue.topic,
                self.producer_epoch,
                self.producer_id,
                extra=LogEvent.PRODUCER_EPOCH_RAISED.about(
                    topic=queue.topic,
                    partition=queue.partition,
                    producer_id=self.producer_id,
                    producer_epoch=self.producer_epoch,
                ),
            )
        queue.needs_new_epoch = False
        queue.producer_id, queue.producer_epoch = self.producer_id, self.producer_epoch
        queue.next_sequence = 0
        for batch in queue.unacknowledged:
            batch.stamp(queue.producer_id, queue.producer_epoch, queue.next_sequence)
            queue.next_sequence = batch.next_sequence()
        return True
