"""Inputs of a transaction shard (commands) and its effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from minikafka.coordinator.writes import Append, Now
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
    """InitProducerId for a transactional producer.

    Attributes:
        producer_id: the current id of a producer that goes on after an error (KIP-360), or -1.
        producer_epoch: the epoch with that id, or -1.
        is_two_phase: its transactions do not time out (KIP-939).
        keeps_prepared: an open transaction is kept, to be committed or aborted later (KIP-939).
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
        verifies_only: check whether they are in it, and add nothing (KIP-890).
        transaction_version: 2 if the producer gets a new epoch with every transaction.
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
        producer_id: what the producer uses from now on, with its epoch (InitProducer,
            EndTransaction).
        ongoing_producer_id: of the transaction that was kept open, with its epoch (KIP-939).
    """

    error_code: ErrorCode
    producer_id: int = -1
    producer_epoch: int = -1
    ongoing_producer_id: int = -1
    ongoing_producer_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Ask:
    """One command; `token` identifies it in its `Reply`."""

    command: Command
    token: object


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to the `Ask` with this token; each gets exactly one, possibly later.

    Attributes:
        is_from_memory: nothing was committed for it. It holds only as long as no other broker
            coordinates the id, so a shell that cannot be sure of that must not send it.
    """

    token: object
    reply: TransactionReply
    is_from_memory: bool = False


@dataclass(frozen=True, slots=True)
class SendMarkers:
    """A decision is committed: write its markers to all partitions of the transaction.

    The shell retries until it succeeds, and reports each partition that is done with
    `TransactionShard.markers_written`: the marker is in the log, or the partition was deleted, or
    has seen a later epoch of the producer.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_version: int
    commits: bool
    partitions: tuple[TopicPartition, ...]


Effect = Reply | Append | SendMarkers
