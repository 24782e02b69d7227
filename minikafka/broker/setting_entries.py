"""Settings as clients see them: effective value, where it comes from, and what lies under it.

Kafka looks for a value from the most particular place to the most general one; each place where a
value stands is a *synonym* of the setting (KIP-226), and the first one is effective.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from ..metadata.image import RESOURCE_BROKER
from ..metadata.settings import Setting, parse_setting, render_setting
from ..metadata.topic_settings import TOPIC_SETTINGS
from .config import BROKER_SETTINGS

if TYPE_CHECKING:
    from .broker import Broker

EVERY_BROKER = ""
"""The resource name of settings that all brokers share."""


class ConfigSource(IntEnum):
    """Where a value comes from, by Kafka's numbers."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6


class Synonym(NamedTuple):
    """A value that stands somewhere, under the name it has there."""

    name: str
    value: str
    source: ConfigSource


class SettingEntry(NamedTuple):
    """A setting of a resource; ``synonyms`` has the effective value first and is never empty."""

    setting: Setting
    synonyms: list[Synonym]

    @property
    def value(self) -> str:
        """The effective value's text."""
        return self.synonyms[0].value

    @property
    def source(self) -> ConfigSource:
        """Where the effective value comes from."""
        return self.synonyms[0].source


def topic_entries(broker: Broker) -> list[SettingEntry]:
    """All settings of a topic on which nothing is set, by name."""
    return [
        SettingEntry(
            setting,
            [Synonym(name, render_setting(setting.default), ConfigSource.DEFAULT)]
            if setting.broker_name is None
            else _broker_synonyms(broker, BROKER_SETTINGS[setting.broker_name]),
        )
        for name, setting in sorted(TOPIC_SETTINGS.items())
    ]


def overridden(entries: list[SettingEntry], overrides: Mapping[str, str]) -> list[SettingEntry]:
    """The `topic_entries` of a topic on which ``overrides`` are set."""
    return [
        _override(entry, overrides[entry.setting.name])
        if entry.setting.name in overrides
        else entry
        for entry in entries
    ]


def _override(entry: SettingEntry, text: str) -> SettingEntry:
    setting = entry.setting
    value = render_setting(parse_setting(setting, text))
    return SettingEntry(
        setting, [Synonym(setting.name, value, ConfigSource.TOPIC), *entry.synonyms]
    )


def broker_entries(broker: Broker) -> list[SettingEntry]:
    """All settings of this broker, by name."""
    return [
        SettingEntry(BROKER_SETTINGS[name], _broker_synonyms(broker, BROKER_SETTINGS[name]))
        for name in sorted(BROKER_SETTINGS)
    ]


def every_broker_entries(broker: Broker) -> list[SettingEntry]:
    """The settings that were set for all brokers together, and only those, by name."""
    return [
        SettingEntry(BROKER_SETTINGS[name], [synonym])
        for name in sorted(BROKER_SETTINGS)
        for synonym in _dynamic(broker, BROKER_SETTINGS[name], EVERY_BROKER)
    ]


def _broker_synonyms(broker: Broker, setting: Setting) -> list[Synonym]:
    synonyms = _dynamic(broker, setting, str(broker.node_id))
    synonyms += _dynamic(broker, setting, EVERY_BROKER)
    static = broker.config.value_of(setting.name)
    if setting.name in broker.config.explicitly_set or static != setting.default:
        synonyms.append(Synonym(setting.name, render_setting(static), ConfigSource.STATIC_BROKER))
    synonyms.append(Synonym(setting.name, render_setting(setting.default), ConfigSource.DEFAULT))
    return synonyms


def _dynamic(broker: Broker, setting: Setting, resource_name: str) -> list[Synonym]:
    text = broker.image.settings.get((RESOURCE_BROKER, resource_name), {}).get(setting.name)
    if text is None:
        return []
    source = ConfigSource.DYNAMIC_BROKER if resource_name else ConfigSource.DYNAMIC_DEFAULT_BROKER
    return [Synonym(setting.name, render_setting(parse_setting(setting, text)), source)]
