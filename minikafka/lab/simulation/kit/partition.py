"""Real partitions that report what they do to `Truth`.

`ObservedPartition` is the brokers' own `Partition`; what it adds happens beside. Each replica has a
list of its batches, so that most checks need not read its log.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import takewhile
from typing import Any

from minikafka.broker.replicas.partition import Partition, PartitionHost
from minikafka.broker.replicas.topic_state import TopicState
from minikafka.lab.simulation.kit.invariants import InvariantViolated
from minikafka.lab.simulation.kit.truth import Entry, Place, Truth
from minikafka.metadata.records import PartitionRecord
from minikafka.protocol.records import decode_records, iter_batches
from minikafka.replication import FollowerEffect, LeaderEffect
from minikafka.storage.log import Log


def batches_of(content: Any) -> list[Entry]:
    """The batches in some bytes; the value of the first record stands for all."""
    entries: list[Entry] = []
    for position, header in iter_batches(content):
        values = [record.value for record in decode_records(content, position, check_crc=True)]
        value = (values[0] or b"").decode(errors="replace") if values else "(lost)"
        entries.append(
            Entry(header.base_offset, header.last_offset, header.partition_leader_epoch, value)
        )
    return entries


class Replicas:
    """What every replica holds, or held when its process ended.

    Attributes:
        decoded: the batches in bytes that some replica holds.

    Args:
        note: writes to the trace.
        is_synced: replicas sync what they count (flush.messages=1).
        place_of: where a partition is; None if it is not observed.
        truth_class: what checks and keeps what is seen.
    """

    def __init__(
        self,
        note: Callable[..., None],
        *,
        is_synced: bool = False,
        place_of: Callable[[PartitionRecord], Place | None] | None = None,
        truth_class: type[Truth] = Truth,
    ) -> None:
        self.truth = truth_class(self.entries_of, note, is_synced=is_synced, place_of=place_of)
        self.decoded: dict[bytes, list[Entry]] = {}
        self._entries: dict[tuple[int, Hashable], list[Entry]] = {}
        self._lost_power: set[tuple[int, Hashable]] = set()

    def entries_of(self, node_id: int, place: Place) -> list[Entry]:
        """The batches of a replica, also of one whose node is down."""
        return self._entries.get((node_id, place), [])

    def opened(self, node_id: int, place: Place, entries: list[Entry]) -> None:
        """A new process has opened a replica's log."""
        before = self._entries.get((node_id, place))
        self._entries[node_id, place] = entries
        if (node_id, place) in self._lost_power:
            self._lost_power.discard((node_id, place))
        elif before is not None and before != entries:
            raise InvariantViolated(
                "a killed process loses nothing",
                f"node {node_id} had {len(before)} batches and has {len(entries)}",
            )

    def removed(self, node_id: int, place: Place) -> None:
        self._entries.pop((node_id, place), None)

    def lost_disk(self, node_id: int) -> None:
        """A node that is down gets an empty disk."""
        for place in [place for one, place in self._entries if one == node_id]:
            del self._entries[node_id, place]
        self.truth.lost_disk(node_id)

    def lost_power(self, node_id: int) -> None:
        self._lost_power |= {one for one in self._entries if one[0] == node_id}
        self.truth.lost_power(node_id)


class ObservedPartition(Partition):
    """A partition that reports to `Truth`.

    Attributes:
        entries: the batches in its log.
    """

    __slots__ = ("_boot", "_cut_count", "_decoded", "_led_epoch", "_place", "_truth", "entries")

    def __init__(
        self,
        replicas: Replicas,
        place: Place,
        boot: int,
        host: PartitionHost,
        topic: TopicState,
        index: int,
        log: Log,
    ) -> None:
        super().__init__(host, topic, index, log)
        self._truth = replicas.truth
        self._place = place
        self._boot = boot
        self._led_epoch = -1
        self._cut_count = log.cut_count
        self._decoded = replicas.decoded
        self.entries: list[Entry] = []
        self.entries += self._entries_from(log.log_start_offset)
        replicas.opened(host.node_id, place, self.entries)

    def _entries_from(self, offset: int) -> list[Entry]:
        log = self.log
        if offset >= log.log_end_offset:
            return []
        entries: list[Entry] = []
        while offset < log.log_end_offset:
            read = log.read(offset, size_bytes_max=1 << 20, upper_bound_offset=log.log_end_offset)
            if read.records is None:
                break
            content = bytes(read.records.read())
            known = self._decoded.get(content)  # replicas hold the same bytes
            if known is None:
                known = self._decoded[content] = batches_of(content)
            entries += known
            offset = read.next_offset
        return entries

    def _look(self) -> None:
        """Compare the list with the log: its end was truncated, or batches were appended."""
        entries, log = self.entries, self.log
        if log.cut_count != self._cut_count:
            self._cut_count = log.cut_count
            found = self._entries_from(log.log_start_offset)
            pairs = zip(entries, found, strict=False)
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            new = found[same:]
            del entries[same:]
            self._truth.truncated(self._host.node_id, self._place, log.log_end_offset)
        else:
            start = entries[-1].last_offset + 1 if entries else log.log_start_offset
            new = self._entries_from(start)
        if new:
            before = entries[-1].epoch if entries else -1
            entries += new
            self._truth.written(self._host.node_id, self._place, new, before)

    # --- what leaders do ----------------------------------------------------------------------

    def _appended(self) -> None:
        self._look()
        super()._appended()

    def _carry_out_leader(self, effects: list[LeaderEffect]) -> None:
        leader = self.leader
        if leader is not None and leader.leader_epoch != self._led_epoch:
            self._led_epoch = leader.leader_epoch
            self._look()
            self._truth.led(
                self._host.node_id, self._boot, self._place, leader.leader_epoch, self.entries
            )
        super()._carry_out_leader(effects)

    def advance_high_watermark(self, offset: int) -> None:
        self._truth.committed(
            self._host.node_id, self._place, self.leader_epoch, offset, self.entries
        )
        super().advance_high_watermark(offset)

    # --- what followers do --------------------------------------------------------------------

    def carry_out(self, effects: Iterable[FollowerEffect], now_ms: int) -> None:
        for effect in effects:
            super().carry_out((effect,), now_ms)
            self._look()

    def _follow_high_watermark(self, offset: int) -> None:
        super()._follow_high_watermark(offset)
        self._truth.shown(self._host.node_id, self._place, self.log.high_watermark, self.entries)
