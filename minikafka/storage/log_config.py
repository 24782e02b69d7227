"""Kafka's topic settings that concern the log.

One frozen object is shared by all logs of a topic; to change it at run time, assign a new one to
`log.config`. Names are Kafka's (`segment.bytes` is `segment_bytes`), defaults are Kafka 4's.
Source: the topic configs of the Kafka documentation; KIP-937 (timestamp bounds), KIP-354
(max.compaction.lag.ms).
"""

from typing import Final, Literal

from minikafka.data_class import DataClass

TimestampType = Literal["CreateTime", "LogAppendTime"]

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
_DAY_MS: Final = 24 * 60 * 60 * 1000
_HOUR_MS: Final = 60 * 60 * 1000

NO_LIMIT: Final = -1


class LogConfig(DataClass):
    """Settings of one topic.

    Attributes:
        segment_bytes: segment.bytes; a segment never grows past it.
        segment_ms: segment.ms; an older active segment is rolled by the next append.
        segment_index_bytes: segment.index.bytes; a segment whose index is full is rolled.
        index_interval_bytes: index.interval.bytes; log bytes per index entry.
        retention_ms: retention.ms; -1 keeps records of any age.
        retention_bytes: retention.bytes; -1 sets no limit.
        cleanup_delete: cleanup.policy contains `delete`.
        cleanup_compact: cleanup.policy contains `compact`.
        delete_retention_ms: delete.retention.ms; how long compaction keeps a tombstone.
        min_cleanable_dirty_ratio: min.cleanable.dirty.ratio.
        min_compaction_lag_ms: min.compaction.lag.ms.
        max_compaction_lag_ms: max.compaction.lag.ms.
        max_message_bytes: max.message.bytes; the largest batch, compressed.
        message_timestamp_type: message.timestamp.type.
        message_timestamp_before_max_ms: message.timestamp.before.max.ms.
        message_timestamp_after_max_ms: message.timestamp.after.max.ms.
        flush_messages: flush.messages; 1 means fsync before acknowledging. The broker's shell
            asks `Log.flush_is_due`; the log itself never syncs on append.
        flush_ms: flush.ms; the oldest unsynced append may be this old.
        file_delete_delay_ms: file.delete.delay.ms; a `.deleted` file is removed after it.
        producer_id_expiration_ms: producer.id.expiration.ms (a broker setting in Kafka).
        validates_every_record: the broker setting minikafka.validate.records is `all`.
    """

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * _DAY_MS
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * _DAY_MS
    retention_bytes: int = NO_LIMIT
    cleanup_delete: bool = True
    cleanup_compact: bool = False
    delete_retention_ms: int = _DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    max_message_bytes: int = 1024 * 1024 + 12
    message_timestamp_type: TimestampType = "CreateTime"
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_after_max_ms: int = _HOUR_MS
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    file_delete_delay_ms: int = 60_000
    producer_id_expiration_ms: int = _DAY_MS
    validates_every_record: bool = False


DEFAULT_LOG_CONFIG: Final = LogConfig()
