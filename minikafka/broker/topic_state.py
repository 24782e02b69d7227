"""What the partitions of a topic share on a broker: its settings, ready to be used."""

from __future__ import annotations

from ..metadata.settings import Value
from ..metadata.topic_settings import log_config
from ..protocol.records.compression import Compression
from ..storage.log_config import LogConfig

_CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
_EVERY_REPLICA = "*"


class TopicState:
    """What all partitions of a topic share on this broker.

    Attributes:
        name: the topic.
        topic_id: 16 bytes.
        values: effective topic settings by Kafka name.
        log_config: the same for the storage floor.
        min_insync_replicas: for acks=all.
        compression: codec to store in, or None to keep the producer's.
        is_fsync_acked: True when an acknowledgement waits for the disk (flush.messages=1).
        throttled_at_leader: ``partition:broker`` texts, or ``*``: followers whose catching up is
            slowed down by the leader (leader.replication.throttled.replicas).
        throttled_at_follower: likewise by the follower itself.
    """

    __slots__ = (
        "compression",
        "is_fsync_acked",
        "log_config",
        "min_insync_replicas",
        "name",
        "throttled_at_follower",
        "throttled_at_leader",
        "topic_id",
        "values",
    )

    def __init__(
        self,
        name: str,
        topic_id: bytes,
        values: dict[str, Value],
        *,
        producer_id_expiration_ms: int,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.log_config: LogConfig
        self.configure(values, producer_id_expiration_ms=producer_id_expiration_ms)

    def configure(self, values: dict[str, Value], *, producer_id_expiration_ms: int) -> None:
        """Take new effective settings."""
        self.values = values
        self.log_config = log_config(values, producer_id_expiration_ms=producer_id_expiration_ms)
        minimum = values["min.insync.replicas"]
        assert isinstance(minimum, int)
        self.min_insync_replicas = minimum
        self.compression = _CODECS.get(str(values["compression.type"]))
        self.is_fsync_acked = self.log_config.flush_messages == 1
        self.throttled_at_leader = _texts(values["leader.replication.throttled.replicas"])
        self.throttled_at_follower = _texts(values["follower.replication.throttled.replicas"])

    def is_throttled(self, throttled: frozenset[str], partition: int, broker_id: int) -> bool:
        """Whether one of the two sets of throttled replicas names a replica."""
        return bool(throttled) and (
            _EVERY_REPLICA in throttled or f"{partition}:{broker_id}" in throttled
        )


def _texts(value: Value) -> frozenset[str]:
    assert isinstance(value, tuple)
    return frozenset(text.strip() for text in value)
