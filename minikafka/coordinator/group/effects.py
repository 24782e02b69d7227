"""What goes into a group shard (`Ask`, `Now`) and what comes out of it (`Reply`, `Append`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # a broker that has no groups yet needs none of these
    from minikafka.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
    from minikafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
    from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
    from minikafka.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
    from minikafka.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
    from minikafka.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
    from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
    from minikafka.protocol.messages.txn_offset_commit import (
        TxnOffsetCommitRequest,
        TxnOffsetCommitResponse,
    )

    GroupRequest = (
        JoinGroupRequest
        | SyncGroupRequest
        | HeartbeatRequest
        | LeaveGroupRequest
        | OffsetCommitRequest
        | TxnOffsetCommitRequest
        | OffsetDeleteRequest
        | DeleteGroupsRequest
    )
    GroupResponse = (
        JoinGroupResponse
        | SyncGroupResponse
        | HeartbeatResponse
        | LeaveGroupResponse
        | OffsetCommitResponse
        | TxnOffsetCommitResponse
        | OffsetDeleteResponse
        | DeleteGroupsResponse
    )
else:
    GroupRequest = GroupResponse = object

__all__ = ["Append", "Ask", "Effect", "GroupRequest", "GroupResponse", "Now", "Record", "Reply"]


Record = tuple[bytes, bytes | None]
"""Key and value of one record of ``__consumer_offsets``; a value of None is a tombstone."""


class Now(NamedTuple):
    """The time, twice: sessions follow a clock that never jumps, stored times a real one."""

    monotonic_s: float
    """Seconds on any monotonic clock: sessions, rebalance timeouts, `GroupShard.deadline`."""
    wall_ms: int
    """Milliseconds since 1970: commit timestamps and the retention of offsets."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request of a client.

    Attributes:
        request: the decoded message. For OffsetCommit v10+ the shell fills in each topic's
            ``name``; DeleteGroups carries only group ids that belong to this shard.
        api_version: the version the client used; several answers depend on it.
        client_id: from the request header ("" when it was null).
        client_host: the client's address as DescribeGroups shows it (Kafka writes "/10.0.0.7").
        token: anything; comes back in the `Reply` to this request and is never looked into.
    """

    request: GroupRequest
    api_version: int
    client_id: str
    client_host: str
    token: object


@dataclass(frozen=True, slots=True)
class Reply:
    """Send ``response`` to the asker of ``token``; each `Ask` gets exactly one, maybe later."""

    token: object
    response: GroupResponse


@dataclass(frozen=True, slots=True)
class Append:
    """Write these records to the shard's partition as one batch.

    The shell then calls `GroupShard.appended` (or `GroupShard.append_failed` when nothing was
    written), and `GroupShard.committed` once the high watermark has passed the batch.

    With a producer id it is a transactional batch of that producer, without sequence numbers; the
    shell first has the producer's coordinator confirm the transaction (KIP-890).
    """

    records: tuple[Record, ...]
    write_id: int
    producer_id: int = -1
    producer_epoch: int = -1


Effect = Reply | Append
