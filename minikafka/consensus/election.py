"""Elections: pre-votes and votes, from the candidate's and from the voter's side.

A vote is a promise that is kept on a disk. A voter whose data directory was lost and replaced has
lost its promises, and what it had acknowledged; if it voted, it could elect a leader without
committed entries. So every directory has an id, and must be *admitted* before it votes:

- A voter with a new directory is not admitted. When it has entries, it neither campaigns nor votes
  until the leader admits it (`minikafka.consensus.leader`).
- An empty log can only win while there is nothing to lose. A candidate with an empty log *founds* a
  cluster: it needs the votes of all voters, and all of their logs have to be empty. If anything had
  been committed, at least one voter of a majority that lost no directory would deny its vote.
- The founding request names the directories that gave their pre-votes, and a voter grants it only
  to its own. So a request that comes late does not bind a directory that took another's place.
- Casting a vote in a founding election admits the voter; both are stored together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from .context import RaftContext
from .messages import DirectoryOf, JoinRequest, VoteRequest, VoteResponse
from .roles import Role

__all__ = ["Election"]

logger = logging.getLogger(__name__)

# Parts of the election timeout. At a start there is probably no leader to hear from; an election
# that was lost is repeated sooner than one without answers.
_FIRST_WAIT = (0.125, 0.5)
_ANSWERS_WAIT = (0.5, 1.0)
_LOST_WAIT = (0.125, 0.25)
_DOUBLINGS_MAX = 3
"""How often the longest wait doubles with failed attempts. Nodes that are short of processor
time would otherwise disturb each other's elections again and again."""


class Election:
    """The part of a node that elects; calls ``on_elected`` when this node has won."""

    __slots__ = (
        "_context",
        "_denied",
        "_directories",
        "_failed_count",
        "_granted",
        "_has_stood_back",
        "_newcomers",
        "_on_elected",
        "_reported",
    )

    def __init__(self, context: RaftContext, on_elected: Callable[[], None]) -> None:
        self._context = context
        self._on_elected = on_elected
        self._granted: set[int] = set()
        self._denied: set[int] = set()
        self._has_stood_back = False
        self._directories: dict[int, bytes] = {}  # of the voters that would vote for this node
        self._newcomers: set[int] = set()  # that denied because they are not admitted
        self._reported = ""
        self._failed_count = 0  # attempts since a leader was heard or elected

    def start(self) -> None:
        """Wait for a leader, or campaign as the only voter."""
        context = self._context
        if context.is_alone:
            self.campaign()
        else:
            context.wake_within(*_FIRST_WAIT)

    def ask_for_pre_votes(self) -> None:
        """Start an election: there is no leader, or the last attempt failed."""
        context = self._context
        if not self._may_campaign:
            self._report("this node's data directory is new: it waits until a leader admits it")
            context.follow(context.epoch, None)
            self._ask_to_observe()
            return
        if context.role is not Role.FOLLOWER:
            self._report_missing()
        context.change(Role.PROSPECTIVE)
        if self._failed_count > 1:
            self._ask_to_observe()
        self._begin(is_pre_vote=True)

    def _ask_to_observe(self) -> None:
        """Ask a leader, if there is one, whether it does not count this node any more.

        The node may have been removed, and does not know it; or it is configured as a voter, and
        the log has other ones. A leader of which it is a voter sends entries in any case.
        """
        context = self._context
        for voter in sorted(context.voters - {context.config.node_id}):
            context.send(voter, JoinRequest(context.epoch))

    @property
    def _is_founding(self) -> bool:
        context = self._context
        return context.log.last_index == 0 and not context.is_alone

    @property
    def _may_campaign(self) -> bool:
        return self._context.is_admitted or self._is_founding

    @property
    def _votes_needed(self) -> int:
        context = self._context
        return len(context.voters) if self._is_founding else context.majority

    def campaign(self) -> None:
        """Move to the next epoch and ask for votes in it."""
        context = self._context
        if not self._may_campaign:
            return
        node_id = context.config.node_id
        context.was_admitted = True  # stored with the vote
        context.change(Role.CANDIDATE, epoch=context.epoch + 1, vote=node_id)
        self._begin(is_pre_vote=False)

    def _begin(self, *, is_pre_vote: bool) -> None:
        context = self._context
        config = context.config
        self._granted = {config.node_id} & context.voters
        self._denied = set()
        self._newcomers = set()
        self._has_stood_back = False
        directories: tuple[DirectoryOf, ...] = ()
        if is_pre_vote:
            self._directories = {config.node_id: context.directory_id}
        elif self._is_founding:
            directories = tuple(DirectoryOf(*one) for one in sorted(self._directories.items()))
        if context.is_alone:
            if is_pre_vote:
                self.campaign()
            else:
                self._on_elected()
            return
        self._back_off(_ANSWERS_WAIT)
        if is_pre_vote:
            self._failed_count += 1  # until it succeeds
        log = context.log
        epoch = context.epoch + is_pre_vote
        request = VoteRequest(epoch, log.last_epoch, log.last_index, is_pre_vote, directories)
        recorded = log.voters
        for voter in sorted(context.voters - {config.node_id}):
            directory = b"" if recorded is None else recorded.directory_of(voter)
            context.send(voter, request._replace(voter_directory=directory))

    def handle_response(self, sender: int, response: VoteResponse) -> None:
        """Count a vote; its epoch is not higher than ours."""
        context = self._context
        is_prospective = context.role is Role.PROSPECTIVE
        asked_epoch = context.epoch + is_prospective
        if (
            context.role not in {Role.PROSPECTIVE, Role.CANDIDATE}
            or sender not in context.voters
            or (response.is_pre_vote, response.asked_epoch) != (is_prospective, asked_epoch)
        ):
            return  # too late
        if response.is_granted:
            self._granted.add(sender)
            if is_prospective:
                self._directories[sender] = response.directory_id
        else:
            self._denied.add(sender)
            if not response.is_admitted:
                self._newcomers.add(sender)
        if len(self._granted) < self._votes_needed:
            self.give_up_if_lost()
        elif is_prospective:
            self.campaign()
        else:
            self._failed_count = 0
            self._on_elected()

    def give_up_if_lost(self) -> None:
        """Retry soon if the voters that have not answered are too few to win."""
        context = self._context
        against = (self._denied | context.lost_peers.keys()) - self._granted
        possible = len(context.voters - against)
        if possible < self._votes_needed:
            self._report_missing()
            context.change(context.waiting_role)
            self._back_off(_LOST_WAIT)

    def _back_off(self, wait: tuple[float, float]) -> None:
        low, high = wait
        self._context.wake_within(low, high * 2 ** min(self._failed_count, _DOUBLINGS_MAX))

    def _report_missing(self) -> None:
        """Say which voters this node waits for, where that may need somebody's help."""
        context = self._context
        silent = context.voters - self._granted - self._denied - {context.config.node_id}
        names = ", ".join(map(str, sorted(silent)))
        if self._newcomers:
            self._report(
                f"no leader can be elected yet: voters "
                f"{', '.join(map(str, sorted(self._newcomers)))} have new data directories and do "
                f"not vote until a leader has admitted them; waiting for voters {names or 'none'}"
            )
        elif self._is_founding and silent and not self._denied:
            self._report(
                f"waiting for voters {names}: a new cluster is founded by all of its voters "
                "together"
            )

    def _report(self, text: str) -> None:
        if text != self._reported:
            self._reported = text
            logger.info("metadata quorum: %s", text)

    def is_for_this_node(self, sender: int, request: VoteRequest) -> bool:
        """Whether this node's vote counts for the sender.

        The sender's log decides about that, which may know of voters that this one's does not.
        """
        context = self._context
        if request.voter_directory:
            return context.is_voter or request.voter_directory == context.directory_id
        return context.is_voter and sender in context.voters

    def handle_request(self, sender: int, request: VoteRequest) -> None:
        """Answer a request for a vote; only a pre-vote may have a higher epoch than ours."""
        context = self._context
        if request.is_pre_vote:
            is_granted = self._would_vote(request)
        else:
            is_granted = self._vote(sender, request)
        context.send(
            sender,
            VoteResponse(
                context.epoch,
                request.epoch,
                request.is_pre_vote,
                is_granted,
                context.directory_id,
                context.is_admitted,
            ),
        )

    def _may_vote_for(self, request: VoteRequest) -> bool:
        """Whether the sender has everything that may be committed, as far as this node knows."""
        context = self._context
        if request.last_index == 0 and not request.is_pre_vote:
            own = (context.config.node_id, context.directory_id)
            if own not in request.directories:
                return False  # the founders do not know this directory
        elif request.last_index > 0 and not (
            context.is_admitted
            # The directory was added by a record that this node has not received yet.
            or (request.voter_directory and request.voter_directory == context.directory_id)
        ):
            return False
        return context.log.is_behind(request.last_epoch, request.last_index)

    def _would_vote(self, request: VoteRequest) -> bool:
        context = self._context
        if (
            request.epoch <= context.epoch
            or context.has_live_leader
            or not self._may_vote_for(request)
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
        if not self._may_vote_for(request):
            return False
        if context.vote is None:
            if context.leader_id is not None:
                return False  # another node has won this epoch
            context.cast_vote(sender)
            context.change(context.waiting_role)
            context.wake_within(1.0, 2.0)
        return True

    def leader_was_heard(self) -> None:
        """There is a leader: forget the last election."""
        self._has_stood_back = False
        self._failed_count = 0
        self._reported = ""
