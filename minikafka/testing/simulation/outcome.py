"""What is left of a run: the logs of the brokers, and the lines of its story."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ...coordinator.group.decoding import decode_entry
from ...coordinator.group.records import OffsetEntry
from ...metadata.image import MetadataImage
from ...protocol.records import (
    ControlType,
    Record,
    decode_control_type,
    decode_records,
    iter_batches,
)
from .machines import Machines, content_of
from .node import WALL_MS_FIRST
from .trace import now

_OFFSETS_TOPIC = "__consumer_offsets"


@dataclass(slots=True)
class Stored:
    """A record in the log of a partition.

    Attributes:
        offset: its place.
        key, value: of the record.
        written_ms: its timestamp.
        is_visible: consumers of committed records see it.
        is_transactional: it was written in a transaction.
    """

    offset: int
    key: bytes | None
    value: bytes | None
    written_ms: int
    is_visible: bool
    is_transactional: bool


def stored_records(machines: Machines) -> dict[tuple[str, int], list[Stored]]:
    """The records of all partitions, once all replicas are equal; topics of the brokers too."""
    found: dict[tuple[str, int], list[Stored]] = {}
    for name, logs in machines.logs():
        topic, _, number = name.rpartition("-")
        found[topic, int(number)] = _decoded(content_of(logs[0]))
    return found


def _decoded(content: bytes) -> list[Stored]:
    records: list[Stored] = []
    open_ones: dict[int, list[Stored]] = {}
    for position, header in iter_batches(content):
        batch: list[Record] = decode_records(content, position)
        if header.is_control:
            is_commit = decode_control_type(batch[0].key)[1] == ControlType.COMMIT
            for one in open_ones.pop(header.producer_id, []):
                one.is_visible = is_commit
            continue
        added = [
            Stored(
                one.offset,
                one.key,
                one.value,
                one.timestamp,
                not header.is_transactional,
                header.is_transactional,
            )
            for one in batch
        ]
        if header.is_transactional:
            open_ones.setdefault(header.producer_id, []).extend(added)
        records += added
    return records


@dataclass(frozen=True, slots=True)
class Commit:
    """An offset that a group committed."""

    at_s: float
    group: str
    place: tuple[str, int]
    offset: int


def commits_in(stored: dict[tuple[str, int], list[Stored]]) -> list[Commit]:
    """All offsets that groups committed, in the order of their times."""
    found: list[Commit] = []
    for (topic, _), records in stored.items():
        if topic != _OFFSETS_TOPIC:
            continue
        for one in records:
            entry = decode_entry(one.key or b"", one.value) if one.is_visible else None
            if isinstance(entry, OffsetEntry) and entry.committed is not None:
                at_s = (entry.committed.commit_timestamp_ms - WALL_MS_FIRST) / 1000
                place = entry.key.topic, entry.key.partition
                found.append(Commit(at_s, entry.key.group_id, place, entry.committed.offset))
    return sorted(found, key=lambda one: one.at_s)


@dataclass(frozen=True, slots=True)
class Led:
    """A change of a partition's leader; -1 is none."""

    at_s: float
    place: tuple[str, int]
    leader: int


@dataclass(slots=True)
class Story:
    """What happened, for people.

    Attributes:
        lines: time and text, in order.
        led: changes of leaders.
        begun_at_s: when the program began.
    """

    lines: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    led: list[Led] = field(default_factory=list[Led])
    begun_at_s: float = 0.0
    _leaders: dict[tuple[bytes, int], int] = field(default_factory=dict[tuple[bytes, int], int])

    def begins(self, at_s: float) -> None:
        """Count seconds from here."""
        self.begun_at_s = at_s

    def tell(self, text: str) -> None:
        """Write a line."""
        self.lines.append((now(), text))

    def leaders(self, image: MetadataImage) -> None:
        """Look who leads, as a broker knows it."""
        for name, topic in image.topics.items():
            if name.startswith("__"):
                continue
            for number, one in enumerate(topic.partitions):
                key = topic.topic_id, number
                if one.leader_epoch > self._leaders.get(key, -1):
                    self._leaders[key] = one.leader_epoch
                    self.led.append(Led(now(), (name, number), one.leader))

    def merged(self, others: Iterable[tuple[float, str]]) -> list[str]:
        """All lines and others, in the order of their times."""
        both = sorted([*self.lines, *others], key=lambda line: line[0])
        return [f"{at_s - self.begun_at_s:8.2f} s  {text}" for at_s, text in both]
