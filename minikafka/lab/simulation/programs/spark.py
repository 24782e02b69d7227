"""A Spark query that writes exactly once: the protocol of ``pyspark_minikafka.sink``.

Driver and tasks are one process. The driver's checkpoint says which offsets a micro-batch has,
before it runs, and that it is done. A batch is written in *parts*, transactions that stay open; the
driver lists other open ones, claims the commit log, reads it, records the batch with its parts
there, commits the parts, and aborts what it had listed. The numbers in the code are the steps in
the sink's text, which says why.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

from minikafka.lab.simulation.coordinators.messages import ListOpen, Poll, Polled
from minikafka.lab.simulation.programs.member import Member, Record, Steps
from minikafka.lab.simulation.programs.process import RETRY_S, Ask
from minikafka.lab.simulation.programs.transactions import Transactions
from minikafka.protocol.errors import ErrorCode

QUERY = "query"
PREFIX = "sink-"
BATCH_RECORDS_MAX = 3
TRIGGER_S = 0.3
ALL = 1_000_000


class Part(NamedTuple):
    """A transaction of a task."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

    @property
    def batch(self) -> int:
        """For which it was begun."""
        return int(self.transactional_id.split("-")[1])


class BatchFailed(Exception):
    """Another driver has interfered: begin again from the checkpoint."""


class SparkSink(Member):
    """See the module's text."""

    def start(self) -> None:
        self._attempts = 0
        self.owned = dict.fromkeys(range(self.layout.orders), 0)
        self.journal.event(self.name, "start", "starts", is_up=True)
        self.spawn(self._drive())

    def _drive(self) -> Steps:
        while not self.is_closing:
            batch = yield from self._plan()
            if batch is None:
                continue
            self.is_busy = True
            try:
                yield from self._run_batch(batch, self.database.batches[batch])
            except BatchFailed as error:
                self.journal.event(self.name, "abort", f"batch {batch}: {error}")
                yield RETRY_S
            self.is_busy = False
        self.has_left = True
        self.journal.event(self.name, "stop", "stops", is_up=False)

    def _plan(self) -> Generator[Any, Any, int | None]:
        """The batch that is not done; else the next one, with what there is to read."""
        database = self.database
        batch = database.batches_done
        if len(database.batches) > batch:
            return batch
        ranges: dict[int, tuple[int, int]] = {}
        has_records = False
        for number in self.owned:
            start = max(database.batch_end(number), self.owned[number] or 0)
            wait_s = TRIGGER_S / len(self.owned)
            poll = Poll(start, self.is_read_committed, BATCH_RECORDS_MAX, wait_s)
            answer = yield Ask(number, poll)
            if not isinstance(answer, Polled):
                yield RETRY_S
                return None
            ranges[number] = (start, answer.next_offset)
            has_records = has_records or bool(answer.records)
        if not has_records:
            self.owned.update((number, end) for number, (_, end) in ranges.items())
        elif len(database.batches) == batch:  # else another driver has planned it
            database.batches.append(ranges)
        return None

    # --- a batch ----------------------------------------------------------------------------------

    def _run_batch(self, batch: int, ranges: dict[int, tuple[int, int]]) -> Steps:
        parts: list[Part] = []
        for number, (start, end) in ranges.items():
            records = yield from self._read(number, start, end)
            if records and not (yield from self._recorded(batch)):  # 1
                self.hand_out(number, tuple(records))
                parts.append((yield from self._run_task(batch, number, records)))
        open_parts = yield from self.insist(self.layout.state, ListOpen(PREFIX))  # 4
        leftovers = [Part(*one) for one in open_parts if Part(*one) not in parts]
        log = Transactions(self, self.layout.state, QUERY)
        yield from log.init()  # 5
        recorded = yield from self._recorded(batch)  # 6
        if recorded is None:
            yield from self._record(log, batch, parts)  # 7
            recorded = parts
        for number, (_, end) in ranges.items():
            yield from self.has_committed(number, end)
        for part in recorded:
            yield from self._end(part, commits=True)  # 8
        for part in (*leftovers, *parts):
            if part not in recorded and part.batch <= batch:
                yield from self._end(part, commits=False)  # 9
        self.database.batches_done = max(self.database.batches_done, batch + 1)
        self.owned.update((number, end) for number, (_, end) in ranges.items())

    def _read(self, number: int, start: int, end: int) -> Generator[Any, Any, list[Record]]:
        """The records of a range; the same ones every time."""
        records: list[Record] = []
        while start < end:
            poll = Poll(start, self.is_read_committed, BATCH_RECORDS_MAX, TRIGGER_S)
            answer = yield from self.insist(number, poll)
            records += [one for one in answer.records if one[0] < end]
            start = answer.next_offset
        return records

    def _run_task(
        self, batch: int, number: int, records: list[Record]
    ) -> Generator[Any, Any, Part]:
        self._attempts += 1
        name = f"{PREFIX}{batch}-{number}-{self.name}-{self._attempts}"
        transactions = Transactions(self, self.layout.state, name, is_two_phase=True)
        yield from transactions.init()
        for record in records:  # 2
            yield from self.work_on(number, record)
        values = [value for _, value in records]
        code = yield from transactions.write(self.layout.results, values)
        if code is not ErrorCode.NONE:
            raise BatchFailed(f"its task cannot write: {code.name}")
        for record in records:
            yield from self.done_with(number, record)
        return Part(name, transactions.producer_id, transactions.epoch)  # 3

    def _end(self, part: Part, *, commits: bool) -> Steps:
        ending = Transactions(self, self.layout.state, part.transactional_id)
        code = yield from ending.end_of(part.producer_id, part.producer_epoch, commits=commits)
        if commits and code is not ErrorCode.NONE:
            raise AssertionError(f"{part} is recorded, and cannot be committed: {code.name}")

    # --- the commit log ---------------------------------------------------------------------------

    def _recorded(self, batch: int) -> Generator[Any, Any, list[Part] | None]:
        """The parts of a batch in the commit log; None if it is not there."""
        poll = Poll(0, True, ALL, 0.0)
        answer = yield from self.insist(self.layout.commits, poll)
        for _, value in answer.records:
            number, _, parts = value.partition("|")
            if int(number) == batch:
                return [_parse(one) for one in parts.split(";") if one]
        return None

    def _record(self, log: Transactions, batch: int, parts: list[Part]) -> Steps:
        value = f"{batch}|" + ";".join(" ".join(map(str, part)) for part in parts)
        code = yield from log.write(self.layout.commits, [value])
        if code is ErrorCode.NONE:
            code = yield from log.end(commits=True)
        if code is not ErrorCode.NONE:
            raise BatchFailed(f"another driver has the commit log: {code.name}")


def _parse(text: str) -> Part:
    name, producer_id, epoch = text.split(" ")
    return Part(name, int(producer_id), int(epoch))
