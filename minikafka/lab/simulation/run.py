"""A run of one scenario: a cluster, its clients, what goes wrong, and what came of it.

The program sends a few records, then the first strike is armed, and more records follow until it
is over and all is calm; so on for each strike, and in the end a few more. Records have the values
r0, r1, ... When everything that can be acknowledged is, the log is read from its beginning as a
consumer reads it. The invariants of the simulated cluster (`kit.truth`) are checked all the time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from random import Random
from statistics import median

from minikafka.lab.ledger import Fate, Ledger
from minikafka.lab.matrix import Cell, Fault, ProducerMode
from minikafka.lab.scenario import Scenario
from minikafka.lab.simulation.cluster.messages import Read, ReadAnswer
from minikafka.lab.simulation.coordinators.node import Layout, committed_values
from minikafka.lab.simulation.coordinators.stage import HostingStage
from minikafka.lab.simulation.kit.invariants import InvariantViolated
from minikafka.lab.simulation.own_strikes import OwnStrikes
from minikafka.lab.simulation.producers import TOO_FEW, LabProducer
from minikafka.lab.simulation.programs.journal import Journal
from minikafka.lab.simulation.programs.orders import OrdersProducer
from minikafka.lab.simulation.programs.process import Process
from minikafka.lab.simulation.recorder import Recorder
from minikafka.lab.simulation.stage import PARTITION, Connection, Stage
from minikafka.lab.simulation.strikes import STRIKES, Strike
from minikafka.lab.simulation.titles import title_of
from minikafka.lab.timeline import Timeline
from minikafka.protocol.errors import ErrorCode

STRIKE_COUNTS = (1, 1, 1, 2, 2, 3, 4)
"""How many strikes a seed draws."""
FIRST_RECORDS = 6
STRIKE_RECORDS = 7
LAST_RECORDS = 4
MORE_RECORDS_MAX = 20
GAPS_S = (0.0, 0.0, 0.001, 0.004, 0.02)
"""Between two records."""
OWN_GAP_S = 0.2
"""Between records while strikes of somebody's own happen."""
PRODUCER_LANES = 1
READER_LANE = 90
ZOMBIES = 0.4
ZOMBIE_S = (0.05, 1.0)
MAY_FORGET = (Fault.POWER_LOSS_ALL, Fault.ISR_SHRUNK)
"""Even the coordinator of transactions may lose something."""


class Strikes:
    """All strikes of a run, one after the other.

    Attributes:
        all: those that the seed draws.
        kept: those that happen.
    """

    def __init__(self, scenario: Scenario, run: LabRun) -> None:
        dice = Random((scenario.seed << 8) + 1)
        fault = scenario.cell.fault
        count = 0 if fault is Fault.NONE else dice.choice(STRIKE_COUNTS)
        self.all = [
            Strike(number, fault, run.stage, run, dice.getrandbits(32)) for number in range(count)
        ]
        kept = range(count) if scenario.kept is None else scenario.kept
        self.kept = frozenset(kept).intersection(range(count))

    def texts(self) -> dict[int, str]:
        """What went wrong, in words, by number."""
        return {one.number: one.text for one in self.all if one.text}


class LabRun:
    """See the module's text.

    Attributes:
        scenario: what is run.
        stage: the cluster.
        ledger: filled while it runs.
        producers: the living one last.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.ledger = Ledger()
        self.stage = self._make_stage()
        self.journal = Journal(self.stage, self.ledger)
        self.strikes = Strikes(scenario, self)
        self.producers: list[LabProducer | OrdersProducer] = []
        self._dice = Random(scenario.seed << 8)

    def _make_stage(self) -> Stage:
        cell, seed = self.scenario.cell, self.scenario.seed
        if not cell.producer.is_transactional:
            return Stage(cell.topic, seed)
        layout = Layout(1, offsets=False, state=True, results=False, commits=False)
        stage = HostingStage(cell.topic, seed, layout)
        stage.truth.may_reuse_ids = self._may_forget
        return stage

    @property
    def producer_mode(self) -> ProducerMode:
        return self.scenario.cell.producer

    # --- the program ------------------------------------------------------------------------------

    def run(self, *, is_recorded: bool = False) -> None:
        """Run it.

        Args:
            is_recorded: for a timeline.

        Raises:
            InvariantViolated: something happened that no guarantee allows.
        """
        self.stage.begin()
        if is_recorded:
            self.stage.record(Recorder(self.stage.world))
        self._start_producer()
        self._send(FIRST_RECORDS)
        for strike in self.strikes.all:
            if strike.number in self.strikes.kept:
                strike.arm(len(self.ledger.sent))
            self._send(STRIKE_RECORDS)
            self._send_until_it_happens(strike)
            self.stage.run_until(partial(_is_over, strike), f"{strike.fault.value} is over")
            self._become_calm()
        if self.scenario.own:
            self._suffer(OwnStrikes(self.stage, self.scenario.own))
        self._send(LAST_RECORDS)
        self._become_calm()
        if self.producer_mode.is_transactional:
            self._end_transactions()
        else:
            self.stage.truth.require_all_kept()
            self.ledger.log = LogReader(self.stage).read_all()

    def _suffer(self, own: OwnStrikes) -> None:
        """Send records while strikes of somebody's own happen, and go on when all is mended."""
        world = self.stage.world
        while world.now < own.ends_at + OWN_GAP_S:
            self.send_more(1)
            world.run_until(world.now + OWN_GAP_S)
        own.mend()
        self._become_calm()

    def _end_transactions(self) -> None:
        """Wait until every transaction has its markers, and read what is committed.

        After a loss that is not excluded, a coordinator may have forgotten one, which hangs.
        """
        leader = self.stage.leader
        assert leader is not None
        log = leader.replicas[PARTITION].log
        if not self._may_forget:
            self.stage.truth.require_all_kept()
            self.stage.run_until(
                lambda: log.last_stable_offset == log.log_end_offset, "no transaction hangs"
            )
        self.ledger.log = committed_values(log)
        self.journal.settle()

    @property
    def _may_forget(self) -> bool:
        cell = self.scenario.cell
        is_alone = cell.topic.replicas == 1 and cell.fault is Fault.POWER_LOSS_ONE
        return cell.fault in MAY_FORGET or is_alone

    def _send(self, count: int) -> None:
        """Send records, one after the other."""
        world = self.stage.world
        for _ in range(count):
            self.send_more(1)
            gap_s = self._dice.choice(GAPS_S)
            if gap_s:
                world.run_until(world.now + gap_s * self._dice.random())

    def _send_until_it_happens(self, strike: Strike) -> None:
        """With acks=0 nobody notices that records go to a leader of the past."""
        world = self.stage.world
        for _ in range(MORE_RECORDS_MAX):
            if not strike.is_armed or strike.text:
                return
            world.run_until(world.now + 0.3)
            if not self.producers[-1].pending_count:
                self.send_more(1)

    def send_more(self, count: int) -> None:
        """Send records at this moment (`strikes.Programs`)."""
        for _ in range(count):
            value = f"r{len(self.ledger.sent)}"
            producer = self.producers[-1]
            self.ledger.sent.append((producer.name, value))
            producer.produce(value)

    def _become_calm(self) -> None:
        producer = self.producers[-1]
        self.stage.world.run_until(self.stage.world.now + 0.05)  # acks=0: what is sent arrives
        self.stage.run_until(
            lambda: not producer.pending_count and not self.stage.what_is_missing(), "all is calm"
        )

    # --- producers --------------------------------------------------------------------------------

    def _start_producer(self) -> None:
        number = len(self.producers) + 1
        self.journal.lane(f"producer-{number}", "producer", f"producer {number}")
        stage = self.stage
        if isinstance(stage, HostingStage):
            producer = OrdersProducer(
                stage,
                PRODUCER_LANES + number,
                f"producer-{number}",
                stage.layout,
                self.journal,
                self,
                producer_id=-1,
                is_transactional=True,
            )
            self.producers.append(producer)
            producer.start()
            return
        self.producers.append(
            LabProducer(
                self.stage,
                f"producer-{number}",
                PRODUCER_LANES + number,
                1000 + number,
                self.producer_mode,
                self,
            )
        )

    def kill_producer(self) -> None:
        """It dies; another one goes on with the next record."""
        old = self.producers[-1]
        if isinstance(old, OrdersProducer):
            self._replace(old)
        else:
            old.kill()
            self.journal.event(old.name, "kill", "is killed", is_up=False)
            self._start_producer()

    def _replace(self, old: OrdersProducer) -> None:
        """Another one fences it; sometimes it was only paused, and is a zombie."""
        waiting = old.take_waiting()
        old.is_zombie = True
        if self._dice.random() < ZOMBIES:
            old.pause()
            self.journal.event(old.name, "pause", "is paused", is_paused=True)
            self.stage.world.after(self._dice.uniform(*ZOMBIE_S), self._wake, old)
        else:
            old.kill()
            self.journal.event(old.name, "kill", "is killed", is_up=False)
        self._start_producer()
        for value in waiting:
            self.producers[-1].produce(value)

    def _wake(self, zombie: OrdersProducer) -> None:
        self.journal.event(zombie.name, "resume", "goes on", is_paused=False)
        zombie.resume()

    def reached(self, process: Process, moment: str, number: int, offset: int) -> None:
        """Strikes look at messages here (`programs.member.Witness`)."""

    def set_producer_clock(self, error_ms: int) -> None:
        self.producers[-1].clock_error_ms = error_ms

    def told(self, producer: LabProducer, value: str, fate: Fate, error: ErrorCode | None) -> None:
        """The last word about a record (`producers.Teller`)."""
        self.ledger.fates[value] = fate
        if error in TOO_FEW:
            self.ledger.too_few.add(value)
        if self.stage.recorder is not None:
            self.stage.recorder.told(producer.name, value, fate, error)

    def retries(self, producer: LabProducer, value: str, error: ErrorCode | None, why: str) -> None:
        """A record will be sent again (`producers.Teller`)."""
        if error in TOO_FEW:
            self.ledger.too_few.add(value)
        if self.stage.recorder is not None:
            text = f"{producer.name} will send {value} again: {why}"
            self.stage.recorder.add(producer.name, "retry", text, value)

    def timeline(self) -> Timeline:
        """What was recorded."""
        recorder = self.stage.recorder
        assert recorder is not None
        return recorder.timeline(
            str(self.scenario), title_of(self.scenario), self.ledger, self.ledger.count()
        )

    # --- the end ----------------------------------------------------------------------------------

    def measures(self) -> dict[str, float]:
        """Medians in seconds."""
        times_s = self.ack_times_s()
        found = {"simulated_s": self.stage.world.now}
        return found | {"ack_s": median(times_s)} if times_s else found

    def ack_times_s(self) -> Sequence[float]:
        """How long each acknowledgement took."""
        return [one for producer in self.producers for one in producer.ack_times_s]

    def fingerprint(self) -> str:
        """A hash of every step and of what is left."""
        digest = hashlib.sha256(self.stage.world.steps())
        digest.update(repr(self.stage.truth.decided).encode())
        for node in self.stage.nodes.values():
            for path in node.disk.paths(".log"):
                digest.update(node.disk.content(path))
        fates = {value: fate.value for value, fate in self.ledger.fates.items()}
        digest.update(repr((self.ledger.sent, fates, self.ledger.log)).encode())
        return digest.hexdigest()


def _is_over(strike: Strike) -> bool:
    return not strike.is_armed


class LogReader:
    """Reads the log from its beginning, as a consumer does."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._values: list[str] = []
        self._offset = 0
        self._is_waiting = False

    def read_all(self) -> list[str]:
        """All committed values, in the order of the log.

        Raises:
            InvariantViolated: the leader refuses.
        """
        stage = self._stage
        leader = stage.leader
        assert leader is not None
        end = leader.replicas[PARTITION].log.high_watermark
        connection = stage.connect(self, READER_LANE, leader.node_id)
        while self._offset < end:
            connection.send(Read(PARTITION, 0, self._offset))
            self._is_waiting = True
            stage.run_until(lambda: not self._is_waiting, "the log is read")
        return self._values

    def answered(self, connection: Connection, message: object) -> None:
        """Some records (`ConnectionUser`)."""
        assert isinstance(message, ReadAnswer)
        if message.error_code is not ErrorCode.NONE or not message.entries:
            raise InvariantViolated("readable logs", f"reading at {self._offset}: {message}")
        self._is_waiting = False
        self._values += (one.value for one in message.entries)
        self._offset = message.entries[-1].last_offset + 1

    def closed(self, connection: Connection) -> None:
        """It does not happen in calm weather (`ConnectionUser`)."""
        raise InvariantViolated("liveness", "the connection broke while all was calm")


def why_not(cell: Cell) -> str | None:
    """Why a cell cannot be run, in one line; None if it can."""
    if cell.consumer is None and cell.fault not in STRIKES:
        return f"the simulation does not know the fault {cell.fault.value} yet"
    return None
