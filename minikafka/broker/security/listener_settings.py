"""The settings of one listener and its SASL mechanisms.

A setting may be given for all listeners, for one (``listener.name.NAME.``), or for one mechanism
of one (``listener.name.NAME.MECHANISM.``, all in lower case); the most specific one counts.
"""

from __future__ import annotations

from ...metadata.setting_table import BrokerConfig, listener_prefix
from ...metadata.settings import Password, Value

__all__ = ["ListenerSettings"]


class ListenerSettings:
    """Finds them.

    Attributes:
        listener: its name.
    """

    def __init__(self, config: BrokerConfig, listener: str) -> None:
        self._config = config
        self.listener = listener

    def value(self, name: str, mechanism: str | None = None) -> Value:
        if mechanism is not None:
            own = f"{listener_prefix(self.listener)}{mechanism.lower()}.{name}"
            if own in self._config.listener_settings:
                return self._config.listener_settings[own]
        return self._config.value_for(self.listener, name)

    def names(self, name: str) -> tuple[str, ...]:
        value = self.value(name)
        assert isinstance(value, tuple)
        return value

    def number(self, name: str, mechanism: str | None = None) -> int:
        value = self.value(name, mechanism)
        assert isinstance(value, int)
        return value

    def secret(self, name: str, mechanism: str | None = None) -> str:
        value = self.value(name, mechanism)
        assert isinstance(value, Password)
        return value.reveal()

    def text(self, name: str, mechanism: str | None = None) -> str:
        value = self.value(name, mechanism)
        assert isinstance(value, str)
        return value
