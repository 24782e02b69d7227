"""Consumers that commit before, after, beside or together with what they do.

AUTO           a timer commits what was handed out, and the program processes in the background
AUTO_ON_POLL   a poll commits what the polls before it returned, now and then
BEFORE         commits, waits for the answer, processes
AFTER_SYNC     processes, commits, waits for the answer
AFTER_ASYNC    processes, commits, goes on; a commit that fails is not repeated
UPSERT         as AFTER_SYNC; the effect is the row of the record in a database
WITH_RESULT    rows and position in one transaction of a database, if the position is still the
               one it read from: that fences a zombie
TRANSACTION    results and position in one transaction of Kafka (KIP-447)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any

from minikafka.lab.simulation.cluster.controller import TOPIC
from minikafka.lab.simulation.coordinators.messages import Polled
from minikafka.lab.simulation.coordinators.node import GROUP
from minikafka.lab.simulation.programs.member import Member, Record, Steps
from minikafka.lab.simulation.programs.process import RETRY_S, Signal
from minikafka.lab.simulation.programs.transactions import Transactions
from minikafka.protocol.errors import ErrorCode

AUTO_COMMIT_S = 0.2
TRANSACTION_TIMEOUT_MS = 2_500
"""Longer than a pause: a zombie is fenced by its member epoch, not by a timeout."""


class AfterSync(Member):
    """See the module's text."""

    def consume(self, number: int, before: int, polled: Polled) -> Steps:
        del before
        for record in polled.records:
            yield from self.process(number, record)
        yield from self.commit_and_wait(number, polled.next_offset)


class Before(Member):
    """See the module's text."""

    def consume(self, number: int, before: int, polled: Polled) -> Steps:
        del before
        if (yield from self.commit_and_wait(number, polled.next_offset)):
            for record in polled.records:
                yield from self.process(number, record)


class AfterAsync(Member):
    """See the module's text."""

    def consume(self, number: int, before: int, polled: Polled) -> Steps:
        del before
        for record in polled.records:
            yield from self.process(number, record)
        if number in self.owned:
            self.spawn(self.commit({number: polled.next_offset}))


class Upsert(AfterSync):
    """See the module's text."""

    def process(self, number: int, record: Record) -> Steps:
        yield from self.work_on(number, record)
        self.database.upsert(number, *record)
        yield from self.done_with(number, record)


class Auto(Member):
    """See the module's text."""

    processing_s = (0.04, 0.15)

    def start(self) -> None:
        self._queue: deque[tuple[int, Record]] = deque()
        self._has_more = Signal()
        self._is_working = False
        super().start()
        self.spawn(self._commit_now_and_then())
        self.spawn(self._process_in_background())

    def consume(self, number: int, before: int, polled: Polled) -> Steps:
        del before
        self._queue.extend((number, record) for record in polled.records)
        self._has_more.fire()
        yield from ()

    def _process_in_background(self) -> Steps:
        while True:
            if not self._queue:
                yield self._has_more
            self._is_working = True
            while self._queue:
                number, record = self._queue.popleft()
                yield from self.process(number, record)
            self._is_working = False

    def _commit_now_and_then(self) -> Steps:
        while not self.is_closing:
            yield AUTO_COMMIT_S
            yield from self._commit_positions()

    def _commit_positions(self) -> Steps:
        for number, position in self.positions_to_commit().items():
            yield from self.commit({number: position})

    def positions_to_commit(self) -> dict[int, int]:
        """What was handed out and is not committed."""
        return {
            number: position
            for number, position in self.owned.items()
            if position is not None and self.committed.get(number) != position
        }

    @property
    def has_unfinished(self) -> bool:
        return super().has_unfinished or bool(self._queue) or self._is_working

    def revoking(self, numbers: list[int]) -> Steps:
        del numbers
        yield from self._commit_positions()

    def closing(self) -> Steps:
        while self._queue or self._is_working:
            yield RETRY_S
        yield from self._commit_positions()


class AutoOnPoll(Member):
    """See the module's text."""

    _next_commit_s = 0.0

    def polling(self) -> Steps:
        if self.world.now >= self._next_commit_s:
            self._next_commit_s = self.world.now + AUTO_COMMIT_S
            self._commit_positions()
        yield from ()

    def _commit_positions(self) -> None:
        for number, position in self.owned.items():
            if position is not None and self.committed.get(number) != position:
                self.spawn(self.commit({number: position}))

    def consume(self, number: int, before: int, polled: Polled) -> Steps:
        del before
        for record in polled.records:
            yield from self.process(number, record)

    def revoking(self, numbers: list[int]) -> Steps:
        for number in numbers:
            position = self.owned.get(number)
            if position is not None:
                yield from self.commit({number: position})

    def closing(self) -> Steps:
        yield from self.revoking(list(self.owned))


class WithResult(Member):
    """See the module's text."""

    def find_position(self, number: int) -> Generator[Any, Any, int | None]:
        yield from ()
        return self.database.position(number)

    def consume(self, number: int, before: int, polled: Polled) -> Steps:
        for record in polled.records:
            yield from self.work_on(number, record)
            yield from self.done_with(number, record)
        values = [value for _, value in polled.records]
        if self.database.store(number, before, polled.next_offset, values):
            yield from self.has_committed(number, polled.next_offset)
        elif number in self.owned:
            self.owned[number] = None


class Transactional(Member):
    """See the module's text."""

    def start(self) -> None:
        state = self.layout.state
        self._transactions = Transactions(
            self, state, f"app-{self.name}", timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        self._is_ready = False
        super().start()

    def polling(self) -> Steps:
        while not self._is_ready:
            reply = yield from self._transactions.init()
            self._is_ready = reply.error_code is ErrorCode.NONE

    def consume(self, number: int, before: int, polled: Polled) -> Steps:
        del before
        is_done = yield from self._transform(number, polled)
        if is_done:
            yield from self.has_committed(number, polled.next_offset)
        elif number in self.owned:
            self.owned[number] = None  # read again from what is committed

    def _transform(self, number: int, polled: Polled) -> Generator[Any, Any, bool]:
        transactions = self._transactions
        for record in polled.records:
            yield from self.work_on(number, record)
        values = [value for _, value in polled.records]
        code = yield from transactions.write(self.layout.results, values)
        if code is not ErrorCode.NONE:
            self._abort(code)
            return False
        for record in polled.records:
            yield from self.done_with(number, record)
        code = ErrorCode.STALE_MEMBER_EPOCH
        while code in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION):
            if number not in self.owned:
                code = ErrorCode.UNKNOWN_MEMBER_ID
                break
            code = yield from transactions.commit_offsets(
                self.layout.offsets,
                (GROUP, self.name, self.epoch),
                TOPIC,
                {number: polled.next_offset},
            )
            if code is ErrorCode.STALE_MEMBER_EPOCH:
                yield from self.heartbeat()
                yield RETRY_S
        if code is not ErrorCode.NONE:
            self._abort(code)
            return False
        code = yield from transactions.end(commits=True)
        if code is not ErrorCode.NONE:
            self._abort(code)
        return code is ErrorCode.NONE

    def _abort(self, code: ErrorCode) -> None:
        """Give the transaction up: InitProducerId aborts it."""
        self.journal.event(self.name, "abort", f"aborts its transaction: {code.name}")
        self._is_ready = False
