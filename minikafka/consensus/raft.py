"""One node of the metadata quorum: Raft, pushed by the leader, as a pure state machine.

What the quorum promises (D. Ongaro, "Consensus: Bridging Theory and Practice"; Kafka's words are
`epoch` for its term and `observer` for its learner):

- *Election safety*: an epoch has at most one leader, because a voter votes once in an epoch and
  stores its vote on disk before it answers.
- *Log matching*: two logs that have an entry of the same epoch at the same index are equal up to
  there, because a follower appends only behind an entry that it shares with the leader.
- *Leader completeness*: every later leader has all committed entries, because a majority stores
  them, and a majority votes only for a log that is not behind its own. Only entries of the leader's
  own epoch are counted; older ones are committed with the first of those.
- *State machine safety*: so all nodes apply the same entries in the same order.

All of this rests on disks that keep what was written. A node whose directory is lost comes back
with a new one, which does not vote and does not count until it is *admitted*: by a leader that has
its majority without it (`minikafka.consensus.leader`), or in the election in which all voters found
a cluster (`minikafka.consensus.election`). So any minority of the directories may be lost at once.

`minikafka.consensus.roles` explains the roles and their transitions. What each event does, by role
(``-`` is nothing; a message of a higher epoch first turns its receiver into a follower, and one of
a lower epoch is answered with the higher one or ignored):

==================  ===========  ===========  ===========  ===========  ===========
event               Follower     Prospective  Candidate    Leader       Observer
==================  ===========  ===========  ===========  ===========  ===========
deadline            Prospective  Prospective  Prospective  heartbeat;   ask to join
                                                           Follower if
                                                           not heard
pre-vote request    yes, unless a leader is heard,         no           -
                    or the sender's log is behind
vote request        yes, once; then Follower  no           no           -
pre-vote response   -            Candidate    -            -            -
                                 if majority
vote response       -            -            Leader if    -            -
                                              majority
either, if lost     -            Follower     Follower     -            -
append, snapshot    store        Follower,    Follower,    (two leaders store
                                 store        store        in an epoch:
                                                           a bug)
append response     -            -            -            count,       -
                                                           send more
propose             refuse       refuse       refuse       append       refuse
join request        name the leader, if it is known        send         as on the
                                                                        left
leader hint         ask it to join, if no leader is heard  -            as on the
                                                                        left
change of voters    refuse       refuse       refuse       append, or   refuse
                                                           refuse
campaign request    Candidate    -            -            -            -
transfer            -            -            -            hand over    -
peer lost           Prospective  Follower if  Follower if  pause        join again
                    soon, if     no majority  no majority  sending
                    leaderless   is left      is left
==================  ===========  ===========  ===========  ===========  ===========

How it is driven: `start` once, then `handle` for each event and `expire` when `deadline` has come.
**The effects of a call are carried out completely and in order before the next call**, or the node
is discarded and rebuilt from its disk, as after a crash. That is why the state machine can count
its own entries as stored once it has emitted `PersistEntries`, and why "persist before send" is a
matter of order alone. Several calls may be made in a row if their effects are then carried out
together in order; moving a `Persist` forward is always safe, so one fsync can serve them all.

A quorum of one leads immediately, commits what it has persisted, and has no deadline.

Who votes may change while the quorum runs: see `minikafka.consensus.voters` for what is recorded,
`minikafka.consensus.membership` for what a leader checks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import assert_never

from .config import QuorumConfig
from .context import RaftContext
from .effects import (
    AddVoter,
    Effect,
    Event,
    PeerLost,
    Propose,
    Received,
    RecordVoters,
    RemoveVoter,
    TransferLeadership,
)
from .election import Election
from .follower import Follower
from .leader import Leader
from .log import RaftLog
from .membership import Membership
from .messages import (
    AppendRequest,
    AppendResponse,
    CampaignRequest,
    JoinRequest,
    LeaderHint,
    Message,
    SnapshotRequest,
    SnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from .progress import Progress
from .roles import Role

__all__ = ["RaftNode"]

logger = logging.getLogger(__name__)

EPOCH_STEP_MAX = 2**32
"""How far one message may move this node's epoch.

At ten elections a second, that many take 13 years; what asks for more is a fault or an attack. The
message does not count then, and the epoch moves by this only, which is enough for a node that was
away, or new, while an attack went on: it follows with the next messages. `EPOCH_MAX` would take
2**30 such messages, each with a sync of the disk before the next one.
"""
_POSTPONEMENTS_MAX = 3
"""How often in a row a node that is late itself gives its leader more time."""
_LAST_WORDS_WAIT = 0.25
"""For this part of the election timeout messages of a lost node do not prove that it is alive."""


class RaftNode:
    """One node.

    Args:
        config: members, timing, limits.
        log: the entries that are on the disk; the node changes it.
        epoch: the stored epoch.
        vote: the stored vote in it.
        directory_id: of the data directory.
        is_admitted: whether the node may vote with this directory.
        commit_index: the log is known to be committed up to here.
        read_snapshot: returns the bytes of the snapshot at the log's base.
        dice: (low, high) -> a random number between them.
    """

    __slots__ = (
        "_context",
        "_election",
        "_far_senders",
        "_follower",
        "_leader",
        "_membership",
        "_postponed_count",
    )

    def __init__(
        self,
        config: QuorumConfig,
        log: RaftLog,
        *,
        epoch: int,
        vote: int | None,
        directory_id: bytes,
        is_admitted: bool,
        commit_index: int,
        read_snapshot: Callable[[], bytes],
        dice: Callable[[float, float], float],
    ) -> None:
        context = RaftContext(
            config, log, epoch, vote, commit_index, dice, directory_id, is_admitted=is_admitted
        )
        self._context = context
        self._postponed_count = 0
        self._far_senders: set[int] = set()  # that were reported; only connected nodes get here
        self._leader = Leader(context, read_snapshot)
        self._membership = Membership(context, self._leader)
        self._follower = Follower(context)
        self._election = Election(context, self._leader.begin)

    # --- queries -----------------------------------------------------------------------------

    @property
    def role(self) -> Role:
        return self._context.role

    @property
    def epoch(self) -> int:
        """The highest epoch seen."""
        return self._context.epoch

    @property
    def vote(self) -> int | None:
        """The node voted for in this epoch."""
        return self._context.vote

    @property
    def directory_id(self) -> bytes:
        """Of this node's data directory."""
        return self._context.directory_id

    @property
    def is_admitted(self) -> bool:
        """Whether this node may vote, and counts in majorities."""
        return self._context.is_admitted

    @property
    def leader_id(self) -> int | None:
        """The leader, if it is known."""
        return self._context.leader_id

    @property
    def commit_index(self) -> int:
        """Everything up to here is committed."""
        return self._context.commit_index

    @property
    def voters(self) -> frozenset[int]:
        """Whose majority elects and commits."""
        return self._context.voters

    @property
    def is_alone(self) -> bool:
        """Whether this node's vote is the whole quorum."""
        return self._context.is_alone

    @property
    def log(self) -> RaftLog:
        return self._context.log

    @property
    def is_ready(self) -> bool:
        """Whether proposals are accepted."""
        return self._leader.is_ready

    @property
    def first_index_of_epoch(self) -> int:
        """Of a leader: where its epoch begins; its decisions need that to be applied."""
        return self._leader.first_index

    def progress(self) -> dict[int, Progress]:
        """Of a leader: the progress of the other nodes."""
        return self._leader.progress

    # --- events ------------------------------------------------------------------------------

    def start(self, now: float) -> list[Effect]:
        """Join the quorum."""
        context = self._context
        context.now = now
        if context.is_voter:
            self._election.start()
        else:
            self._follower.ask_to_join()
        return context.take_effects()

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Handle an event.

        Args:
            event: See `minikafka.consensus.effects`.
            now: The time, seconds; never goes back.

        Returns:
            The effects to carry out, in order.

        Raises:
            OSError, StorageError: the disk failed when older entries were read; discard this node.
        """
        context = self._context
        context.now = now
        self._excuse_leader()
        match event:
            case Received(sender=sender, message=message):
                if sender != context.config.node_id:
                    if now >= context.lost_peers.get(sender, now):
                        context.lost_peers.pop(sender, None)
                    self._receive(sender, message)
            case Propose():
                self._leader.propose(event)
            case AddVoter() | RemoveVoter() | RecordVoters():
                self._membership.change(event)
            case PeerLost(node_id=node_id):
                self._lose(node_id)
            case TransferLeadership(node_id=node_id):
                if context.role is Role.LEADER:
                    self._leader.transfer(node_id)
            case _:
                assert_never(event)
        return context.take_effects()

    def _receive(self, sender: int, message: Message) -> None:
        context = self._context
        is_plan = isinstance(message, VoteRequest) and message.is_pre_vote
        if message.epoch > context.epoch + EPOCH_STEP_MAX and not is_plan:
            self._see_far(sender, message.epoch)
            return
        match message:
            case VoteRequest():
                self._receive_vote_request(sender, message)
            case VoteResponse():
                if sender in context.voters and not self._see(message.epoch):
                    self._election.handle_response(sender, message)
            case AppendRequest() | SnapshotRequest():
                self._receive_from_leader(sender, message)
            case AppendResponse():
                if (
                    self._is_known(sender)
                    and not self._see(message.epoch)
                    and message.epoch == context.epoch
                ):
                    self._leader.handle_append_response(sender, message)
            case SnapshotResponse():
                if self._is_known(sender) and message.epoch == context.epoch:
                    self._leader.handle_snapshot_response(sender, message)
            case JoinRequest() | LeaderHint():
                self._receive_search(sender, message)
            case CampaignRequest():
                if (
                    context.role is Role.FOLLOWER
                    and sender == context.leader_id
                    and message.epoch == context.epoch
                ):
                    self._election.campaign()
            case _:
                assert_never(message)

    def _receive_search(self, sender: int, message: JoinRequest | LeaderHint) -> None:
        """A node looks for the leader, or says who it is."""
        if isinstance(message, LeaderHint):
            self._follower.follow_hint(message)
        elif self._context.role is Role.LEADER:
            self._leader.handle_join(sender)
        else:
            self._follower.show_leader(sender)

    def _receive_vote_request(self, sender: int, request: VoteRequest) -> None:
        if self._election.is_for_this_node(sender, request):
            if not request.is_pre_vote:
                self._see(request.epoch)
            self._election.handle_request(sender, request)

    def _is_known(self, sender: int) -> bool:
        return sender in self._context.voters or sender in self._leader.progress

    def _see_far(self, sender: int, epoch: int) -> None:
        """A message has an epoch that no elections can explain; see `EPOCH_STEP_MAX`."""
        context = self._context
        if sender not in self._far_senders:
            self._far_senders.add(sender)
            logger.error(
                "node %d sends epoch %d to the quorum, and this node is in epoch %d: elections "
                "cannot explain that; the message is ignored",
                sender,
                epoch,
                context.epoch,
            )
        if sender in context.voters:
            self._see(context.epoch + EPOCH_STEP_MAX)

    def _see(self, epoch: int) -> bool:
        """Move to a higher epoch as a follower; False if it is not higher."""
        context = self._context
        if epoch <= context.epoch:
            return False
        self._leader.forget()
        self._follower.forget()
        context.follow(epoch, None)
        return True

    def _receive_from_leader(self, sender: int, message: AppendRequest | SnapshotRequest) -> None:
        context = self._context
        if sender not in context.voters and not message.has_voter_set:
            return
        if message.epoch < context.epoch:
            # It may be a deposed leader that does not know it yet.
            context.send(sender, AppendResponse(context.epoch, False, 0, 0, 0))
            return
        self._see(message.epoch)
        if context.role is Role.LEADER or context.leader_id not in {None, sender}:
            logger.error(
                "nodes %s and %d both lead epoch %d of the quorum: two processes use one node id, "
                "or a voter came back without its data",
                context.leader_id,
                sender,
                context.epoch,
            )
            return
        if sender not in context.lost_peers:
            context.follow(message.epoch, sender)
            context.leader_heard_at = context.now
            self._postponed_count = 0
            self._election.leader_was_heard()
        if isinstance(message, AppendRequest):
            self._follower.handle_append(sender, message)
        else:
            self._follower.handle_snapshot(sender, message)

    def _lose(self, node_id: int) -> None:
        context = self._context
        context.lost_peers[node_id] = (
            context.now + _LAST_WORDS_WAIT * context.config.election_timeout_s
        )
        if context.role is Role.LEADER:
            self._leader.peer_lost(node_id)
        elif context.role in {Role.PROSPECTIVE, Role.CANDIDATE}:
            self._election.give_up_if_lost()
        elif context.leader_id in {None, node_id}:
            context.change(context.role)
            wake_at = context.now + context.dice(0.0, context.config.lost_peer_jitter_s)
            context.wake_at = min(wake_at, context.wake_at or wake_at)

    def resign(self, now: float) -> list[Effect]:
        """Of a leader whose disk fails: ask the best voter to take over, and nothing else."""
        context = self._context
        context.take_effects()  # leftovers of the call that failed
        context.now = now
        successor = self._leader.best_successor() if context.role is Role.LEADER else None
        if successor is not None:
            context.send(successor, CampaignRequest(context.epoch))
        return context.take_effects()

    # --- time --------------------------------------------------------------------------------

    def deadline(self) -> float | None:
        """When to call `expire`, seconds; None for never."""
        if self._context.role is Role.LEADER:
            return self._leader.deadline()
        return self._context.wake_at

    def _excuse_leader(self) -> None:
        """Give the leader another timeout if this node was called much later than it had asked for.

        It was short of processor time, or paused: the leader's messages may have arrived meanwhile
        and wait to be read, so its silence says nothing. A few times only, since a node that is
        always late must not wait for a dead leader for ever.
        """
        context = self._context
        if (
            context.role is Role.FOLLOWER
            and context.leader_id is not None
            and context.wake_at is not None
            and context.now > context.wake_at + context.config.heartbeat_s
            and self._postponed_count < _POSTPONEMENTS_MAX
        ):
            self._postponed_count += 1
            context.leader_heard_at = context.now
            context.wake_within(1.0, 2.0)

    def expire(self, now: float) -> list[Effect]:
        """Act on the deadline; calling it early does nothing.

        Raises:
            OSError, StorageError: as in `handle`.
        """
        context = self._context
        context.now = now
        self._excuse_leader()
        if context.role is Role.LEADER:
            if not self._leader.expire():
                self._leader.forget()
                context.follow(context.epoch, None)
        elif context.wake_at is not None and now >= context.wake_at:
            if context.role is Role.OBSERVER:
                context.change(Role.OBSERVER)
                self._follower.ask_to_join()
            else:
                self._election.ask_for_pre_votes()
        return context.take_effects()
