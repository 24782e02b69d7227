"""What a shard knows about topics, and about the settings of its groups: ports for the shell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol


class Topic(NamedTuple):
    name: str
    topic_id: bytes
    partition_count: int


class Topics(Protocol):
    """The topics of the cluster as they are now."""

    def by_name(self, name: str) -> Topic | None: ...

    def by_id(self, topic_id: bytes) -> Topic | None: ...


class TopicTable:
    """Topics that somebody lists: none by default."""

    def __init__(self, topics: Iterable[Topic] = ()) -> None:
        self._by_name = {topic.name: topic for topic in topics}
        self._by_id = {topic.topic_id: topic for topic in self._by_name.values()}

    def by_name(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)


class GroupSettings(NamedTuple):
    """The settings that a group may have of its own (config resource GROUP)."""

    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    share_session_timeout_ms: int = 45_000
    share_heartbeat_interval_ms: int = 5_000
    streams_session_timeout_ms: int = 45_000
    streams_heartbeat_interval_ms: int = 5_000
    streams_num_standby_replicas: int = 0
    streams_initial_rebalance_delay_ms: int = 3_000
    streams_assignment_interval_ms: int = 1_000
    streams_tags: tuple[str, ...] = ()


GroupSettingsOf = Callable[[str], GroupSettings]
"""The settings of a group by its id: its own, or those of the broker."""


def default_settings(_group_id: str) -> GroupSettings:
    return GroupSettings()
