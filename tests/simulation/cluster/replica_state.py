"""What a simulated replica is: a real log, a copy of what is in it, and a timer."""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import TYPE_CHECKING

from minikafka.protocol.records.batch import iter_batches
from minikafka.protocol.records.record import decode_records
from minikafka.replication import FollowerReplica, LeaderReplica
from minikafka.storage.log import Log
from tests.simulation.cluster.messages import Entry

if TYPE_CHECKING:
    from tests.simulation.cluster.node import SimulatedNode

READ_SIZE_BYTES_MAX = 600
NOW_MS = 1_700_000_000_000

_base_offset_of = attrgetter("base_offset")
_last_offset_of = attrgetter("last_offset")


class ReplicaState:
    """The state of a replica.

    Attributes:
        node: Where it is.
        number: Of the partition.
        log: The log.
        entries: What is in the log.
        leader: The machine, while it leads.
        follower: The machine, while it follows.
    """

    leader_class = LeaderReplica
    follower_class = FollowerReplica

    def __init__(self, node: SimulatedNode, number: int, log: Log) -> None:
        self.node = node
        self.number = number
        self.log = log
        self.entries = entries_on_disk(log, 0)
        self.leader: LeaderReplica | None = None
        self.follower: FollowerReplica | None = None
        self._timer_at: float | None = None

    def entries_between(self, offset: int, end_offset: int) -> list[Entry]:
        """Batches from the one that holds an offset on."""
        first = bisect_left(self.entries, offset, key=_last_offset_of)
        return self.entries[first : bisect_left(self.entries, end_offset, key=_base_offset_of)]

    def take_new_entries(self, entries: list[Entry]) -> None:
        """These were appended to the log."""
        before = self.entries[-1].epoch if self.entries else -1
        self.node.truth.written(self.node.node_id, self.number, entries, before)
        self.entries += entries

    def cut_entries(self) -> None:
        """The log was cut."""
        del self.entries[bisect_left(self.entries, self.log.log_end_offset, key=_base_offset_of) :]

    def set_timer(self) -> None:
        """Come back when a machine wants to."""
        machine = self.leader or self.follower
        deadline = machine.deadline() if machine is not None else None
        if deadline is not None and (self._timer_at is None or deadline < self._timer_at):
            self._timer_at = max(deadline, self.node.world.now)
            self.node.at(self._timer_at, self._on_timer, self._timer_at)

    def _on_timer(self, time: float) -> None:
        if time == self._timer_at:
            self._timer_at = None
            self.expire(self.node.world.now)
            self.set_timer()

    def expire(self, now: float) -> None:
        """A machine's time may have come."""
        raise NotImplementedError


def entries_on_disk(log: Log, offset: int) -> list[Entry]:
    """Read a log from an offset to its end."""
    entries: list[Entry] = []
    while offset < log.log_end_offset:
        read = log.read(offset, size_bytes_max=1 << 20, upper_bound_offset=log.log_end_offset)
        if read.records is None:
            break
        content = read.records.read()
        for position, header in iter_batches(content):
            values = [record.value for record in decode_records(content, position, check_crc=True)]
            value = values[0].decode() if values and values[0] is not None else "(lost)"
            entries.append(
                Entry(header.base_offset, header.last_offset, header.partition_leader_epoch, value)
            )
        offset = read.next_offset
    return entries
