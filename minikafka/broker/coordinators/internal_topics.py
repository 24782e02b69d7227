"""The topics in which coordinators store their state, and the partition for each key."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.messages import create_topics as create_topics_api
from ..control.forwarder import Forwarder
from ..control.metadata_store import MetadataStore
from ..control.topic_creation import create_topics
from ..replicas.partition import PartitionError
from ..settings.effective import EffectiveSettings

_MIN_ISR = "min.insync.replicas"
_KEYS_REMEMBERED_MAX = 128


@lru_cache(_KEYS_REMEMBERED_MAX)
def java_string_hash(text: str) -> int:
    """Java's ``String.hashCode``, with which Kafka partitions groups and transactional ids."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(encoded), 2):
        unit = encoded[position] << 8 | encoded[position + 1]
        value = (value * 31 + unit) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def partition_for(key: str, partitions: int) -> int:
    return (java_string_hash(key) & 0x7FFFFFFF) % partitions


class InternalTopic(NamedTuple):
    """The topic in which a coordinator stores its state, as it is created.

    The replication factor is lower if there are fewer brokers at that time.
    """

    name: str
    partitions: int
    replication_factor: int
    settings: dict[str, str]

    def creation(self, brokers: int) -> create_topics_api.CreatableTopic:
        """The topic for a CreateTopics request, in a cluster of so many brokers."""
        factor = min(self.replication_factor, brokers)
        settings = dict(self.settings)
        if _MIN_ISR in settings:  # no more than there are replicas
            settings[_MIN_ISR] = str(min(int(settings[_MIN_ISR]), factor))
        return create_topics_api.CreatableTopic(
            name=self.name,
            num_partitions=self.partitions,
            replication_factor=factor,
            assignments=[],
            configs=[
                create_topics_api.CreatableTopicConfig(name=name, value=value)
                for name, value in settings.items()
            ],
        )


class InternalTopics:
    """Creates the internal topics when they are first needed, as Kafka does."""

    def __init__(
        self, metadata: MetadataStore, settings: EffectiveSettings, forwarder: Forwarder
    ) -> None:
        self._metadata = metadata
        self._settings = settings
        self._forwarder = forwarder

    async def ensure(self, topic: InternalTopic) -> None:
        """Create a topic if it does not exist; when this returns it is in the metadata image.

        Raises:
            PartitionError: the controller refused to create it.
            ChangeError: there is no controller, or it does not answer.
        """
        if topic.name in self._metadata.image.topics:
            return
        brokers = len(self._settings.placement(0).brokers)
        response = await create_topics(self._forwarder, [topic.creation(brokers)])
        (created,) = response.topics
        if created.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise PartitionError(ErrorCode.COORDINATOR_NOT_AVAILABLE, created.error_message)
