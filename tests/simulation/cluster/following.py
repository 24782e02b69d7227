"""What a simulated follower does: ask, and carry out what its machine says about the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka.replication import (
    AdvanceLogStart,
    AppendRecords,
    FetchPosition,
    FollowerEffect,
    FollowHighWatermark,
    RestartAt,
    TruncateTo,
)
from minikafka.storage.errors import LogError
from minikafka.storage.log import Log
from tests.simulation.cluster.messages import Entry, Fetch, Fetched
from tests.simulation.cluster.replica_state import NOW_MS, ReplicaState

if TYPE_CHECKING:
    from tests.simulation.cluster.node import SimulatedNode

FETCH_ANSWER_MAX_S = 5.0


class Following(ReplicaState):
    """See the module's text."""

    def __init__(self, node: SimulatedNode, number: int, log: Log) -> None:
        super().__init__(node, number, log)
        self._asked: tuple[int, FetchPosition] | None = None  # correlation, and what was asked

    def ask(self) -> None:
        follower = self.follower
        position = None if follower is None else follower.position()
        if follower is None or position is None:
            return
        if self.node.truth.is_synced:
            self.log.flush()
        correlation = self.node.next_correlation()
        self._asked = (correlation, position)
        fetch = Fetch(
            self.number,
            correlation,
            self.node.broker_epoch,
            position,
            self.log.high_watermark,
        )
        self.node.send(follower.leader_id, fetch)
        self.node.after(FETCH_ANSWER_MAX_S, self._not_answered, correlation)

    def _not_answered(self, correlation: int) -> None:
        if self._asked is not None and self._asked[0] == correlation and self.follower is not None:
            self._asked = None
            self.follower.not_answered(self.node.world.now)
            self.set_timer()

    def fetched(self, fetched: Fetched) -> None:
        """The leader answers a fetch."""
        follower = self.follower
        if follower is None or self._asked is None or self._asked[0] != fetched.correlation:
            return
        _, position = self._asked
        self._asked = None
        effects = follower.answered(position, fetched.answer, self.node.world.now)
        self.follow_effects(effects, fetched.entries)
        self.ask()
        self.set_timer()

    def follow_effects(self, effects: list[FollowerEffect], entries: tuple[Entry, ...]) -> None:
        log, node = self.log, self.node
        for effect in effects:
            match effect:
                case AppendRecords(records):
                    try:
                        log.append_as_follower(records, now_ms=NOW_MS)
                    except LogError as refusal:
                        node.world.note("{} refuses records: {}", node, refusal)
                        assert self.follower is not None
                        self.follower.append_failed(node.world.now)
                        return
                    self.take_new_entries(list(entries))
                case FollowHighWatermark(offset):
                    log.high_watermark = offset
                    node.truth.shown(node.node_id, self.number, log.high_watermark, self.entries)
                case AdvanceLogStart(offset):
                    log.advance_log_start_offset(offset)
                case TruncateTo(offset):
                    node.world.note("{} cuts {} to {}", node, self.number, offset)
                    log.truncate_to(offset)
                    self.cut_entries()
                case RestartAt(offset):
                    node.world.note("{} begins {} anew at {}", node, self.number, offset)
                    log.truncate_fully_and_start_at(offset, now_ms=NOW_MS)
                    self.cut_entries()

    def stop_asking(self) -> None:
        """Whatever comes back is not for this role."""
        self._asked = None

    def ask_again(self) -> None:
        """Ask, if nothing is asked already."""
        if self._asked is None:
            self.ask()
