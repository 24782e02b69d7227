"""A simulated process: generators that sleep, wait, and ask nodes; it can be killed and paused.

A program is a generator. What it yields is what it waits for: a number of seconds, a `Signal`, or
an `Ask`, whose answer is the value of the ``yield``. A killed process goes no further than the
``yield`` at which it is; a paused one does, later, with everything that came meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any, NamedTuple

from minikafka.lab.simulation.cluster.controller import TOPIC_ID
from minikafka.lab.simulation.cluster.messages import Produce, Produced
from minikafka.lab.simulation.cluster.replica import NOW_MS
from minikafka.lab.simulation.coordinators.messages import Answer, Body, Call, Refused, Write
from minikafka.lab.simulation.stage import Connection, Stage
from minikafka.metadata.records import NO_LEADER
from minikafka.protocol.errors import ErrorCode

ACKS_ALL = -1
TIMEOUT_S = 1.0
RETRY_S = 0.08
OUT_OF_ORDER_MAX = 25
RETRIABLE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    }
)


class Ask(NamedTuple):
    """Ask the leader of a partition; the answer is None if none comes in time."""

    number: int
    body: Body
    timeout_s: float = TIMEOUT_S


class Signal:
    """Something to wait for; `fire` wakes all that wait."""

    def __init__(self) -> None:
        self.waiting: list[_Task] = []

    def fire(self) -> None:
        waiting, self.waiting = self.waiting, []
        for task in waiting:
            task.process.step(task, None)


Program = Generator["float | Signal | Ask", Any, Any]


class _Task:
    __slots__ = ("process", "program", "ticket")

    def __init__(self, process: Process, program: Program) -> None:
        self.process = process
        self.program = program
        self.ticket = 0


class Process:
    """See the module's text.

    Attributes:
        name: its lane in the timeline.
        is_up: it runs, or is paused.
        clock_error_ms: how much its time of day is wrong.
    """

    def __init__(self, stage: Stage, lane: int, name: str) -> None:
        self.stage = stage
        self.world = stage.world
        self.lane = lane
        self.name = name
        self.is_up = True
        self.is_paused = False
        self.clock_error_ms = 0
        self._held: deque[tuple[_Task, int, Any]] = deque()
        self._asked: dict[int, tuple[_Task, int, Connection]] = {}
        self._connections: dict[int, Connection] = {}
        self._correlations = 0

    def spawn(self, program: Program) -> None:
        self.step(_Task(self, program), None)

    def now_ms(self) -> int:
        """The time of day here."""
        return NOW_MS + self.clock_error_ms + int(self.world.now * 1000)

    # --- life -------------------------------------------------------------------------------------

    def kill(self) -> None:
        self.is_up = False
        self._held.clear()
        self._asked.clear()
        for connection in self._connections.values():
            connection.close()

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        while self._held and self.is_up and not self.is_paused:
            self._wake(*self._held.popleft())

    # --- tasks ------------------------------------------------------------------------------------

    def step(self, task: _Task, value: Any) -> None:
        """Let a program go on until it waits for the next thing."""
        if not self.is_up:
            return
        if self.is_paused:
            self._held.append((task, task.ticket, value))
            return
        task.ticket += 1
        try:
            wanted = task.program.send(value)
        except StopIteration:
            return
        self._wait(task, wanted)

    def _wait(self, task: _Task, wanted: float | Signal | Ask) -> None:
        if not self.is_up:
            return  # the program has met its end on the way
        if isinstance(wanted, Signal):
            wanted.waiting.append(task)
        elif isinstance(wanted, Ask):
            self._ask(task, wanted)
        else:
            self.world.after(wanted, self._wake, task, task.ticket, None)

    def _wake(self, task: _Task, ticket: int, value: Any) -> None:
        if task.ticket == ticket:
            self.step(task, value)

    def _ask(self, task: _Task, ask: Ask) -> None:
        leader = self.find_leader(ask.number)
        if leader == NO_LEADER:
            self.world.after(RETRY_S, self._wake, task, task.ticket, None)
            return
        connection = self._connections.get(leader)
        if connection is None or not connection.is_open:
            connection = self.stage.connect(self, self.lane, leader)
            self._connections[leader] = connection
            if self.stage.recorder is not None:
                self.stage.recorder.client_at(connection.address, self.name)
        self._correlations += 1
        self._asked[self._correlations] = (task, task.ticket, connection)
        self.world.after(ask.timeout_s, self._time_out, self._correlations)
        connection.send(_message_of(ask, self._correlations))

    def _time_out(self, correlation: int) -> None:
        found = self._asked.pop(correlation, None)
        if found is not None:
            self._wake(found[0], found[1], None)

    def answered(self, connection: Connection, message: object) -> None:
        """An answer to a call (`ConnectionUser`)."""
        del connection
        assert isinstance(message, Answer | Produced)
        found = self._asked.pop(message.correlation, None)
        if found is not None:
            body = message.body if isinstance(message, Answer) else message
            self._wake(found[0], found[1], body)

    def closed(self, connection: Connection) -> None:
        """A connection is broken: its calls have no answer (`ConnectionUser`)."""
        for correlation, asked in list(self._asked.items()):
            if asked[2] is connection:
                self._time_out(correlation)

    # --- asking -----------------------------------------------------------------------------------

    def find_leader(self, number: int) -> int:
        """Ask any node that is up who leads; `NO_LEADER` if it does not know."""
        nodes = [node for node in self.stage.nodes.values() if node.is_up]
        if not nodes:
            return NO_LEADER
        partition = self.world.dice.choice(nodes).image.partition(TOPIC_ID, number)
        return NO_LEADER if partition is None else partition.leader

    def insist(
        self, number: int, body: Body, errors: list[ErrorCode] | None = None
    ) -> Generator[Any, Any, Any]:
        """Ask again and again until there is an answer that will not change.

        A batch that is out of order may follow one that is not stored yet, or one that is lost.

        Args:
            number: the partition whose leader is asked.
            body: what is asked.
            errors: every error is added to it, those that pass included.
        """
        out_of_order = 0
        while True:
            answer = yield Ask(number, body)
            code = code_of(answer)
            if errors is not None and code is not ErrorCode.NONE:
                errors.append(code)
            is_out_of_order = code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            out_of_order += is_out_of_order
            may_pass = is_out_of_order and out_of_order < OUT_OF_ORDER_MAX
            if code not in RETRIABLE and not may_pass:
                return answer
            yield RETRY_S


def _message_of(ask: Ask, correlation: int) -> Call | Produce:
    body = ask.body
    if isinstance(body, Write):
        return Produce(
            ask.number, correlation, ACKS_ALL, body.batch, body.value, body.transactional_id
        )
    return Call(ask.number, correlation, body)


def code_of(answer: Any) -> ErrorCode:
    """The error of any answer; of several the first."""
    if answer is None:
        return ErrorCode.REQUEST_TIMED_OUT
    if isinstance(answer, Refused):
        return answer.error_code
    code = getattr(answer, "error_code", None)
    if code is not None:
        return ErrorCode(code)
    for topic in getattr(answer, "topics", ()):
        for one in topic.partitions:
            if one.error_code:
                return ErrorCode(one.error_code)
    return ErrorCode.NONE
