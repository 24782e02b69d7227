"""What the parts of a `RaftNode` share: the stored and the volatile state, and the effects."""

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
        config: Who takes part, timing, limits.
        log: The entries.
        dice: (low, high) -> a random number between them.
        epoch: The highest that was seen.
        vote: For whom this node voted in `epoch`.
        role: What it is.
        leader_id: Who leads in `epoch`, None when that is not known or the leader is gone.
        commit_index: Everything up to here is decided.
        leader_heard_at: When the leader was last heard, seconds.
        wake_at: When a node that does not lead has to do something, seconds.
        lost_peers: Nodes whose process is gone, as far as is known, and until when what comes
            from them was still on its way when they died.
        now: The time of the event being handled, seconds.
    """

    __slots__ = (
        "_effects",
        "commit_index",
        "config",
        "dice",
        "epoch",
        "leader_heard_at",
        "leader_id",
        "log",
        "lost_peers",
        "now",
        "role",
        "vote",
        "wake_at",
    )

    def __init__(
        self,
        config: QuorumConfig,
        log: RaftLog,
        epoch: int,
        vote: int | None,
        commit_index: int,
        dice: Callable[[float, float], float],
    ) -> None:
        self.config = config
        self.log = log
        self.dice = dice
        self.epoch = epoch
        self.vote = vote
        self.role = Role.FOLLOWER if config.is_voter else Role.OBSERVER
        self.leader_id: int | None = None
        self.commit_index = commit_index
        self.leader_heard_at = 0.0
        self.wake_at: float | None = None
        self.lost_peers: dict[int, float] = {}
        self.now = 0.0
        self._effects: list[Effect] = []

    def emit(self, effect: Effect) -> None:
        """Something has to be done, after everything that was emitted before."""
        self._effects.append(effect)

    def take_effects(self) -> list[Effect]:
        """What has to be done, in order."""
        effects, self._effects = self._effects, []
        return effects

    def send(self, node_id: int, message: Message) -> None:
        """Emit a `Send`."""
        self._effects.append(Send(node_id, message))

    def wake_within(self, low: float, high: float) -> None:
        """Wake after a random part of the election timeout between `low` and `high` of it."""
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
        """Take a role; a higher `epoch` is stored together with the `vote` in it.

        Raises:
            RuntimeError: that role cannot follow this one; a bug.
        """
        before = (self.role, self.epoch, self.leader_id)
        if role is not self.role and role not in TRANSITIONS[self.role]:
            raise RuntimeError(f"a {self.role.value} cannot become a {role.value}")
        if epoch is not None and epoch > self.epoch:
            self.epoch = epoch
            self.vote = vote
            self.emit(PersistState(epoch, vote))
        self.role = role
        self.leader_id = leader_id
        if before != (role, self.epoch, leader_id):
            self.emit(RoleChanged(role, self.epoch, leader_id))

    def follow(self, epoch: int, leader_id: int | None) -> None:
        """Listen to a leader, or wait for one, in the current or a higher epoch."""
        role = Role.FOLLOWER if self.config.is_voter else Role.OBSERVER
        self.change(role, epoch=epoch, leader_id=leader_id)
        self.wake_within(1.0, 2.0)

    def commit(self, index: int) -> None:
        """Everything up to `index` is decided; less than before changes nothing."""
        if index > self.commit_index:
            self.commit_index = index
            self.emit(Committed(index))

    @property
    def has_live_leader(self) -> bool:
        """Whether there is no reason for an election."""
        return self.role is Role.LEADER or (
            self.leader_id is not None
            and self.now < self.leader_heard_at + self.config.election_timeout_s
        )
