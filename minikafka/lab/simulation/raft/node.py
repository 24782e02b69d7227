"""One simulated node: a real machine and real files on a disk in memory, driven by hand."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import cast

from minikafka.consensus import (
    Accepted,
    Committed,
    DurableLog,
    Effect,
    Entry,
    Event,
    Message,
    PeerLost,
    Persist,
    PersistEntries,
    PersistSnapshot,
    PersistState,
    QuorumConfig,
    RaftNode,
    Received,
    Refused,
    Role,
    RoleChanged,
    Send,
    SnapshotInstalled,
    SupersededLog,
)
from minikafka.consensus.messages import AppendResponse, VoteRequest, VoteResponse
from minikafka.consensus.snapshot import decode_snapshot
from minikafka.consensus.voters import voters_in
from minikafka.lab.simulation.kit.invariants import InvariantViolated, require
from minikafka.lab.simulation.kit.world import World
from minikafka.lab.simulation.raft.invariants import Observations, recorded_voters
from minikafka.storage.errors import StorageError
from minikafka.storage.memory_disk import MemoryDisk

DIRECTORY = "quorum"
INBOX_MAX = 200


class SimulatedNode:
    """See the module's text.

    Attributes:
        raft: The machine, None while the process is dead or its disk fails.
        stored_epochs: What is on the disk, epoch by index, the base included.
        stored_voters: The voter sets on the disk, by index.
        lost_epochs: The same of a directory that was lost, until the new one is admitted: what it
            has acknowledged may still be on its way.
        applied_index: What its state machine has taken.
        state: What that has become.
        is_paused: It was stopped (SIGSTOP); the clock goes on.
        compacts_after: A snapshot is taken after so many entries.
    """

    def __init__(
        self,
        world: World,
        config: QuorumConfig,
        seen: Observations,
        peers: Callable[[], Sequence[SimulatedNode]],
        on_elected: Callable[[SimulatedNode], None],
    ) -> None:
        self.world = world
        self.config = config
        self.node_id = config.node_id
        self.seen = seen
        self._peers = peers
        self._on_elected = on_elected
        self.disk = self._new_disk()
        self.raft: RaftNode | None = None
        self.durable: DurableLog
        self.stored_epochs: dict[int, int] = {0: 0}
        self.stored_voters: dict[int, frozenset[int]] = {}
        self.lost_epochs: dict[int, int] | None = None
        self.applied_index = 0
        self.state = 0
        self.is_paused = False
        self.compacts_after = 10**9
        self.boot = 0
        self._is_busy = False
        self._unwritten: list[Persist] = []
        self._inbox: deque[Event] = deque()
        self._timer_at: float | None = None

    def __format__(self, _: str) -> str:
        return f"node {self.node_id}"

    def _new_disk(self) -> MemoryDisk:
        disk = MemoryDisk(Random(self.world.dice.getrandbits(32)))
        disk.make_directory(DIRECTORY)
        disk.sync_directory(DIRECTORY)
        return disk

    # --- life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin, or come back after a crash."""
        self.boot += 1
        self._is_busy = self.is_paused = False
        self._unwritten = []
        self._inbox.clear()
        self._timer_at = None
        try:
            durable = self.durable = DurableLog.open(
                self.disk,
                DIRECTORY,
                self.config,
                new_directory_id=partial(self.world.dice.randbytes, 16),
            )
            self._look_at_disk()
            if self.applied_index < durable.log.base_index:
                self._load()
        except OSError:  # the disk still fails
            self.world.after(0.5, self._start_again, self.boot)
            return
        except StorageError as error:
            raise InvariantViolated("what was synced is there", str(error)) from error
        self.raft = RaftNode(
            self.config,
            durable.log,
            epoch=durable.epoch,
            vote=durable.vote,
            directory_id=durable.directory_id,
            is_admitted=durable.is_admitted,
            commit_index=max(durable.commit_index, self.applied_index),
            read_snapshot=durable.read_snapshot,
            dice=self.world.dice.uniform,
        )
        self.world.note("{} starts at {}", self, durable.log.last_index)
        self._carry_out([Committed(self.raft.commit_index), *self.raft.start(self.world.now)])
        self._set_timer()

    def _start_again(self, boot: int) -> None:
        if boot == self.boot and self.raft is None:
            self.start()

    def crash(self, *, power_loss: bool) -> None:
        """Kill the process; what it was writing may be there, or a part of it."""
        self.world.note("{} {}", self, "loses power" if power_loss else "is killed")
        if self._is_busy and self._unwritten and self.raft is not None:
            self._check_writes(self._unwritten)
            steps = self.world.dice.randrange(8)

            def fail_later(operation: str, path: str) -> int | None:
                nonlocal steps
                steps -= operation != "open"
                return errno.EIO if steps < 0 else None

            self.disk.fault = fail_later
            with suppress(OSError):
                self.durable.write(self._unwritten, self.raft.commit_index)
        self.disk.crash(power_loss=power_loss)
        self.raft = None
        self.boot += 1
        self.applied_index = self.state = 0
        for peer in self._peers():
            if peer is not self and self.world.dice.random() < 0.8:
                self.world.after(0.001, peer.deliver, PeerLost(self.node_id))

    def lose_directory(self) -> None:
        """Somebody puts an empty disk into a machine that is off."""
        self.world.note("{} loses its directory", self)
        self.disk = self._new_disk()
        self.boot += 1  # a process that waited for its disk has ended, too
        self.applied_index = self.state = 0
        if self.lost_epochs is None:
            self.lost_epochs = self.stored_epochs
        self.stored_epochs = {0: 0}
        self.stored_voters = {}

    @property
    def is_admitted(self) -> bool:
        return self.raft is not None and self.raft.is_admitted

    @property
    def voters(self) -> frozenset[int]:
        """Who votes, according to its disk."""
        return next(reversed(self.stored_voters.values()), self.config.voters)

    @property
    def is_empty(self) -> bool:
        return self._last_stored == 0

    @property
    def copies(self) -> list[dict[int, int]]:
        """What it has stored, and had stored."""
        return [self.stored_epochs, *([] if self.lost_epochs is None else [self.lost_epochs])]

    def pause(self) -> None:
        self.world.note("{} is paused", self)
        self.is_paused = True

    def resume(self) -> None:
        if self.is_paused:
            self.world.note("{} goes on", self)
            self.is_paused = False
            self._work()

    def _disk_failed(self) -> None:
        """As the driver does it: resign, be silent, open the files again if that is allowed."""
        self.world.note("the disk of {} fails", self)
        raft, self.raft = self.raft, None
        self.boot += 1
        if raft is not None:
            for effect in raft.resign(self.world.now):
                self._send(cast("Send", effect))
        if not self.durable.is_usable:
            self.disk.crash()
            self.applied_index = self.state = 0
        self.world.after(0.5, self._start_again, self.boot)

    @property
    def _last_stored(self) -> int:
        return next(reversed(self.stored_epochs))  # they are in order

    def _look_at_disk(self) -> None:
        log = self.durable.log
        self.stored_epochs = {
            index: log.epoch_at(index) for index in range(log.base_index, log.last_index + 1)
        }
        voters = log.voters_at(log.base_index)
        self.stored_voters = {} if voters is None else {log.base_index: voters.ids}
        first = log.base_index + 1
        while first <= log.last_index:
            for entry in log.entries(first, 1000):
                self._note_voters(first, entry.payload)
                first += 1
        if self.durable.is_admitted:
            self.lost_epochs = None

    def _note_voters(self, index: int, payload: bytes) -> None:
        voters = recorded_voters(payload)
        if voters is not None:
            self.stored_voters[index] = voters

    # --- events ------------------------------------------------------------------------------

    def take_message(self, sender: int, message: object) -> None:
        self.deliver(Received(sender, cast("Message", message)))

    def deliver(self, event: Event) -> None:
        """Something happens to it, unless it is dead."""
        if self.raft is not None and len(self._inbox) < INBOX_MAX:
            self._inbox.append(event)
            self._work()

    def _work(self) -> None:
        """Handle what has come, all in one batch."""
        while self.raft is not None and not self._is_busy and not self.is_paused:
            raft, now = self.raft, self.world.now
            effects: list[Effect] = []
            commit_index = raft.commit_index
            try:
                while self._inbox:
                    effects += raft.handle(self._inbox.popleft(), now)
                deadline = raft.deadline()
                if deadline is not None and deadline <= now:
                    effects += raft.expire(now)
            except SupersededLog as error:
                raise InvariantViolated("committed never lost", str(error)) from error
            except (OSError, StorageError):
                self._disk_failed()
                return
            require(
                raft.commit_index >= commit_index,
                "monotonic commit index",
                f"node {self.node_id} goes back from {commit_index} to {raft.commit_index}",
            )
            if effects:
                self._carry_out(effects)
            if not self._inbox:
                break
        self._set_timer()

    def _set_timer(self) -> None:
        if self._is_busy or self.is_paused:
            return  # the end of that sets the timer
        deadline = self.raft.deadline() if self.raft is not None else None
        if deadline is not None and (self._timer_at is None or deadline < self._timer_at):
            self._timer_at = deadline
            self.world.at(deadline, self._on_timer, self.boot, deadline)

    def _on_timer(self, boot: int, time: float) -> None:
        if boot == self.boot and time == self._timer_at:
            self._timer_at = None
            self._work()

    # --- effects -----------------------------------------------------------------------------

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        """In order; the first write takes the later ones with it, and takes its time."""
        for number, effect in enumerate(effects):
            if isinstance(effect, Persist):
                writes = [one for one in effects if isinstance(one, Persist)]
                rest = [one for one in effects[number:] if not isinstance(one, Persist)]
                self._begin_write(writes, rest)
                return
            try:
                self._carry_out_one(effect)
            except OSError:  # what is to be applied could not be read
                self._disk_failed()
            if self.raft is None:
                return
        self._compact()
        if self.raft is not None:
            self.raft.log.forget_old()

    def _begin_write(self, writes: list[Persist], rest: Sequence[Effect]) -> None:
        weather, roll = self.world.weather, self.world.dice.random
        self._is_busy = True
        self._unwritten = writes
        if roll() < 0.3:  # it is on the disk before the process knows
            self._write()
        delay_s = roll() * weather.fsync_s
        if roll() < weather.slow_fsync:
            delay_s += roll() * weather.slow_fsync_s
        if self.raft is not None:
            self.world.after(delay_s, self._finish_write, self.boot, rest)

    def _write(self) -> None:
        raft = self.raft
        assert raft is not None
        writes, self._unwritten = self._unwritten, []
        self._check_writes(writes)
        try:
            self.durable.write(writes, raft.commit_index)
        except OSError:
            self._disk_failed()
            return
        self._note_writes(writes)

    def _check_writes(self, writes: list[Persist]) -> None:
        epochs = self.stored_epochs
        voters = dict(self.stored_voters)
        for write in writes:
            if isinstance(write, PersistEntries):
                previous = write.first_index - 1
                previous_epoch = epochs.get(previous)
                for index, entry in enumerate(write.entries, write.first_index):
                    if previous_epoch is not None:
                        self.seen.stored(self.node_id, index, previous_epoch, entry)
                    previous_epoch = entry.epoch
                voters = {one: ids for one, ids in voters.items() if one <= previous}
                for index, entry in enumerate(write.entries, write.first_index):
                    recorded = recorded_voters(entry.payload)
                    if recorded is not None:
                        self._check_change(index, entry, voters, recorded)
                        voters[index] = recorded
                epochs = {one: epoch for one, epoch in epochs.items() if one <= previous}
                epochs |= {
                    index: entry.epoch
                    for index, entry in enumerate(write.entries, write.first_index)
                }
            elif isinstance(write, PersistSnapshot):
                epochs = {write.index: write.epoch}
                own = voters_in(decode_snapshot(write.snapshot))
                voters = {} if own is None else {write.index: own.ids}

    def _check_change(
        self, index: int, entry: Entry, voters: dict[int, frozenset[int]], to: frozenset[int]
    ) -> None:
        """The voters change at an index; `voters` are the sets before it."""
        raft = self.raft
        assert raft is not None
        if raft.role is not Role.LEADER or entry.epoch != raft.epoch:
            return  # a leader had appended it, which was checked
        before = next(reversed(voters), 0)
        require(
            raft.first_index_of_epoch <= raft.commit_index >= before,
            "one change at a time",
            f"node {self.node_id} changes the voters at {index}; the change before is at {before}, "
            f"its epoch began at {raft.first_index_of_epoch}, and {raft.commit_index} is committed",
        )
        self.seen.changed(index, voters.get(before, self.config.voters), to)

    def _note_writes(self, writes: list[Persist]) -> None:
        for write in writes:
            match write:
                case PersistEntries(first_index=first, entries=entries):
                    for index in range(first, self._last_stored + 1):
                        self._note_removal(index)
                    for index, entry in enumerate(entries, first):
                        self.stored_epochs[index] = entry.epoch
                        self._note_voters(index, entry.payload)
                    self.world.note("{} stored {} to {}", self, first, first + len(entries) - 1)
                case PersistSnapshot(index=index, epoch=epoch, snapshot=snapshot):
                    self.stored_epochs = {index: epoch}
                    own = voters_in(decode_snapshot(snapshot))
                    self.stored_voters = {} if own is None else {index: own.ids}
                    self.world.note("{} stored the snapshot up to {}", self, index)
                case PersistState(epoch=epoch, vote=vote, is_admitted=is_admitted):
                    self.world.note("{} stored epoch {} and its vote for {}", self, epoch, vote)
                    if is_admitted:
                        self.lost_epochs = None
        raft = self.raft
        assert raft is not None
        if raft.is_admitted:  # perhaps because the directory is named in a record
            self.lost_epochs = None
        recorded = raft.log.voters
        require(
            (self.config.voters if recorded is None else recorded.ids) == self.voters,
            "voters of the log",
            f"node {self.node_id} goes by {recorded}; on its disk are {self.stored_voters}",
        )

    def _note_removal(self, index: int) -> None:
        epoch = self.stored_epochs.pop(index)
        self.stored_voters.pop(index, None)
        seen = self.seen
        require(
            index > seen.commit_index or seen.committed[index].epoch != epoch,
            "committed never lost",
            f"node {self.node_id} removes the committed entry {index} of epoch {epoch}",
        )

    def _finish_write(self, boot: int, rest: Sequence[Effect]) -> None:
        if boot != self.boot:
            return
        if self.is_paused:
            self.world.after(0.05, self._finish_write, boot, rest)
            return
        if self._unwritten:
            self._write()
        if self.raft is not None:
            self._is_busy = False
            self._carry_out(rest)
            self._work()  # sets the timer, too

    def _carry_out_one(self, effect: Effect) -> None:
        match effect:
            case Send():
                self._send(effect)
            case Committed(index=index):
                self._apply(index)
            case SnapshotInstalled(index=index):
                if index > self.applied_index:
                    self._load()
            case RoleChanged(role=role, epoch=epoch, leader_id=leader_id):
                self.world.note("{} is {} in epoch {}, leader {}", self, role, epoch, leader_id)
                if role is Role.LEADER:
                    raft = self.raft
                    assert raft is not None
                    log = raft.log
                    span = range(log.base_index, log.last_index + 1)
                    epochs = {index: log.epoch_at(index) for index in span}
                    self.seen.led(self.node_id, epoch, epochs)
                    self._on_elected(self)
            case Accepted() | Refused():
                self.world.note("{}: {}", self, effect)
            case PersistState() | PersistEntries() | PersistSnapshot():
                raise AssertionError("writes are carried out together")

    def _send(self, effect: Send) -> None:
        match effect.message:
            case VoteRequest(is_pre_vote=False, epoch=epoch):
                self.seen.voted(self.durable.directory_id, epoch, self.node_id)
                self._require_vote_on_disk(epoch, self.node_id)
            case VoteResponse(is_pre_vote=False, is_granted=True, asked_epoch=epoch):
                self.seen.voted(self.durable.directory_id, epoch, effect.node_id)
                self._require_vote_on_disk(epoch, effect.node_id)
            case AppendResponse(is_accepted=True, last_index=index):
                require(
                    self._last_stored >= index,
                    "promises are on disk",
                    f"node {self.node_id} acknowledges {index} and has {self._last_stored}",
                )
            case _:
                pass
        receiver = self._peers()[effect.node_id - 1]
        self.world.deliver(self.node_id, effect.node_id, effect.message, receiver.take_message)

    def _require_vote_on_disk(self, epoch: int, candidate: int) -> None:
        stored = (self.durable.epoch, self.durable.vote)
        require(
            stored[0] > epoch or stored == (epoch, candidate),
            "promises are on disk",
            f"node {self.node_id} votes for {candidate} in epoch {epoch}; on disk is {stored}",
        )

    # --- its state machine -------------------------------------------------------------------

    def _apply(self, commit_index: int) -> None:
        raft = self.raft
        if raft is None:
            return
        while self.applied_index < commit_index and raft.log.base_index <= self.applied_index:
            first = self.applied_index + 1
            entries = raft.log.entries(first, 1000)[: commit_index + 1 - first]
            for index, entry in enumerate(entries, first):
                self.state = self.seen.applied(
                    self.node_id, raft.epoch, index, entry, self._stored_copies
                )
                self.applied_index = index

    def _stored_copies(self) -> dict[int, list[dict[int, int]]]:
        return {peer.node_id: peer.copies for peer in self._peers()}

    def _load(self) -> None:
        index, payloads = self.durable.stored_snapshot()  # it may be a later one
        self.applied_index = index
        self.state = int(payloads[0]) if payloads else 0
        require(
            index <= self.seen.commit_index and self.state == self.seen.states[index],
            "state machine safety",
            f"node {self.node_id} loads a snapshot of {index} that is not what others applied",
        )

    def _compact(self) -> None:
        raft = self.raft
        if raft is None or self.applied_index - raft.log.base_index < self.compacts_after:
            return
        self.world.note("{} takes a snapshot of {}", self, self.applied_index)
        try:
            self.durable.compact(self.applied_index, [str(self.state).encode()])
        except OSError:
            self._disk_failed()
            return
        self._look_at_disk()
