"""The topics in which coordinators store their state, and the partition for each key."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from ...metadata.setting_table import BrokerConfig
from ...protocol.errors import ErrorCode
from ..control.forwarder import Forwarder
from ..control.metadata_store import MetadataStore
from ..control.topic_creation import create_topics
from ..replicas.partition import PartitionError
from ..settings.effective import EffectiveSettings

if TYPE_CHECKING:
    from ...protocol.messages import create_topics as create_topics_api

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"

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
        from ...protocol.messages import create_topics as create_topics_api

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


def offsets_topic(config: BrokerConfig) -> InternalTopic:
    return InternalTopic(
        OFFSETS_TOPIC,
        config.offsets_topic_num_partitions,
        config.offsets_topic_replication_factor,
        {
            "cleanup.policy": "compact",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
            "compression.type": "producer",
        },
    )


def transactions_topic(config: BrokerConfig) -> InternalTopic:
    return InternalTopic(
        TRANSACTIONS_TOPIC,
        config.transaction_state_log_num_partitions,
        config.transaction_state_log_replication_factor,
        {
            "cleanup.policy": "compact",
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "compression.type": "uncompressed",
            "unclean.leader.election.enable": "false",
        },
    )


def share_state_topic(config: BrokerConfig) -> InternalTopic:
    return InternalTopic(
        SHARE_STATE_TOPIC,
        config.share_coordinator_state_topic_num_partitions,
        config.share_coordinator_state_topic_replication_factor,
        {
            # Updates build on each other: only what a later snapshot covers may go; see `prune`.
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
            "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
            "compression.type": "uncompressed",
        },
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
