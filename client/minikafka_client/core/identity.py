"""An idempotent producer's id and epoch, and the sequences that its partitions' batches get.

A partition keeps the identity with which its batches under way began; another one (a raised epoch,
a new id) begins with sequence 0 when nothing is under way, or after `restart`.
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
    """What a broker has granted, and when to ask for it.

    Attributes:
        producer_id, producer_epoch: -1 while unknown.
        ask_again_at: no earlier than this after a failure; inf while somebody asks.
    """

    def __init__(self, backoff: Backoff, *, is_transactional: bool = False) -> None:
        self._is_transactional = is_transactional
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = -1
        self.ask_again_at = 0.0
        self._backoff = backoff
        self._attempts = 0

    @property
    def is_known(self) -> bool:
        """Whether batches can be stamped."""
        return self.producer_id != NO_PRODUCER_ID

    def asked(self) -> None:
        """Somebody asks for an id; what there was is not used any more."""
        self.producer_id = NO_PRODUCER_ID
        self.ask_again_at = math.inf

    def granted(self, producer_id: int, producer_epoch: int) -> None:
        """A broker has granted an id."""
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self._attempts = 0

    def refused(self, now: float) -> None:
        """There was none to be had."""
        self.ask_again_at = now + self._backoff.seconds(self._attempts)
        self._attempts += 1

    def stamp_next(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Give a partition's newest batch its sequence."""
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
        """Stamp a partition's batches anew from sequence 0; False without an epoch to do so."""
        if queue.identity == (self.producer_id, self.producer_epoch):
            if self.producer_epoch == EPOCH_MAX:
                return False
            self.producer_epoch += 1
            logger.info(
                "partition %d of topic %r: the sequences begin again with epoch %d of producer %d",
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
