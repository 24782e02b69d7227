"""One broker's fetch session: after the first fetch, requests name only changes (KIP-227).

    next request            is                  leads to
    (0, 0)                  full, opens one     (s, 1) when the broker grants session s, else (0, 0)
    (s, n)  with n > 0      incremental         (s, n + 1); after 2**31 - 1 comes 1
    (s, 0)                  full, closes s      as (0, 0)

An error, a lost answer, or another way of naming topics (names, or ids from version 13 on) makes
the next request a full one: whether the broker has counted an unanswered request is not
known. A broker without sessions (before Kafka 1.1), or without room for one more, grants none; then
every request is a full one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import fetch
from minikafka_client.types import TopicPartition

NO_SESSION: Final = 0
FULL: Final = 0
EPOCH_MAX: Final = 0x7FFFFFFF


class Wanted(NamedTuple):
    topic_id: bytes
    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int
    partition_max_bytes: int


class SessionPart(NamedTuple):
    session_id: int
    epoch: int
    topics: list[fetch.Topic]
    forgotten: list[fetch.ForgottenTopic]


class FetchSession:
    """What a broker remembers of this client's fetches, as far as this client knows."""

    __slots__ = ("epoch", "partitions", "session_id", "uses_topic_ids")

    def __init__(self) -> None:
        self.session_id: int = NO_SESSION
        self.epoch: int = FULL
        self.partitions: dict[TopicPartition, Wanted] = {}
        self.uses_topic_ids = False

    def request(
        self, wanted: Mapping[TopicPartition, Wanted], *, uses_topic_ids: bool
    ) -> SessionPart:
        """The smallest request that tells the broker exactly what is wanted, in this order."""
        before = self.partitions
        # Brokers forget after adding: by name, a recreated topic would be removed again.
        is_recreated = any(
            partition in before and before[partition].topic_id != now.topic_id
            for partition, now in wanted.items()
        )
        if uses_topic_ids != self.uses_topic_ids or is_recreated:
            self.uses_topic_ids = uses_topic_ids
            self.epoch = FULL
        if self.epoch == FULL:
            before = {}
        self.partitions = dict(wanted)
        topics: dict[str, fetch.Topic] = {}
        for partition, now in wanted.items():
            if before.get(partition) != now:
                _add(topics, partition, now)
        forgotten: dict[str, fetch.ForgottenTopic] = {}
        for partition, then in before.items():
            if partition not in wanted:
                _forget(forgotten, partition, then)
        return SessionPart(
            self.session_id, self.epoch, list(topics.values()), list(forgotten.values())
        )

    def answered(self, response: fetch.Response) -> None:
        if response.error_code:
            self.lost()
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.session_id = NO_SESSION
        elif response.session_id == NO_SESSION:
            self.session_id, self.epoch = NO_SESSION, FULL
        elif self.epoch == FULL or response.session_id != self.session_id:
            self.session_id, self.epoch = response.session_id, 1
        else:
            self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def lost(self) -> None:
        """No answer: start over, and close a session that may still be open."""
        self.epoch = FULL


def _add(topics: dict[str, fetch.Topic], partition: TopicPartition, wanted: Wanted) -> None:
    name, index = partition
    topic = topics.get(name)
    if topic is None:
        topic = topics[name] = fetch.Topic(topic_id=wanted.topic_id, topic=name, partitions=[])
    topic.partitions.append(
        fetch.Partition(
            partition=index,
            current_leader_epoch=wanted.current_leader_epoch,
            fetch_offset=wanted.fetch_offset,
            last_fetched_epoch=wanted.last_fetched_epoch,
            partition_max_bytes=wanted.partition_max_bytes,
        )
    )


def _forget(
    forgotten: dict[str, fetch.ForgottenTopic], partition: TopicPartition, then: Wanted
) -> None:
    name, index = partition
    topic = forgotten.get(name)
    if topic is None:
        topic = forgotten[name] = fetch.ForgottenTopic(
            topic_id=then.topic_id, topic=name, partitions=[]
        )
    topic.partitions.append(index)
