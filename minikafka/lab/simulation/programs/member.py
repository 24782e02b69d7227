"""A member of a consumer group (KIP-848): heartbeats, assignment, position, reading, committing.

The program is one loop: it takes over a new assignment, polls, and consumes what it was given,
while heartbeats go on beside it. A member that was fenced has lost its partitions, and joins again;
what it is consuming at that moment it finishes, but it cannot commit it any longer.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol, cast

from minikafka.lab.simulation.cluster.controller import TOPIC, TOPIC_ID
from minikafka.lab.simulation.coordinators.messages import (
    AskGroup,
    FetchOffsets,
    Poll,
    Polled,
    Refused,
)
from minikafka.lab.simulation.coordinators.node import GROUP, Layout
from minikafka.lab.simulation.coordinators.shards import HEARTBEAT_S
from minikafka.lab.simulation.programs.database import Database
from minikafka.lab.simulation.programs.journal import Journal
from minikafka.lab.simulation.programs.process import RETRIABLE, RETRY_S, Ask, Process, code_of
from minikafka.lab.simulation.stage import Stage
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import consumer_group_heartbeat, offset_commit

HEARTBEAT_VERSION = 1
COMMIT_VERSION = 9
REBALANCE_MS = 5_000
LEAVES = -1
RECORDS_MAX = 3
WAIT_S = 0.5
FENCED = frozenset(
    {
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)

Steps = Generator[Any, Any, Any]
Record = tuple[int, str]
"""Offset and value."""


class Witness(Protocol):
    """Is told of every moment of a record, and may strike there."""

    def reached(self, process: Process, moment: str, number: int, offset: int) -> None: ...


class Member(Process):
    """See the module's text.

    Attributes:
        epoch: its member epoch.
        owned: its partitions and the position in each; None while that is not known yet.
        is_busy: it has records that it has not finished.
        is_closing: it is to commit and leave, and then ends.
        has_left: it has.
        database: for those who have one.
        committed: positions that are surely stored, by partition.
        commit_times_s: how long commits took that were waited for.
    """

    processing_s = (0.01, 0.06)
    database: Database

    def __init__(
        self,
        stage: Stage,
        lane: int,
        name: str,
        layout: Layout,
        journal: Journal,
        witness: Witness,
        *,
        is_read_committed: bool,
    ) -> None:
        super().__init__(stage, lane, name)
        self.layout = layout
        self.journal = journal
        self.witness = witness
        self.is_read_committed = is_read_committed
        self.epoch = 0
        self.owned: dict[int, int | None] = {}
        self.is_busy = False
        self.is_closing = False
        self.has_left = False
        self.commit_times_s: list[float] = []
        self._wanted: set[int] | None = None
        self._turn = 0
        self.committed: dict[int, int] = {}
        self._handed: dict[int, list[Record]] = {}
        self._processed: set[tuple[int, int]] = set()

    def start(self) -> None:
        self.journal.event(self.name, "start", "joins the group", is_up=True)
        self.spawn(self._beat())
        self.spawn(self._work())

    # --- the group --------------------------------------------------------------------------------

    def _beat(self) -> Steps:
        while not self.has_left:
            yield from self.heartbeat()
            yield HEARTBEAT_S

    def heartbeat(self) -> Steps:
        """Send one, and take its answer."""
        joins = self.epoch == 0
        epoch = self.epoch
        request = consumer_group_heartbeat.Request(
            group_id=GROUP,
            member_id=self.name,
            member_epoch=epoch,
            rebalance_timeout_ms=REBALANCE_MS if joins else -1,
            subscribed_topic_names=[TOPIC] if joins else None,
            topic_partitions=[
                consumer_group_heartbeat.TopicPartitionsRequest(
                    topic_id=TOPIC_ID, partitions=sorted(self.owned)
                )
            ]
            if self.owned
            else [],
        )
        answer = yield Ask(self.layout.offsets, AskGroup(request, HEARTBEAT_VERSION))
        if epoch == self.epoch:
            self._take(answer)

    def _take(self, answer: Any) -> None:
        code = code_of(answer)
        if code in FENCED:
            self.journal.event(self.name, "rebalance", f"is no longer a member: {code.name}")
            self.epoch, self._wanted = 0, None
            self.owned.clear()
        elif code is ErrorCode.NONE:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self._wanted = {
                    number
                    for topic in answer.assignment.topic_partitions
                    for number in topic.partitions
                }

    def _follow_assignment(self) -> Steps:
        """Give up what is assigned to others now; find the position of what is new."""
        wanted = self._wanted
        if wanted is None:
            return
        revoked = [number for number in self.owned if number not in wanted]
        if revoked:
            yield from self.revoking(revoked)
            for number in revoked:
                self.owned.pop(number, None)
            self.journal.event(self.name, "rebalance", f"gives up {revoked}")
            yield from self.heartbeat()
        for number in sorted(wanted):
            if self.owned.setdefault(number, None) is None:
                position = yield from self.find_position(number)
                if position is not None and number in self.owned:
                    self.owned[number] = position
                    text = f"reads partition {number} from {position} on"
                    self.journal.event(self.name, "rebalance", text, position=position)

    def _leave(self) -> Steps:
        request = consumer_group_heartbeat.Request(
            group_id=GROUP, member_id=self.name, member_epoch=LEAVES, topic_partitions=[]
        )
        while self.epoch > 0:
            answer = yield Ask(self.layout.offsets, AskGroup(request, HEARTBEAT_VERSION))
            if answer is not None and code_of(answer) not in RETRIABLE:
                break
            yield RETRY_S
        self.has_left = True
        self.owned.clear()
        self.journal.event(self.name, "stop", "leaves the group", is_up=False)

    # --- the loop ---------------------------------------------------------------------------------

    def _work(self) -> Steps:
        while not self.is_closing:
            yield from self._follow_assignment()
            yield from self.polling()
            found = yield from self._poll()
            if found is None:
                continue
            number, before, polled = found
            self.hand_out(number, polled.records)
            self.is_busy = True
            yield from self.consume(number, before, polled)
            self.is_busy = False
        yield from self.closing()
        yield from self._leave()

    def _poll(self) -> Generator[Any, Any, tuple[int, int, Polled] | None]:
        ready = [number for number, position in self.owned.items() if position is not None]
        if not ready:
            yield RETRY_S
            return None
        self._turn += 1
        number = ready[self._turn % len(ready)]
        position = self.owned[number]
        assert position is not None
        poll = Poll(position, self.is_read_committed, RECORDS_MAX, WAIT_S / len(ready))
        answer = yield Ask(number, poll)
        if self.owned.get(number) != position:
            return None
        if answer is None or isinstance(answer, Refused):
            yield RETRY_S
            return None
        assert isinstance(answer, Polled)
        self.owned[number] = answer.next_offset
        return (number, position, answer) if answer.records else None

    def hand_out(self, number: int, records: tuple[Record, ...]) -> None:
        self.journal.ledger.read.extend(value for _, value in records)
        if self.stage.recorder is not None:
            for offset, value in records:
                self.journal.event(self.name, "read", f"reads {value}", value, position=offset + 1)
        self._handed.setdefault(number, []).extend(records)

    @property
    def has_unfinished(self) -> bool:
        """Whether it has records that it is still to process or to commit."""
        return self.is_busy

    # --- what modes fill in -----------------------------------------------------------------------

    def find_position(self, number: int) -> Generator[Any, Any, int | None]:
        """Where to read on; None if that cannot be found out at present."""
        body = FetchOffsets(GROUP, TOPIC, (number,), self.name, self.epoch)
        answer = yield Ask(self.layout.offsets, body)
        if not isinstance(answer, dict):
            yield RETRY_S
            return None
        offsets = cast("dict[int, int]", answer)
        return max(0, offsets[number])

    def polling(self) -> Steps:
        """Before each poll."""
        yield from ()

    def consume(self, number: int, before: int, polled: Polled) -> Steps:
        """Process what a poll returned; the position before it was `before`."""
        raise NotImplementedError

    def revoking(self, numbers: list[int]) -> Steps:
        """Before partitions are given up."""
        del numbers
        yield from ()

    def closing(self) -> Steps:
        """Before it leaves."""
        yield from ()

    # --- processing -------------------------------------------------------------------------------

    def work_on(self, number: int, record: Record) -> Steps:
        """Take the time that a record takes."""
        yield from self._reach("before", number, record[0])
        yield self.world.dice.uniform(*self.processing_s)

    def done_with(self, number: int, record: Record) -> Steps:
        """Processing has had its effect."""
        offset, value = record
        self._processed.add((number, offset))
        self.journal.event(self.name, "process", f"has processed {value}", value)
        is_after = self.committed.get(number, -1) > offset
        yield from self._reach("after" if is_after else "between", number, offset)

    def process(self, number: int, record: Record) -> Steps:
        """An effect that cannot be undone, such as an e-mail."""
        yield from self.work_on(number, record)
        self.journal.results.append(record[1])
        yield from self.done_with(number, record)

    def has_committed(self, number: int, position: int) -> Steps:
        """The position of a partition is stored."""
        self.committed[number] = position
        text = f"has committed {position} of partition {number}"
        self.journal.event(self.name, "commit", text, committed=position)
        handed = self._handed.get(number, [])
        self._handed[number] = [one for one in handed if one[0] >= position]
        for offset, _ in handed:
            if offset < position:
                is_after = (number, offset) in self._processed
                yield from self._reach("after" if is_after else "between", number, offset)

    def _reach(self, moment: str, number: int, offset: int) -> Steps:
        self.witness.reached(self, moment, number, offset)
        if self.is_paused or not self.is_up:
            yield 0.0

    # --- committing -------------------------------------------------------------------------------

    def commit(self, positions: dict[int, int]) -> Generator[Any, Any, ErrorCode]:
        """Commit once; the error of the answer, or REQUEST_TIMED_OUT."""
        request = offset_commit.Request(
            group_id=GROUP,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.name,
            topics=[
                offset_commit.RequestTopic(
                    name=TOPIC,
                    partitions=[
                        offset_commit.RequestPartition(
                            partition_index=number, committed_offset=offset, committed_metadata=None
                        )
                        for number, offset in positions.items()
                    ],
                )
            ],
        )
        answer = yield Ask(self.layout.offsets, AskGroup(request, COMMIT_VERSION))
        code = code_of(answer)
        if code is ErrorCode.NONE:
            for number, offset in positions.items():
                yield from self.has_committed(number, offset)
        return code

    def commit_and_wait(self, number: int, position: int) -> Generator[Any, Any, bool]:
        """Commit until it is stored; False if that is no longer possible."""
        began = self.world.now
        while number in self.owned and self.epoch > 0:
            code = yield from self.commit({number: position})
            if code is ErrorCode.NONE:
                self.commit_times_s.append(self.world.now - began)
                return True
            if code in FENCED:
                return False
            if code is ErrorCode.STALE_MEMBER_EPOCH:
                yield from self.heartbeat()
            yield RETRY_S
        return False
