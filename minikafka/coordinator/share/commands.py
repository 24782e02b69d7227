"""What the share coordinator is asked, and its answers; brokers send them to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from minikafka.protocol.errors import ErrorCode

from .records import SharePartitionKey
from .share_partition import StateBatch


class Initialize(NamedTuple):
    """Begin, or begin once more, with this start; -1 leaves it to ``share.auto.offset.reset``."""

    key: SharePartitionKey
    state_epoch: int
    start_offset: int


class Read(NamedTuple):
    """A leader wants to run the share-partition; leaders with an older epoch are fenced then."""

    key: SharePartitionKey
    leader_epoch: int


class Write(NamedTuple):
    """A leader stores a change; a start offset of -1 is unchanged."""

    key: SharePartitionKey
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class Summarize(NamedTuple):
    """Only look: for administrators."""

    key: SharePartitionKey


class Delete(NamedTuple):
    """Forget the share-partition."""

    key: SharePartitionKey


Command = Initialize | Read | Write | Summarize | Delete


class ShareStateReply(NamedTuple):
    """The answer to a command.

    Attributes:
        error_code: NONE; FENCED_STATE_EPOCH: an administrator has set another start;
            FENCED_LEADER_EPOCH: there is another leader; or the coordinator's own errors.
        start_offset: -1 if the share-partition was never read.
        batches: the state from there on (`Read`).
    """

    error_code: ErrorCode
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = -1
    delivery_complete_count: int = -1
    batches: tuple[StateBatch, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to the command with this token; each gets exactly one, possibly later."""

    token: object
    reply: ShareStateReply
