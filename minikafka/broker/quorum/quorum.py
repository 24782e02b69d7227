"""The metadata quorum on trio: a node's part in it, for the rest of the broker.

How a node uses it::

    quorum = Quorum.open(disk, directory, QuorumConfig(node_id, voters), dice=random.uniform,
                         new_directory_id=lambda: os.urandom(16))
    stored = quorum.stored()               # committed already: replay it
    quorum.restore(payload)                # only in a quorum of one, only before `run`
    await nursery.start(partial(quorum.run, send=..., on_committed=..., make_snapshot=...,
                                load_snapshot=..., on_change=...))
    index = await quorum.propose(payload)  # on the leader: committed, and applied here
    quorum.receive(node_id, message)       # from another node: `join_message` of what came
    quorum.peer_lost(node_id)
    quorum.close()                         # after `run` has ended

`quorum_loop` drives the machine, `quorum_applier` applies what was committed in a task of its own,
so that a slow `on_committed` does not silence a leader.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from ...consensus.config import QuorumConfig
from ...consensus.durable import DurableLog
from ...consensus.effects import (
    Accepted,
    ChangeVoters,
    PeerLost,
    Propose,
    Received,
    Refused,
    RoleChanged,
    TransferLeadership,
)
from ...consensus.messages import Message
from ...consensus.roles import Role
from ...consensus.voters import VoterSet, Why
from ...storage.disk import Disk
from ...storage.errors import StorageError
from ..system.workers import RunInThread, run_in_worker_thread, run_inline
from .applier import QuorumHooks
from .loop import QuorumLoop
from .reports import (
    NotControllerError,
    ProposalLostError,
    ProposalTooLargeError,
    QuorumStatistics,
    ReplicaStatistics,
    StoredEntries,
    VotersRefusedError,
    replica_statistics,
)

__all__ = [
    "NotControllerError",
    "ProposalLostError",
    "ProposalTooLargeError",
    "Quorum",
    "QuorumStatistics",
    "ReplicaStatistics",
    "StoredEntries",
    "VotersRefusedError",
]

logger = logging.getLogger(__name__)

ENTRY_SIZE_BYTES_MAX: Final = 32 * 1024 * 1024
"""The largest decision: some 400,000 partitions that change at once."""
SNAPSHOT_SIZE_BYTES_MIN: Final = 2 * 1024 * 1024
"""The log is rewritten as a snapshot when it is so long (some 20,000 records) and twice as long as
what is needed."""


def _ignore_change() -> None:
    """Without a listener."""


def _ignore_voters(voters: VoterSet) -> None:
    """Without a listener."""
    del voters


class _Proposal:
    """One that waits: in the log at `index`, of `epoch`, once that is not 0.

    `failure` is what to raise.
    """

    __slots__ = ("appended", "done", "epoch", "failure", "index")

    def __init__(self) -> None:
        self.done = trio.Event()
        self.appended = trio.Event()
        self.index = self.epoch = 0
        self.failure: Exception | None = None

    def fail(self, failure: Exception) -> None:
        self.failure = failure
        self.appended.set()
        self.done.set()


class Quorum:
    """This node's part in the metadata quorum.

    Attributes:
        leader_id: who leads, as far as this node knows; None while that is unknown.
        epoch: the highest epoch seen; it goes up with each election.
        is_leader: True while `propose` works here: this node was elected, and everything that
            earlier leaders decided is committed and applied on it.
        failure: why this node takes no part at the moment: its disk failed.
        config: who takes part, timing, limits.
        on_voters: called when the log has recorded another voter set.
    """

    def __init__(
        self,
        config: QuorumConfig,
        open_durable: Callable[[], DurableLog],
        *,
        dice: Callable[[float, float], float],
        run_in_thread: RunInThread,
        snapshot_size_bytes_min: int,
    ) -> None:
        """Use `open`."""
        durable = open_durable()
        self.config: Final = config
        self.leader_id: int | None = None
        self.epoch = durable.epoch
        self.is_leader = False
        self.failure: StorageError | None = None
        self._loop: Final = QuorumLoop(
            config,
            durable,
            open_durable,
            dice=dice,
            run_in_thread=run_in_thread,
            on_answer=self._answered,
            on_failed=self._failed,
            on_progress=self._update,
            snapshot_size_bytes_min=snapshot_size_bytes_min,
        )
        self._changed = trio.Event()
        self._ended: Final = trio.Event()
        self._asked: Final[dict[_Proposal, None]] = {}  # not yet in the log
        self._accepted: Final[deque[_Proposal]] = deque()  # in the log, in its order
        self._on_change: Callable[[], None] = _ignore_change
        self.on_voters: Callable[[VoterSet], None] = _ignore_voters
        self._seen_voters = self.recorded_voters

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        config: QuorumConfig,
        *,
        dice: Callable[[float, float], float],
        new_directory_id: Callable[[], bytes],
        sync: bool = True,
        run_in_thread: RunInThread = run_in_worker_thread,
        snapshot_size_bytes_min: int = SNAPSHOT_SIZE_BYTES_MIN,
    ) -> Quorum:
        """Open or create the node's files; may block. Needs no trio.

        Args:
            disk: the disk.
            directory: where the files are (``quorum.log``, ``quorum-state``, ``quorum-synced``);
                it exists.
            config: who takes part; a node that is not among the voters observes.
            dice: (low, high) -> a random number between them, `random.uniform` of a generator.
            new_directory_id: draws an id of 16 bytes for a directory that has none.
            sync: False if nothing has to survive a power failure; no thread is used then.
            run_in_thread: runs what blocks; `run_inline` in simulations.
            snapshot_size_bytes_min: how long the log gets at least before a snapshot.

        Raises:
            StorageError: damage, or the log of a voter lost what it had acknowledged
                (`DamagedFile`, `DamagedRecordLog`, `LostEntries`).
            WrongDataDirectory: the files belong to a quorum of other voters.
            OSError: the disk failed.
        """

        def open_durable() -> DurableLog:
            return DurableLog.open(
                disk, directory, config, new_directory_id=new_directory_id, sync=sync
            )

        return cls(
            config,
            open_durable,
            dice=dice,
            run_in_thread=run_in_thread if sync else run_inline,
            snapshot_size_bytes_min=snapshot_size_bytes_min,
        )

    # --- before it runs ------------------------------------------------------------------------

    @property
    def may_have_lost(self) -> bool:
        """The log was new, or its end was cut, when it was opened: it may have held more once.

        In a quorum of one the broker then restores topics from their directories.
        """
        return self._loop.durable.may_have_lost

    def stored(self) -> StoredEntries:
        """What is known to be committed; replay it before `run`, which goes on behind it.

        In a quorum of one that is everything. Otherwise it is what was committed when the log was
        last written, and the rest comes through `on_committed` when a leader says so.
        Raises OSError or StorageError, here or while the entries are read.
        """
        durable = self._loop.durable
        snapshot_index, snapshot = durable.stored_snapshot()
        return StoredEntries(snapshot, snapshot_index, durable.committed())

    def restore(self, payload: bytes) -> None:
        """Append a decision before `run`, in a quorum of one; durable on return, may block.

        The caller replays it itself, as it did with `stored`.

        Raises:
            ValueError: there are other voters.
            OSError: the disk failed.
        """
        if not self.is_alone:
            raise ValueError("only a quorum of one decides before it runs")
        self._loop.durable.append_alone(payload)
        self._loop.applier.replayed(self._loop.durable.commit_index)

    # --- running -------------------------------------------------------------------------------

    async def run(
        self,
        *,
        send: Callable[[int, Message], None],
        on_committed: Callable[[int, bytes], Awaitable[None]],
        make_snapshot: Callable[[], list[bytes]] | None = None,
        load_snapshot: Callable[[int, list[bytes]], Awaitable[None]] | None = None,
        on_change: Callable[[], None] = _ignore_change,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Take part until cancelled.

        In a quorum of one this node leads once it has started, unless its disk fails.

        Args:
            send: (node id, message): hand a message to the connection to that node, or drop it.
                Must not block; called in order.
            on_committed: (index, payload): apply a decision; each exactly once, in order, one at
                a time. What it raises ends `run`.
            make_snapshot: payloads that, applied to nothing, give what was applied so far; called
                between two calls of `on_committed`. None: the log is never shortened.
            load_snapshot: (index, payloads): forget what was applied, and apply these in its
                place: a leader's snapshot of everything up to the index. Required unless the
                quorum is one.
            on_change: called when `leader_id`, `epoch`, `is_leader` or `failure` is another.
            task_status: started when the node takes part.
        """
        self._loop.send = send
        self._on_change = on_change
        hooks = QuorumHooks(on_committed, make_snapshot, load_snapshot)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._loop.applier.run, hooks)
            nursery.start_soon(self._report_start, task_status)
            try:
                await self._loop.run()
            finally:
                self._loop.stop()
                self._ended.set()
                self._lose_proposals(ProposalLostError(), even_committed=True)
                self._update()

    async def _report_start(self, task_status: trio.TaskStatus[None]) -> None:
        await self._loop.has_begun.wait()
        while self.is_alone and not self.is_leader and self.failure is None:
            await self.wait_changed()
        task_status.started()

    def _answered(self, answer: Accepted | Refused | RoleChanged) -> None:
        match answer:
            case Accepted(token=_Proposal() as proposal, index=index, epoch=epoch):
                proposal.index, proposal.epoch = index, epoch
                self._asked.pop(proposal, None)
                self._accepted.append(proposal)
                proposal.appended.set()
            case Refused(token=_Proposal() as proposal, refusal=refusal):
                self._asked.pop(proposal, None)
                is_about_voters = refusal is not None and refusal.why is not Why.NOT_LEADER
                proposal.fail(
                    VotersRefusedError(refusal)
                    if refusal is not None and is_about_voters
                    else NotControllerError(self.leader_id)
                )
            case RoleChanged(role=role):
                if role is not Role.LEADER:
                    self._lose_proposals(ProposalLostError())
            case _:
                raise AssertionError(f"{answer} answers no proposal")

    def _failed(self, failure: StorageError | None) -> None:
        self.failure = failure
        if failure is not None:
            self._lose_proposals(failure)
            for proposal in self._asked:
                proposal.fail(failure)
            self._asked.clear()
        self._update()

    def _lose_proposals(self, failure: Exception, *, even_committed: bool = False) -> None:
        """Those in the log that were not committed by this leader."""
        committed_index = 0 if even_committed else self.committed_index
        while self._accepted and self._accepted[-1].index > committed_index:
            self._accepted.pop().fail(failure)
        if even_committed:
            for proposal in self._asked:
                proposal.fail(NotControllerError(None))
            self._asked.clear()

    def _update(self) -> None:
        """Publish the state of the machine, and release the proposals that were applied."""
        node = self._loop.node
        before = (self.leader_id, self.epoch, self.is_leader, self.failure)
        if node is not None:
            self.leader_id, self.epoch = node.leader_id, node.epoch
            self.is_leader = node.is_ready and self.applied_index >= node.first_index_of_epoch
        else:
            self.leader_id, self.is_leader = None, False
        while self._accepted and self._accepted[0].index <= self.applied_index:
            self._accepted.popleft().done.set()
        voters = self.recorded_voters
        if voters is not None and voters is not self._seen_voters:
            self._seen_voters = voters
            logger.info("metadata quorum: voters are %s", ", ".join(map(str, sorted(voters.ids))))
            self.on_voters(voters)
        if before != (self.leader_id, self.epoch, self.is_leader, self.failure):
            if before[:2] != (self.leader_id, self.epoch):
                leader = "no leader" if self.leader_id is None else f"node {self.leader_id} leads"
                logger.info("metadata quorum: epoch %d, %s", self.epoch, leader)
            changed, self._changed = self._changed, trio.Event()
            changed.set()
            self._on_change()

    # --- what others do with it ----------------------------------------------------------------

    def receive(self, node_id: int, message: Message) -> None:
        """A message came from another node; never blocks."""
        self._loop.put(Received(node_id, message))

    def peer_lost(self, node_id: int) -> None:
        """The connection to a node ended, and it refuses new ones: elections get quick."""
        self._loop.put(PeerLost(node_id))

    async def propose(self, payload: bytes, *, epoch: int | None = None) -> int:
        """Have a decision committed, and applied on this node.

        Between deciding and calling this there must be no await, or `epoch` has to say in which
        epoch it was decided: a leader that lost and regained its place may know more by then.

        Args:
            payload: what was decided, not empty; it becomes one entry, atomically.
            epoch: `epoch` of this object when it was decided; None for now.

        Returns:
            Its index in the log.

        Raises:
            NotControllerError: nothing happened; another node leads, or none.
            ProposalLostError: this node was deposed meanwhile; the outcome is unknown.
            StorageError: this node's disk failed; most likely nothing happened.
            ProposalTooLargeError: more than `ENTRY_SIZE_BYTES_MAX`.
            ValueError: the payload is empty.
        """
        if not payload:
            raise ValueError("an empty payload decides nothing")
        if len(payload) > ENTRY_SIZE_BYTES_MAX:
            raise ProposalTooLargeError(len(payload), ENTRY_SIZE_BYTES_MAX)
        if self.failure is not None:
            raise self.failure
        if not self.is_leader:
            raise NotControllerError(self.leader_id)
        proposal = _Proposal()
        self._asked[proposal] = None
        if not self._loop.put(Propose(payload, self.epoch if epoch is None else epoch, proposal)):
            del self._asked[proposal]
            raise NotControllerError(None)
        await proposal.done.wait()
        if proposal.failure is not None:
            raise proposal.failure
        return proposal.index

    async def change_voters(
        self, make: Callable[[object], ChangeVoters], *, waits_for_commit: bool = True
    ) -> None:
        """Have the voters changed, which is applied on this node then.

        A leader that is deposed meanwhile, for instance because the voters that the change needs
        stand still, waits until the next leader has committed the change, or something else in its
        place. That may take any time.

        Args:
            make: the change, with the token that it is given.
            waits_for_commit: otherwise it is enough that this leader has appended it.

        Raises:
            VotersRefusedError: nothing happened.
            NotControllerError: nothing happened; another node leads, or none.
            ProposalLostError: this node was deposed meanwhile, and the outcome stays unknown.
            StorageError: this node's disk failed; most likely nothing happened.
        """
        if self.failure is not None:
            raise self.failure
        if not self.is_leader:
            raise NotControllerError(self.leader_id)
        proposal = _Proposal()
        self._asked[proposal] = None
        if not self._loop.put(make(proposal)):
            del self._asked[proposal]
            raise NotControllerError(None)
        await (proposal.done if waits_for_commit else proposal.appended).wait()
        if isinstance(proposal.failure, ProposalLostError):
            if await self._was_committed(proposal):
                return
            raise NotControllerError(self.leader_id)
        if proposal.failure is not None:
            raise proposal.failure

    async def _was_committed(self, proposal: _Proposal) -> bool:
        """Whether a lost proposal took effect under a later leader; waits until that is certain.

        Raises:
            ProposalLostError: the quorum has ended, or the log does not reach back so far.
        """
        assert proposal.failure is not None
        async with trio.open_nursery() as nursery:

            async def give_up_at_the_end() -> None:
                await self._ended.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(give_up_at_the_end)
            await self.wait_applied(proposal.index)
            nursery.cancel_scope.cancel()
        log = self._loop.durable.log
        if not log.base_index <= proposal.index <= self.applied_index:
            raise proposal.failure
        return log.matches(proposal.index, proposal.epoch)

    async def wait_applied(self, index: int) -> None:
        """Return when everything up to an index was applied on this node."""
        await self._loop.applier.wait_applied(index)

    async def wait_changed(self) -> None:
        """Return when `leader_id`, `epoch`, `is_leader` or `failure` is another."""
        await self._changed.wait()

    async def transfer_leadership(self, node_id: int | None = None) -> bool:
        """Let another voter lead: that one, or the one with the longest log.

        Returns:
            Whether this node leads no longer; False after an election timeout, when it goes on.
        """
        node = self._loop.node
        if node is None or node.role is not Role.LEADER:
            return True
        if self.is_alone:
            return False
        epoch = self.epoch
        self._loop.put(TransferLeadership(node_id))
        with trio.move_on_after(self.config.election_timeout_s):
            while self.epoch == epoch and self.leader_id == self.config.node_id:
                await self.wait_changed()
        return self.epoch != epoch or self.leader_id != self.config.node_id

    @property
    def recorded_voters(self) -> VoterSet | None:
        """The last voter set in the log; None while the voters are configuration."""
        return self._loop.durable.log.voters

    @property
    def voter_ids(self) -> frozenset[int]:
        """Whose majority elects and commits."""
        return self._loop.durable.voters

    @property
    def is_alone(self) -> bool:
        """Whether this node is the only voter."""
        return self._loop.durable.is_alone

    @property
    def committed_index(self) -> int:
        """Everything up to here is decided."""
        return self._loop.applier.committed_index

    @property
    def applied_index(self) -> int:
        """Everything up to here was applied on this node."""
        return self._loop.applier.applied_index

    def statistics(self) -> QuorumStatistics:
        """For DescribeQuorum: on the leader complete, elsewhere what this node knows."""
        node = self._loop.node
        own = None
        if node is not None:
            is_current = node.role is Role.LEADER
            ago_s = 0.0 if is_current else None
            own = ReplicaStatistics(
                self.config.node_id,
                node.log.last_index + 1,
                ago_s,
                ago_s,
                node.directory_id,
                node.is_admitted,
            )
        voters, observers = replica_statistics(
            self.voter_ids,
            self.recorded_voters,
            {} if node is None else node.progress(),
            own,
            trio.current_time(),
        )
        return QuorumStatistics(
            self.leader_id, self.epoch, self.committed_index + 1, voters, observers
        )

    def close(self) -> None:
        """Close the files; after `run` has ended. May block."""
        self._loop.durable.close(self.committed_index)
