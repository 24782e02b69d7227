"""Writes down what happens in a run, for its timeline.

A run that nobody looks at has no recorder. With one it goes the same way: a recorder only listens,
to messages, to the programs, to the nodes' lives, and to `WatchedTruth`, which hears of all logs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from minikafka.lab.ledger import Counts, Fate, Ledger
from minikafka.lab.simulation.cluster.messages import Fetched, Produce, Produced
from minikafka.lab.simulation.kit.truth import Decided, Entry, Truth
from minikafka.lab.simulation.kit.world import World
from minikafka.lab.timeline import Event, EventKind, Lane, LaneKind, Timeline
from minikafka.metadata.records import NO_LEADER, PartitionRecord
from minikafka.protocol.errors import ErrorCode

CONTROLLER_LANE = "controller"
WATCHED = 0
"""The partition whose replicas a timeline shows; clusters with coordinators have others, too."""


def node_lane(node_id: int) -> str:
    """The lane of a node."""
    return f"node-{node_id}"


class LogWatcher(Protocol):
    """Hears what happens to logs."""

    def written(self, node_id: int, entry: Entry) -> None: ...

    def truncated(self, node_id: int, end_offset: int) -> None: ...

    def led(self, node_id: int, epoch: int) -> None: ...

    def advanced(self, node_id: int, high_watermark: int) -> None: ...

    def decided(self, before: PartitionRecord, after: PartitionRecord) -> None: ...


class WatchedTruth(Truth):
    """A `Truth` that passes on what it hears.

    Attributes:
        watcher: to whom; None for nobody.
    """

    watcher: LogWatcher | None = None

    def written(self, node_id: int, number: Any, entries: Iterable[Entry], before: int) -> None:
        entries = list(entries)
        super().written(node_id, number, entries, before)
        if self.watcher is not None and number == WATCHED:
            for entry in entries:
                self.watcher.written(node_id, entry)

    def truncated(self, node_id: int, number: Any, end_offset: int) -> None:
        if self.watcher is not None and number == WATCHED:
            self.watcher.truncated(node_id, end_offset)

    def led(self, node_id: int, boot: int, number: Any, epoch: int, entries: list[Entry]) -> None:
        super().led(node_id, boot, number, epoch, entries)
        if self.watcher is not None and number == WATCHED:
            self.watcher.led(node_id, epoch)

    def committed(
        self, node_id: int, number: Any, epoch: int, offset: int, entries: list[Entry]
    ) -> None:
        watcher, self.watcher = self.watcher, None  # it calls `shown` with an earlier offset
        super().committed(node_id, number, epoch, offset, entries)
        self.watcher = watcher
        if watcher is not None:
            watcher.advanced(node_id, offset)

    def shown(self, node_id: int, number: Any, offset: int, entries: list[Entry]) -> None:
        super().shown(node_id, number, offset, entries)
        if self.watcher is not None and number == WATCHED:
            self.watcher.advanced(node_id, offset)

    def replay(self, decided: Decided) -> None:
        one = self.partitions.get(WATCHED)
        before = None if one is None else one.image
        super().replay(decided)
        if self.watcher is not None and before is not None:
            after = self.partitions[WATCHED].image
            if before is not after:
                self.watcher.decided(before, after)


class Recorder:
    """See the module's text.

    Attributes:
        events: in the order of time.
        lanes: by id, in the order of their coming.
    """

    def __init__(self, world: World) -> None:
        self.events: list[Event] = []
        self.lanes: dict[str, Lane] = {}
        self._world = world
        self._began_at = world.now
        self._client_lanes: dict[int, str] = {}
        self._values: dict[tuple[int, int], str] = {}
        self._high_watermarks: dict[int, int] = {}
        self._leader = NO_LEADER
        self._counts: dict[str, list[int]] = {}

    def lane(self, lane_id: str, kind: LaneKind, title: str, **state: Any) -> None:
        """There is somebody, from now on."""
        self.lanes[lane_id] = Lane(lane_id, kind, title)
        self.add(lane_id, "note", f"{title} is there", **state)

    def client_at(self, address: int, lane_id: str) -> None:
        """A client's connection has an address."""
        self._client_lanes[address] = lane_id

    def add(
        self,
        lane_id: str,
        kind: EventKind,
        text: str,
        record: str | None = None,
        *,
        to: str | None = None,
        arrives: float | None = None,
        **state: Any,
    ) -> None:
        """Something happens; `arrives` is the world's time, `state` what changes for the lane."""
        began_at = self._began_at
        self.events.append(
            Event(
                self._world.now - began_at,
                lane_id,
                kind,
                text,
                record,
                to,
                None if arrives is None else arrives - began_at,
                state or None,
            )
        )

    def begins(self, leader: int, high_watermarks: dict[int, int]) -> None:
        """How it is in the beginning: who leads, and the nodes' high watermarks."""
        self._leader = leader
        self._high_watermarks = dict(high_watermarks)

    # --- messages --------------------------------------------------------------------------------

    def sent(self, sender: int, receiver: int, message: object, arrives: float | None) -> None:
        """A message leaves; `arrives` is None if it is lost."""
        lost = "" if arrives is not None else ", which is lost"
        match message:
            case Produce(number, correlation, value=value) if number == WATCHED:
                lane = self._client_lanes.get(sender)
                self._values[sender, correlation] = value
                if lane is not None:
                    text = f"{lane} sends {value} to node {receiver}{lost}"
                    self.add(lane, "send", text, value, to=node_lane(receiver), arrives=arrives)
            case Produced(number, correlation, error_code=error) if number == WATCHED:
                lane = self._client_lanes.get(receiver)
                value = self._values.get((receiver, correlation), "")
                if lane is not None:
                    says = f"acknowledges {value}"
                    if error is not ErrorCode.NONE:
                        says = f"answers {error.name} for {value}"
                    text = f"node {sender} {says}{lost}"
                    self.add(node_lane(sender), "send", text, value, to=lane, arrives=arrives)
            case Fetched(number, entries=entries) if number == WATCHED:
                for one in entries:
                    text = f"node {sender} gives {one.value} to node {receiver}{lost}"
                    lane = node_lane(sender)
                    to = node_lane(receiver)
                    self.add(lane, "send", text, one.value, to=to, arrives=arrives)
            case _:
                pass

    # --- logs (`LogWatcher`) ----------------------------------------------------------------------

    def written(self, node_id: int, entry: Entry) -> None:
        kind: EventKind = "append" if node_id == self._leader else "replicate"
        verb = "appends" if kind == "append" else "has"
        text = f"node {node_id} {verb} {entry.value} at offset {entry.base_offset}"
        self.add(node_lane(node_id), kind, text, entry.value, log_end_offset=entry.last_offset + 1)

    def truncated(self, node_id: int, end_offset: int) -> None:
        text = f"node {node_id} cuts its log at offset {end_offset}"
        self.add(node_lane(node_id), "truncate", text, log_end_offset=end_offset)

    def led(self, node_id: int, epoch: int) -> None:
        text = f"node {node_id} leads, epoch {epoch}"
        self.add(node_lane(node_id), "elect", text, is_leader=True, leader_epoch=epoch)

    def advanced(self, node_id: int, high_watermark: int) -> None:
        if self._high_watermarks.get(node_id) != high_watermark:
            self._high_watermarks[node_id] = high_watermark
            text = f"node {node_id}: the high watermark is {high_watermark}"
            self.add(
                node_lane(node_id),
                "advance",
                text,
                high_watermark=high_watermark,
                last_stable_offset=high_watermark,
            )

    def decided(self, before: PartitionRecord, after: PartitionRecord) -> None:
        self._leader = after.leader
        if after.leader != before.leader:
            if before.leader != NO_LEADER:
                text = f"node {before.leader} is no longer the leader"
                self.add(node_lane(before.leader), "note", text, is_leader=False, isr=[])
            who = "nobody" if after.leader == NO_LEADER else f"node {after.leader}"
            text = f"the controller makes {who} the leader, epoch {after.leader_epoch}"
            self.add(CONTROLLER_LANE, "elect", text)
        isr = list(after.in_sync_replicas)
        if after.in_sync_replicas != before.in_sync_replicas or after.leader != before.leader:
            text = f"in sync are now {', '.join(map(str, isr)) or 'none'}"
            if after.leader != NO_LEADER:
                self.add(node_lane(after.leader), "isr", text, isr=isr)
            else:
                self.add(CONTROLLER_LANE, "isr", text)

    # --- programs ---------------------------------------------------------------------------------

    def told(self, lane_id: str, value: str, fate: Fate, error: ErrorCode | None) -> None:
        """A producer learns what became of a record."""
        counts = self._counts.setdefault(lane_id, [0])
        if fate is Fate.TRUSTED:
            counts[0] += 1
            says = "learns that" if error is not None else "relies on it that"
            text = f"{lane_id} {says} {value} is stored"
            self.add(lane_id, "acknowledge", text, value, acknowledged=counts[0])
        else:
            why = "no answer" if error is None else error.name
            text = f"{lane_id} gives up {value}: {why}"
            self.add(lane_id, "refuse", text, value)

    # --- the end ----------------------------------------------------------------------------------

    def timeline(self, scenario: str, title: str, ledger: Ledger, counts: Counts) -> Timeline:
        """Everything."""
        copies: dict[str, list[int]] = {}
        for offset, value in enumerate(ledger.log):
            copies.setdefault(value, []).append(offset)
        records: dict[str, dict[str, Any]] = {}
        for _, value in ledger.sent:
            offsets = copies.get(value, [])
            records[value] = {
                "fate": ledger.fates.get(value, Fate.UNKNOWN).value,
                "copies": len(offsets),
                "results": (ledger.results or []).count(value),
            }
            if offsets:
                records[value]["offset"] = offsets[0]
        order = {"producer": 0, "controller": 1, "broker": 2, "consumer": 3, "database": 4}
        lanes = sorted(self.lanes.values(), key=lambda lane: order[lane.kind])
        return Timeline("simulation", scenario, title, lanes, self.events, records, counts)
