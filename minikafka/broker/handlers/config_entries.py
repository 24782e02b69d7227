"""Settings as DescribeConfigs shows them: the effective value, its source, and its synonyms.

A value is looked up at the most specific source first; each source that has one is a *synonym*
of the setting (KIP-226), and the first one is effective.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from ...metadata.image import RESOURCE_BROKER, RESOURCE_CLIENT_METRICS
from ...metadata.setting_table import (
    BROKER_SETTINGS,
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
)
from ...metadata.settings import Setting, parse_setting, render_setting
from ..settings.effective import EffectiveSettings

EVERY_BROKER = ""
"""The resource name for settings of all brokers."""


class ConfigSource(IntEnum):
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    """The value at one source, and the setting's name there."""

    name: str
    value: str
    source: ConfigSource


class SettingEntry(NamedTuple):
    """A setting of a resource; ``synonyms`` has the effective value first and is never empty."""

    setting: Setting
    synonyms: list[Synonym]

    @property
    def value(self) -> str:
        return self.synonyms[0].value

    @property
    def source(self) -> ConfigSource:
        return self.synonyms[0].source


def topic_entries(settings: EffectiveSettings) -> list[SettingEntry]:
    """All settings of a topic that overrides none, by name."""
    return _with_broker_defaults(settings, TOPIC_SETTINGS)


def group_entries(settings: EffectiveSettings, group_id: str) -> list[SettingEntry]:
    """All settings of a group, by name."""
    entries = _with_broker_defaults(settings, GROUP_SETTINGS)
    return overridden(entries, settings.image.group_settings(group_id), ConfigSource.GROUP)


def client_metrics_entries(settings: EffectiveSettings, name: str) -> list[SettingEntry]:
    """All settings of a client metrics subscription, by name."""
    entries = _with_broker_defaults(settings, CLIENT_METRICS_SETTINGS)
    own = settings.image.settings.get((RESOURCE_CLIENT_METRICS, name), {})
    return overridden(entries, own, ConfigSource.CLIENT_METRICS)


def _with_broker_defaults(
    settings: EffectiveSettings, table: Mapping[str, Setting]
) -> list[SettingEntry]:
    return [
        SettingEntry(
            setting,
            [Synonym(name, render_setting(setting.default), ConfigSource.DEFAULT)]
            if setting.broker_name is None
            else _broker_synonyms(settings, BROKER_SETTINGS[setting.broker_name]),
        )
        for name, setting in sorted(table.items())
    ]


def overridden(
    entries: list[SettingEntry],
    overrides: Mapping[str, str],
    source: ConfigSource = ConfigSource.TOPIC,
) -> list[SettingEntry]:
    """The entries of a resource that has ``overrides``."""
    return [
        _override(entry, overrides[entry.setting.name], source)
        if entry.setting.name in overrides
        else entry
        for entry in entries
    ]


def _override(entry: SettingEntry, text: str, source: ConfigSource) -> SettingEntry:
    setting = entry.setting
    value = render_setting(parse_setting(setting, text))
    return SettingEntry(setting, [Synonym(setting.name, value, source), *entry.synonyms])


def broker_entries(settings: EffectiveSettings) -> list[SettingEntry]:
    return [
        SettingEntry(BROKER_SETTINGS[name], _broker_synonyms(settings, BROKER_SETTINGS[name]))
        for name in sorted(BROKER_SETTINGS)
    ]


def every_broker_entries(settings: EffectiveSettings) -> list[SettingEntry]:
    """The dynamic settings for all brokers, by name."""
    return [
        SettingEntry(BROKER_SETTINGS[name], [synonym])
        for name in sorted(BROKER_SETTINGS)
        for synonym in _dynamic(settings, BROKER_SETTINGS[name], EVERY_BROKER)
    ]


def unknown_entries(settings: EffectiveSettings, resource_name: str) -> dict[str, ConfigSource]:
    """The dynamic settings of a broker that this one does not know, and where they come from."""
    sources: dict[str, ConfigSource] = {}
    for name in dict.fromkeys((EVERY_BROKER, resource_name)):
        source = ConfigSource.DYNAMIC_BROKER if name else ConfigSource.DYNAMIC_DEFAULT_BROKER
        texts = settings.image.settings.get((RESOURCE_BROKER, name), {})
        sources |= {key: source for key in sorted(texts) if key not in BROKER_SETTINGS}
    return sources


def _broker_synonyms(settings: EffectiveSettings, setting: Setting) -> list[Synonym]:
    synonyms = _dynamic(settings, setting, str(settings.config.node_id))
    synonyms += _dynamic(settings, setting, EVERY_BROKER)
    static = settings.config.value_of(setting.name)
    if setting.name in settings.config.explicitly_set or static != setting.default:
        synonyms.append(Synonym(setting.name, render_setting(static), ConfigSource.STATIC_BROKER))
    synonyms.append(Synonym(setting.name, render_setting(setting.default), ConfigSource.DEFAULT))
    return synonyms


def _dynamic(settings: EffectiveSettings, setting: Setting, resource_name: str) -> list[Synonym]:
    text = settings.image.settings.get((RESOURCE_BROKER, resource_name), {}).get(setting.name)
    if text is None:
        return []
    source = ConfigSource.DYNAMIC_BROKER if resource_name else ConfigSource.DYNAMIC_DEFAULT_BROKER
    return [Synonym(setting.name, render_setting(parse_setting(setting, text)), source)]
