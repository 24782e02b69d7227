"""The current leader, for a client that sent its request to another broker (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ...metadata.records import NO_LEADER
from ...protocol.errors import ErrorCode
from .cluster_view import BrokerAddress, addresses_on

if TYPE_CHECKING:
    from ..broker import Broker
    from ..control.request_context import RequestContext

LEADER_ELSEWHERE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""Errors that come with the current leader."""


class CurrentLeader(NamedTuple):
    """The leader as of this broker's metadata."""

    leader_id: int
    leader_epoch: int


def current_leader(broker: Broker, topic: str, topic_id: bytes, number: int) -> CurrentLeader:
    """The leader of a partition, by the topic's name or id; -1 and -1 if unknown."""
    image = broker.image
    found = image.topics.get(topic) or image.topics_by_id.get(topic_id)
    if found is None or not 0 <= number < len(found.partitions):
        return CurrentLeader(-1, -1)
    partition = found.partitions[number]
    if broker.lifecycle.is_cut_off:
        return CurrentLeader(-1, -1)  # the metadata here is out of date
    return CurrentLeader(partition.leader, partition.leader_epoch)


def endpoints_of(
    broker: Broker, context: RequestContext, leaders: Iterable[int]
) -> list[BrokerAddress]:
    """Where the client that asks finds these leaders, without duplicates."""
    brokers = broker.image.brokers
    known = [brokers[one] for one in dict.fromkeys(leaders) if one != NO_LEADER and one in brokers]
    return addresses_on(context.listener_name, known)
