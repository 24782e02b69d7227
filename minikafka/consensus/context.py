"""What the parts of a `RaftNode` share: stored and volatile state, and the effects so far."""

from __future__ import annotations

from collections.abc import Callable

from .config import QuorumConfig
from .effects import Committed, Effect, PersistState, RoleChanged, Send
from .log import RaftLog
from .messages import Message
from .roles import TRANSITIONS, Role

__all__ = ["RaftContext"]


class RaftContext:
    """State of one node.

    Attributes:
        dice: (low, high) -> a random number between them.
        epoch: The highest seen.
        vote: The node voted for in `epoch`.
        directory_id: Of this node's data directory.
        was_admitted: A leader has admitted this directory, or it has founded the cluster.
        leader_id: The leader of `epoch`; None when it is unknown or has died.
        commit_index: Everything up to here is committed.
        leader_heard_at: When the last message came from the leader, seconds.
        wake_at: When a node that does not lead has to act, seconds.
        lost_peers: Nodes whose process seems to have died, and until when messages from them may
            still have been in flight at that time.
        now: The time of the event being handled, seconds.
    """

    __slots__ = (
        "_effects",
        "commit_index",
        "config",
        "dice",
        "directory_id",
        "epoch",
        "leader_heard_at",
        "leader_id",
        "log",
        "lost_peers",
        "now",
        "role",
        "vote",
        "wake_at",
        "was_admitted",
    )

    def __init__(
        self,
        config: QuorumConfig,
        log: RaftLog,
        epoch: int,
        vote: int | None,
        commit_index: int,
        dice: Callable[[float, float], float],
        directory_id: bytes,
        *,
        is_admitted: bool,
    ) -> None:
        self.config = config
        self.log = log
        self.dice = dice
        self.directory_id = directory_id
        self.was_admitted = is_admitted
        self.epoch = epoch
        self.vote = vote
        self.commit_index = commit_index
        self.role = self.waiting_role
        self.leader_id: int | None = None
        self.leader_heard_at = 0.0
        self.wake_at: float | None = None
        self.lost_peers: dict[int, float] = {}
        self.now = 0.0
        self._effects: list[Effect] = []

    # --- who votes ---------------------------------------------------------------------------

    @property
    def voters(self) -> frozenset[int]:
        """Whose majority elects and commits: the last set in the log, or the configured one."""
        recorded = self.log.voters
        return self.config.voters if recorded is None else recorded.ids

    @property
    def majority(self) -> int:
        """How many votes decide."""
        return len(self.voters) // 2 + 1

    @property
    def is_counted(self) -> bool:
        """Whether this node belongs to majorities."""
        return self.config.node_id in self.voters

    @property
    def is_alone(self) -> bool:
        """Whether this node's vote is the whole quorum."""
        return self.voters == frozenset({self.config.node_id})

    @property
    def is_voter(self) -> bool:
        """Whether this node takes part in elections.

        A node that was removed does until it knows that this is committed. Its log may be the only
        one that has the record and can win: nobody else could be elected without it.
        """
        if self.is_counted:
            return True
        previous = self.log.previous_voters
        before = self.config.voters if previous is None else previous.ids
        return self._is_changing and self.config.node_id in before

    @property
    def _is_changing(self) -> bool:
        """Whether the voter set is not known to be committed."""
        return self.log.voters_index > self.commit_index

    @property
    def is_admitted(self) -> bool:
        """Whether this node may vote with its directory, and counts in majorities with it."""
        if self.was_admitted:
            return True
        sets = [self.log.voters, *([self.log.previous_voters] if self._is_changing else [])]
        return any(
            one is not None and one.names(self.config.node_id, self.directory_id) for one in sets
        )

    @property
    def waiting_role(self) -> Role:
        """What this node is while it neither leads nor wants to."""
        return Role.FOLLOWER if self.is_voter else Role.OBSERVER

    def settle_role(self) -> None:
        """Become a voter or an observer, after the log has changed."""
        if self.role in {Role.FOLLOWER, Role.OBSERVER} and self.role is not self.waiting_role:
            self.change(self.waiting_role, leader_id=self.leader_id)

    # --- effects -----------------------------------------------------------------------------

    def emit(self, effect: Effect) -> None:
        """Add an effect, to be carried out after all earlier ones."""
        self._effects.append(effect)

    def take_effects(self) -> list[Effect]:
        """The effects to carry out, in order."""
        effects, self._effects = self._effects, []
        return effects

    def send(self, node_id: int, message: Message) -> None:
        self._effects.append(Send(node_id, message))

    def wake_within(self, low: float, high: float) -> None:
        """Wake after `low` to `high` election timeouts, at random."""
        timeout_s = self.config.election_timeout_s
        self.wake_at = self.now + self.dice(low * timeout_s, high * timeout_s)

    def change(
        self,
        role: Role,
        *,
        epoch: int | None = None,
        vote: int | None = None,
        leader_id: int | None = None,
    ) -> None:
        """Change the role; a higher `epoch` is stored together with the `vote` in it.

        Raises:
            RuntimeError: the transition is not in the table; a bug.
        """
        before = (self.role, self.epoch, self.leader_id)
        if role is not self.role and role not in TRANSITIONS[self.role]:
            raise RuntimeError(f"a {self.role.value} cannot become a {role.value}")
        if epoch is not None and epoch > self.epoch:
            self.epoch = epoch
            self.vote = vote
            self.emit(PersistState(epoch, vote, self.is_admitted))
        self.role = role
        self.leader_id = leader_id
        if before != (role, self.epoch, leader_id):
            self.emit(RoleChanged(role, self.epoch, leader_id))

    def follow(self, epoch: int, leader_id: int | None) -> None:
        """Follow a leader, or wait for one, in the current or a higher epoch."""
        self.change(self.waiting_role, epoch=epoch, leader_id=leader_id)
        self.wake_within(1.0, 2.0)

    def cast_vote(self, candidate: int) -> None:
        """Vote in the current epoch; only an admitted directory keeps such a promise."""
        self.vote = candidate
        self.was_admitted = True
        self.emit(PersistState(self.epoch, candidate))

    def commit(self, index: int) -> None:
        """Raise the commit index; a lower one changes nothing."""
        if index > self.commit_index:
            self.commit_index = index
            self.emit(Committed(index))
            self.settle_role()

    @property
    def has_live_leader(self) -> bool:
        """Whether an election is unnecessary."""
        return self.role is Role.LEADER or (
            self.leader_id is not None
            and self.now < self.leader_heard_at + self.config.election_timeout_s
        )
