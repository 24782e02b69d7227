"""What goes into a transaction shard and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from minikafka.coordinator.group.effects import Append, Now
from minikafka.protocol.errors import ErrorCode

from .states import TopicPartition

__all__ = [
    "AddPartitions",
    "Append",
    "Ask",
    "Command",
    "Effect",
    "EndTransaction",
    "InitProducer",
    "Now",
    "Reply",
    "SendMarkers",
    "TransactionReply",
]


class InitProducer(NamedTuple):
    """A producer begins (InitProducerId).

    Attributes:
        transactional_id: whose; not empty.
        timeout_ms: how long its transactions may take.
        producer_id: what the producer has already, to go on after an error (KIP-360); or -1.
        producer_epoch: likewise.
        is_two_phase: its transactions do not time out (KIP-939).
        keeps_prepared: an open transaction is kept, to be decided about (KIP-939).
    """

    transactional_id: str
    timeout_ms: int
    producer_id: int = -1
    producer_epoch: int = -1
    is_two_phase: bool = False
    keeps_prepared: bool = False


class AddPartitions(NamedTuple):
    """Partitions that the transaction is about to write to; the first begins it.

    Attributes:
        transactional_id: whose.
        producer_id: who asks.
        producer_epoch: likewise.
        partitions: topics and numbers.
        verifies_only: only ask whether they are in it (KIP-890).
        transaction_version: 2 if the client ends its epoch with every transaction.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    verifies_only: bool = False
    transaction_version: int = 0


class EndTransaction(NamedTuple):
    """Commit or abort (EndTxn); `transaction_version` as in `AddPartitions`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commits: bool
    transaction_version: int = 0


Command = InitProducer | AddPartitions | EndTransaction


class TransactionReply(NamedTuple):
    """The answer to a command.

    Attributes:
        error_code: NONE, or Kafka's error.
        producer_id: of the producer from now on (InitProducer, EndTransaction).
        producer_epoch: likewise.
        ongoing_producer_id: of the transaction that was kept open (KIP-939).
        ongoing_producer_epoch: likewise.
    """

    error_code: ErrorCode
    producer_id: int = -1
    producer_epoch: int = -1
    ongoing_producer_id: int = -1
    ongoing_producer_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Ask:
    """One command; `token` comes back in its `Reply`."""

    command: Command
    token: object


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer the asker of `token`; each `Ask` gets exactly one, maybe later.

    Attributes:
        token: of the `Ask`.
        reply: the answer.
        is_from_memory: nothing was committed for it. It is only true as long as no other broker
            coordinates the id, and must not be given by a shell that cannot be sure of that.
    """

    token: object
    reply: TransactionReply
    is_from_memory: bool = False


@dataclass(frozen=True, slots=True)
class SendMarkers:
    """Write markers to partitions: a decision is committed, and this is what it means there.

    The shell does it as often as it takes and reports with `TransactionShard.markers_written` what
    is done: the marker is in the log, or the partition does not exist any more, or it has seen a
    later epoch of the producer.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_version: int
    commits: bool
    partitions: tuple[TopicPartition, ...]


Effect = Reply | Append | SendMarkers
