"""Elections: pre-votes and votes, from the candidate's and from the voter's side."""

from __future__ import annotations

from collections.abc import Callable

from .context import RaftContext
from .effects import PersistState
from .messages import VoteRequest, VoteResponse
from .roles import Role

__all__ = ["Election"]

# Parts of the election timeout. At a start there is probably no leader to hear from; an election
# that was lost is repeated sooner than one without answers.
_FIRST_WAIT = (0.125, 0.5)
_ANSWERS_WAIT = (0.5, 1.0)
_LOST_WAIT = (0.125, 0.25)


class Election:
    """The part of a node that elects; calls ``on_elected`` when this node has won."""

    __slots__ = ("_context", "_denied", "_granted", "_has_stood_back", "_on_elected")

    def __init__(self, context: RaftContext, on_elected: Callable[[], None]) -> None:
        self._context = context
        self._on_elected = on_elected
        self._granted: set[int] = set()
        self._denied: set[int] = set()
        self._has_stood_back = False

    def start(self) -> None:
        """Wait for a leader, or campaign as the only voter."""
        context = self._context
        if context.config.is_alone:
            self.campaign()
        else:
            context.wake_within(*_FIRST_WAIT)

    def ask_for_pre_votes(self) -> None:
        """Start an election: there is no leader, or the last attempt failed."""
        context = self._context
        context.change(Role.PROSPECTIVE)
        self._begin(is_pre_vote=True)

    def campaign(self) -> None:
        """Move to the next epoch and ask for votes in it."""
        context = self._context
        node_id = context.config.node_id
        context.change(Role.CANDIDATE, epoch=context.epoch + 1, vote=node_id)
        self._begin(is_pre_vote=False)

    def _begin(self, *, is_pre_vote: bool) -> None:
        context = self._context
        config = context.config
        self._granted = {config.node_id}
        self._denied = set()
        self._has_stood_back = False
        if config.is_alone:
            self._on_elected()
            return
        context.wake_within(*_ANSWERS_WAIT)
        log = context.log
        epoch = context.epoch + is_pre_vote
        request = VoteRequest(epoch, log.last_epoch, log.last_index, is_pre_vote)
        for voter in sorted(config.voters - {config.node_id}):
            context.send(voter, request)

    def handle_response(self, sender: int, response: VoteResponse) -> None:
        """Count a vote; its epoch is not higher than ours."""
        context = self._context
        is_prospective = context.role is Role.PROSPECTIVE
        asked_epoch = context.epoch + is_prospective
        if (
            context.role not in {Role.PROSPECTIVE, Role.CANDIDATE}
            or sender not in context.config.voters
            or (response.is_pre_vote, response.asked_epoch) != (is_prospective, asked_epoch)
        ):
            return  # too late
        (self._granted if response.is_granted else self._denied).add(sender)
        if len(self._granted) < context.config.majority:
            self.give_up_if_lost()
        elif is_prospective:
            self.campaign()
        else:
            self._on_elected()

    def give_up_if_lost(self) -> None:
        """Retry soon if the voters that have not answered cannot make a majority."""
        context = self._context
        against = (self._denied | context.lost_peers.keys()) - self._granted
        possible = len(context.config.voters - against)
        if possible < context.config.majority:
            context.change(Role.FOLLOWER)
            context.wake_within(*_LOST_WAIT)

    def handle_request(self, sender: int, request: VoteRequest) -> None:
        """Answer a request for a vote; only a pre-vote may have a higher epoch than ours."""
        context = self._context
        if not context.config.is_voter or sender not in context.config.voters:
            return
        if request.is_pre_vote:
            is_granted = self._would_vote(request)
        else:
            is_granted = self._vote(sender, request)
        context.send(
            sender,
            VoteResponse(context.epoch, request.epoch, request.is_pre_vote, is_granted),
        )

    def _would_vote(self, request: VoteRequest) -> bool:
        context = self._context
        if (
            request.epoch <= context.epoch
            or context.has_live_leader
            or not context.log.is_behind(request.last_epoch, request.last_index)
        ):
            return False
        if context.role is Role.FOLLOWER and not self._has_stood_back:
            # The first candidate is likely to win; competing with it would split the votes. Once
            # only: it may be a node that never receives the answers.
            self._has_stood_back = True
            context.change(Role.FOLLOWER)
            context.wake_within(*_ANSWERS_WAIT)
        return True

    def _vote(self, sender: int, request: VoteRequest) -> bool:
        context = self._context
        if request.epoch < context.epoch or context.vote not in {None, sender}:
            return False
        if not context.log.is_behind(request.last_epoch, request.last_index):
            return False
        if context.vote is None:
            if context.leader_id is not None:
                return False  # another node has won this epoch
            context.vote = sender
            context.emit(PersistState(context.epoch, sender))
            context.change(Role.FOLLOWER)
            context.wake_within(1.0, 2.0)
        return True

    def leader_was_heard(self) -> None:
        """There is a leader: forget the last election."""
        self._has_stood_back = False
