"""What a leader knows about another node, and what it may send to it.

``Probe``
    It is unknown where the logs agree. One message is in flight at a time; it is repeated with the
    next heartbeat.
``Replicate``
    They agree up to ``match_index``; entries are pipelined, up to a limit of messages in flight,
    and ``next_index`` follows the last one sent.
``Snapshot``
    The node needs entries that the leader's log no longer has, and receives the snapshot piece by
    piece, each after the answer to the previous one.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Final

__all__ = ["Progress", "Stage"]


class Stage(Enum):
    PROBE = "probe"
    REPLICATE = "replicate"
    SNAPSHOT = "snapshot"


class Progress:
    """One follower or observer.

    Attributes:
        match_index: The node has stored everything up to here as in the leader's log. Decreases
            only if the node reports that it has lost entries.
        next_index: What to send next; always above `match_index`.
        is_waiting: In `PROBE` and `SNAPSHOT`: a message is in flight.
        snapshot_index: In `SNAPSHOT`: the last index in the snapshot being sent.
        snapshot_position: How many bytes of it the node has.
        heard_at: When the last message came from it, seconds; None before the first.
        caught_up_at: When it last had everything, seconds; None before the first time.
        directory_id: Of its data directory, as it last said.
        is_admitted: Whether it counts in majorities, with that directory.
        is_observer: It is not a voter.
        kraft_version_max: Which records about the quorum itself it can read, as it last said.
        newcomer_id: The new directory for which an entry was appended; empty before.
        newcomer_index: That entry.
        has_newcomer_stored: The new directory holds everything up to that entry.
    """

    __slots__ = (
        "_in_flight",
        "_in_flight_max",
        "caught_up_at",
        "directory_id",
        "has_newcomer_stored",
        "heard_at",
        "is_admitted",
        "is_observer",
        "is_waiting",
        "kraft_version_max",
        "match_index",
        "newcomer_id",
        "newcomer_index",
        "next_index",
        "snapshot_index",
        "snapshot_position",
        "stage",
    )

    def __init__(self, next_index: int, in_flight_max: int, *, is_observer: bool) -> None:
        self.is_observer = is_observer
        self.kraft_version_max = 0
        self.stage = Stage.PROBE
        self.match_index = 0
        self.next_index = next_index
        self.is_waiting = False
        self.snapshot_index = 0
        self.snapshot_position = 0
        self.heard_at: float | None = None
        self.caught_up_at: float | None = None
        self.directory_id = b""
        self.is_admitted = True
        self.newcomer_id = b""
        self.newcomer_index = 0
        self.has_newcomer_stored = False
        self._in_flight_max: Final = in_flight_max
        self._in_flight: deque[int] = deque()  # the last index in each message not yet answered

    @property
    def is_counted(self) -> bool:
        """Whether it belongs to majorities."""
        return self.is_admitted and not self.is_observer

    def answered_from(self, directory_id: bytes, *, is_admitted: bool) -> None:
        """It says which directory it has; what another one had stored says nothing about this."""
        if directory_id != self.directory_id:
            self.match_index = 0
            self.directory_id = directory_id
        self.is_admitted = is_admitted

    def may_send(self) -> bool:
        """Whether another message with entries may be sent now."""
        if self.stage is Stage.REPLICATE:
            return len(self._in_flight) < self._in_flight_max
        return not self.is_waiting

    def sent(self, last_index: int) -> None:
        """A message was sent that ends with, or without entries follows, this entry."""
        if self.stage is Stage.REPLICATE:
            if last_index >= self.next_index:
                self.next_index = last_index + 1
                self._in_flight.append(last_index)
        else:
            self.is_waiting = True

    def accepted(self, index: int) -> None:
        """The node has everything up to `index`."""
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
        """Find out where the logs agree, starting right before `next_index`."""
        self.stage = Stage.PROBE
        self.is_waiting = False
        self._in_flight.clear()
        self.next_index = next_index

    def send_snapshot(self, index: int) -> None:
        """Start to send the snapshot of everything up to `index`."""
        self.stage = Stage.SNAPSHOT
        self.is_waiting = False
        self._in_flight.clear()
        self.snapshot_index = index
        self.snapshot_position = 0
