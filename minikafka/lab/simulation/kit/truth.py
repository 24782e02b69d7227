"""What has to hold at every moment of a simulated cluster, by name.

- *single leader per epoch*: one node, in one life, leads a leader epoch.
- *log matching*: batches of one epoch at one offset are the same everywhere, and so is the epoch of
  what precedes them.
- *known epochs*: a leader can say where every epoch ended that a follower asks about. (No CRC
  covers the epoch of a batch, so a wrong bit makes one that there never was.)
- *election safety*: a leader has everything that was ever committed.
- *committed everywhere in sync*: when a leader commits, every member of the ISR has it.
- *caught up in sync*: a replica that joins the ISR has everything that was committed.
- *committed for good*: what a replica shows below its high watermark is what was committed there.
- *monotonic high watermark*: of a leader, within its epoch.
- *acknowledged is committed*: acks=all is answered for committed records only.
- *no read above the high watermark*: whatever is read was committed, there and then.
- *acknowledged is kept*: in the end all records that were acknowledged with acks=all are there.
- *a killed process loses nothing*: only a power failure takes records from a disk.
- *synced is kept*: with flush.messages=1 not even a power failure takes committed ones.
- *idempotence*: no producer's record is there twice, and they are in the order of sending.
- *liveness*: when all is well again, all replicas are equal and in sync, all requests answered.

Committed records may be lost only when the disks of all that had them in sync have lost power: the
*survivors* are the replicas that are known to have everything. When the last one is lost, the next
leader's log is what is left, and counts as the truth from then on (`forgiven`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, NamedTuple

from minikafka.lab.simulation.kit.invariants import InvariantViolated
from minikafka.metadata.image import MetadataImage
from minikafka.metadata.records import NO_LEADER, BrokerRecord, MetadataRecord, PartitionRecord


class Entry(NamedTuple):
    """A batch in a log: offsets, the leader epoch it was written in, and what a client wrote."""

    base_offset: int
    last_offset: int
    epoch: int
    value: str


class Decided(NamedTuple):
    """One entry of the metadata log; `is_proposal`: a leader asked for it (AlterPartition)."""

    records: tuple[MetadataRecord, ...]
    is_proposal: bool


Place = int | tuple[bytes, int]
"""A partition: its number, or where there are several topics, the topic's id and the number."""

EntriesOf = Callable[[int, Any], list[Entry]]
"""(node id, place) -> what is in that replica's log."""

_base_offset_of = attrgetter("base_offset")
_last_offset_of = attrgetter("last_offset")
_number_of = attrgetter("partition")


class PartitionTruth:
    """What is known of one partition.

    Attributes:
        committed: All records that were ever below a leader's high watermark.
        acknowledged: Base offset and value of those that were acknowledged with acks=all.
        survivors: Replicas that are known to have everything committed on their disks.
        forgiven: How often records were lost that might be.
        lost: These records. A replica that does not know the next leader yet may still show them.
    """

    def __init__(self) -> None:
        self.committed: list[Entry] = []
        self.acknowledged: list[tuple[int, str]] = []
        self.survivors: set[int] = set()
        self.forgiven = 0
        self.lost: set[Entry] = set()
        self.leaders: dict[int, tuple[int, int]] = {}
        self.high_watermarks: dict[int, int] = {}
        self.written: dict[tuple[int, int], tuple[Entry, int]] = {}
        self.image = PartitionRecord(b"", 0, (), (), NO_LEADER, -1, -1)

    @property
    def end_offset(self) -> int:
        return self.committed[-1].last_offset + 1 if self.committed else 0


class Truth:
    """Everything that was ever seen, crashes notwithstanding.

    Attributes:
        may_reuse_ids: the coordinator of transactions may have lost its state, and then gives the
            same producer ids and epochs again: a batch may be taken for another one.
    """

    def __init__(
        self,
        entries_of: EntriesOf,
        note: Callable[..., None],
        *,
        is_synced: bool,
        place_of: Callable[[PartitionRecord], Place | None] | None = None,
    ) -> None:
        self.is_synced = is_synced
        self._place_of = place_of or _number_of
        self._entries_of = entries_of
        self._note = note
        self.image = MetadataImage()
        self.decided: list[Decided] = []
        self.may_reuse_ids = False
        self._packed: list[Decided] = []
        self.partitions: dict[Any, PartitionTruth] = {}
        # Nodes that lost power, and the incarnation that has to register before they count again.
        self._unsure: dict[int, bytes | None] = {}

    # --- the metadata log ------------------------------------------------------------------------

    def pack(self, decided: Decided) -> bytes:
        """Give a payload for the metadata log that stands for a decision."""
        self._packed.append(decided)
        return b"%d" % (len(self._packed) - 1)

    def unpack(self, payload: bytes) -> Decided:
        """Find what a payload stands for."""
        return self._packed[int(payload)]

    def decided_at(self, index: int, decided: Decided) -> None:
        """A node applies an entry of the metadata log."""
        if index < len(self.decided):
            if self.decided[index] != decided:
                raise InvariantViolated(
                    "one metadata log",
                    f"index {index} is {decided} here and {self.decided[index]} elsewhere",
                )
            return
        self.decided.append(decided)
        self.replay(decided)

    def replay(self, decided: Decided) -> None:
        """The next entry of the metadata log is committed."""
        for record in decided.records:
            self.image.replay(record)
        registered: set[int] = set()
        for record in decided.records:
            if isinstance(record, BrokerRecord):
                registered.add(record.broker_id)
                if self._unsure.get(record.broker_id) == record.incarnation_id:
                    del self._unsure[record.broker_id]
            elif isinstance(record, PartitionRecord):
                after = record
                self._changed(after, registered, is_proposal=decided.is_proposal)

    def _changed(self, after: PartitionRecord, registered: set[int], *, is_proposal: bool) -> None:
        place = self._place_of(after)
        if place is None:
            return
        one = self.partitions.setdefault(place, PartitionTruth())
        before, one.image = one.image, after
        self._note("decided: {}", after)
        trusted = {*after.in_sync_replicas, *after.eligible_leader_replicas}
        was_trusted = {*before.in_sync_replicas, *before.eligible_leader_replicas}
        dropped = was_trusted - trusted
        if one.survivors and trusted.isdisjoint(was_trusted) and not dropped <= registered:
            raise InvariantViolated(
                "election safety",
                f"{sorted(trusted)} are trusted with partition {after.partition} instead of "
                f"{sorted(dropped)}, of which {sorted(one.survivors)} have everything",
            )
        joined = set(after.in_sync_replicas) - set(before.in_sync_replicas) - set(self._unsure)
        if before.leader_epoch < 0 or (is_proposal and after.leader_epoch == before.leader_epoch):
            one.survivors |= joined
        if is_proposal:
            for node_id in sorted(joined):
                self._require_complete(one, node_id, "caught up in sync", "joins the ISR")
        one.survivors &= trusted

    def _require_complete(self, one: PartitionTruth, node_id: int, name: str, does: str) -> None:
        entries = self._entries_of(node_id, self._place_of(one.image))
        count = len(one.committed)
        if entries[:count] != one.committed:
            raise InvariantViolated(
                name, f"node {node_id} {does} without {first_difference(one.committed, entries)}"
            )

    # --- disks -----------------------------------------------------------------------------------

    def lost_power(self, node_id: int) -> None:
        if not self.is_synced:
            self.lost_disk(node_id)

    def lost_disk(self, node_id: int) -> None:
        """What a node had is gone, or may be."""
        self._unsure[node_id] = None
        for one in self.partitions.values():
            one.survivors.discard(node_id)

    def started(self, node_id: int, incarnation_id: bytes) -> None:
        """A node lives again; its logs are open."""
        for one in self.partitions.values():
            if node_id in one.survivors:
                self._require_complete(one, node_id, "synced is kept", "starts")
        if node_id in self._unsure:
            self._unsure[node_id] = incarnation_id

    # --- logs ------------------------------------------------------------------------------------

    def written(self, node_id: int, number: Place, entries: Iterable[Entry], before: int) -> None:
        """A replica appended batches, behind one of the epoch `before`."""
        seen = self.partitions[number].written
        for entry in entries:
            known = seen.setdefault((entry.epoch, entry.base_offset), (entry, before))
            if known != (entry, before):
                raise InvariantViolated(
                    "log matching",
                    f"node {node_id} appends {entry} behind epoch {before}; elsewhere it is "
                    f"{known[0]} behind epoch {known[1]}",
                )
            before = entry.epoch

    def truncated(self, node_id: int, number: Place, end_offset: int) -> None:
        """A replica has cut its log; nothing is wrong with that."""

    def led(self, node_id: int, boot: int, number: Place, epoch: int, entries: list[Entry]) -> None:
        """A node begins to lead, in one of its lives."""
        one = self.partitions[number]
        leader = one.leaders.setdefault(epoch, (node_id, boot))
        if leader != (node_id, boot):
            raise InvariantViolated(
                "single leader per epoch",
                f"epoch {epoch} is led by node {node_id} in life {boot}, and was by {leader}",
            )
        if epoch < max(one.leaders):
            return  # it is late: another replica leads by now
        count = len(one.committed)
        if entries[:count] == one.committed:
            return
        missing = first_difference(one.committed, entries)
        if one.survivors:
            raise InvariantViolated(
                "election safety",
                f"node {node_id} leads epoch {epoch} without {missing}; "
                f"{sorted(one.survivors)} have everything that was committed",
            )
        self._note("forgiven: node {} leads without {}", node_id, missing)
        self._forgive(one, node_id, entries)

    def was_led(self, number: Place, epoch: int) -> bool:
        """Whether somebody has led in this epoch, or a later one."""
        return any(led >= epoch for led in self.partitions[number].leaders)

    def _forgive(self, one: PartitionTruth, node_id: int, entries: list[Entry]) -> None:
        """No replica has everything any longer: the leader's log is what is left."""
        one.forgiven += 1
        kept = 0
        for mine, other in zip(one.committed, entries, strict=False):
            if mine != other:
                break
            kept += 1
        one.lost.update(one.committed[kept:])
        del one.committed[kept:]
        there = {(entry.base_offset, entry.value) for entry in one.committed}
        one.acknowledged = [pair for pair in one.acknowledged if pair in there]
        one.survivors = {node_id}
        one.high_watermarks.clear()

    def committed(
        self, node_id: int, number: Place, epoch: int, offset: int, entries: list[Entry]
    ) -> None:
        one = self.partitions[number]
        before = one.high_watermarks.get(epoch, 0)
        if offset < before:
            raise InvariantViolated(
                "monotonic high watermark",
                f"leader {node_id} of epoch {epoch} goes back from {before} to {offset}",
            )
        one.high_watermarks[epoch] = offset
        self.shown(node_id, number, min(offset, one.end_offset), entries)
        new = [entry for entry in entries[len(one.committed) :] if entry.last_offset < offset]
        if not new:
            return
        one.committed += new
        end = len(one.committed)
        for member in one.image.in_sync_replicas:
            if member not in one.survivors:
                continue
            if self._entries_of(member, number)[end - len(new) : end] != new:
                raise InvariantViolated(
                    "committed everywhere in sync",
                    f"leader {node_id} of epoch {epoch} commits {new[-1]}, and node {member} of "
                    f"the ISR {one.image.in_sync_replicas} does not have it",
                )

    def shown(self, node_id: int, number: Place, offset: int, entries: list[Entry]) -> None:
        """A replica lets consumers see everything below an offset."""
        one = self.partitions[number]
        count = bisect_left(entries, offset, key=_last_offset_of)
        if entries[:count] != one.committed[:count] and not one.lost.issuperset(
            set(entries[:count]) - set(one.committed)
        ):
            missing = first_difference(entries[:count], one.committed)
            raise InvariantViolated(
                "committed for good", f"node {node_id} shows {missing}, which is not committed"
            )

    # --- clients ---------------------------------------------------------------------------------

    def acknowledged(self, number: Place, base_offset: int, value: str) -> None:
        one = self.partitions[number]
        if self.may_reuse_ids:
            return
        if any(entry.base_offset == base_offset and entry.value == value for entry in one.lost):
            return  # by a leader that has not heard of its successor, which has less
        if not any(
            entry.base_offset == base_offset and entry.value == value
            for entry in reversed(one.committed)
        ):
            raise InvariantViolated(
                "acknowledged is committed",
                f"{value} at {base_offset} is acknowledged; committed is {one.committed[-3:]}",
            )
        one.acknowledged.append((base_offset, value))

    def read(self, number: Place, entries: Iterable[Entry]) -> None:
        """A consumer is about to get records."""
        one = self.partitions[number]
        committed = one.committed
        for entry in entries:
            index = bisect_left(committed, entry.base_offset, key=_base_offset_of)
            there = committed[index] if index < len(committed) else None
            if not (there == entry or entry in one.lost):
                raise InvariantViolated(
                    "no read above the high watermark",
                    f"{entry} is read; committed there is {there}",
                )

    # --- in the end ------------------------------------------------------------------------------

    def require_all_kept(self) -> None:
        """Look through the committed records."""
        for number, one in self.partitions.items():
            there = {(entry.base_offset, entry.value) for entry in one.committed}
            for pair in one.acknowledged:
                if pair not in there:
                    raise InvariantViolated(
                        "acknowledged is kept",
                        f"{pair[1]} was acknowledged at {pair[0]} of partition {number}, "
                        "and is lost",
                    )
            self._require_idempotence(number, one.committed)

    def _require_idempotence(self, number: Place, committed: list[Entry]) -> None:
        """Values of idempotent producers are ``i<producer>:<sequence>``."""
        last: dict[str, int] = {}
        for entry in committed:
            producer, colon, sequence = entry.value.partition(":")
            if colon and producer.startswith("i"):
                if int(sequence) <= last.get(producer, -1):
                    raise InvariantViolated(
                        "idempotence",
                        f"partition {number}: {entry.value} comes after {last.get(producer)}",
                    )
                last[producer] = int(sequence)


def first_difference(wanted: list[Entry], found: list[Entry]) -> str:
    """Describe where `found` ceases to contain `wanted`."""
    for index, entry in enumerate(wanted):
        if index >= len(found):
            return f"{entry} (and {len(wanted) - index - 1} more; it has {len(found)} batches)"
        if found[index] != entry:
            return f"{entry} (it has {found[index]} instead)"
    return "nothing"
