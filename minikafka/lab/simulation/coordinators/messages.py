"""What programs ask the nodes of a simulated cluster, and nodes each other: calls and answers.

A call names a partition and goes to its leader; for a coordinator that is the partition of its
shard. An answer is `Refused`, or what the body says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from minikafka.coordinator.group import GroupRequest
from minikafka.coordinator.transaction import Command, TopicPartition
from minikafka.protocol.errors import ErrorCode


class Call(NamedTuple):
    number: int
    correlation: int
    body: Body

    def __str__(self) -> str:
        return f"call {self.correlation} of {self.number}: {self.body}"


class Answer(NamedTuple):
    correlation: int
    body: Any

    def __str__(self) -> str:
        return f"answer {self.correlation}: {self.body}"


class Refused(NamedTuple):
    """Nothing was done, or the outcome is unknown."""

    error_code: ErrorCode


class Write(NamedTuple):
    """Append a batch with acks=all. It travels as a `Produce` and is answered with a `Produced`."""

    transactional_id: str
    batch: bytes
    value: str


class Poll(NamedTuple):
    """Read from an offset on, and wait a little for the first record; answered with `Polled`."""

    offset: int
    is_read_committed: bool
    records_max: int
    wait_s: float


class Polled(NamedTuple):
    """Records as (offset, value); `end_offset` is how far a reader may read at present."""

    records: tuple[tuple[int, str], ...]
    next_offset: int
    end_offset: int


class AskGroup(NamedTuple):
    """Ask the group's shard; answered with the response of this API."""

    request: GroupRequest
    api_version: int

    def __str__(self) -> str:
        return f"{type(self.request).__module__.rpartition('.')[2]} {self.request}"


class FetchOffsets(NamedTuple):
    """Fetch committed and stable offsets; answered with a dict of them, -1 where there is none."""

    group_id: str
    topic: str
    numbers: tuple[int, ...]
    member_id: str | None
    member_epoch: int


class CommitInTransaction(NamedTuple):
    """TxnOffsetCommit; the node has the transaction confirmed first."""

    request: Any
    api_version: int


class AskTransactions(NamedTuple):
    """Ask the shard of a transactional id; answered with a `TransactionReply`."""

    command: Command


class ListOpen(NamedTuple):
    """Answered with (transactional id, producer id, epoch) of those that are open."""

    prefix: str


class MarkerWritten(NamedTuple):
    error_code: ErrorCode


class WriteMarker(NamedTuple):
    """A coordinator's decision; answered with `MarkerWritten`."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_version: int
    commits: bool


Body = (
    Write
    | Poll
    | AskGroup
    | FetchOffsets
    | CommitInTransaction
    | AskTransactions
    | ListOpen
    | WriteMarker
)


def places(topic: str, numbers: Sequence[int]) -> tuple[TopicPartition, ...]:
    """Partitions as coordinators name them."""
    return tuple((topic, number) for number in numbers)
