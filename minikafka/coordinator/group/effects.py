"""Inputs of a group shard (`Ask`, `Now`) and its effects (`Reply`, `Append` and others)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from minikafka.coordinator.writes import Append, Now, Record
from minikafka.data_class import DataClass
from minikafka.protocol.errors import ErrorCode

if TYPE_CHECKING:  # not imported before the first group, so that brokers start sooner
    from minikafka.protocol.messages import (
        consumer_group_heartbeat,
        delete_groups,
        heartbeat,
        join_group,
        leave_group,
        offset_commit,
        offset_delete,
        share_group_heartbeat,
        streams_group_heartbeat,
        sync_group,
        txn_offset_commit,
    )

    GroupRequest = (
        join_group.Request
        | sync_group.Request
        | heartbeat.Request
        | leave_group.Request
        | offset_commit.Request
        | txn_offset_commit.Request
        | offset_delete.Request
        | delete_groups.Request
        | consumer_group_heartbeat.Request
        | share_group_heartbeat.Request
        | streams_group_heartbeat.Request
    )
    GroupResponse = (
        join_group.Response
        | sync_group.Response
        | heartbeat.Response
        | leave_group.Response
        | offset_commit.Response
        | txn_offset_commit.Response
        | offset_delete.Response
        | delete_groups.Response
        | consumer_group_heartbeat.Response
        | share_group_heartbeat.Response
        | streams_group_heartbeat.Response
    )
else:
    GroupRequest = GroupResponse = object

__all__ = [
    "Append",
    "Ask",
    "CreateInternalTopics",
    "DeleteShareState",
    "Effect",
    "GroupRequest",
    "GroupResponse",
    "InitializeShareState",
    "Match",
    "NewTopic",
    "Now",
    "Record",
    "Reply",
    "ShareState",
]


class Ask(DataClass):
    """One request of a client.

    Attributes:
        request: the decoded message. For OffsetCommit v10+ the shell fills in each topic's
            ``name``; DeleteGroups carries only group ids that belong to this shard.
        client_id: from the request header ("" when it was null).
        client_host: the client's address as DescribeGroups shows it (Kafka writes "/10.0.0.7").
        token: identifies the request in its `Reply`; opaque to the shard.
        matched_topics: the names of all topics that the regular expression of a heartbeat matches;
            None if it has none.
    """

    request: GroupRequest
    api_version: int
    client_id: str
    client_host: str
    token: object
    matched_topics: frozenset[str] | None = None


class Match(DataClass):
    """Find the topics that a regular expression matches, and pass them to `GroupShard.matched`."""

    group_id: str
    regex: str


class Reply(DataClass):
    """The answer to the `Ask` with this token; each gets exactly one, possibly later."""

    token: object
    response: GroupResponse


class InitializeShareState(DataClass):
    """Have the share coordinator initialise the state of these partitions (indexes by topic id).

    Then call `GroupShard.share_state_initialized` with those for which that worked.
    """

    group_id: str
    topics: Mapping[bytes, frozenset[int]]


class DeleteShareState(DataClass):
    """Have the share coordinator delete the state of these partitions (indexes by topic id)."""

    group_id: str
    topics: Mapping[bytes, frozenset[int]]


class NewTopic(DataClass):
    """An internal topic of a streams group that is missing.

    Attributes:
        partitions: their number.
        replication_factor: 0 for the broker's default.
        configs: names and values of topic settings.
    """

    name: str
    partitions: int = 0
    replication_factor: int = 0
    configs: tuple[tuple[str, str], ...] = ()


class CreateInternalTopics(DataClass):
    """Have the controller create these topics: the group cannot work without them.

    The group finds them when its members send their next heartbeats, and asks again if it does not.
    """

    group_id: str
    topics: tuple[NewTopic, ...]


class ShareState(NamedTuple):
    """What a share group has state for.

    Attributes:
        error_code: GROUP_ID_NOT_FOUND, or the shard's own error.
        is_empty: it has no members, so an administrator may change its state.
        topics: name and partitions by topic id.
    """

    error_code: ErrorCode
    is_empty: bool = True
    topics: Mapping[bytes, tuple[str, frozenset[int]]] = MappingProxyType({})


Effect = Reply | Append | Match | InitializeShareState | DeleteShareState | CreateInternalTopics
