"""A timeline: what happened in a run, moment by moment, for people and for the scrubber.

`Timeline.to_json` gives the document that the page reads:

    {"format": 1, "engine": "simulation", "scenario": TOKEN, "title": "...",
     "lanes": [{"id": "node-1", "kind": "broker", "title": "node 1"}, ...],
     "events": [{"t": 1.2345, "lane": "node-1", "kind": "append", "text": "...",
                 "record": "r7", "to": "node-2", "arrives": 1.2361,
                 "state": {"log_end_offset": 8}}, ...],
     "records": {"r7": {"fate": "trusted", "copies": 1, "results": 0, "offset": 7}},
     "counts": {"sent": 30, ...}}

Events are in the order of time. ``state`` holds what changes for the lane: the state of a lane at a
time is what its events up to then have set. Absent members are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from .ledger import Counts

FORMAT: Final = 1

LaneKind = Literal["broker", "controller", "producer", "consumer", "database"]

EventKind = Literal[
    "send",  # a message leaves the lane for `to`; `arrives` is None if it is lost
    "append",  # a record is in a replica's log
    "replicate",  # a follower has a record
    "advance",  # a high watermark or last stable offset moves
    "acknowledge",  # a producer learns that a record is stored
    "refuse",  # a producer learns that it is not
    "retry",  # a producer sends a record again
    "read",  # a consumer is given a record
    "process",  # processing a record has an effect
    "commit",  # a position, or a transaction
    "abort",  # of a transaction
    "truncate",  # a replica cuts its log
    "elect",  # a replica begins to lead
    "isr",  # the in-sync replicas change
    "kill",
    "power-loss",
    "pause",
    "resume",
    "start",
    "stop",
    "cut",
    "heal",
    "clock",
    "rebalance",
    "note",
]

BROKER_STATE: Final = (
    "is_up",
    "is_paused",
    "is_cut",
    "is_leader",
    "leader_epoch",
    "log_end_offset",
    "high_watermark",
    "last_stable_offset",
    "isr",
)
"""Members of ``state`` for a broker; ``isr`` is a list of node ids, only the leader's."""
CLIENT_STATE: Final = ("is_up", "is_paused", "acknowledged", "pending", "position", "committed")


class Lane(NamedTuple):
    """Somebody to whom things happen."""

    id: str
    kind: LaneKind
    title: str


@dataclass(slots=True)
class Event:
    """Something that happened. Times are seconds from the beginning of the run."""

    t: float
    lane: str
    kind: EventKind
    text: str
    record: str | None = None
    to: str | None = None
    arrives: float | None = None
    state: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """As in the document."""
        document: dict[str, Any] = {
            "t": round(self.t, 6),
            "lane": self.lane,
            "kind": self.kind,
            "text": self.text,
        }
        for name in ("record", "to", "arrives", "state"):
            value = getattr(self, name)
            if value is not None:
                document[name] = round(value, 6) if name == "arrives" else value
        return document


@dataclass
class Timeline:
    """All of a run.

    Attributes:
        engine: which one ran it.
        scenario: its token.
        title: in words.
        lanes: from top to bottom.
        events: in the order of time.
        records: what became of each, by value.
        counts: of the run.
    """

    engine: str
    scenario: str
    title: str
    lanes: list[Lane] = field(default_factory=list[Lane])
    events: list[Event] = field(default_factory=list[Event])
    records: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    counts: Counts = field(default_factory=Counts)

    def to_json(self) -> dict[str, Any]:
        """The document."""
        return {
            "format": FORMAT,
            "engine": self.engine,
            "scenario": self.scenario,
            "title": self.title,
            "lanes": [lane._asdict() for lane in self.lanes],
            "events": [event.to_json() for event in self.events],
            "records": self.records,
            "counts": self.counts._asdict(),
        }
