"""How many connections clients may have, and how quickly they may come.

The limits are Kafka's: in total, of one listener, of one address, and new ones per second. They are
looked up for each connection, because they can change while the broker runs.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from ...metadata.settings import INT_MAX
from ..settings.effective import EffectiveSettings
from ..settings.listeners import Listener

if TYPE_CHECKING:
    from ..system.clock import Clock

_BURST_SECONDS = 1.0


class ConnectionLimits:
    """Counts connections; ``take`` and ``give_back`` come in pairs."""

    def __init__(self, settings: EffectiveSettings, descriptors: int) -> None:
        self._settings = settings
        self._descriptors = descriptors
        self._count = 0
        self._of_address: Counter[str] = Counter()
        self._of_listener: Counter[str] = Counter()

    def take(self, listener: Listener, host: str) -> str | None:
        """Count a connection, or say which limit it exceeds."""
        settings = self._settings
        if self._count >= (limit := settings.integer("max.connections")):
            return f"max.connections={limit}"
        if self._count >= self._descriptors:
            return f"the limit of open files allows {self._descriptors}"
        limit = settings.integer("max.connections.per.ip")
        overrides = settings.names("max.connections.per.ip.overrides")
        if overrides:
            limit = _override(overrides, host, limit)
        if self._of_address[host] >= limit:
            if not self._of_address[host]:
                del self._of_address[host]
            return f"max.connections.per.ip={limit}"
        own = settings.integer_of_listener(listener.name, "max.connections")
        if own is not None and self._of_listener[listener.name] >= own:
            return f"listener.name.{listener.name.lower()}.max.connections={own}"
        self._count += 1
        self._of_address[host] += 1
        self._of_listener[listener.name] += 1
        return None

    def give_back(self, listener: Listener, host: str) -> None:
        self._count -= 1
        self._of_listener[listener.name] -= 1
        self._of_address[host] -= 1
        if not self._of_address[host]:
            del self._of_address[host]


def _override(overrides: tuple[str, ...], host: str, limit: int) -> int:
    for text in overrides:
        address, _, number = text.rpartition(":")
        if address.strip("[]") == host and number.isascii() and number.isdigit():
            return int(number)
    return limit


class CreationRate:
    """Spreads new connections of a listener, or of all of them, over time.

    Up to a second's worth may come at once.
    """

    def __init__(
        self, settings: EffectiveSettings, clock: Clock, listener: Listener | None
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._listener = listener
        self._paid_until = -math.inf

    def delay(self) -> float:
        """Count one connection; returns how many seconds the next has to wait."""
        name = "max.connection.creation.rate"
        if self._listener is None:
            rate = self._settings.integer(name)
        else:
            rate = self._settings.integer_of_listener(self._listener.name, name) or INT_MAX
        if rate >= INT_MAX:
            return 0.0
        now = self._clock.monotonic()
        self._paid_until = max(self._paid_until, now - _BURST_SECONDS) + 1 / rate
        return max(0.0, self._paid_until - now)
