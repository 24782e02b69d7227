"""What has to hold at every moment of a simulated quorum, by name.

- *single leader per epoch*: no two nodes ever lead in one epoch.
- *vote once per epoch*: no node ever votes for two candidates in one epoch with one data directory,
  restarts included.
- *log matching*: an entry of one epoch at one index is the same everywhere, and so is the epoch of
  the one before it.
- *leader completeness*: an elected node has everything that was committed in earlier epochs.
- *committed by a majority*: what is committed for the first time is on a majority's disks, or was
  when they acknowledged it: of the voters that the log has there, or of those of the next change.
- *one change at a time*: a leader changes the voters by one, when the change before is committed,
  and an entry of its own epoch, too.
- *voters of the log*: a node goes by the last voter set that is on its disk.
- *committed never lost*: no node removes a committed entry from its log.
- *monotonic commit index*: a running node's commit index never goes back.
- *state machine safety*: all nodes apply the same entries in the same order, snapshots included.
- *promises are on disk*: what a node says it has stored or voted for is on its disk.
- *what was synced is there*: no disk that keeps its word makes a node refuse to start.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping

from minikafka.consensus import Entry
from minikafka.consensus.voters import decode_voters, is_decision
from minikafka.lab.simulation.kit.invariants import require


def next_state(state: int, payload: bytes) -> int:
    """What the simulated state machine becomes: a number that depends on all decisions so far."""
    return zlib.crc32(payload, state) if is_decision(payload) else state


def recorded_voters(payload: bytes) -> frozenset[int] | None:
    """The voters that an entry records."""
    voters = decode_voters(payload)
    return None if voters is None else voters.ids


class Observations:
    """Everything that was ever seen, crashes notwithstanding."""

    def __init__(self, voters: frozenset[int]) -> None:
        self.voters_at = {0: voters}  # of the committed log, by the index of the record
        # (index, voters) of all that were appended, by the voters before.
        self.next_voters: dict[frozenset[int], set[tuple[int, frozenset[int]]]] = {}
        self.changes = 0
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[bytes, int], int] = {}
        self.entries: dict[tuple[int, int], tuple[bytes, int]] = {}
        self.committed: list[Entry] = [Entry(0, b"")]  # by index
        self.commit_epochs: list[int] = [0]
        self.states: list[int] = [0]

    @property
    def commit_index(self) -> int:
        return len(self.committed) - 1

    def led(self, node_id: int, epoch: int, epochs: dict[int, int]) -> None:
        """A node was elected; `epochs` are those of its log by index, from its base on."""
        leader = self.leaders.setdefault(epoch, node_id)
        require(
            leader == node_id,
            "single leader per epoch",
            f"nodes {leader} and {node_id} lead epoch {epoch}",
        )
        base = min(epochs)
        for index in range(base, self.commit_index + 1):
            require(
                self.commit_epochs[index] >= epoch
                or epochs.get(index) == self.committed[index].epoch,
                "leader completeness",
                f"node {node_id} was elected in epoch {epoch} without the committed entry {index} "
                f"of epoch {self.committed[index].epoch}",
            )

    def voted(self, directory_id: bytes, epoch: int, candidate: int) -> None:
        before = self.votes.setdefault((directory_id, epoch), candidate)
        require(
            before == candidate,
            "vote once per epoch",
            f"directory {directory_id.hex()} votes for {candidate} in epoch {epoch}, after it had "
            f"for {before}",
        )

    def stored(self, node_id: int, index: int, previous_epoch: int, entry: Entry) -> None:
        """An entry is about to be written at an index, behind one of another epoch."""
        seen = self.entries.setdefault((index, entry.epoch), (entry.payload, previous_epoch))
        require(
            seen == (entry.payload, previous_epoch),
            "log matching",
            f"node {node_id} stores another entry of epoch {entry.epoch} at {index} than was seen",
        )

    @property
    def voters(self) -> frozenset[int]:
        """Those of the last record that is committed."""
        return next(reversed(self.voters_at.values()))

    def changed(self, index: int, before: frozenset[int], to: frozenset[int]) -> None:
        """A leader appends a voter set behind the one that its log has."""
        require(
            len(before ^ to) <= 1,
            "one change at a time",
            f"the voters {sorted(before)} become {sorted(to)} at {index}",
        )
        self.changes += 1
        self.next_voters.setdefault(before, set()).add((index, to))

    def applied(
        self,
        node_id: int,
        epoch: int,
        index: int,
        entry: Entry,
        stored: Callable[[], Mapping[int, Iterable[dict[int, int]]]],
    ) -> int:
        """A node applies an entry, in an epoch; returns the state that all have after it.

        `stored` gives, for each node, the epochs that are or were on its disks, by index, in
        order.
        """
        if index <= self.commit_index:
            require(
                self.committed[index] == entry,
                "state machine safety",
                f"node {node_id} applies an entry of epoch {entry.epoch} at {index}; others one of "
                f"epoch {self.committed[index].epoch}",
            )
            return self.states[index]
        require(
            index == self.commit_index + 1,
            "state machine safety",
            f"node {node_id} applies {index}, and {self.commit_index} is the last one decided",
        )
        having = {
            one
            for one, copies in stored().items()
            if any(
                epochs.get(index, -1) == entry.epoch or next(iter(epochs)) > index
                for epochs in copies
            )
        }
        recorded = recorded_voters(entry.payload)
        if recorded is not None:
            self.voters_at[index] = recorded
        later = self.next_voters.get(self.voters, ())
        possible = [self.voters, *(voters for at, voters in later if at > index)]
        require(
            any(len(having & voters) > len(voters) // 2 for voters in possible),
            "committed by a majority",
            f"node {node_id} commits {index}, which is on {sorted(having)}; voters are "
            f"{[sorted(voters) for voters in possible]}",
        )
        self.committed.append(entry)
        self.commit_epochs.append(epoch)
        self.states.append(next_state(self.states[-1], entry.payload))
        return self.states[-1]
