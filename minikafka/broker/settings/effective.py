"""Current settings: dynamic values from the metadata override files and flags."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from ...metadata.group_settings import group_value, group_values
from ...metadata.image import RESOURCE_BROKER, MetadataImage
from ...metadata.placement import Placement
from ...metadata.replication_rules import ReplicationRules
from ...metadata.setting_table import BROKER_SETTINGS, BrokerConfig, listener_prefix
from ...metadata.settings import Value, parse_setting
from ...metadata.topic_settings import topic_values


class MetadataView(Protocol):
    """Access to the metadata image as of the last applied decision; it changes with each."""

    @property
    def image(self) -> MetadataImage: ...


class _BrokerValues(Mapping[str, Value]):
    """The broker's settings, each computed when it is looked up."""

    def __init__(self, value_of: Callable[[str], Value]) -> None:
        self._value_of = value_of

    def __getitem__(self, name: str) -> Value:
        if name not in BROKER_SETTINGS:
            raise KeyError(name)
        return self._value_of(name)

    def __iter__(self) -> Iterator[str]:
        return iter(BROKER_SETTINGS)

    def __len__(self) -> int:
        return len(BROKER_SETTINGS)


class EffectiveSettings:
    """This node's current settings; ``config`` has the static ones of defaults, files and flags."""

    def __init__(self, config: BrokerConfig, metadata: MetadataView) -> None:
        self.config = config
        self._metadata = metadata
        # Kafka's precedence: this broker's dynamic value, the cluster's default, the static value.
        self._resources = (str(config.node_id), "")
        self._broker_values = _BrokerValues(self._value)

    @property
    def image(self) -> MetadataImage:
        return self._metadata.image

    def broker_values(self) -> dict[str, Value]:
        values = self.config.values_by_name()
        settings = self._metadata.image.settings
        for resource in reversed(self._resources):
            for name, text in settings.get((RESOURCE_BROKER, resource), {}).items():
                # A later version may have stored settings that this one does not have.
                if name in BROKER_SETTINGS:
                    values[name] = parse_setting(BROKER_SETTINGS[name], text)
        return values

    def integer(self, name: str) -> int:
        """One numeric broker setting, without computing the others."""
        value = self._value(name)
        assert isinstance(value, int)
        return value

    def text(self, name: str) -> str:
        """One textual broker setting, without computing the others."""
        value = self._value(name)
        assert isinstance(value, str)
        return value

    def boolean(self, name: str) -> bool:
        """One broker setting that is true or false, without computing the others."""
        return bool(self._value(name))

    def names(self, name: str) -> tuple[str, ...]:
        """One broker setting that is a list."""
        value = self._value(name)
        assert isinstance(value, tuple)
        return value

    def integer_of_listener(self, listener: str, name: str) -> int | None:
        """A numeric setting that a listener has of its own, or None."""
        full_name = f"{listener_prefix(listener)}{name}"
        value = self.config.listener_settings.get(full_name)
        settings = self._metadata.image.settings
        for resource in self._resources:
            text = settings.get((RESOURCE_BROKER, resource), {}).get(full_name)
            if text is not None:
                value = parse_setting(BROKER_SETTINGS[name], text)
                break
        assert value is None or isinstance(value, int)
        return value

    def _value(self, name: str) -> Value:
        settings = self._metadata.image.settings
        for resource in self._resources:
            text = settings.get((RESOURCE_BROKER, resource), {}).get(name)
            if text is not None:
                return parse_setting(BROKER_SETTINGS[name], text)
        return self.config.value_of(name)

    def topic_values(self, topic: str) -> dict[str, Value]:
        """All settings of a topic by Kafka name; the topic's own override the broker's."""
        return topic_values(self._metadata.image.topic_settings(topic), self.broker_values())

    def group_values(self, group_id: str) -> dict[str, Value]:
        """All settings of a group by Kafka name, as they are effective."""
        return group_values(self._metadata.image.group_settings(group_id), self.broker_values())

    def group_value(self, group_id: str, name: str) -> Value:
        """One setting of a group, such as ``consumer.session.timeout.ms``."""
        overrides = self._metadata.image.group_settings(group_id)
        return group_value(name, overrides, self._broker_values)

    def group_integer(self, group_id: str, name: str) -> int:
        value = self.group_value(group_id, name)
        assert isinstance(value, int)
        return value

    def group_list(self, group_id: str, name: str) -> tuple[str, ...]:
        value = self.group_value(group_id, name)
        assert isinstance(value, tuple)
        return value

    def placement(self, start: int) -> Placement:
        """The brokers that can hold replicas, and the defaults for new topics.

        ``start`` should be random: it determines which broker gets the first replica.
        """
        return Placement.of(
            self._metadata.image,
            self.config.num_partitions,
            self.config.default_replication_factor,
            start,
        )

    def replication_rules(self) -> ReplicationRules:
        """The rules for topics that neither they nor the cluster's settings define."""
        return ReplicationRules(
            self.config.min_insync_replicas, self.config.unclean_leader_election_enable
        )
