"""The settings of a topic, and how they become the configuration of its logs."""

from __future__ import annotations

from collections.abc import Mapping

from ..storage.log_config import LogConfig
from .settings import (
    LONG_MAX,
    InvalidSettingError,
    Setting,
    SettingType,
    Value,
    parse_setting,
    unknown_setting,
)

_BOOLEAN, _STRING, _INT, _LONG, _DOUBLE, _LIST = (
    SettingType.BOOLEAN,
    SettingType.STRING,
    SettingType.INT,
    SettingType.LONG,
    SettingType.DOUBLE,
    SettingType.LIST,
)

_DAY_MS = 86_400_000


def _topic(
    name: str,
    kind: SettingType,
    default: Value,
    doc: str,
    broker_name: str | None = None,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
) -> Setting:
    return Setting(name, kind, default, doc, at_least, at_most, choices, broker_name, True)


TOPIC_SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        _topic(
            "cleanup.policy",
            _LIST,
            ("delete",),
            "What happens to old segments: deleted by age and size, compacted by key, or both.",
            "log.cleanup.policy",
            choices=("delete", "compact"),
        ),
        _topic(
            "compression.type",
            _STRING,
            "producer",
            "`producer` keeps what the producer chose; anything else re-compresses its batches.",
            "compression.type",
            choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        ),
        _topic(
            "delete.retention.ms",
            _LONG,
            _DAY_MS,
            "How long a compacted topic keeps tombstones.",
            "log.cleaner.delete.retention.ms",
            at_least=0,
        ),
        _topic(
            "file.delete.delay.ms",
            _LONG,
            60_000,
            "How long a deleted segment's file stays on disk.",
            "log.segment.delete.delay.ms",
            at_least=0,
        ),
        _topic(
            "flush.messages",
            _LONG,
            LONG_MAX,
            "Sync the log after so many records; 1 syncs before every acknowledgement.",
            "log.flush.interval.messages",
            at_least=1,
        ),
        _topic(
            "flush.ms",
            _LONG,
            LONG_MAX,
            "Sync the log at least this often.",
            "log.flush.interval.ms",
            at_least=0,
        ),
        _topic(
            "follower.replication.throttled.replicas",
            _LIST,
            (),
            "Replicas whose fetching is throttled, as partition:broker pairs or *.",
        ),
        _topic(
            "index.interval.bytes",
            _INT,
            4096,
            "Bytes of log between two entries of the offset index.",
            "log.index.interval.bytes",
            at_least=0,
        ),
        _topic(
            "leader.replication.throttled.replicas",
            _LIST,
            (),
            "Replicas whose leader is throttled, as partition:broker pairs or *.",
        ),
        _topic(
            "max.compaction.lag.ms",
            _LONG,
            LONG_MAX,
            "The longest a record may wait for compaction.",
            "log.cleaner.max.compaction.lag.ms",
            at_least=1,
        ),
        _topic(
            "max.message.bytes",
            _INT,
            1_048_588,
            "The largest record batch, in bytes as it travels.",
            "message.max.bytes",
            at_least=0,
        ),
        _topic(
            "message.timestamp.after.max.ms",
            _LONG,
            3_600_000,
            "How far a record's timestamp may lie in the future.",
            "log.message.timestamp.after.max.ms",
            at_least=0,
        ),
        _topic(
            "message.timestamp.before.max.ms",
            _LONG,
            LONG_MAX,
            "How far a record's timestamp may lie in the past.",
            "log.message.timestamp.before.max.ms",
            at_least=0,
        ),
        _topic(
            "message.timestamp.type",
            _STRING,
            "CreateTime",
            "Who stamps records: the producer (CreateTime) or the broker (LogAppendTime).",
            "log.message.timestamp.type",
            choices=("CreateTime", "LogAppendTime"),
        ),
        _topic(
            "min.cleanable.dirty.ratio",
            _DOUBLE,
            0.5,
            "The share of a log that must be uncompacted before compaction starts.",
            "log.cleaner.min.cleanable.ratio",
            at_least=0,
            at_most=1,
        ),
        _topic(
            "min.compaction.lag.ms",
            _LONG,
            0,
            "The shortest time a record stays uncompacted.",
            "log.cleaner.min.compaction.lag.ms",
            at_least=0,
        ),
        _topic(
            "min.insync.replicas",
            _INT,
            1,
            "How many in-sync replicas acks=all needs.",
            "min.insync.replicas",
            at_least=1,
        ),
        _topic(
            "preallocate",
            _BOOLEAN,
            False,
            "Accepted for compatibility; segments are never preallocated.",
            "log.preallocate",
        ),
        _topic(
            "retention.bytes",
            _LONG,
            -1,
            "The largest size of a partition before old segments go; -1 for no limit.",
            "log.retention.bytes",
            at_least=-1,
        ),
        _topic(
            "retention.ms",
            _LONG,
            7 * _DAY_MS,
            "How long segments are kept; -1 for ever.",
            "log.retention.ms",
            at_least=-1,
        ),
        _topic(
            "segment.bytes",
            _INT,
            1_073_741_824,
            "The size at which a new segment begins.",
            "log.segment.bytes",
            at_least=1024,
        ),
        _topic(
            "segment.index.bytes",
            _INT,
            10_485_760,
            "The largest size of a segment's index.",
            "log.index.size.max.bytes",
            at_least=4,
        ),
        _topic(
            "segment.jitter.ms",
            _LONG,
            0,
            "Accepted for compatibility; rolling is not jittered.",
            "log.roll.jitter.ms",
            at_least=0,
        ),
        _topic(
            "segment.ms",
            _LONG,
            7 * _DAY_MS,
            "The age at which a new segment begins.",
            "log.roll.ms",
            at_least=1,
        ),
        _topic(
            "unclean.leader.election.enable",
            _BOOLEAN,
            False,
            "Whether a replica that may miss acknowledged records can become leader.",
            "unclean.leader.election.enable",
        ),
    )
}


def check_topic_settings(overrides: Mapping[str, str | None]) -> None:
    """Check the settings a client gives for a topic (None stands for "no value").

    Raises:
        InvalidSettingError: a name does not exist or a value is impossible.
    """
    for name, text in overrides.items():
        setting = TOPIC_SETTINGS.get(name)
        if setting is None:
            raise unknown_setting(name, TOPIC_SETTINGS)
        if text is None:
            raise InvalidSettingError(f"Setting {name} was given no value (null)")
        parse_setting(setting, text)
    minimum_lag = _value("min.compaction.lag.ms", overrides)
    maximum_lag = _value("max.compaction.lag.ms", overrides)
    if isinstance(minimum_lag, int) and isinstance(maximum_lag, int) and minimum_lag > maximum_lag:
        raise InvalidSettingError(
            f"min.compaction.lag.ms {minimum_lag} is larger than "
            f"max.compaction.lag.ms {maximum_lag}"
        )


def _value(name: str, overrides: Mapping[str, str | None]) -> Value:
    text = overrides.get(name)
    setting = TOPIC_SETTINGS[name]
    return setting.default if text is None else parse_setting(setting, text)


def topic_values(
    overrides: Mapping[str, str], broker_defaults: Mapping[str, Value]
) -> dict[str, Value]:
    """Every topic setting with its effective value.

    Args:
        overrides: what was set on the topic, as text.
        broker_defaults: values of broker settings by Kafka name.
    """
    return {
        name: parse_setting(setting, overrides[name])
        if name in overrides
        else broker_defaults.get(setting.broker_name or "", setting.default)
        for name, setting in TOPIC_SETTINGS.items()
    }


def log_config(values: Mapping[str, Value], **extra: int) -> LogConfig:
    """Turn effective topic values (see `topic_values`) into the storage floor's `LogConfig`."""
    cleanup = values["cleanup.policy"]
    assert isinstance(cleanup, tuple)
    names = {
        "segment.bytes",
        "segment.ms",
        "retention.ms",
        "retention.bytes",
        "delete.retention.ms",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "max.compaction.lag.ms",
        "max.message.bytes",
        "message.timestamp.type",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
        "index.interval.bytes",
        "segment.index.bytes",
        "flush.messages",
        "flush.ms",
        "file.delete.delay.ms",
    }
    fields = {name.replace(".", "_"): values[name] for name in names}
    fields.update(extra)
    return LogConfig(
        **fields,  # type: ignore[arg-type]  # the table's types are the fields' types (tested)
        cleanup_delete="delete" in cleanup,
        cleanup_compact="compact" in cleanup,
    )
