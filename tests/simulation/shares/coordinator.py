"""The share coordinator: a shard, its log, failovers, and the way to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from minikafka.broker.coordinators.share_state import ShareStateService
from minikafka.coordinator.share.commands import Command, Reply, ShareStateReply
from minikafka.coordinator.share.records import SharePartitionKey, ShareState
from minikafka.coordinator.share.shard import ShareStateConfig, ShareStateShard
from minikafka.coordinator.writes import Append, Now, Record
from minikafka.protocol.errors import ErrorCode
from minikafka.testing.simulation.network import pass_time

if TYPE_CHECKING:
    from tests.simulation.shares.world import World

_COMMIT_S = (0.001, 0.15)
_ASK_S = 1.0
_UPDATES_MAX = 4


class Coordinator:
    """The shard that leads now, with a log that commits a little later than it appends.

    Attributes:
        on_loaded: called when the next one has read the log.
    """

    def __init__(self, world: World, on_loaded: Callable[[], None]) -> None:
        self._world = world
        self._on_loaded = on_loaded
        self._log: list[tuple[int, Record]] = []  # what was pruned is gone
        self._end = 0
        self._committed = 0
        self._batch_ends: list[int] = []
        self._term = 0
        self.is_up = False
        self.shard: ShareStateShard
        self._load()

    def _load(self) -> None:
        self._term += 1
        self.shard = ShareStateShard(ShareStateConfig(updates_max=_UPDATES_MAX))
        for offset, (key, value) in self._log:
            self.shard.replay(key, value)
            self.shard.written_at(offset, key, value)
        self.is_up = True
        self._carry_out(self.shard.loaded())
        self._on_loaded()

    def state_of(self, key: SharePartitionKey) -> ShareState | None:
        return self.shard._states.get(key)

    def fail_over(self) -> None:
        """The leader dies, and a part of what was not committed with it."""
        if not self.is_up:
            return
        ends = [end for end in self._batch_ends if self._committed <= end <= self._end]
        kept = self._world.dice.choice([self._committed, *ends])
        self._world.note(f"the coordinator dies; {kept} of {self._end} records stay")
        self._batch_ends = [end for end in self._batch_ends if end <= kept]
        self._log = [one for one in self._log if one[0] < kept]
        self._end = self._committed = kept
        self.is_up = False
        self._term += 1
        self._world.after(self._world.dice.uniform(0.05, 2.0), self._load)

    def prune(self) -> None:
        """Delete what later snapshots have superseded."""
        if self.is_up:
            offset = min(self.shard.needed_from(self._end), self._committed)
            self._log = [one for one in self._log if one[0] >= offset]

    # --- commands --------------------------------------------------------------------------------

    def _now(self) -> Now:
        return Now(trio.current_time(), self._world.wall_ms())

    def handle(self, command: Command, token: Callable[[ShareStateReply], None]) -> None:
        if self.is_up:
            self._carry_out(self.shard.handle(command, token, self._now()))

    def _carry_out(self, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case Reply(token, reply):
                    assert callable(token)
                    token(reply)
                case Append(records, write_id):
                    for key, value in records:
                        self._log.append((self._end, (key, value)))
                        self.shard.written_at(self._end, key, value)
                        self._end += 1
                    self.shard.appended(write_id)
                    self._look()
                    self._batch_ends.append(self._end)
                    delay_s = self._world.dice.uniform(*_COMMIT_S)
                    self._world.after(delay_s, self._commit, self._term, write_id, self._end)

    def _look(self) -> None:
        for key, state in self.shard._states.items():
            self._world.truth.look_at(key.partition, state)

    def _commit(self, term: int, write_id: int, end: int) -> None:
        if term == self._term and self.is_up:
            self._committed = max(self._committed, end)
            self._carry_out(self.shard.committed(write_id, self._now()))


class Asker(ShareStateService):
    """How brokers ask the coordinator: the real way to repeat commands, over a bad network."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._clock = world

    async def _ask_once(self, command: Command) -> ShareStateReply:
        world = self._world
        await pass_time(world.dice.uniform(0.0005, 0.03))
        replies: list[ShareStateReply] = []
        is_there = trio.Event()

        def answer(reply: ShareStateReply) -> None:
            replies.append(reply)
            is_there.set()

        if not world.is_lost():
            world.coordinator.handle(command, answer)
        with trio.move_on_after(_ASK_S):
            await is_there.wait()
            if not world.is_lost():
                await pass_time(world.dice.uniform(0.0005, 0.03))
                return replies[0]
            await trio.sleep_forever()
        return ShareStateReply(ErrorCode.COORDINATOR_NOT_AVAILABLE)
