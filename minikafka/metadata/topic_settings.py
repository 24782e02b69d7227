"""The settings of a topic: which texts are allowed, and the configuration of its logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..storage.log_config import LogConfig
from .setting_table import TOPIC_SETTINGS
from .settings import InvalidSettingError, Value, parse_setting, unknown_setting

# The log's fields that are topic settings of the same name; cleanup.policy is two fields.
_LOG_SETTINGS: Final = {
    name.replace(".", "_"): name
    for name in TOPIC_SETTINGS
    if name.replace(".", "_") in LogConfig.FIELDS
}


def check_topic_settings(overrides: Mapping[str, str | None]) -> None:
    """Check the settings that a client gives for a topic (None is "no value").

    Raises:
        InvalidSettingError: a name is unknown or a value is invalid.
    """
    for name, text in overrides.items():
        setting = TOPIC_SETTINGS.get(name)
        if setting is None:
            raise unknown_setting(name, TOPIC_SETTINGS)
        if text is None:
            raise InvalidSettingError(f"Setting {name} was given no value (null)")
        parse_setting(setting, text)
    if _value("remote.storage.enable", overrides):
        raise InvalidSettingError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
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
        overrides: the topic's own settings, as text.
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
    settings = {field: values[name] for field, name in _LOG_SETTINGS.items()}
    return LogConfig(
        **(settings | extra),  # type: ignore[arg-type]  # the table's types are the fields' types (tested)
        cleanup_delete="delete" in cleanup,
        cleanup_compact="compact" in cleanup,
    )
