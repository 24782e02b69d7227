"""How long to wait before something that failed is tried again: longer each time, and random.

Random, so that nodes that lost the same peer at the same moment do not all return at once.
"""

from __future__ import annotations

from collections.abc import Callable

JITTER = 0.2
"""By which share a pause may be shorter than it is at most."""


class Backoff:
    """Pauses between attempts: they double from ``first_s`` to ``longest_s``.

    Args:
        first_s: the first pause, in seconds.
        longest_s: no pause is longer.
        dice: returns a number from 0 to 1, `random` of a generator.

    Attributes:
        pause_s: the next pause, before chance shortens it.
    """

    __slots__ = ("_dice", "_first_s", "_longest_s", "pause_s")

    def __init__(
        self, first_s: float, longest_s: float, dice: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._dice = dice
        self.pause_s = first_s

    def next_pause(self) -> float:
        """The pause after another failure, in seconds."""
        pause_s = self.pause_s
        self.pause_s = min(2 * pause_s, self._longest_s)
        return pause_s * (1 - JITTER * self._dice())

    def reset(self) -> None:
        """An attempt succeeded: the next pause is the first one again."""
        self.pause_s = self._first_s
