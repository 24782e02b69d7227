"""Heartbeats: the brokers that the active controller believes alive (soft state, KIP-631).

Nothing here is in the metadata log: a new controller starts with `begin`, which gives every broker
in service a whole session to send a heartbeat. Whether a broker is fenced is in the image alone;
this only says when that should change.

==========  ===================================  ==================================================
state       meaning                              left by
==========  ===================================  ==================================================
unknown     no contact yet, or removed           `contact`, `begin`
catching    alive, but has not applied what was  `contact` with that index (to caught up);
up          committed when it came               `lost`, `expire` (to overdue)
caught up   alive and may be unfenced            `lost`, `expire` (to overdue)
overdue     silent for a session, or lost        `contact` (to catching up: it missed entries);
                                                 `forget`, when it is fenced
==========  ===================================  ==================================================

`expire` returns a broker that stays overdue repeatedly, in case fencing it failed.

**A controller that slept.** When the whole process was suspended (a pause, a swapped-out machine),
all sessions seem to have expired although the heartbeats wait in the sockets. So when `expire` is
called much later than it was due, it returns no broker yet: there is time to read them first.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["LATENESS_MAX_S", "RETRY_S", "BrokerHeartbeats"]

RETRY_S = 1.0
"""How long after `expire` returned a broker it returns it again."""
LATENESS_MAX_S = 1.0
"""An `expire` that is later than this means that the controller was suspended."""


class BrokerHeartbeats:
    """The sessions of brokers; at most one for each registered broker.

    Args:
        session_timeout_s: broker.session.timeout.ms.
    """

    def __init__(self, session_timeout_s: float) -> None:
        self._session_timeout_s = session_timeout_s
        self._due: dict[int, float] = {}
        self._wanted_index: dict[int, int] = {}
        self._overdue: set[int] = set()

    def begin(self, unfenced: Iterable[int], now: float) -> None:
        """Start as the active controller, with the brokers in service according to the image."""
        self._overdue.clear()
        self._wanted_index.clear()
        self._due = dict.fromkeys(unfenced, now + self._session_timeout_s)

    def contact(self, broker_id: int, applied_index: int, committed_index: int, now: float) -> bool:
        """Note a heartbeat or registration; the caller has checked the broker epoch.

        Args:
            broker_id: the broker.
            applied_index: the last entry of the metadata log that it has applied.
            committed_index: the last committed entry that this controller knows.
            now: monotonic, in seconds.

        Returns:
            Whether it has applied everything that was committed at its first contact, including
            its own registration: a fenced broker can be unfenced.
        """
        self._due[broker_id] = now + self._session_timeout_s
        if broker_id in self._overdue:
            self._overdue.remove(broker_id)
            self._wanted_index.pop(broker_id, None)
        return applied_index >= self._wanted_index.setdefault(broker_id, committed_index)

    def lost(self, broker_id: int, now: float) -> None:
        """Note that the connection to a broker ended and that it refuses another."""
        if broker_id in self._due and broker_id not in self._overdue:
            self._overdue.add(broker_id)
            self._due[broker_id] = now

    def forget(self, broker_id: int) -> None:
        """Note that a broker is fenced, or no longer registered."""
        self._due.pop(broker_id, None)
        self._wanted_index.pop(broker_id, None)
        self._overdue.discard(broker_id)

    def is_alive(self, broker_id: int, now: float) -> bool:
        """Whether a broker had contact within its session and was not lost since."""
        return broker_id not in self._overdue and self._due.get(broker_id, now) > now

    def deadline(self) -> float | None:
        """When `expire` has something to do."""
        return min(self._due.values(), default=None)

    def expire(self, now: float) -> list[int]:
        """The brokers that should be fenced."""
        deadline = self.deadline()
        if deadline is None:
            return []
        due = [broker_id for broker_id, at in self._due.items() if at <= now]
        for broker_id in due:
            self._due[broker_id] = now + RETRY_S
        if now - deadline > LATENESS_MAX_S:
            return []
        self._overdue.update(due)
        return due
