"""The sender of a transactional producer; see `core.sender` and `core.transaction`.

Differences: the identity comes from the transaction's coordinator, and a partition may have to be
added to the transaction before its first batch. The epoch is never raised here: if client and
broker disagree about sequences, or a batch fails, the transaction is lost, and no more of it is
sent.
"""

from __future__ import annotations

import math
from typing import Final

from minikafka.protocol.errors import ErrorCode
from minikafka_client.core.accumulator import Accumulator, PartitionQueue
from minikafka_client.core.backoff import Backoff
from minikafka_client.core.cluster import Cluster
from minikafka_client.core.meters import error_name
from minikafka_client.core.producer_batch import BatchState, ProducerBatch
from minikafka_client.core.sender import (
    AddPartitions,
    BatchOutcomes,
    Effect,
    Event,
    PartitionsAdded,
    Sender,
    SenderConfig,
    SendProduce,
)
from minikafka_client.core.transaction import TransactionMachine
from minikafka_client.errors import KafkaError, TransactionAbortedError
from minikafka_client.types import TopicPartition

LAST_VERSION_WITHOUT_ADDING: Final = 11
"""The last version of Produce that does not add a partition to the transaction (KIP-890)."""

_SEQUENCES_APART: Final = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}
)
_LOST: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)


class TransactionalBatchOutcomes(BatchOutcomes):
    """The outcomes of batches of a transaction, which is lost if one of them fails."""

    def __init__(
        self,
        config: SenderConfig,
        accumulator: Accumulator,
        backoff: Backoff,
        transaction: TransactionMachine,
    ) -> None:
        super().__init__(config, accumulator, backoff)
        self._transaction = transaction

    def failed(
        self, batch: ProducerBatch, error: KafkaError, now: float, effects: list[Effect]
    ) -> None:
        """A batch was not stored, or may not have been: retry it, or lose the transaction."""
        if batch.state is BatchState.DONE:
            return
        queue = self._accumulator.queues[batch.topic, batch.partition]
        is_apart = error.code in _SEQUENCES_APART and queue.unacknowledged[0] is batch
        if self._transaction.is_lost or is_apart or error.code in _LOST:
            self.errors[error_name(error)] += 1
            self.give_up(batch, error, effects)
        else:
            super().failed(batch, error, now, effects)

    def give_up(self, batch: ProducerBatch, error: KafkaError, effects: list[Effect]) -> None:
        was_sent = batch.state in (BatchState.SENT, BatchState.RETRY)
        batch.is_observed = True  # ending the transaction raises it
        super().give_up(batch, error, effects)
        self._accumulator.queues[batch.topic, batch.partition].needs_new_epoch = False
        self._transaction.delivery_failed(error, was_sent=was_sent)

    def drop(self, batch: ProducerBatch, effects: list[Effect]) -> None:
        """Fail a batch of a transaction that will not be committed."""
        reason = self._transaction.error
        dropped = TransactionAbortedError(
            f"{batch.record_count} records for partition {batch.partition} of topic "
            f"{batch.topic!r} were dropped with their transaction"
            + (f": {reason}" if reason is not None else ", which was aborted")
        )
        dropped.__cause__ = reason
        self.give_up(batch, dropped, effects)


class TransactionalSender(Sender):
    """The machine."""

    outcomes: TransactionalBatchOutcomes

    def __init__(
        self,
        config: SenderConfig,
        cluster: Cluster,
        accumulator: Accumulator,
        backoff: Backoff,
        transaction: TransactionMachine,
    ) -> None:
        super().__init__(config, cluster, accumulator, backoff)
        self._transaction = transaction
        self.outcomes = TransactionalBatchOutcomes(config, accumulator, backoff, transaction)
        self._identity.ask_again_at = math.inf  # others ask the coordinator

    def handle(self, event: Event, now: float) -> list[Effect]:
        if isinstance(event, PartitionsAdded):
            self._transaction.partitions_added(event.error)
        return super().handle(event, now)

    def _go_on(self, now: float, effects: list[Effect]) -> None:
        super()._go_on(now, effects)
        if self._transaction.is_lost:
            for batch in self._accumulator.batches():
                if batch.state is not BatchState.SENT:
                    self.outcomes.drop(batch, effects)
        partitions = self._transaction.take_wanted()
        if partitions:
            effects.append(AddPartitions(partitions))

    def _next_batch(
        self, queue: PartitionQueue, now: float, effects: list[Effect]
    ) -> ProducerBatch | None:
        if self._transaction.may_send_to(TopicPartition(queue.topic, queue.partition)):
            return super()._next_batch(queue, now, effects)
        return None

    def _send(self, node_id: int, batches: list[ProducerBatch], effects: list[Effect]) -> bool:
        has_more = super()._send(node_id, batches, effects)
        effect = effects[-1]
        assert isinstance(effect, SendProduce)
        effect.request.transactional_id = self._config.transactional_id
        self._transaction.has_begun = True
        if not self._transaction.has_own_epochs:
            version_max = min(effect.version_max, LAST_VERSION_WITHOUT_ADDING)
            effects[-1] = effect._replace(version_max=version_max)
        return has_more
