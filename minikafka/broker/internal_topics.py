"""Topics that coordinators keep their state in, and which of their partitions keeps what."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ..protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig

_MIN_ISR = "min.insync.replicas"
_KEYS_REMEMBERED_MAX = 128


@lru_cache(_KEYS_REMEMBERED_MAX)
def java_string_hash(text: str) -> int:
    """Java's ``String.hashCode``, by which Kafka spreads groups and transactional ids."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(encoded), 2):
        unit = encoded[position] << 8 | encoded[position + 1]
        value = (value * 31 + unit) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def partition_for(key: str, partitions: int) -> int:
    """The partition of the internal topic that keeps a group or a transactional id."""
    return (java_string_hash(key) & 0x7FFFFFFF) % partitions


class InternalTopic(NamedTuple):
    """The topic that a coordinator keeps its state in.

    Attributes:
        name: of the topic.
        partitions: how many it is created with.
        replication_factor: likewise; fewer while fewer brokers are there.
        settings: of the topic.
    """

    name: str
    partitions: int
    replication_factor: int
    settings: dict[str, str]

    def creation(self, brokers: int) -> CreatableTopic:
        """A request for it, in a cluster of so many brokers."""
        factor = min(self.replication_factor, brokers)
        settings = dict(self.settings)
        if _MIN_ISR in settings:  # no more than there will ever be
            settings[_MIN_ISR] = str(min(int(settings[_MIN_ISR]), factor))
        return CreatableTopic(
            name=self.name,
            num_partitions=self.partitions,
            replication_factor=factor,
            assignments=[],
            configs=[
                CreatableTopicConfig(name=name, value=value) for name, value in settings.items()
            ],
        )
