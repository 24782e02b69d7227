"""A run of a cell with a consumer: who sends, who consumes, what strikes, and what it comes to."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from itertools import count
from random import Random
from statistics import median
from typing import NamedTuple

from minikafka.lab.ledger import Ledger
from minikafka.lab.matrix import Commit, Fault
from minikafka.lab.scenario import Scenario
from minikafka.lab.simulation.coordinators.node import Layout, committed_values
from minikafka.lab.simulation.coordinators.shards import SESSION_S
from minikafka.lab.simulation.coordinators.stage import HostingStage
from minikafka.lab.simulation.own_strikes import OwnStrikes
from minikafka.lab.simulation.programs.consumers import (
    AfterAsync,
    AfterSync,
    Auto,
    AutoOnPoll,
    Before,
    Transactional,
    Upsert,
    WithResult,
)
from minikafka.lab.simulation.programs.database import LANE as DATABASE_LANE
from minikafka.lab.simulation.programs.database import Database
from minikafka.lab.simulation.programs.journal import Journal
from minikafka.lab.simulation.programs.member import Member
from minikafka.lab.simulation.programs.orders import OrdersProducer
from minikafka.lab.simulation.programs.process import Process
from minikafka.lab.simulation.programs.spark import SparkSink
from minikafka.lab.simulation.programs.two_phase import TwoPhase
from minikafka.lab.simulation.recorder import Recorder
from minikafka.lab.simulation.stage import PARTITION
from minikafka.lab.simulation.titles import title_of
from minikafka.lab.timeline import Timeline
from minikafka.metadata.records import NO_LEADER
from minikafka.storage.log import Log

MENDED_AFTER_S = 1.0
"""After the last strike of somebody's own."""
RECORDS = 9
STRIKES = (1, 1, 2, 2, 3, 4)
RESTART_S = (0.05, 0.3)
DOWN_S = (0.3, 1.5)
PAUSED_S = (SESSION_S * 1.1, SESSION_S * 1.6)
VISIT_S = (0.3, 1.5)
ZOMBIES = 0.4
ZOMBIE_S = (0.05, 1.0)
GAP_S = (0.01, 0.12)
MOMENTS = ("before", "between", "after")
MOMENT_WORDS = {
    "before": "is neither processed nor committed",
    "between": "is either processed or committed",
    "after": "is processed and committed",
    "sent": "is sent",
    "acknowledged": "is acknowledged",
}

MODES: dict[Commit, type[Member]] = {
    Commit.AUTO: Auto,
    Commit.AUTO_ON_POLL: AutoOnPoll,
    Commit.BEFORE: Before,
    Commit.AFTER_SYNC: AfterSync,
    Commit.AFTER_ASYNC: AfterAsync,
    Commit.WITH_RESULT: WithResult,
    Commit.UPSERT: Upsert,
    Commit.TRANSACTION: Transactional,
    Commit.TWO_PHASE: TwoPhase,
    Commit.SPARK_SINK: SparkSink,
}


DATABASES = (Commit.WITH_RESULT, Commit.UPSERT, Commit.TWO_PHASE, Commit.SPARK_SINK)


class Strike(NamedTuple):
    """Something that goes wrong: at the nth record that reaches a moment."""

    fault: Fault
    moment: str
    nth: int


def draw_strikes(fault: Fault, seed: int) -> list[Strike]:
    """One to four of a fault; none of `Fault.NONE`."""
    if fault is Fault.NONE:
        return []
    dice = Random(seed * 1000 + 7)
    moments: tuple[str, ...] = {
        Fault.CONSUMER_KILLED_BEFORE: ("before",),
        Fault.CONSUMER_KILLED_BETWEEN: ("between",),
        Fault.CONSUMER_KILLED_AFTER: ("after",),
        Fault.LEADER_KILLED_AFTER_ACK: ("acknowledged",),
        Fault.PRODUCER_KILLED: ("sent",),
    }.get(fault, MOMENTS)
    counts = sorted(dice.sample(range(1, RECORDS - 1), dice.choice(STRIKES)))
    return [Strike(fault, dice.choice(moments), nth) for nth in counts]


@dataclass
class _Armed:
    """A strike that waits for its moment."""

    number: int
    strike: Strike


class Consuming:
    """A run; see the module's text.

    Attributes:
        journal: what programs did.
        faults: what went wrong, in words, by number.
        members: consumers, also those that are dead.
    """

    def __init__(self, scenario: Scenario) -> None:
        cell = scenario.cell
        assert cell.consumer is not None
        self.scenario = scenario
        self.mode = cell.consumer.commit
        self.layout = layout_of(scenario)
        self.stage = HostingStage(cell.topic, scenario.seed, self.layout)
        self.world = self.stage.world
        self.journal = Journal(self.stage, Ledger())
        self.database = Database(self.journal)
        self.faults: dict[int, str] = {}
        self.members: list[Member] = []
        self.producers: list[OrdersProducer] = []
        self._dice = Random((scenario.seed << 8) + 2)
        self._lanes = count(1)
        self._reached: dict[str, set[tuple[int, int]]] = {}
        strikes = draw_strikes(cell.fault, scenario.seed)
        kept = range(len(strikes)) if scenario.kept is None else scenario.kept
        self._armed = [_Armed(n, strike) for n, strike in enumerate(strikes) if n in kept]
        self._left = RECORDS
        self._starting = 0

    # --- a run ------------------------------------------------------------------------------------

    def run(self, *, is_recorded: bool = False) -> None:
        """Run it.

        Args:
            is_recorded: for a timeline.

        Raises:
            InvariantViolated: something happened that no guarantee allows.
        """
        stage = self.stage
        stage.begin()
        if is_recorded:
            stage.record(Recorder(self.world))
        if self.mode in DATABASES:
            self.journal.lane(DATABASE_LANE, "database", "the consumer's database")
        self._start_producer()
        self._start_member()
        if self.scenario.own:
            own = OwnStrikes(stage, self.scenario.own)
            self.world.at(own.ends_at + MENDED_AFTER_S, own.mend)
        self._send_next()
        stage.run_until(self._is_sent, "everything is sent")
        stage.run_until(self._is_read, "everything is read")
        self._end_members()
        self._start_member()
        stage.run_until(self._is_read, "a fresh member has read what was left")
        self._end_members()
        self._write_down()

    def _send_next(self) -> None:
        index = RECORDS - self._left
        self._left -= 1
        value, producer = f"r{index}", self.producers[-1]
        # Records are in the order of sending in each partition, not across partitions.
        line = f"{producer.name}/{index % self.layout.orders}"
        self.journal.ledger.sent.append((line, value))
        producer.produce(value)
        if self._left:
            self.world.after(self._dice.uniform(*GAP_S), self._send_next)

    def _is_sent(self) -> bool:
        return not self._left and not any(
            one.pending_count for one in self.producers if one.is_up and not one.is_paused
        )

    def _is_read(self) -> bool:
        """Whether all that is in the log is processed, and everybody knows."""
        programs: list[Process] = [*self.members, *self.producers]
        if self._starting or any(one.is_paused for one in programs if one.is_up):
            return False
        if self.stage.what_is_missing() or not self._is_sent():
            return False
        members = [one for one in self.members if one.is_up and not one.has_left]
        if any(one.has_unfinished for one in members):
            return False
        for number in range(self.layout.orders):
            log = self._log(number)
            if log.last_stable_offset < log.log_end_offset:
                return False
            positions = [one.owned.get(number) for one in members]
            if log.log_end_offset not in positions:
                return False
        return True

    def _end_members(self) -> None:
        self._armed.clear()
        for one in self.members:
            one.is_closing = True
        self.stage.run_until(
            lambda: all(one.has_left for one in self.members if one.is_up), "members leave"
        )

    def _log(self, number: int) -> Log:
        leader = self.stage.truth.partitions[number].image.leader
        return self.stage.nodes[leader].replicas[number].log

    # --- programs ---------------------------------------------------------------------------------

    def _start_member(self) -> Member:
        cell = self.scenario.cell
        assert cell.consumer is not None
        name = f"consumer-{len(self.members) + 1}"
        self.journal.lane(name, "consumer", name.replace("-", " "))
        member = MODES[self.mode](
            self.stage,
            next(self._lanes),
            name,
            self.layout,
            self.journal,
            self,
            is_read_committed=cell.consumer.is_read_committed,
        )
        member.database = self.database
        self.members.append(member)
        member.start()
        return member

    def _start_member_later(self) -> None:
        self._starting += 1
        self.world.after(self._dice.uniform(*RESTART_S), self._start_another)

    def _start_another(self) -> None:
        self._starting -= 1
        self._start_member()

    def _start_producer(self) -> None:
        mode = self.scenario.cell.producer
        name = f"producer-{len(self.producers) + 1}"
        self.journal.lane(name, "producer", name.replace("-", " "))
        producer = OrdersProducer(
            self.stage,
            next(self._lanes),
            name,
            self.layout,
            self.journal,
            self,
            producer_id=self.stage.new_producer_id(),
            is_transactional=mode.is_transactional,
        )
        for one in self.producers:
            one.is_zombie = True
        self.producers.append(producer)
        producer.start()

    # --- what goes wrong --------------------------------------------------------------------------

    def reached(self, process: Process, moment: str, number: int, offset: int) -> None:
        """A record has reached a moment (`Witness`)."""
        there = self._reached.setdefault(moment, set())
        if (number, offset) in there:
            return
        there.add((number, offset))
        for armed in self._armed:
            if armed.strike.moment == moment and len(there) == armed.strike.nth:
                self._armed.remove(armed)
                self._strike(armed, process)
                return

    def _strike(self, armed: _Armed, process: Process) -> None:
        fault, moment, nth = armed.strike
        match fault:
            case Fault.CONSUMER_PAUSED:
                what = self._pause(process)
            case Fault.REBALANCE:
                what = self._visit()
            case Fault.COORDINATOR_KILLED:
                what = self._kill_coordinator()
            case Fault.LEADER_KILLED_AFTER_ACK:
                what = self._kill_leader(PARTITION, "the leader")
            case Fault.PRODUCER_KILLED:
                what = self._replace_producer(process)
            case _:
                what = self._kill_member(process)
        self.faults[armed.number] = f"{what} when record {nth} {MOMENT_WORDS[moment]}"
        self.stage.note_fault(self.faults[armed.number])

    def _kill_member(self, process: Process) -> str:
        process.kill()
        self.journal.event(process.name, "kill", "is killed", is_up=False)
        self._start_member_later()
        return f"{process.name} is killed"

    def _pause(self, process: Process) -> str:
        process.pause()
        self.journal.event(process.name, "pause", "is paused", is_paused=True)
        self.world.after(self._dice.uniform(*PAUSED_S), self._resume, process)
        self._start_member_later()
        return f"{process.name} is paused"

    def _resume(self, process: Process) -> None:
        self.journal.event(process.name, "resume", "goes on", is_paused=False)
        process.resume()

    def _visit(self) -> str:
        visitor = self._start_member()
        self.world.after(self._dice.uniform(*VISIT_S), setattr, visitor, "is_closing", True)
        return f"{visitor.name} joins, and leaves soon,"

    def _kill_coordinator(self) -> str:
        kinds = [one for one in (self.layout.offsets, self.layout.state) if one >= 0]
        number = self._dice.choice(kinds)
        what = "transactions" if number == self.layout.state else "the group"
        return self._kill_leader(number, f"the coordinator of {what}")

    def _kill_leader(self, number: int, what: str) -> str:
        leader = self.stage.truth.partitions[number].image.leader
        if leader == NO_LEADER or not self.stage.nodes[leader].is_up:
            return f"{what} is down anyway"
        node = self.stage.nodes[leader]
        self.world.at(self.world.now, self.stage.kill, node)
        self.world.after(self._dice.uniform(*DOWN_S), self.stage.start, node)
        return f"node {leader}, {what}, is killed"

    def _replace_producer(self, process: Process) -> str:
        assert isinstance(process, OrdersProducer)
        waiting = process.take_waiting()
        self._start_producer()
        for value in waiting:
            self.producers[-1].produce(value)
        if self.scenario.cell.producer.is_transactional and self._dice.random() < ZOMBIES:
            process.pause()
            self.journal.event(process.name, "pause", "is paused", is_paused=True)
            self.world.after(self._dice.uniform(*ZOMBIE_S), self._resume, process)
            return f"{process.name} is paused, and replaced,"
        process.kill()
        self.journal.event(process.name, "kill", "is killed", is_up=False)
        return f"{process.name} is killed"

    # --- what it came to --------------------------------------------------------------------------

    def _write_down(self) -> None:
        ledger = self.journal.ledger
        for number in range(self.layout.orders):
            ledger.log += self._committed_values(number)
        self.journal.settle()
        match self.mode:
            case Commit.WITH_RESULT:
                ledger.results = self.database.rows
            case Commit.UPSERT:
                ledger.results = [*self.database.by_key.values()]
            case Commit.TWO_PHASE:
                ledger.results = _on_both_sides(
                    self.database.rows, self._committed_values(self.layout.results)
                )
            case Commit.TRANSACTION | Commit.SPARK_SINK:
                ledger.results = self._committed_values(self.layout.results)
            case _:
                ledger.results = self.journal.results

    def _committed_values(self, number: int) -> list[str]:
        return committed_values(self._log(number))

    def timeline(self) -> Timeline:
        """What was recorded."""
        recorder, ledger = self.stage.recorder, self.journal.ledger
        assert recorder is not None
        title = title_of(self.scenario)
        return recorder.timeline(str(self.scenario), title, ledger, ledger.count())

    def samples(self) -> dict[str, list[float]]:
        """How long commits and acknowledgements took, in seconds."""
        return {
            "commit_s": [time_s for one in self.members for time_s in one.commit_times_s],
            "ack_s": [time_s for one in self.producers for time_s in one.ack_times_s],
        }

    def measures(self) -> dict[str, float]:
        """Their medians."""
        found = {name: median(values) for name, values in self.samples().items() if values}
        return found | {"simulated_s": self.world.now}

    def fingerprint(self) -> str:
        """A hash of every step and of what is left."""
        digest = hashlib.sha256(self.stage.world.steps())
        digest.update(repr(self.stage.truth.decided).encode())
        ledger = self.journal.ledger
        fates = {value: fate.value for value, fate in ledger.fates.items()}
        left = (ledger.sent, fates, ledger.log, ledger.read, ledger.results, self.faults)
        digest.update(repr(left).encode())
        return digest.hexdigest()


def _on_both_sides(rows: list[str], written: list[str]) -> list[str]:
    """Results of two-phase commit: what is only on one side is none."""
    counts, others = Counter(rows), Counter(written)
    return [
        value
        for value in counts
        if value in others
        for _ in range(max(counts[value], others[value]))
    ]


def layout_of(scenario: Scenario) -> Layout:
    """Only the partitions that a cell needs."""
    cell = scenario.cell
    assert cell.consumer is not None
    commit = cell.consumer.commit
    has_state = commit in (Commit.TRANSACTION, Commit.TWO_PHASE, Commit.SPARK_SINK)
    return Layout(
        2 if cell.fault is Fault.REBALANCE else 1,
        offsets=commit is not Commit.SPARK_SINK,
        state=has_state or cell.producer.is_transactional,
        results=has_state,
        commits=commit is Commit.SPARK_SINK,
    )
