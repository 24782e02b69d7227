"""Telling a client who leads, when it asked somebody else (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ..metadata.image import NO_LEADER, BrokerImage
from ..protocol.errors import ErrorCode

if TYPE_CHECKING:
    from .broker import Broker

LEADER_ELSEWHERE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""Errors after which a client wants to know who leads."""


class CurrentLeader(NamedTuple):
    """The leader that this broker knows of."""

    leader_id: int
    leader_epoch: int


def current_leader(broker: Broker, topic: str, topic_id: bytes, number: int) -> CurrentLeader:
    """Who leads a partition that a client names by its topic's name or id; -1 and -1: unknown."""
    image = broker.image
    found = image.topics.get(topic) or image.topics_by_id.get(topic_id)
    if found is None or not 0 <= number < len(found.partitions):
        return CurrentLeader(-1, -1)
    partition = found.partitions[number]
    return CurrentLeader(partition.leader, partition.leader_epoch)


def endpoints_of(broker: Broker, leaders: Iterable[int]) -> Iterator[BrokerImage]:
    """Where clients find leaders, each once."""
    for leader_id in dict.fromkeys(leaders):
        one = broker.image.brokers.get(leader_id)
        if leader_id != NO_LEADER and one is not None:
            yield one
