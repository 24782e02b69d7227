"""Sends a coordinator's decisions to the leaders of all partitions, here and elsewhere.

A decision is final, so its markers are sent until every partition has one, or until the shard
resigns, and the next coordinator continues.

One task starts the sending, after the client has been answered. The rest are plain calls: all
leaders are asked at the same time, and the last answer ends the round. Only a decision with
partitions left gets a task, which pauses before the next round.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import trio

from ...coordinator.transaction import SendMarkers, TopicPartition
from ...metadata.records import NO_LEADER
from ...protocol.errors import ErrorCode
from ..rpc import operations
from ..rpc.codec import Reply
from ..rpc.errors import RpcError
from ..settings.effective import MetadataView
from ..system.backoff import Backoff
from .markers import Marker, MarkerWriter
from .runtime import ShardRuntime

if TYPE_CHECKING:
    from ...coordinator.transaction import TransactionShard
    from ..rpc.peers import Peers

logger = logging.getLogger(__name__)

_DECISIONS_AT_ONCE_MAX: Final = 512
_PLACES_PER_ROUND: Final = 16
"""A marker may have to open a file, and a transaction may have 10,000 partitions."""
_ANSWER_SECONDS_MAX: Final = 10.0
_LOOK_SECONDS: Final = 1.0
_RETRY_SECONDS_MIN: Final = 0.02
_RETRY_SECONDS_MAX: Final = 1.0

_DONE: Final = frozenset(
    {
        ErrorCode.NONE,
        # The partition has seen a later epoch, so the transaction has already ended there.
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)


class _Sent(NamedTuple):
    """A decision of a shard, by the number of its partition, that nothing was done about yet."""

    number: int
    shard: TransactionShard
    effect: SendMarkers


class _Decision:
    """A decision whose markers are not in all partitions yet.

    Attributes:
        left: the partitions without a marker.
        tried: those of them that this round is for.
        written: the partitions that got one in this round.
        asked: the unanswered questions of this round.
        is_fenced: another coordinator has taken over.
    """

    __slots__ = (
        "asked",
        "backoff",
        "effect",
        "is_fenced",
        "left",
        "marker",
        "number",
        "shard",
        "tried",
        "written",
    )

    def __init__(self, sent: _Sent) -> None:
        self.number, self.shard, self.effect = sent
        effect = sent.effect
        self.marker = Marker(
            effect.producer_id,
            effect.producer_epoch,
            effect.coordinator_epoch,
            effect.transaction_version,
            effect.commits,
        )
        self.left = dict.fromkeys(effect.partitions)
        self.tried: list[TopicPartition] = []
        self.written: list[TopicPartition] = []
        self.asked: dict[_Question, None] = {}
        self.is_fenced = False
        self.backoff = Backoff(_RETRY_SECONDS_MIN, _RETRY_SECONDS_MAX)


class Asker(Protocol):
    """Receives the answer to a request to write markers."""

    def failed(self) -> None:
        """The outcome is unknown."""
        ...

    def answered(self, codes: Sequence[ErrorCode]) -> None:
        """The leader's error code for each partition."""
        ...


class _Question:
    """A request to one leader to write a marker.

    It is given up at ``until`` (monotonic seconds), which is infinite for this broker itself.
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
        self.answered(())

    def answered(self, codes: Sequence[ErrorCode]) -> None:
        """Note the outcomes, unless it was given up; partitions without one are tried again."""
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
    def __init__(
        self,
        node_id: int,
        metadata: MetadataView,
        runtime: ShardRuntime[TransactionShard],
        writer: MarkerWriter,
        peers: Peers | None,
    ) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._runtime = runtime
        self._writer = writer
        self._peers = peers
        self._new: deque[_Decision | _Sent] = deque()
        self._begun: dict[_Decision, None] = {}
        self._sleeper: trio.lowlevel.Task | None = None
        self._is_busy = trio.Event()

    def send(self, number: int, effect: SendMarkers) -> None:
        # The client has not been answered yet, so everything else is left to the task.
        self._new.append(_Sent(number, self._runtime.shards[number], effect))
        self._wake()

    def _wake(self) -> None:
        if self._sleeper is not None:
            trio.lowlevel.reschedule(self._sleeper)
            self._sleeper = None

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_time)
            places = 0
            while True:
                while (decision := self._next()) is not None:
                    self._begun[decision] = None
                    self._is_busy.set()
                    self._begin_round(decision)
                    places += len(decision.tried)
                    if places >= _PLACES_PER_ROUND:
                        await trio.lowlevel.checkpoint()
                        places = 0
                self._sleeper = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._abort_sleep)

    def _next(self) -> _Decision | None:
        """The next decision to work on, if there is one and room for it."""
        if not self._new or len(self._begun) >= _DECISIONS_AT_ONCE_MAX:
            return None
        found = self._new.popleft()
        return _Decision(found) if isinstance(found, _Sent) else found

    def _abort_sleep(self, _: object) -> trio.lowlevel.Abort:
        self._sleeper = None
        return trio.lowlevel.Abort.SUCCEEDED

    async def _watch_time(self) -> None:
        """Give up unanswered questions: another broker may lead by now."""
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
        if self._runtime.shards.get(decision.number) is not decision.shard:
            self._end(decision)
            return
        topics = self._metadata.image.topics
        by_leader: dict[int, list[TopicPartition]] = {}
        decision.tried = list(islice(decision.left, _PLACES_PER_ROUND))
        for place in decision.tried:
            topic = topics.get(place[0])
            if topic is None or place[1] >= len(topic.partitions):
                decision.written.append(place)  # deleted
                continue
            leader = topic.partitions[place[1]].leader
            if leader != NO_LEADER:
                by_leader.setdefault(leader, []).append(place)
        limit = trio.current_time() + _ANSWER_SECONDS_MAX
        here = self._node_id
        questions = {
            leader: _Question(self, decision, places, float("inf") if leader == here else limit)
            for leader, places in by_leader.items()
        }
        decision.asked = dict.fromkeys(questions.values())
        if not questions:
            self.end_round(decision)
        for leader, question in questions.items():
            if leader == here:
                self._writer.write(decision.marker, by_leader[leader], question.answered)
            else:
                self.ask(leader, question, decision.marker, by_leader[leader])

    def ask(
        self, leader: int, question: Asker, marker: Marker, places: Sequence[TopicPartition]
    ) -> None:
        """Ask another broker, the leader of these partitions, to write a marker."""
        if self._peers is None:
            question.failed()
            return
        request = operations.WriteMarkers(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.transaction_version,
            marker.commits,
            tuple(operations.Place(*place) for place in places),
        )
        try:
            self._peers.client(leader).ask(
                operations.WRITE_MARKERS,
                request,
                on_answer=partial(self._answered, leader, question),
            )
        except RpcError as error:
            self._answered(leader, question, error)

    def _answered(
        self, leader: int, question: Asker, answer: Reply[operations.WriteMarkersResult] | RpcError
    ) -> None:
        if isinstance(answer, Exception):
            logger.info("node %d did not write markers: %s", leader, answer)
            question.failed()
            return
        question.answered(answer.message.error_codes)

    def end_round(self, decision: _Decision) -> None:
        """All questions of a round are answered or given up."""
        shard, number = decision.shard, decision.number
        written, decision.written = decision.written, []
        for place in written:
            del decision.left[place]
        failed = [place for place in decision.tried if place in decision.left]
        for place in failed:  # the others come first
            del decision.left[place]
            decision.left[place] = None
        has_resigned = self._runtime.shards.get(number) is not shard
        if decision.is_fenced:
            logger.warning(
                "another coordinator has taken over %s and writes its markers",
                decision.effect.transactional_id,
            )
        self._end(decision)
        if not (has_resigned or decision.is_fenced) and decision.left:
            if failed:
                self._runtime.nursery.start_soon(self._pause, decision)
            else:
                self._new.append(decision)
                self._wake()
        if written and not has_resigned:
            effect = decision.effect
            effects = shard.markers_written(
                effect.transactional_id,
                effect.producer_id,
                effect.producer_epoch,
                written,
                self._runtime.now(),
            )
            self._runtime.carry_out(number, [*effects])

    async def _pause(self, decision: _Decision) -> None:
        await trio.sleep(decision.backoff.next_pause())
        self._new.append(decision)
        self._wake()

    def _end(self, decision: _Decision) -> None:
        """Make room for other decisions: one that waits for a leader must not block them."""
        del self._begun[decision]
        if self._new:
            self._wake()
