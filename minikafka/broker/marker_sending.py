"""Brings a coordinator's decisions to the leaders of all partitions, here and elsewhere.

A decision is never taken back, so there is nothing to do but to try as often as it takes. It ends
when the shard is told that every marker is written, or resigns: then its successor goes on.

One task begins what shards want, after whoever waited for the decision has been answered. The rest
are plain calls: the leaders are asked at once, and the last answer ends the round. Only a round
that left something gets a task, which rests before the next one.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import trio

from ..coordinator.transaction import SendMarkers, TopicPartition
from ..metadata.image import NO_LEADER
from ..protocol.errors import ErrorCode
from .shard_runtime import ShardRuntime
from .transaction_markers import WRITE_MARKERS, Marker, MarkerWrite

if TYPE_CHECKING:
    from ..coordinator.transaction import TransactionShard
    from .broker import Broker
    from .rpc import Reply, RpcError

logger = logging.getLogger(__name__)

_DECISIONS_AT_ONCE_MAX: Final = 512
_ANSWER_SECONDS_MAX: Final = 10.0
_LOOK_SECONDS: Final = 1.0
_RETRY_SECONDS_MIN: Final = 0.02
_RETRY_SECONDS_MAX: Final = 1.0

_DONE: Final = frozenset(
    {
        ErrorCode.NONE,
        # The producer has gone on in that partition: the transaction ended there before.
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)


class _Decision:
    """A decision of a shard that is not in all partitions yet.

    Attributes:
        left: where its marker is to be written.
        written: where it was, in this round.
        asked: questions of this round that are not answered.
        is_fenced: another coordinator writes them.
        pause_s: how long to rest before the next round.
    """

    __slots__ = (
        "asked",
        "effect",
        "is_fenced",
        "left",
        "marker",
        "number",
        "pause_s",
        "shard",
        "written",
    )

    def __init__(self, number: int, shard: TransactionShard, effect: SendMarkers) -> None:
        self.number = number
        self.shard = shard
        self.effect = effect
        self.marker = Marker(
            effect.producer_id,
            effect.producer_epoch,
            effect.coordinator_epoch,
            effect.transaction_version,
            effect.commits,
        )
        self.left = dict.fromkeys(effect.partitions)
        self.written: list[TopicPartition] = []
        self.asked: dict[_Question, None] = {}
        self.is_fenced = False
        self.pause_s = _RETRY_SECONDS_MIN


class Asker(Protocol):
    """Who wants to know whether markers are written."""

    def failed(self) -> None:
        """Nobody knows what became of it."""
        ...

    def answered(self, codes: Sequence[ErrorCode]) -> None:
        """What the leader says of each place."""
        ...


class _Question:
    """One leader is asked to write a marker.

    Attributes:
        until: when it is given up, monotonic seconds; there is no limit for this broker itself.
    """

    __slots__ = ("_decision", "_places", "_sender", "until")

    def __init__(
        self,
        sender: MarkerSender,
        decision: _Decision,
        places: Sequence[TopicPartition],
        until: float,
    ) -> None:
        self._sender = sender
        self._decision = decision
        self._places = places
        self.until = until

    def failed(self) -> None:
        """Nobody knows what became of it."""
        self.answered(())

    def answered(self, codes: Sequence[ErrorCode]) -> None:
        """Take in the outcomes, unless it was given up; what has none is tried again."""
        decision = self._decision
        if self not in decision.asked:
            return
        del decision.asked[self]
        for place, code in zip(self._places, codes, strict=False):
            if code in _DONE:
                decision.written.append(place)
            elif code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
                decision.is_fenced = True
        if not decision.asked:
            self._sender.end_round(decision)


class MarkerSender:
    """Brings decisions of this broker's transaction shards to the partitions."""

    def __init__(self, broker: Broker, runtime: ShardRuntime[TransactionShard]) -> None:
        self._broker = broker
        self._runtime = runtime
        self._new: deque[_Decision] = deque()
        self._begun: dict[_Decision, None] = {}
        self._sleeper: trio.lowlevel.Task | None = None
        self._is_busy = trio.Event()

    def send(self, number: int, effect: SendMarkers) -> None:
        """Begin soon to send a decision of the shard of a partition."""
        self._new.append(_Decision(number, self._runtime.shards[number], effect))
        self._wake()

    def _wake(self) -> None:
        if self._sleeper is not None:
            trio.lowlevel.reschedule(self._sleeper)
            self._sleeper = None

    async def run(self) -> None:
        """Begin what is to be sent, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_time)
            while True:
                while self._new and len(self._begun) < _DECISIONS_AT_ONCE_MAX:
                    decision = self._new.popleft()
                    self._begun[decision] = None
                    self._is_busy.set()
                    self._begin_round(decision)
                self._sleeper = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._abort_sleep)

    def _abort_sleep(self, _: object) -> trio.lowlevel.Abort:
        self._sleeper = None
        return trio.lowlevel.Abort.SUCCEEDED

    async def _watch_time(self) -> None:
        """Give up what is not answered: another broker may lead by now."""
        while True:
            if not self._begun:
                self._is_busy = trio.Event()
            await self._is_busy.wait()
            await trio.sleep(_LOOK_SECONDS)
            now = trio.current_time()
            for decision in list(self._begun):
                for question in [one for one in decision.asked if one.until <= now]:
                    question.failed()

    # --- rounds --------------------------------------------------------------------------------

    def _begin_round(self, decision: _Decision) -> None:
        """Ask all leaders of what is left."""
        if self._runtime.shards.get(decision.number) is not decision.shard:
            self._end(decision)
            return
        topics = self._broker.image.topics
        by_leader: dict[int, list[TopicPartition]] = {}
        for place in decision.left:
            topic = topics.get(place[0])
            if topic is None or place[1] >= len(topic.partitions):
                decision.written.append(place)  # deleted: there is nobody to tell
                continue
            leader = topic.partitions[place[1]].leader
            if leader != NO_LEADER:
                by_leader.setdefault(leader, []).append(place)
        limit = trio.current_time() + _ANSWER_SECONDS_MAX
        here = self._broker.node_id
        questions = {
            leader: _Question(self, decision, places, float("inf") if leader == here else limit)
            for leader, places in by_leader.items()
        }
        decision.asked = dict.fromkeys(questions.values())
        if not questions:
            self.end_round(decision)
        for leader, question in questions.items():
            if leader == here:
                MarkerWrite(self._broker, decision.marker, by_leader[leader], question.answered)
            else:
                self.ask(leader, question, decision.marker, by_leader[leader])

    def ask(
        self, leader: int, question: Asker, marker: Marker, places: Sequence[TopicPartition]
    ) -> None:
        """Ask another broker, which leads the places, to write a marker."""
        from .rpc import RpcError

        interconnect = self._broker.interconnect
        if interconnect is None:
            question.failed()
            return
        fields = [*marker, [list(one) for one in places]]
        try:
            interconnect.peers.client(leader).ask(
                WRITE_MARKERS, fields, on_answer=partial(self._heard, leader, question)
            )
        except RpcError as error:
            self._heard(leader, question, error)

    def _heard(self, leader: int, question: Asker, answer: Reply | RpcError) -> None:
        if isinstance(answer, Exception):
            logger.info("node %d did not take markers: %s", leader, answer)
            question.failed()
            return
        try:
            codes = [ErrorCode(code) for code in answer.fields]
        except (TypeError, ValueError) as error:
            logger.error("node %d answers nonsense about markers: %s", leader, error)
            codes = []
        question.answered(codes)

    def end_round(self, decision: _Decision) -> None:
        """All who were asked have answered, or were given up."""
        shard, number = decision.shard, decision.number
        written, decision.written = decision.written, []
        for place in written:
            del decision.left[place]
        is_over = self._runtime.shards.get(number) is not shard
        if decision.is_fenced:
            logger.warning(
                "another coordinator writes the markers of %s", decision.effect.transactional_id
            )
        self._end(decision)
        if not (is_over or decision.is_fenced) and decision.left:
            self._runtime.nursery.start_soon(self._rest, decision)
        if written and not is_over:
            effect = decision.effect
            effects = shard.markers_written(
                effect.transactional_id,
                effect.producer_id,
                effect.producer_epoch,
                written,
                self._runtime.now(),
            )
            self._runtime.carry_out(number, [*effects])

    async def _rest(self, decision: _Decision) -> None:
        await trio.sleep(decision.pause_s)
        decision.pause_s = min(2 * decision.pause_s, _RETRY_SECONDS_MAX)
        self._new.append(decision)
        self._wake()

    def _end(self, decision: _Decision) -> None:
        """Give its place to others; what rests for want of a leader holds up nobody else."""
        del self._begun[decision]
        if self._new:
            self._wake()
