"""What the partitions of a topic share on a broker: the topic's settings, parsed."""

from __future__ import annotations

from ...metadata.setting_table import TOPIC_SETTINGS
from ...metadata.settings import Value
from ...metadata.topic_settings import log_config
from ...protocol.records.compression import Compression
from ...storage.log_config import LogConfig

_CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
_LEVEL_SETTINGS = {
    Compression.GZIP: "compression.gzip.level",
    Compression.LZ4: "compression.lz4.level",
    Compression.ZSTD: "compression.zstd.level",
}
_EVERY_REPLICA = "*"


class TopicState:
    """A topic's effective settings.

    Attributes:
        values: effective topic settings by Kafka name.
        log_config: the same for the storage floor.
        compression: codec to store in, or None to keep the producer's.
        compression_level: the codec's level for it; None for the codec's default.
        is_fsync_acked: True when an acknowledgement waits for the disk (flush.messages=1).
        throttled_at_leader: ``partition:broker`` texts, or ``*``: followers that the leader slows
            down while they catch up (leader.replication.throttled.replicas).
        throttled_at_follower: replicas that slow down themselves
            (follower.replication.throttled.replicas).
    """

    __slots__ = (
        "compression",
        "compression_level",
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
        validates_every_record: bool = False,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.log_config: LogConfig
        self.configure(
            values,
            producer_id_expiration_ms=producer_id_expiration_ms,
            validates_every_record=validates_every_record,
        )

    def configure(
        self,
        values: dict[str, Value],
        *,
        producer_id_expiration_ms: int,
        validates_every_record: bool = False,
    ) -> None:
        self.values = values
        self.log_config = log_config(
            values,
            producer_id_expiration_ms=producer_id_expiration_ms,
            validates_every_record=validates_every_record,
        )
        minimum = values["min.insync.replicas"]
        assert isinstance(minimum, int)
        self.min_insync_replicas = minimum
        self.compression = _CODECS.get(str(values["compression.type"]))
        self.compression_level = _level(self.compression, values)
        self.is_fsync_acked = self.log_config.flush_messages == 1
        self.throttled_at_leader = _texts(values["leader.replication.throttled.replicas"])
        self.throttled_at_follower = _texts(values["follower.replication.throttled.replicas"])

    def is_throttled(self, throttled: frozenset[str], partition: int, broker_id: int) -> bool:
        """Whether a set of throttled replicas contains a replica."""
        return bool(throttled) and (
            _EVERY_REPLICA in throttled or f"{partition}:{broker_id}" in throttled
        )


def _level(compression: Compression | None, values: dict[str, Value]) -> int | None:
    """The codec's level, None for its default."""
    name = None if compression is None else _LEVEL_SETTINGS.get(compression)
    if name is None:
        return None
    level = values[name]
    assert isinstance(level, int)
    return None if level == TOPIC_SETTINGS[name].default else level


def _texts(value: Value) -> frozenset[str]:
    assert isinstance(value, tuple)
    return frozenset(text.strip() for text in value)
