"""Keeps what clients push about themselves: a topic that anybody can read (KIP-714).

A record of ``__client_telemetry`` is one push: the key is the client instance id as text, the value
OpenTelemetry's MetricsData as it was pushed, decompressed, and the headers say who pushed it. The
topic is created with the first push, with a partition for each broker; each broker writes to one
that it leads. It is bounded by its retention, and not replicated: these are metrics.
"""

from __future__ import annotations

import logging
import uuid
from typing import Final

from ...metadata.client_metrics import ClientDescription
from ...metadata.setting_table import BrokerConfig
from ...protocol.records import encode_batch
from ...storage.errors import LogError
from ..control.metadata_store import MetadataStore
from ..quorum.change_error import ChangeError
from ..replicas.index import PartitionIndex
from ..replicas.partition import Partition, PartitionError
from ..settings.effective import EffectiveSettings
from ..settings.node import Node
from ..system.clock import Clock
from .internal_topics import InternalTopic, InternalTopics

logger = logging.getLogger(__name__)

TELEMETRY_TOPIC: Final = "__client_telemetry"

_RETENTION_BYTES: Final = 16 * 1024 * 1024
_RETENTION_MS: Final = 24 * 3_600_000
_VERSION: Final = 13


class TelemetryLog:
    """Appends pushes to `TELEMETRY_TOPIC`."""

    def __init__(
        self,
        config: BrokerConfig,
        node: Node,
        *,
        metadata: MetadataStore,
        settings: EffectiveSettings,
        topics: InternalTopics,
        index: PartitionIndex,
        clock: Clock,
    ) -> None:
        self._message_bytes_max = max(config.message_max_bytes, _RETENTION_BYTES)
        self._node = node
        self._metadata = metadata
        self._settings = settings
        self._topics = topics
        self._index = index
        self._clock = clock

    async def keep(
        self, client: ClientDescription, metrics: bytes, *, is_terminating: bool
    ) -> bool:
        """Store a push; False if that is not possible now."""
        now_ms = self._clock.wall_ms()
        headers = [(name, text.encode()) for name, text in client._asdict().items()]
        headers.append(("terminating", b"true" if is_terminating else b"false"))
        key = client.client_instance_id.encode()
        batch = bytes(encode_batch([(key, metrics, headers, now_ms)]))
        try:
            partition = await self._partition()
            partition.append(batch, now_ms=now_ms, version=_VERSION, from_client=False)
        except (PartitionError, ChangeError, LogError) as error:
            logger.warning("cannot keep the metrics of client %s: %s", key.decode(), error)
            return False
        return True

    async def _partition(self) -> Partition:
        brokers = len(self._settings.placement(0).brokers)
        settings = {
            "cleanup.policy": "delete",
            "retention.bytes": str(_RETENTION_BYTES),
            "retention.ms": str(_RETENTION_MS),
            "segment.bytes": str(_RETENTION_BYTES // 4),
            "max.message.bytes": str(self._message_bytes_max),
        }
        await self._topics.ensure(InternalTopic(TELEMETRY_TOPIC, brokers, 1, settings))
        topic = self._metadata.image.topics[TELEMETRY_TOPIC]
        mine = [one.partition for one in topic.partitions if one.leader == self._node.node_id]
        return self._index.find(TELEMETRY_TOPIC, mine[0] if mine else 0)


def instance_text(instance_id: bytes) -> str:
    """A client instance id in its usual form."""
    return str(uuid.UUID(bytes=instance_id))
