"""What becomes of a batch that was sent: stored, repeated, split or given up."""

from __future__ import annotations

import logging
import math
from collections import Counter
from typing import Final

from minikafka.protocol.errors import ErrorCode
from minikafka_client.core.accumulator import Accumulator, PartitionQueue
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.meters import error_name
from minikafka_client.core.producer_batch import BatchState, ProducerBatch
from minikafka_client.core.sender_messages import Effect, SenderConfig, Tell
from minikafka_client.core.splitting import split_batch
from minikafka_client.errors import DeliveryTimeoutError, KafkaError
from minikafka_client.log_events import LogEvent

logger = logging.getLogger(__name__)

_SEQUENCES_APART: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


class BatchFates:
    """Decides, and keeps the accumulator right; see `core.sender` for what it is about.

    Attributes:
        retries: how many batches were, or will be, sent again.
        splits: how many batches were too large, and split.
        errors: what batches met, by `error_name`.
    """

    def __init__(self, config: SenderConfig, accumulator: Accumulator, backoff: Backoff) -> None:
        self.retries = 0
        self.splits = 0
        self.errors: Counter[str] = Counter()
        self._config = config
        self._accumulator = accumulator
        self._backoff = backoff

    def delivered(
        self, batch: ProducerBatch, base_offset: int, append_time_ms: int, effects: list[Effect]
    ) -> None:
        """Take note that a broker has stored a batch."""
        if batch.state is BatchState.DONE:
            return  # given up while the request was on its way
        queue = self._accumulator.queues[batch.topic, batch.partition]
        queue.stored_identity = queue.identity  # it changes only while no batch is under way
        self._accumulator.remove(batch)
        batch.succeed(base_offset, append_time_ms)
        effects.append(Tell(batch))

    def failed(
        self, batch: ProducerBatch, error: KafkaError, now: float, effects: list[Effect]
    ) -> None:
        """A batch was not stored, or nobody knows: repeat it, or give it up."""
        if batch.state is BatchState.DONE:
            return
        self.errors[error_name(error)] += 1
        queue = self._accumulator.queues[batch.topic, batch.partition]
        is_apart = self._config.is_idempotent and error.code in _SEQUENCES_APART
        if is_apart and queue.unacknowledged[0] is batch:
            if batch.is_doubtful:
                self.give_up(batch, _doubtful_error(batch), effects)
                return
            queue.needs_new_epoch = True
        # Without acknowledgements nobody knows what was stored; a repetition could duplicate it.
        is_final = self._config.acks == 0 or not (is_apart or error.is_retriable)
        if is_final:
            self.give_up(batch, error, effects)
            return
        batch.state = BatchState.RETRY
        batch.last_error = error
        batch.retry_at = now + self._backoff.seconds(batch.attempts)
        batch.attempts += 1
        self.retries += 1

    def split(self, batch: ProducerBatch, error: KafkaError) -> None:
        """Send two in the place of one; the sequences stay what they are, record by record."""
        if batch.state is BatchState.DONE:
            return
        logger.info(
            "%d records for partition %d of topic %r are split: %s",
            batch.record_count,
            batch.partition,
            batch.topic,
            error,
            extra=LogEvent.BATCH_SPLIT.about(
                topic=batch.topic, partition=batch.partition, record_count=batch.record_count
            ),
        )
        self.errors[error_name(error)] += 1
        self.splits += 1
        config, sequence = self._config, batch.base_sequence
        parts, largest = split_batch(batch, config.compression, config.compression_level)
        for part in parts:
            part.is_doubtful = batch.is_doubtful or batch.attempts > 0
        if config.is_idempotent:
            queue = self._accumulator.queues[batch.topic, batch.partition]
            is_transactional = config.transactional_id is not None
            for part in parts:
                part.stamp(*queue.identity, sequence, is_transactional=is_transactional)
                sequence = part.next_sequence()
        self._accumulator.replace(batch, parts)
        self._accumulator.refused_as_too_large(batch.topic, largest)

    def give_up(self, batch: ProducerBatch, error: KafkaError, effects: list[Effect]) -> None:
        """Tell the application that a batch failed."""
        queue = self._accumulator.queues[batch.topic, batch.partition]
        was_sent = batch.state in (BatchState.SENT, BatchState.RETRY)
        if was_sent and self._config.is_idempotent and queue.stored_identity != queue.identity:
            # Whether the broker knows this producer now depends on a request that nobody will hear
            # of. A new epoch is new to it in any case.
            queue.needs_new_epoch = True
        self._accumulator.remove(batch)
        batch.fail(error)
        effects.append(Tell(batch))

    def give_up_overdue(self, now: float, effects: list[Effect]) -> float:
        """Give up what is too old; returns when the next one will be."""
        next_at = math.inf
        for queue in list(self._accumulator.active.values()):
            while (batch := queue.oldest) is not None:
                if batch.deadline > now:
                    next_at = min(next_at, batch.deadline)
                    break  # the ones behind it are younger
                why = batch.last_error or "no broker could be sent to"
                error = DeliveryTimeoutError(
                    f"{batch.record_count} records for partition {batch.partition} of topic "
                    f"{batch.topic!r} were not acknowledged within delivery_timeout_ms; "
                    f"the last reason: {why}"
                )
                self.give_up(batch, error, effects)
        return next_at

    def give_up_doubtful(self, queue: PartitionQueue, effects: list[Effect]) -> None:
        """A partition's sequences are about to begin again: not with batches that are in doubt."""
        for batch in [each for each in queue.unacknowledged if each.is_doubtful]:
            self.give_up(batch, _doubtful_error(batch), effects)


def _doubtful_error(batch: ProducerBatch) -> KafkaError:
    return KafkaError(
        f"{batch.record_count} records for partition {batch.partition} of topic {batch.topic!r} "
        f"may or may not be stored: a request of theirs was never answered, and what the broker "
        f"has does not continue with them; read the partition to find out"
    )


def log_retry(batch: ProducerBatch, error: KafkaError) -> None:
    """Tell that a broker's refusal is not the end of a batch."""
    if batch.state is BatchState.RETRY:
        logger.warning(
            "will be sent again: %s",
            error,
            extra=LogEvent.RETRIED.about(
                topic=batch.topic,
                partition=batch.partition,
                attempt=batch.attempts,
                error=str(error),
            ),
        )
