"""Guards of the consensus protocol that are broken on purpose."""

from __future__ import annotations

from minikafka.consensus import Effect, Entry, Event, Persist, PersistState, RaftNode, Role
from minikafka.consensus.context import RaftContext
from minikafka.consensus.durable import DurableLog
from minikafka.consensus.election import Election
from minikafka.consensus.follower import Follower
from minikafka.consensus.leader import Leader
from minikafka.consensus.log import RaftLog, RecordedVoters
from minikafka.consensus.membership import Membership, _Refusal
from minikafka.consensus.messages import VoteRequest
from minikafka.consensus.voters import Why
from minikafka.storage.record_log import RecordLog
from tests.simulation.kit.mutants import Mutant


def vote_without_storing_it(self: Election, sender: int, request: VoteRequest) -> bool:
    is_granted = ORIGINAL_VOTE(self, sender, request)
    context = self._context
    context._effects = [
        one
        for one in context._effects
        if not (isinstance(one, PersistState) and one.vote == sender)
    ]
    return is_granted


def vote_again(self: Election, sender: int, request: VoteRequest) -> bool:
    self._context.vote = None
    self._context.leader_id = None
    return ORIGINAL_VOTE(self, sender, request)


def vote_for_a_short_log(self: RaftLog, last_epoch: int, last_index: int) -> bool:
    return True


def commit_an_old_epoch_by_counting(self: Leader) -> None:
    """Leaves out the look at the entry's epoch."""
    context = self._context
    stored = [one.match_index if one.is_counted else 0 for one in self.progress.values()]
    if context.is_counted:
        stored.append(self._log.last_index)
    stored.sort(reverse=True)
    index = stored[context.majority - 1]
    if index > context.commit_index:
        context.commit(index)
        for node_id, progress in self.progress.items():
            if not self._send_entries(node_id, progress):
                self._send_heartbeat(node_id, progress)
        if not context.is_counted and self._log.voters_index <= index:
            self._retire()


def commit_before_a_majority_has_it(self: RaftContext, index: int) -> None:
    """The leader commits what it has sent."""
    if self.role.name == "LEADER":
        index = self.log.last_index
    ORIGINAL_COMMIT(self, index)


def send_before_storing(self: RaftNode, event: Event, now: float) -> list[Effect]:
    effects = ORIGINAL_HANDLE(self, event, now)
    return sorted(effects, key=lambda effect: isinstance(effect, Persist))


def cut_the_log_at_every_append(self: Follower, index: int, entries: tuple[Entry, ...]) -> None:
    """An append that was overtaken removes what later ones brought."""
    if entries and index <= self._log.last_index:
        self._log.truncate_to(index)
    ORIGINAL_STORE(self, index, entries)


def append_without_looking_back(self: RaftLog, index: int, epoch: int) -> bool:
    return self.base_index <= index <= self.last_index


def a_majority_is_half(self: RaftContext) -> int:
    return max(1, len(self.voters) // 2)


def change_the_voters_at_any_time(self: Membership) -> None:
    """Whatever the change before has come to."""
    if self._context.role is not Role.LEADER:
        raise _Refusal(Why.NOT_LEADER)
    if not self._leader.is_ready:
        raise _Refusal(Why.NOT_READY)


def change_the_voters_before_a_commit(self: Membership) -> None:
    """A leader that has committed nothing in its epoch does not know the voters."""
    context = self._context
    if context.role is not Role.LEADER:
        raise _Refusal(Why.NOT_LEADER)
    if context.log.voters_index > context.commit_index:
        raise _Refusal(Why.PENDING)


def go_by_the_committed_voters(self: RaftContext) -> frozenset[int]:
    recorded = self.log.voters_at(self.commit_index)
    return self.config.voters if recorded is None else recorded.ids


def keep_truncated_voters(self: RaftLog, index: int) -> None:
    voters: list[RecordedVoters] = list(self._voters)
    ORIGINAL_TRUNCATE(self, index)
    self._voters = voters


def count_a_removed_leader(self: RaftContext) -> bool:
    return True


def write_the_vote_without_fsync(self: DurableLog) -> None:
    self._sync = False  # type: ignore[misc]  # a constant, but not in a mutant
    ORIGINAL_WRITE_STATE(self)
    self._sync = True  # type: ignore[misc]  # as above


def acknowledge_entries_without_fsync(self: RecordLog) -> None:
    """The page cache will do."""


def let_an_empty_voter_vote(self: Election, request: VoteRequest) -> bool:
    """A new directory has promised nothing."""
    return self._context.log.is_behind(request.last_epoch, request.last_index)


def found_with_a_majority(self: Election) -> int:
    return self._context.majority


ORIGINAL_VOTE = Election._vote
ORIGINAL_TRUNCATE = RaftLog.truncate_to
ORIGINAL_COMMIT = RaftContext.commit
ORIGINAL_HANDLE = RaftNode.handle
ORIGINAL_STORE = Follower._store
ORIGINAL_WRITE_STATE = DurableLog._write_state

MUTANTS = (
    Mutant("vote without storing it", 10, ((Election, "_vote", vote_without_storing_it),)),
    Mutant("vote again", 10, ((Election, "_vote", vote_again),)),
    Mutant("vote for a short log", 10, ((RaftLog, "is_behind", vote_for_a_short_log),)),
    Mutant(
        "commit an old epoch by counting",
        60,
        ((Leader, "_commit_what_a_majority_has", commit_an_old_epoch_by_counting),),
    ),
    Mutant(
        "commit before a majority has it",
        10,
        ((RaftContext, "commit", commit_before_a_majority_has_it),),
    ),
    Mutant("an empty voter votes", 200, ((Election, "_may_vote_for", let_an_empty_voter_vote),)),
    Mutant(
        "a majority founds a cluster",
        200,
        ((Election, "_votes_needed", property(found_with_a_majority)),),
    ),
    Mutant("send before storing", 10, ((RaftNode, "handle", send_before_storing),)),
    Mutant("cut the log at every append", 20, ((Follower, "_store", cut_the_log_at_every_append),)),
    Mutant("append without looking back", 30, ((RaftLog, "matches", append_without_looking_back),)),
    Mutant("a majority is half", 10, ((RaftContext, "majority", property(a_majority_is_half)),)),
    Mutant(
        "two changes at once",
        50,
        ((Membership, "_require_readiness", change_the_voters_at_any_time),),
    ),
    Mutant(
        "a change before a commit in the epoch",
        50,
        ((Membership, "_require_readiness", change_the_voters_before_a_commit),),
    ),
    Mutant(
        "voters count once they are committed",
        100,
        ((RaftContext, "voters", property(go_by_the_committed_voters)),),
    ),
    Mutant(
        "truncated voters stay", 20, ((RaftLog, "truncate_to", keep_truncated_voters),), first=10
    ),
    Mutant(
        "a removed leader counts itself",
        50,
        ((RaftContext, "is_counted", property(count_a_removed_leader)),),
    ),
    Mutant(
        "write the vote without fsync",
        20,
        ((DurableLog, "_write_state", write_the_vote_without_fsync),),
    ),
    Mutant(
        "acknowledge entries without fsync",
        20,
        ((RecordLog, "sync", acknowledge_entries_without_fsync),),
    ),
)
