"""What a leader knows about one other node, and what it may send to it.

``Probe``
    Where the logs agree is not known. One message is under way at a time; it is repeated with the
    next heartbeat.
``Replicate``
    They agree up to ``match_index``; entries are sent ahead of the answers, up to a limit of
    messages, and ``next_index`` is behind what was sent.
``Snapshot``
    The node needs entries that the leader's log no longer has, and gets the snapshot piece by
    piece, each after the answer to the one before.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Final

__all__ = ["Progress", "Stage"]


class Stage(Enum):
    """How a node is being sent to."""

    PROBE = "probe"
    REPLICATE = "replicate"
    SNAPSHOT = "snapshot"


class Progress:
    """One follower or observer.

    Attributes:
        is_observer: It does not vote, and can be forgotten.
        stage: How it is being sent to.
        match_index: It has stored everything up to here as it is in the leader's log. Goes down
            only if the node admits to have lost what it had.
        next_index: What to send next; above `match_index` always.
        is_waiting: In `PROBE` and `SNAPSHOT`: a message is under way, wait.
        snapshot_index: In `SNAPSHOT`: which one is being sent.
        snapshot_position: How much of it the node has.
        heard_at: When it last said something, seconds; None before the first time.
        caught_up_at: When it last had everything, seconds; None before the first time.
    """

    __slots__ = (
        "_in_flight",
        "_in_flight_max",
        "caught_up_at",
        "heard_at",
        "is_observer",
        "is_waiting",
        "match_index",
        "next_index",
        "snapshot_index",
        "snapshot_position",
        "stage",
    )

    def __init__(self, next_index: int, in_flight_max: int, *, is_observer: bool) -> None:
        self.is_observer: Final = is_observer
        self.stage = Stage.PROBE
        self.match_index = 0
        self.next_index = next_index
        self.is_waiting = False
        self.snapshot_index = 0
        self.snapshot_position = 0
        self.heard_at: float | None = None
        self.caught_up_at: float | None = None
        self._in_flight_max: Final = in_flight_max
        self._in_flight: deque[int] = deque()  # the last index in each message not yet answered

    def may_send(self) -> bool:
        """Whether another message with entries may go out now."""
        if self.stage is Stage.REPLICATE:
            return len(self._in_flight) < self._in_flight_max
        return not self.is_waiting

    def sent(self, last_index: int) -> None:
        """A message went out whose last entry, or if it had none the one before, is this."""
        if self.stage is Stage.REPLICATE:
            if last_index >= self.next_index:
                self.next_index = last_index + 1
                self._in_flight.append(last_index)
        else:
            self.is_waiting = True

    def accepted(self, index: int) -> None:
        """It has everything up to `index`."""
        self.match_index = max(self.match_index, index)
        while self._in_flight and self._in_flight[0] <= index:
            self._in_flight.popleft()
        if self.stage is Stage.PROBE or (
            self.stage is Stage.SNAPSHOT and index >= self.snapshot_index
        ):
            self.stage = Stage.REPLICATE
            self.is_waiting = False
            self.next_index = self.match_index + 1
        else:
            self.next_index = max(self.next_index, self.match_index + 1)

    def probe(self, next_index: int) -> None:
        """Find out anew where the logs agree: perhaps right before `next_index`."""
        self.stage = Stage.PROBE
        self.is_waiting = False
        self._in_flight.clear()
        self.next_index = next_index

    def send_snapshot(self, index: int) -> None:
        """It gets the snapshot of everything up to `index`, from the beginning."""
        self.stage = Stage.SNAPSHOT
        self.is_waiting = False
        self._in_flight.clear()
        self.snapshot_index = index
        self.snapshot_position = 0
